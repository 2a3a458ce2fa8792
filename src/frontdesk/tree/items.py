"""Pure: arithmetic on the items of a path or a view, such as counting their messages and taking parts of them. Separate
from `Tree`, which computes the items, because reading needs only this."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from frontdesk.store import EditItem, Item, Place, Span


def count(items: Iterable[Item]) -> int:
    """How many messages these items are."""
    return sum(item.last - item.first + 1 if isinstance(item, Span) else 1 for item in items)


def last_items(items: Sequence[Item], limit: int) -> list[Item]:
    """The items of the last `limit` messages."""
    kept: list[Item] = []
    for item in reversed(items):
        if limit <= 0:
            break
        size = item.last - item.first + 1 if isinstance(item, Span) else 1
        if isinstance(item, Span) and size > limit:
            first = item.last - limit + 1
            item = Span(item.segment, first, item.last, Place(item.segment, first - 1))
            size = limit
        kept.append(item)
        limit -= size
    kept.reverse()
    return kept


def first_items(items: Sequence[Item], limit: int) -> list[Item]:
    """The items of the first `limit` messages."""
    kept: list[Item] = []
    for item in items:
        if limit <= 0:
            break
        size = item.last - item.first + 1 if isinstance(item, Span) else 1
        if isinstance(item, Span) and size > limit:
            item = Span(item.segment, item.first, item.first + limit - 1, item.before)
            size = limit
        kept.append(item)
        limit -= size
    return kept


def drop_first(items: Sequence[Item], dropped: int) -> list[Item]:
    """The items without their first `dropped` messages."""
    return last_items(items, count(items) - dropped)


def drop_last(items: Sequence[Item], dropped: int) -> list[Item]:
    """The items without their last `dropped` messages."""
    return first_items(items, count(items) - dropped)


def batches(items: Sequence[Item], size: int, *, reverse: bool = False) -> Iterator[list[Item]]:
    """The items in portions of at most `size` messages, from the beginning or (`reverse`) from the end."""
    batch: list[Item] = []
    room = size
    for item in reversed(items) if reverse else items:
        while (many := count((item,))) > room:
            part = last_items((item,), room) if reverse else first_items((item,), room)
            rest = first_items((item,), many - room) if reverse else last_items((item,), many - room)
            yield [*part, *batch] if reverse else [*batch, *part]
            batch, room, item = [], size, rest[0]
        batch = [item, *batch] if reverse else [*batch, item]
        room -= many
        if room == 0:
            yield batch
            batch, room = [], size
    if batch:
        yield batch


def position_of(items: Sequence[Item], place: Place) -> int | None:
    """How many messages come before a place in these items, None if it is not among them."""
    before = 0
    for item in items:
        if isinstance(item, Span):
            if item.segment == place.segment and item.first <= place.position <= item.last:
                return before + place.position - item.first
            before += item.last - item.first + 1
        else:
            if isinstance(item, EditItem) and item.place == place:
                return before
            before += 1
    return None
