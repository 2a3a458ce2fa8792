"""The reads of a session: the model's view, the transcript, single messages and branches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from frontdesk.checks import check_count
from frontdesk.errors import MessageNotFoundError
from frontdesk.history import transcripts, trees
from frontdesk.history.live import live_states
from frontdesk.messages import Message
from frontdesk.models.windows import session_window
from frontdesk.records import SessionInfo
from frontdesk.session.handle import Handle
from frontdesk.store import Place
from frontdesk.tree.items import count
from frontdesk.tree.tree import Tree


class Reader:
    """Reads for a handle. A session that was never written to reads as empty."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def info(self) -> SessionInfo:
        """What is known of the session. Raises `SessionNotFoundError`."""
        runtime = self._handle.runtime
        row = await trees.complete_row(runtime, await self._handle.row())
        (live,) = await live_states(runtime, [row])
        window = session_window(row, runtime.settings.compaction.max_tokens)
        return SessionInfo.from_row(row, window, live)

    async def transcript(
        self, leaf: str | None, after: str | None, limit: int | None, reverse: bool
    ) -> AsyncIterator[Message]:
        """Stream the path as it was written; see `Session.transcript`."""
        check_count(limit, "limit")
        runtime, session_id = self._handle.runtime, await self._handle.readable_id()
        if session_id is not None:
            load = transcripts.transcript_loader(runtime, session_id, leaf, after, limit, reverse)
            async for portion in transcripts.portions(runtime, load, reverse=reverse):
                for message in portion:
                    yield message
        elif leaf or after:
            raise MessageNotFoundError(leaf or after or "", self._handle.name)

    async def message(self, message_id: str) -> Message:
        """The message with this id, on any branch. Raises `MessageNotFoundError`."""
        messages = await self._handle.read_places(lambda tree: [_place(tree, message_id)], find=[message_id])
        if messages is None:
            raise MessageNotFoundError(message_id, self._handle.name)
        return messages[0]

    async def path_length(self, leaf: str | None) -> int:
        """How many messages a path has; see `Session.path_length`."""
        tree = await self._handle.tree(find=() if leaf is None else [leaf])
        if tree is None:
            if leaf is not None:
                raise MessageNotFoundError(leaf, self._handle.name)
            return 0
        place = tree.session.head if leaf is None else _place(tree, leaf)
        return count(tree.lay(place, overlays=False))

    async def head(self) -> Message | None:
        """The message that the next append follows."""
        messages = await self._handle.read_places(lambda tree: [] if tree.session.head is None else [tree.session.head])
        return messages[0] if messages else None

    async def leaves(self) -> list[Message]:
        """The last message of every branch."""
        return await self._handle.read_places(lambda tree: tree.leaves()) or []

    async def children(self, message_id: str | None) -> list[Message]:
        """The messages that follow a message directly, oldest first; see `Session.branches`."""

        def choose(tree: Tree) -> Sequence[Place]:
            return tree.children(None if message_id is None else _place(tree, message_id))

        messages = await self._handle.read_places(choose, find=[] if message_id is None else [message_id])
        if messages is None and message_id is not None:
            raise MessageNotFoundError(message_id, self._handle.name)
        return sorted(messages or [], key=lambda message: message.stored.created_at)


def _place(tree: Tree, message_id: str) -> Place:
    return trees.place_of(tree, message_id)
