"""Reads the view at the head of a session or at a leaf, and turns rows into messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from frontdesk.config.runtime import Runtime
from frontdesk.deadlines import one_call
from frontdesk.errors import DamagedRecordError, MessageNotFoundError
from frontdesk.history.trees import items_at_head, load_tree, measure, place_of, store_view
from frontdesk.messages import Message
from frontdesk.store import Item, OverlayItem, Piece
from frontdesk.tree.items import batches, count, last_items
from frontdesk.tree.tree import Tree

T = TypeVar("T")
_LEAD = 16


class MovedError(Exception):
    """Rows were deleted or replaced between loading the tree and reading them: read again. `items` were incomplete."""

    def __init__(self, items: Sequence[Item] = ()) -> None:
        super().__init__()
        self.items = items


class LoadedView(NamedTuple):
    """The view at the head: the tree that it is laid from, its items, and its messages."""

    tree: Tree
    items: list[Item]
    messages: list[Message]


async def read_view(
    runtime: Runtime, session_id: str, leaf: str | None = None, last: int | None = None
) -> list[Message]:
    """The messages the model sees; see `Session.history`."""
    messages = await _read_at_head(runtime, session_id, last) if leaf is None else None
    if messages is not None:
        return messages

    async def read() -> list[Message]:
        return await read_all(runtime, await view_items(runtime, session_id, leaf, last))

    return await retry_if_moved(runtime, read, session_id)


async def load_view(runtime: Runtime, session_id: str, *, cut: bool = False) -> LoadedView | None:
    """The view at the head with its tree; None without a session. Nothing is stored, even if the view was stale.

    With `cut` there is also an empty summary in place of each one that is cut, and so is hidden from readers."""

    async def read() -> LoadedView | None:
        tree = await load_tree(runtime, session_id)
        if tree is None:
            return None
        hidden = {row.number: row for row in tree.overlays if row.is_cut} if cut else {}
        items = tree.lay(tree.session.head, cut=True) if hidden else items_at_head(tree)
        messages = await read_all(runtime, items)
        for index, overlay in _overlays_of(items):
            if overlay.number in hidden:
                row = hidden[overlay.number]
                messages[index] = Message.summary(row.id, "", 0, row.created_at, messages[index].parent_id)
        return LoadedView(tree, items, messages)

    return await retry_if_moved(runtime, read, session_id)


def _overlays_of(items: Sequence[Item]) -> Iterator[tuple[int, OverlayItem]]:
    """The overlays among some items, each with the index of its message."""
    index = 0
    for item in items:
        if isinstance(item, OverlayItem):
            yield index, item
        index += count((item,))


async def _read_at_head(runtime: Runtime, session_id: str, last: int | None) -> list[Message] | None:
    """The common case in one trip to the store; None if the view must be computed first, or a message is missing."""
    read = await runtime.store.view(runtime.namespace, session_id, last)
    if read is None:
        return []
    if read.session.view == "stale":
        return None
    messages = to_messages(read.items, read.pieces)
    return messages if len(messages) == count(read.items) else None


async def view_items(runtime: Runtime, session_id: str, leaf: str | None, last: int | None) -> list[Item]:
    """The items of the view at the head or at a leaf; a stale one is computed and stored. Raises
    `MessageNotFoundError`."""
    tree = await _tree_with(runtime, session_id, leaf)
    items = [] if tree is None else (await _items_of(runtime, tree, leaf))[0]
    return items if last is None else last_items(items, last)


async def measured_items(
    runtime: Runtime, session_id: str, leaf: str | None, last: int | None
) -> tuple[list[Item], int]:
    """The same, with their tokens."""
    tree = await _tree_with(runtime, session_id, leaf)
    if tree is None:
        return [], 0
    items, tokens = await _items_of(runtime, tree, leaf)
    if last is not None and last < count(items):
        items, tokens = last_items(items, last), None
    return items, await measure(runtime, tree, items) if tokens is None else tokens


async def _tree_with(runtime: Runtime, session_id: str, leaf: str | None) -> Tree | None:
    tree = await load_tree(runtime, session_id, find=() if leaf is None else (leaf,))
    if tree is None and leaf is not None:
        raise MessageNotFoundError(leaf, session_id)
    return tree


async def _items_of(runtime: Runtime, tree: Tree, leaf: str | None) -> tuple[list[Item], int | None]:
    """The items of the view at the head or at a leaf, and their tokens if they are known."""
    if leaf is not None:
        return tree.lay(place_of(tree, leaf)), None
    if tree.session.view != "stale":
        return items_at_head(tree), tree.session.view_tokens
    row, items = await store_view(runtime, tree)
    return items, row.view_tokens


async def leading_system(runtime: Runtime, items: Sequence[Item]) -> list[Message]:
    """The system messages that a path begins with, summaries excepted."""
    lead: list[Message] = []
    for batch in batches(items, _LEAD):
        for message in await read_items(runtime, batch):
            if message.role != "system" or message.is_summary:
                return lead
            lead.append(message)
    return lead


async def read_items(runtime: Runtime, items: Sequence[Item]) -> list[Message]:
    """The messages of some items, without those that were deleted since."""
    return to_messages(items, await runtime.store.read(items)) if items else []


async def read_all(runtime: Runtime, items: Sequence[Item]) -> list[Message]:
    """The messages of some items. Raises `MovedError` if one was deleted since."""
    messages = await read_items(runtime, items)
    if len(messages) != count(items):
        raise MovedError(items)
    return messages


@one_call
async def retry_if_moved(runtime: Runtime, read: Callable[[], Awaitable[T]], session_id: str) -> T:
    """What `read` returns once nothing is deleted while it reads. Raises `ConcurrentChangeError`,
    `DamagedRecordError`."""
    missed: Sequence[Item] = ()
    attempts = runtime.attempts(session_id)
    while True:
        await attempts.another()
        try:
            return await read()
        except MovedError as error:
            missed = check_missed(error, missed, session_id)


def check_missed(error: MovedError, before: Sequence[Item], session_id: str) -> Sequence[Item]:
    """What could not be read. Raises `DamagedRecordError` if it is the same as before: a tree that was loaded since
    would not have what was deleted."""
    if error.items and error.items == before:
        raise DamagedRecordError("a message of session", session_id) from None
    return error.items


def to_messages(items: Iterable[Item], pieces: Iterable[Piece]) -> list[Message]:
    """What was read for some items, as messages."""
    messages: list[Message] = []
    for _, piece in zip(items, pieces, strict=True):
        if piece.overlay is not None:
            row = piece.overlay
            messages.append(Message.summary(row.id, row.summary or "", row.tokens, row.created_at, piece.before_id))
        messages += Message.from_run(piece.messages, piece.before_id)
    return messages
