"""The ranges that overlays cover: finds the range for two ids or for a part of a view, reads the messages that a
summary is made from, and turns stored overlays into `Compaction`s."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from frontdesk.compaction.planner import Range, leading_system
from frontdesk.config.runtime import Runtime
from frontdesk.errors import CompactionNotFoundError, InvalidRangeError, MessageNotFoundError
from frontdesk.history import trees, views
from frontdesk.history.views import LoadedView
from frontdesk.messages import SUMMARY_PREFIX, Message
from frontdesk.records import Compaction
from frontdesk.store import EditItem, Item, OverlayItem, OverlayRow, Place, Span
from frontdesk.tree.items import count, drop_first, first_items, last_items, position_of
from frontdesk.tree.tree import Tree


class PathRange(NamedTuple):
    """A range of a path in a tree: its ends by place, and the ids of its first and last message.

    An id is empty if its message was deleted after the tree was loaded: no plan made from that tree can be applied."""

    tree: Tree
    start: Place
    end: Place
    from_id: str
    to_id: str

    @property
    def length(self) -> int:
        """How many messages it has, those under overlays included."""
        return count(self.tree.between(self.start, self.end))


def find(tree: Tree, compaction_id: str) -> OverlayRow:
    """The overlay with this id. Raises `CompactionNotFoundError`."""
    for overlay in tree.overlays:
        if overlay.id == compaction_id:
            return overlay
    raise CompactionNotFoundError(compaction_id, tree.session.id)


# ranges


async def range_between(runtime: Runtime, tree: Tree, from_id: str, to_id: str) -> PathRange:
    """The range that two ids mean, without the system messages that its path begins with. The id of a summary means
    what that covers.

    Raises `MessageNotFoundError`, `InvalidRangeError`."""
    start, end = _ends_of(tree, from_id)[0], _ends_of(tree, to_id)[1]
    if not tree.precedes(start, end):
        raise InvalidRangeError(
            f"{from_id!r} does not come before {to_id!r} on one path: pass the earlier one first",
            from_id=from_id,
            to_id=to_id,
        )
    path = tree.lay(end, overlays=False)
    lead = len(await views.leading_system(runtime, path))
    start = _first_place(tree, path, lead, start, end, (from_id, to_id))
    known_from, known_to = from_id if tree.find(from_id) == start else None, to_id if tree.find(to_id) == end else None
    return await _with_ids(runtime, tree, start, end, known_from, known_to)


async def range_in_view(runtime: Runtime, view: LoadedView, part: Range) -> PathRange:
    """The range that a part of a view means, without the system messages that its path begins with.

    Raises `InvalidRangeError`."""
    tree, shown = view.tree, view.messages
    start = _ends_of_item(tree, _item_at(view.items, part.first))[0]
    end = _ends_of_item(tree, _item_at(view.items, part.last))[1]
    path, lead = tree.lay(end, overlays=False), 0
    if shown[leading_system(shown)].is_summary:
        # Only here the path may begin with system messages that are not visible. Example: a summary covers s2..m5 of
        # u1 s2 m3 m4 m5, and u1 is deleted.
        lead = len(await views.leading_system(runtime, path))
    first, last = shown[part.first], shown[part.last]
    start = _first_place(tree, path, lead, start, end, (first.id, last.id))
    known_from, known_to = (None if message.is_summary else message.id for message in (first, last))
    return await _with_ids(runtime, tree, start, end, known_from, known_to)


async def range_of_path(runtime: Runtime, tree: Tree) -> PathRange | None:
    """The path to the head without its leading system messages; None if there is nothing else."""
    head, _, rest = await _without_system(runtime, tree)
    return None if head is None or not rest else await _with_ids(runtime, tree, _place(rest[0]), head)


async def visible_range(runtime: Runtime, tree: Tree) -> tuple[Place, Place] | None:
    """The ends of the same range; None also if the view shows nothing of it."""
    head, lead, rest = await _without_system(runtime, tree)
    if head is None or not rest or count(tree.lay(head)) <= lead:
        return None
    return _place(rest[0]), head


async def _without_system(runtime: Runtime, tree: Tree) -> tuple[Place | None, int, list[Item]]:
    """The head, how many system messages its path begins with, and the rest of the path."""
    path = tree.lay(tree.session.head, overlays=False)
    lead = len(await views.leading_system(runtime, path))
    return tree.session.head, lead, drop_first(path, lead)


def _first_place(
    tree: Tree, path: Sequence[Item], lead: int, start: Place, end: Place, given: tuple[str, str]
) -> Place:
    """Where a range begins: at its first message that is left, after the `lead` system messages of its path."""
    start = _place(tree.between(start, end)[0])
    if lead <= (position_of(path, start) or 0):
        return start
    rest = drop_first(path, lead)
    if not rest:
        raise InvalidRangeError(
            "leading system messages are never compacted, and the range contains nothing else",
            from_id=given[0],
            to_id=given[1],
        )
    return _place(rest[0])


async def _with_ids(
    runtime: Runtime, tree: Tree, start: Place, end: Place, from_id: str | None = None, to_id: str | None = None
) -> PathRange:
    """The range with the ids of its ends; those that are not known are read."""
    if from_id is None or to_id is None:
        covered = tree.between(start, end)
        ends = await runtime.store.read([*first_items(covered, 1), *last_items(covered, 1)])
        from_id, to_id = (piece.messages[0].id if piece.messages else "" for piece in ends)
    return PathRange(tree, start, end, from_id, to_id)


def _ends_of(tree: Tree, message_id: str) -> tuple[Place, Place]:
    """The first and last place that an id means."""
    if not message_id.startswith(SUMMARY_PREFIX):
        place = trees.place_of(tree, message_id)
        return place, place
    for overlay in tree.overlays:
        if SUMMARY_PREFIX + overlay.id == message_id:
            return overlay.start, overlay.end
    raise MessageNotFoundError(message_id, tree.session.id)


def _ends_of_item(tree: Tree, item: Item) -> tuple[Place, Place]:
    """The first and last place that an item of one message, or an overlay, means."""
    if isinstance(item, OverlayItem):
        overlay = next(overlay for overlay in tree.overlays if overlay.number == item.number)
        return overlay.start, overlay.end
    place = _place(item)
    return place, place


def _item_at(items: Sequence[Item], index: int) -> Item:
    return first_items(drop_first(items, index), 1)[0]


def _place(item: Item) -> Place:
    assert isinstance(item, Span | EditItem)
    return item.place if isinstance(item, EditItem) else Place(item.segment, item.first)


# what a summary is made from


def source_items(covered: PathRange) -> list[Item]:
    """What a summary of a range is made from: its messages, and the summaries inside it in place of what they
    cover.

    A summary is used only if it is not stale, and messages that are merely hidden are shown: a summary must have been
    made from everything that it covers."""
    tree, start, end, _, _ = covered
    inside = [
        overlay
        for overlay in tree.overlays
        if overlay.kind == "summary"
        and not overlay.stale
        and tree.precedes(start, overlay.start)
        and tree.precedes(overlay.end, end)
    ]
    return drop_first(tree.lay(end, among=inside), count(tree.lay(tree.before(start), overlays=False)))


async def read_source(runtime: Runtime, view: LoadedView, part: Range, covered: PathRange) -> list[Message]:
    """What a summary of a part of a view is made from. What the view shows already is not read again."""
    items = source_items(covered)
    if items == first_items(drop_first(view.items, part.first), part.last - part.first + 1):
        return view.messages[part.first : part.last + 1]
    return await views.read_items(runtime, items)


# stored overlays


async def to_compactions(runtime: Runtime, tree: Tree, overlays: Sequence[OverlayRow]) -> list[Compaction]:
    """Overlays with their summaries and the ids of the first and last message that is left under each."""
    items: list[Item] = []
    for overlay in overlays:
        covered = tree.covered_items(overlay)
        items += [OverlayItem(overlay.number, 0, None), *first_items(covered, 1), *last_items(covered, 1)]
    pieces = await runtime.store.read(items)
    found = []
    for index, row in enumerate(overlays):
        whole, first, last = pieces[3 * index : 3 * index + 3]
        if whole.overlay is not None and first.messages and last.messages:
            text = whole.overlay.summary if row.kind == "summary" else None
            shown = msgspec.structs.replace(row, summary=text, details=whole.overlay.details)
            found.append(Compaction.from_row(shown, first.messages[0].id, last.messages[0].id))
    return found
