"""Erases what one person said in sessions that they share with others, such as the session of a group."""

from __future__ import annotations

from collections.abc import AsyncIterator

from frontdesk.config.runtime import Runtime
from frontdesk.history import trees, views
from frontdesk.manager.session_erasure import Whose, pages
from frontdesk.messages import Message
from frontdesk.records import ErasureReport
from frontdesk.session.components import Components
from frontdesk.session.handle import Handle
from frontdesk.store import ANY_HEAD, TURN, Item, Place, Span
from frontdesk.tree import plans
from frontdesk.tree.items import count

_BATCH = 500
_PASSES = 3
"""how often a session is read: after the first time, only what others have written meanwhile is found"""


class AuthorEraser:
    """Deletes the messages of an author, on all branches, in the sessions that are meant and in their forks."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def erase(self, whose: Whose, author: str) -> ErasureReport:
        """Delete messages as `Session.delete_messages` does. The report counts each message once, even if forks share
        it, and under `remaining` the sessions in which the author did not stop writing."""
        deleted: set[tuple[int, str]] = set()
        queued = 0
        busy: set[str] = set()
        async for rows in pages(self._runtime, whose):
            for row in rows:
                for session_id in [row.id, *await self._forks(row.id)]:
                    found, unqueued, is_clean = await self._erase(session_id, author)
                    deleted |= {(row.family, message_id) for message_id in found}
                    queued += unqueued
                    if not is_clean:
                        busy.add(session_id)
        return ErasureReport(messages=len(deleted), queued_messages=queued, remaining=len(busy))

    async def _forks(self, session_id: str) -> list[str]:
        """The sessions that were forked from a session: they share what was said in it."""
        rows = await self._runtime.store.trees(self._runtime.namespace, [session_id], family=True)
        return [fork.id for fork in plans.descendants(rows[0])] if rows else []

    async def _erase(self, session_id: str, author: str) -> tuple[set[str], int, bool]:
        """The ids of what was deleted in one session, how many messages were taken out of its queue, and whether
        nothing was left when both were last read."""
        deleted: set[str] = set()
        queued = 0
        remover = Components(Handle(self._runtime, session_id)).remover
        for _ in range(_PASSES):
            # The queue comes first: what is taken from it meanwhile is in the session, which is read afterwards.
            unqueued = await self._erase_queued(session_id, author)
            queued += unqueued
            is_clean = not unqueued
            async for message_ids in self._find(session_id, author):
                is_clean = False
                await remover.delete(message_ids, ANY_HEAD)
                deleted |= set(message_ids)
            if is_clean:
                return deleted, queued, True
        return deleted, queued, False

    async def _erase_queued(self, session_id: str, author: str) -> int:
        """Take the author's messages out of the queue for a turn. Returns how many there were."""
        store, namespace = self._runtime.store, self._runtime.namespace
        queued = await store.queued_messages(namespace, session_id, TURN)
        found = [stored.id for stored in queued if Message.from_stored(stored, None).author == author]
        if found:
            await store.remove_queued(namespace, session_id, TURN, found)
        return len(found)

    async def _find(self, session_id: str, author: str) -> AsyncIterator[list[str]]:
        """The ids of an author's messages in a session, in batches. A batch may be empty if messages were moved or
        deleted meanwhile: then the session must be read again."""
        tree = await trees.load_tree(self._runtime, session_id)
        items = [] if tree is None else [tree.segment_items(segment.number) for segment in tree.visible_segments()]
        for batch in (piece for of_segment in items for item in of_segment for piece in _pieces(item)):
            messages = await views.read_items(self._runtime, [batch])
            found = [message.id for message in messages if message.author == author]
            if found or len(messages) < count([batch]):
                yield found


def _pieces(item: Item) -> list[Item]:
    """A long span in pieces that can be read at once."""
    if not isinstance(item, Span):
        return [item]
    starts = range(item.first, item.last + 1, _BATCH)
    return [
        Span(
            item.segment,
            first,
            min(first + _BATCH - 1, item.last),
            item.before if first == item.first else Place(item.segment, first - 1),
        )
        for first in starts
    ]
