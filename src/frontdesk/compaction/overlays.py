"""Overlays as the public API speaks of them: which range two ids mean, and rows turned into `Compaction`s."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from frontdesk.config.runtime import Runtime
from frontdesk.errors import CompactionNotFoundError, InvalidRangeError, MessageNotFoundError
from frontdesk.history import reading
from frontdesk.messages import SUMMARY_PREFIX
from frontdesk.records import Compaction
from frontdesk.store import EditItem, Item, OverlayItem, OverlayRow, Place, Span
from frontdesk.tree.items import count, drop_first, first_items, last_items, position_of
from frontdesk.tree.tree import Tree


def find(tree: Tree, compaction_id: str) -> OverlayRow:
    """The overlay with this id. Raises `CompactionNotFoundError`."""
    for overlay in tree.overlays:
        if overlay.id == compaction_id:
            return overlay
    raise CompactionNotFoundError(compaction_id, tree.session.id)


async def range_of(runtime: Runtime, tree: Tree, from_id: str, to_id: str) -> tuple[Place, Place]:
    """The range that two ids mean, without the system messages that its path begins with.

    Raises `MessageNotFoundError`, `InvalidRangeError`."""
    start, end = _end(tree, from_id)[0], _end(tree, to_id)[1]
    if not tree.precedes(start, end):
        raise InvalidRangeError(
            f"{from_id!r} does not stand ahead of {to_id!r} on one path: give the earlier one first",
            from_id=from_id,
            to_id=to_id,
        )
    path = tree.lay(end, overlays=False)
    lead = len(await reading.leading_system(runtime, path))
    start = _place(tree.between(start, end)[0])
    if lead > (position_of(path, start) or 0):
        rest = first_items(drop_first(path, lead), 1)
        if not rest:
            raise InvalidRangeError(
                "leading system messages are never compacted, and the range holds nothing else",
                from_id=from_id,
                to_id=to_id,
            )
        start = _place(rest[0])
    return start, end


async def all_said(runtime: Runtime, tree: Tree) -> tuple[Place, Place] | None:
    """The range from behind the leading system messages to the head; None if the view shows nothing of it."""
    path = tree.lay(tree.session.head, overlays=False)
    lead = len(await reading.leading_system(runtime, path))
    rest = first_items(drop_first(path, lead), 1)
    if tree.session.head is None or not rest or count(tree.lay(tree.session.head)) <= lead:
        return None
    return _place(rest[0]), tree.session.head


def source_items(tree: Tree, start: Place, end: Place) -> list[Item]:
    """What a summary of a range is to be made from: its messages, and in place of some of them the summaries inside it.

    A summary is used only if it is still true, and what is merely hidden is shown: whatever the new one covers, it must
    have been made from."""
    inside = tuple(
        overlay
        for overlay in tree.overlays
        if overlay.kind == "summary"
        and not overlay.stale
        and tree.precedes(start, overlay.start)
        and tree.precedes(overlay.end, end)
    )
    sound = Tree(msgspec.structs.replace(tree.rows, overlays=inside), tree.session)
    return drop_first(sound.lay(end), count(tree.lay(tree.before(start), overlays=False)))


def _end(tree: Tree, message_id: str) -> tuple[Place, Place]:
    if not message_id.startswith(SUMMARY_PREFIX):
        place = reading.place_of(tree, message_id)
        return place, place
    for overlay in tree.overlays:
        if SUMMARY_PREFIX + overlay.id == message_id:
            return overlay.start, overlay.end
    raise MessageNotFoundError(message_id, tree.session.id)


def _place(item: Item) -> Place:
    assert isinstance(item, Span | EditItem)
    return item.place if isinstance(item, EditItem) else Place(item.segment, item.first)


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
            shown = msgspec.structs.replace(whole.overlay, stale=row.stale)
            found.append(Compaction.from_row(shown, first.messages[0].id, last.messages[0].id))
    return found
