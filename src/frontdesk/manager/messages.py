"""The part of `SessionManager` that reaches into one session: the calls of `Session`, by id or key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from frontdesk.config.builder import Configurable
from frontdesk.errors import SessionNotFoundError
from frontdesk.keys import SessionKey
from frontdesk.records import Appended, Compaction, CompactionResult
from frontdesk.session.session import Session
from frontdesk.session.writing import Given
from frontdesk.store import FOLLOW_HEAD, FollowHead


class MessageCalls(Configurable):
    """Handles, and what a session can do, by its id."""

    @property
    def namespace(self) -> str:
        return self._runtime.namespace

    def session(self, ref: str | SessionKey) -> Session:
        """A handle on a session, by id or key; no I/O."""
        return Session(self._runtime, ref)

    async def _existing(self, ref: str | SessionKey) -> Session:
        session = self.session(ref)
        await session._row()
        return session

    async def _id_of(self, ref: str | SessionKey) -> str:
        session_id = await self.session(ref)._readable_id()
        if session_id is None:
            raise SessionNotFoundError(str(ref), self.namespace)
        return session_id

    async def append(
        self,
        id: str | SessionKey,
        message: Given,
        *,
        parent: str | FollowHead | None = FOLLOW_HEAD,
        expected_head: str | None = None,
        reopen: bool = False,
    ) -> Appended:
        """`Session.append` by id."""
        return await self.session(id).append(message, parent=parent, expected_head=expected_head, reopen=reopen)

    async def append_all(
        self,
        id: str | SessionKey,
        messages: Iterable[Given],
        *,
        parent: str | FollowHead | None = FOLLOW_HEAD,
        expected_head: str | None = None,
        reopen: bool = False,
    ) -> Sequence[Appended]:
        """`Session.append_all` by id."""
        return await self.session(id).append_all(messages, parent=parent, expected_head=expected_head, reopen=reopen)

    async def upsert(self, id: str | SessionKey, message: Given, *, reopen: bool = False) -> Appended:
        """`Session.upsert` by id."""
        return await self.session(id).upsert(message, reopen=reopen)

    async def history(
        self,
        id: str | SessionKey,
        *,
        leaf: str | None = None,
        last: int | None = None,
        max_tokens: int | None = None,
        format: str | None = None,
    ) -> Any:
        """`Session.history` by id."""
        return await self.session(id).history(leaf=leaf, last=last, max_tokens=max_tokens, format=format)

    async def delete_messages(self, id: str | SessionKey, ids: Iterable[str]) -> int:
        """`Session.delete_messages` by id."""
        return await self.session(id).delete_messages(ids)

    async def clear_messages(self, id: str | SessionKey) -> None:
        """`Session.clear_messages` by id."""
        await self.session(id).clear_messages()

    async def add_compaction(self, id: str | SessionKey, summary: str, from_id: str, to_id: str) -> Compaction:
        """`Session.add_compaction` by id."""
        return await self.session(id).add_compaction(summary, from_id, to_id)

    async def needs_compaction(self, id: str | SessionKey) -> bool:
        """`Session.needs_compaction` by id."""
        return await self.session(id).needs_compaction()

    async def compact(
        self, id: str | SessionKey, *, instructions: str | None = None, prompt: str | None = None
    ) -> CompactionResult | None:
        """`Session.compact` by id."""
        return await self.session(id).compact(instructions=instructions, prompt=prompt)
