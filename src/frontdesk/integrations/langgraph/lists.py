"""How a list follows from an earlier one: which elements stay, as runs of their numbers, and which are new."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import eq, is_
from typing import Any

from frontdesk.integrations.langgraph.records import Run

_SCALARS = frozenset({int, float, bool, complex, type(None)})
_MOST_RUNS = 1_000
"""A list that was edited more often is stored as a whole again."""


@dataclass(frozen=True)
class KnownList:
    """A list that is stored: its runs, and its elements, either as the objects that were given or as they are stored
    (`raws`). `places` says where an object is, by its `id`."""

    runs: list[Run]
    objects: list[Any] | None = None
    raws: list[bytes] | None = None
    places: dict[int, int] | None = None


@dataclass(frozen=True)
class ListDraft:
    """A list that is about to be stored: its runs, the new elements by their positions in it, and the number of the
    first of them."""

    runs: list[Run]
    new: list[int]
    first: int


def is_incremental(value: object) -> bool:
    """Whether a value is stored element by element: a list, but not one of numbers, which would be many rows."""
    return type(value) is list and bool(value) and _SCALARS.isdisjoint(map(type, value))


def unchanged(known: KnownList, objects: list[Any], touched: Sequence[object]) -> Iterator[tuple[int, int, int]]:
    """Which parts of a list are those of a known one, as (position, position in the known list, length).

    An object is the same element if it is the same object, and was not `touched`: what a step has written may be an
    object that it has changed."""
    assert known.objects is not None
    if _only_adds(known.objects, objects, touched):
        yield 0, 0, len(known.objects)
        return
    prefix, suffix = _ends(known.objects, objects, is_)
    cut = _places(known, touched)
    shift = len(objects) - len(known.objects)
    for start, end, offset in ((0, prefix, 0), (len(known.objects) - suffix, len(known.objects), shift)):
        for at in [*(at for at in cut if start <= at < end), end]:
            if start < at:
                yield start + offset, start, at - start
            start = at + 1


def unchanged_raws(known: KnownList, raws: list[bytes]) -> Iterator[tuple[int, int, int]]:
    """The same for elements as they are stored."""
    assert known.raws is not None
    prefix, suffix = _ends(known.raws, raws, eq)
    yield 0, 0, prefix
    yield len(raws) - suffix, len(known.raws) - suffix, suffix


def draft(length: int, runs: list[Run], kept: Iterator[tuple[int, int, int]], first: int | None) -> ListDraft:
    """A list of this length that keeps parts of a list with these runs. `first` is the number of the first new element,
    by default the one after the last that is known."""
    number = first if first is not None else max((start + count for start, count in runs), default=0)
    new: list[int] = []
    parts: list[Run] = []
    position = 0
    for at, source, count in [*kept, (length, 0, 0)]:
        if position < at:
            parts.append((number + len(new), at - position))
            new += range(position, at)
        parts += _slice(runs, source, count)
        position = at + count
    joined = _join(parts)
    if len(joined) > _MOST_RUNS:
        return ListDraft([(number, length)], [*range(length)], number)
    return ListDraft(joined, new, number)


def subtract(runs: Sequence[Run], others: Sequence[Run]) -> list[Run]:
    """The numbers in `runs` that are not in `others`, as runs."""
    left: list[Run] = []
    taken = _union(others)
    for first, count in _union(runs):
        start, end = first, first + count
        for other, length in taken:
            if other < end and start < other + length:
                if start < other:
                    left.append((start, other - start))
                start = max(start, other + length)
        if start < end:
            left.append((start, end - start))
    return left


def _only_adds(old: list[Any], new: list[Any], touched: Sequence[object]) -> bool:
    """Whether a list begins with all elements of an earlier one, and all that was touched comes after them. Python
    compares lists fast if their elements are the same objects: that matters for long ones."""
    added = {id(each) for each in new[len(old) :]}
    if len(old) > len(new) or not added.issuperset(map(id, touched)):
        return False
    try:
        return old == new[: len(old)]
    except Exception:  # elements that cannot be compared, such as arrays
        return False


def _places(known: KnownList, touched: Sequence[object]) -> list[int]:
    """Where these objects are in a list, in ascending order."""
    assert known.objects is not None
    places = known.places or {}
    if len(places) < len(known.objects):  # an object is in it more than once
        ids = {id(each) for each in touched}
        return [at for at, each in enumerate(known.objects) if id(each) in ids]
    found = {places.get(id(each), -1) for each in touched}
    return sorted(at for at in found if 0 <= at < len(known.objects))


def _ends(old: Sequence[Any], new: Sequence[Any], same: Any) -> tuple[int, int]:
    """How many elements two lists have in common at the beginning, and how many of the others at the end."""
    shorter = min(len(old), len(new))
    if all(map(same, old, new)):
        return shorter, 0
    prefix = next(at for at in range(shorter) if not same(old[at], new[at]))
    suffix = 0
    while suffix < shorter - prefix and same(old[-1 - suffix], new[-1 - suffix]):
        suffix += 1
    return prefix, suffix


def _slice(runs: list[Run], start: int, count: int) -> Iterator[Run]:
    for first, length in runs:
        skipped = min(start, length)
        taken = min(count, length - skipped)
        if taken > 0:
            yield first + skipped, taken
        start -= skipped
        count -= max(taken, 0)


def _join(runs: Sequence[Run]) -> list[Run]:
    """The same numbers, in the same order, in as few runs as possible."""
    joined: list[Run] = []
    for first, count in runs:
        if joined and first == sum(joined[-1]):
            joined[-1] = (joined[-1][0], joined[-1][1] + count)
        elif count:
            joined.append((first, count))
    return joined


def _union(runs: Sequence[Run]) -> list[Run]:
    """The same numbers, each once and in ascending order."""
    joined: list[Run] = []
    for first, count in sorted(runs):
        if joined and first <= sum(joined[-1]):
            start, length = joined[-1]
            joined[-1] = (start, max(length, first + count - start))
        else:
            joined.append((first, count))
    return joined
