"""Streams stored messages in portions: the transcript of a path, or the messages under a compaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from frontdesk.config.runtime import Runtime
from frontdesk.errors import CompactionNotFoundError, DamagedRecordError, MessageNotFoundError, SessionNotFoundError
from frontdesk.history.trees import load_tree, place_of
from frontdesk.history.views import read_items
from frontdesk.messages import Message
from frontdesk.store import Item, OverlayRow, Place
from frontdesk.tree.items import batches, count, drop_first, drop_last, last_items, position_of
from frontdesk.tree.tree import Tree

PORTION = 1_024

Loader = Callable[[str | None, int], Awaitable[list[Item]]]
"""returns the current items after a message (None: from the beginning), given how many messages were returned before"""


async def portions(runtime: Runtime, load: Loader, *, reverse: bool = False) -> AsyncIterator[list[Message]]:
    """Messages in portions, so that a path of any length needs the memory of one portion.

    If the session is changed while it is read, what is left is looked up again: no message that stays is left out.
    Raises `DamagedRecordError` if messages are missing although nothing was changed."""
    last: list[Message] = []
    total = 0
    items = await load(None, 0)
    missed: list[Item] = []
    while items:
        for batch in batches(items, PORTION, reverse=reverse):
            messages = await read_items(runtime, batch)
            if len(messages) != count(batch):
                items = await _rest(load, last, total)
                if items and items == missed:
                    raise DamagedRecordError("a part of the transcript after message", last[-1].id if last else "")
                missed = items
                break
            last = messages[::-1] if reverse else messages
            total += len(last)
            yield last
        else:
            return


async def _rest(load: Loader, last: Sequence[Message], total: int) -> list[Item]:
    """What comes after the last message that was returned and is still there."""
    if not last:
        return await load(None, 0)
    for message in last[:0:-1]:
        try:
            return await load(message.id, total)
        except MessageNotFoundError:
            continue
    return await load(last[0].id, total)


def fixed_loader(items: Sequence[Item]) -> Loader:
    """Items that are not looked up again: what is deleted while they are read is left out."""

    async def load(after: str | None, returned: int) -> list[Item]:
        return [] if after or returned else list(items)

    return load


def transcript_loader(
    runtime: Runtime, session_id: str, leaf: str | None, after: str | None, limit: int | None, reverse: bool
) -> Loader:
    """The path as it was written, to where it ended when it was first looked at; see `Session.transcript`."""
    end: Place | None = None
    number = 0

    async def load(read_until: str | None, returned: int) -> list[Item]:
        nonlocal end, number
        start = read_until or after
        wanted = [message_id for message_id in (leaf, start) if message_id is not None]
        tree = await load_tree(runtime, session_id, find=wanted)
        if tree is None:
            if returned or not wanted:
                return _nothing_left(runtime, session_id, returned)
            raise MessageNotFoundError(wanted[0], session_id)
        if not returned:
            end = tree.session.head if leaf is None else place_of(tree, leaf)
            number = tree.session.number
        elif tree.session.number != number:  # another session has the id by now
            return _nothing_left(runtime, session_id, returned)
        elif end is not None and not tree.reaches(end):
            return []  # all messages were cleared
        items = _after(tree, tree.lay(tree.at_or_before(end), overlays=False), start, reverse)
        if limit is None:
            return items
        room = limit - returned
        return last_items(items, room) if reverse else drop_last(items, count(items) - room)

    return load


def covered_loader(
    runtime: Runtime, session_id: str, compaction_id: str, find: Callable[[Tree, str], OverlayRow]
) -> Loader:
    """The messages under a compaction; see `Session.expand`."""

    async def load(read_until: str | None, returned: int) -> list[Item]:
        tree = await load_tree(runtime, session_id, find=[read_until] if read_until else ())
        if tree is None:
            if returned:
                return _nothing_left(runtime, session_id, returned)
            raise CompactionNotFoundError(compaction_id, session_id)
        return _after(tree, tree.covered_items(find(tree, compaction_id)), read_until, False)

    return load


def _after(tree: Tree, items: list[Item], message_id: str | None, reverse: bool) -> list[Item]:
    """The part of some items that is read after a message."""
    if message_id is None:
        return items
    position = position_of(items, place_of(tree, message_id))
    if position is None:
        raise MessageNotFoundError(message_id, tree.session.id)
    return drop_last(items, count(items) - position) if reverse else drop_first(items, position + 1)


def _nothing_left(runtime: Runtime, session_id: str, returned: int) -> list[Item]:
    """A session that was never written to has an empty path; one that was deleted while it was read is an error."""
    if returned:
        raise SessionNotFoundError(session_id, runtime.namespace)
    return []
