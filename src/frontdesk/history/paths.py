"""A path of a session with positions: where each message is, which compactions cover it, and pages of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from frontdesk.config.runtime import Runtime
from frontdesk.errors import MessageNotFoundError
from frontdesk.history.trees import load_tree, place_of
from frontdesk.store import EditItem, Item, OverlayItem, OverlayRow, Place, Span
from frontdesk.tree.items import count, drop_first, first_items, position_of
from frontdesk.tree.tree import Tree


class Cover(NamedTuple):
    """A compaction that applies to a path, and the positions of the messages that it covers."""

    overlay: OverlayRow
    items: list[Item]
    first: int
    last: int


class Path:
    """The path to a leaf (default: to the head), as it was written."""

    def __init__(self, tree: Tree, leaf: Place | None) -> None:
        self.tree = tree
        self.leaf = tree.at_or_before(leaf)
        self.items = tree.lay(self.leaf, overlays=False)
        self.total = count(self.items)

    def position(self, place: Place) -> int | None:
        """How many messages come before a place on this path; None if it is on another branch."""
        return position_of(self.items, place)

    def position_of_id(self, message_id: str) -> int:
        """The position of a message that was looked up with the tree. Raises `MessageNotFoundError`."""
        position = self.position(place_of(self.tree, message_id))
        if position is None:
            raise MessageNotFoundError(message_id, self.tree.session.id)
        return position

    def part(self, first: int, limit: int) -> list[Item]:
        """The items of at most `limit` messages from a position on."""
        return first_items(drop_first(self.items, first), limit)

    def covers(self) -> list[Cover]:
        """The compactions that apply to this path, in its order. One whose messages were all deleted is left out."""
        applied = (overlay for _, _, overlay in self.tree.outermost(self.tree.path(self.leaf)))
        return [cover for overlay in applied if (cover := cover_of(self, overlay)) is not None]

    def view_items(self) -> list[Item]:
        """The items of the model's view at the end of this path."""
        return self.tree.lay(self.leaf)


def cover_of(path: Path, overlay: OverlayRow) -> Cover | None:
    """What a compaction covers of a path that it is on; None if all of that was deleted."""
    items = path.tree.covered_items(overlay)
    first = path.position(first_place(items[0])) if items else None
    return None if first is None else Cover(overlay, items, first, first + count(items) - 1)


def first_place(item: Item) -> Place:
    """The place of the first message of an item that is not an overlay."""
    assert not isinstance(item, OverlayItem)
    return item.place if isinstance(item, EditItem) else Place(item.segment, item.first)


def places_of(items: Sequence[Item]) -> Iterator[Place]:
    """The places of the messages of some items, none of which is an overlay."""
    for item in items:
        if isinstance(item, Span):
            yield from (Place(item.segment, position) for position in range(item.first, item.last + 1))
        else:
            yield first_place(item)


async def load_path(
    runtime: Runtime, session_id: str, leaf: str | None = None, *, find: Sequence[str] = ()
) -> Path | None:
    """The path to the head, or to a leaf; None without a session. Raises `MessageNotFoundError`."""
    wanted = [*find] if leaf is None else [leaf, *find]
    tree = await load_tree(runtime, session_id, find=wanted)
    if tree is None:
        return None
    return Path(tree, tree.session.head if leaf is None else place_of(tree, leaf))


def page_start(total: int, limit: int, position: int | None, centre: int | None) -> int:
    """Where a page of `limit` of `total` messages begins: at a position, around one, or so that it ends at the end."""
    if position is not None:
        return min(position, total)
    return max(0, min(total if centre is None else centre - limit // 2, total - limit))
