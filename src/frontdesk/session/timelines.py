"""The timeline of a path: how many tokens the view had when each of some messages was the last one, what compactions
changed, and what model calls cost. It reads only the messages at these points."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from frontdesk.checks import check_count
from frontdesk.errors import InvalidInputError, MessageNotFoundError
from frontdesk.history.paths import Cover, Path, cover_of, load_path
from frontdesk.history.trees import measure_each
from frontdesk.history.views import read_all, retry_if_moved
from frontdesk.models.windows import session_window
from frontdesk.moments import to_datetime
from frontdesk.session.handle import Handle
from frontdesk.session.records import Timeline, TimelineCompaction, TimelinePoint
from frontdesk.store import OverlayRow
from frontdesk.tree.tree import Tree
from frontdesk.tree.usage import cost_of

MOST_POINTS = 400
_SPLITS = 16
_ROUNDS = 2
_ENTRIES = 5_000


class _Made(NamedTuple):
    """A compaction, and the position of the last message that was there when it was made."""

    cover: Cover
    position: int


class _Sample(NamedTuple):
    """A point: the position of its last message, and how many of the compactions, oldest first, were made by then."""

    position: int
    made: int


class TimelineReader:
    """Reads timelines for a handle."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._runtime = handle.runtime

    async def timeline(self, leaf: str | None, points: int) -> Timeline:
        """See `Session.timeline`. Raises `SessionNotFoundError`, `MessageNotFoundError`."""
        check_count(points, "points", most=MOST_POINTS)
        if points is None or points < 2:
            raise InvalidInputError(f"points must be 2 to {MOST_POINTS}")

        async def read() -> Timeline:
            row = await self._handle.row()
            path = await load_path(self._runtime, row.id, leaf)
            if path is None:
                raise MessageNotFoundError(leaf or "", row.id)
            return await self._read(path, points)

        return await retry_if_moved(self._handle.runtime, read, self._handle.name)

    async def _read(self, path: Path, most: int) -> Timeline:
        settings = self._runtime.settings.compaction
        window = session_window(path.tree.session, settings.max_tokens)
        covers = _covers(path)[-(most // 4) :] if most >= 8 else []
        spread = _spread(path.total, most - 2 * len(covers))
        times = await self._times(path, spread)
        made = sorted(
            await self._place(path, covers, times), key=lambda each: (each.position, each.cover.overlay.number)
        )
        samples = _samples([*spread, *(each.position for each in made)], made)
        tokens = await self._tokens(path, made, samples)
        costs = await self._costs([times[sample.position] for sample in samples])
        return Timeline(
            path.total,
            window,
            int(settings.hard_ratio * window),
            tuple(
                TimelinePoint(sample.position, to_datetime(times[sample.position]), size, cost)
                for sample, size, cost in zip(samples, tokens, costs, strict=True)
            ),
            tuple(_described(each, index, samples, tokens) for index, each in enumerate(made)),
        )

    async def _times(self, path: Path, positions: Iterable[int]) -> dict[int, int]:
        """When the messages at some positions were created."""
        wanted = sorted(set(positions))
        items = [item for position in wanted for item in path.part(position, 1)]
        messages = await read_all(self._runtime, items)
        return {position: each.stored.created_at for position, each in zip(wanted, messages, strict=True)}

    async def _place(self, path: Path, covers: Sequence[Cover], times: dict[int, int]) -> list[_Made]:
        """Find the last message that was there when each compaction was made, by looking closer around it; exactly, or
        in a very long path nearly so. Adds what was read to `times`."""
        for _ in range(_ROUNDS):
            closer = {position for cover in covers for position in _between(times, cover.overlay.created_at)}
            more = closer - times.keys()
            if more:
                times |= await self._times(path, more)
        made = []
        for cover in covers:
            before = (position for position, at in times.items() if at <= cover.overlay.created_at)
            made.append(_Made(cover, max(cover.last, max(before, default=0))))
        times |= await self._times(path, {each.position for each in made} - times.keys())
        return made

    async def _tokens(self, path: Path, made: Sequence[_Made], samples: Sequence[_Sample]) -> list[int]:
        """The tokens of the view at each sample."""
        prefixes = [path.part(0, sample.position + 1) for sample in samples]
        sizes = await measure_each(self._runtime, path.tree, [*prefixes, *(each.cover.items for each in made)])
        covered = {each.cover.overlay.number: size for each, size in zip(made, sizes[len(prefixes) :], strict=True)}
        saved = [_saved(path.tree, path, made[:number], covered) for number in range(len(made) + 1)]
        return [size - saved[sample.made] for sample, size in zip(samples, sizes[: len(prefixes)], strict=True)]

    async def _costs(self, times: Sequence[int]) -> list[Decimal]:
        """What the calls up to each moment cost, since the one before; the last moment has all that came later."""
        costs = [Decimal(0)] * len(times)
        if not times:
            return costs
        before: tuple[int, str] | None = None
        ordered = sorted(times)
        while True:
            entries = await self._runtime.store.recent_usage(self._runtime.namespace, self._handle.id, _ENTRIES, before)
            for entry in entries:
                costs[min(bisect_left(ordered, entry.at), len(times) - 1)] += cost_of(entry.cost)
            if len(entries) < _ENTRIES:
                return costs
            before = (entries[-1].at, entries[-1].id)


def _covers(path: Path) -> list[Cover]:
    """All compactions on a path, oldest first, also those inside others."""
    if path.leaf is None:
        return []
    on_path = [overlay for overlay in reversed(path.tree.overlays) if path.tree.precedes(overlay.end, path.leaf)]
    return [cover for overlay in on_path if (cover := cover_of(path, overlay)) is not None]


def _spread(total: int, most: int) -> list[int]:
    """At most so many positions of a path, with its first and its last one."""
    if total <= most:
        return list(range(total))
    return [index * (total - 1) // (most - 1) for index in range(most)]


def _between(times: Mapping[int, int], moment: int) -> list[int]:
    """Positions between the two known ones around a moment."""
    before = max((position for position, at in times.items() if at <= moment), default=None)
    if before is None:
        return []
    after = min((position for position in times if position > before), default=before)
    step = max(1, (after - before) // _SPLITS)
    return list(range(before, after, step))


def _samples(positions: Iterable[int], made: Sequence[_Made]) -> list[_Sample]:
    """The points in their order: one for each position, and one more after each compaction."""
    samples = []
    done = 0
    for position in sorted(set(positions)):
        samples.append(_Sample(position, done))
        while done < len(made) and made[done].position <= position:
            done += 1
            samples.append(_Sample(position, done))
    return samples


def _saved(tree: Tree, path: Path, made: Sequence[_Made], covered: Mapping[int, int]) -> int:
    """How many tokens fewer the view has because of these compactions."""
    newest_first: list[OverlayRow] = [each.cover.overlay for each in reversed(made)]
    applied = tree.outermost(tree.path(path.leaf), among=newest_first)
    return sum(covered[overlay.number] - overlay.tokens for _, _, overlay in applied)


def _described(made: _Made, index: int, samples: Sequence[_Sample], tokens: Sequence[int]) -> TimelineCompaction:
    after = next(number for number, sample in enumerate(samples) if sample.made == index + 1)
    overlay = made.cover.overlay
    return TimelineCompaction(
        overlay.id,
        overlay.kind,
        to_datetime(overlay.created_at),
        made.position,
        made.cover.first,
        made.cover.last,
        tokens[after - 1],
        tokens[after],
    )
