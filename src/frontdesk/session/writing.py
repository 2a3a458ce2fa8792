"""What a session writes: messages that are appended, replaced and removed. Apart from reading, because only here is
something decided against other writers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from frontdesk.checks import check_list
from frontdesk.errors import (
    HeadMovedError,
    InvalidMessageError,
    MessageNotFoundError,
    SessionEndedError,
    SessionNotFoundError,
)
from frontdesk.history import reading
from frontdesk.messages import SUMMARY_PREFIX, Message, StoredMessage, check_id, ingest
from frontdesk.records import Appended
from frontdesk.search import background
from frontdesk.session.attributes import AttributeCalls
from frontdesk.store import FOLLOW_HEAD, Append, AppendResult, FollowHead, Plan
from frontdesk.tree import plans
from frontdesk.tree.tree import Tree

Given = Mapping[str, Any] | Message


class MessageCalls(AttributeCalls):
    """The part of `Session` that writes messages."""

    async def append(
        self,
        message: Given,
        *,
        parent: str | FollowHead | None = FOLLOW_HEAD,
        expected_head: str | None = None,
        reopen: bool = False,
    ) -> Appended:
        """Store a message after the head, after `parent`, or (`parent=None`) as a new root, and make it the head.

        When it returns, the message is durable. An id that the session has already is a no-op with `inserted=False`.
        A session that a sweep archived goes on; to one that was suspended or ended otherwise it raises
        `SessionEndedError` unless `reopen` is given.
        Raises `InvalidMessageError`, `MessageTooLargeError`, `HeadMovedError`, `MessageNotFoundError`."""
        return (await self.append_all([message], parent=parent, expected_head=expected_head, reopen=reopen))[0]

    async def append_all(
        self,
        messages: Iterable[Given],
        *,
        parent: str | FollowHead | None = FOLLOW_HEAD,
        expected_head: str | None = None,
        reopen: bool = False,
    ) -> list[Appended]:
        """Store messages one after the other, all or none; one that is there already is skipped, and the next follows
        it. Raises as `append` does."""
        now = self._runtime.now()
        given = check_list(messages, "messages")
        stored = tuple([self._ingest(message, now) for message in given])
        if not stored:
            return []
        for what, message_id in (("parent", parent), ("expected_head", expected_head)):
            if message_id is not None and not isinstance(message_id, FollowHead):
                check_id(message_id, what)
        is_bound = self._id is not None
        request = Append(
            namespace=self._runtime.namespace,
            session_id=await self._append_id(parent, expected_head),
            messages=stored,
            fresh=tuple([not _has_id(message) for message in given]),
            now=now,
            parent=parent,
            expected_head=expected_head,
            reopen=reopen,
            fence=self._fence,
            existing=self._key is not None,
        )
        return await self._send(request, is_bound=is_bound)

    async def _send(self, request: Append, *, is_bound: bool) -> list[Appended]:
        stored = request.messages
        result = await self._append(request, is_bound=is_bound)
        await self._notice_skills(stored)
        inserted = zip(stored, result.rows, strict=True)
        background.notice(self._runtime, len(stored))
        self._after_append(result.session, sum(message.tokens for message, row in inserted if row.inserted))
        appended = [
            Appended(Message.from_stored(row.existing or message, row.parent_id), row.inserted)
            for message, row in zip(stored, result.rows, strict=True)
        ]
        if result.created:
            self._announce("on_session_start")
        if self._runtime.hooks.listens("on_message"):
            for each in appended:
                if each.inserted:
                    self._announce("on_message", each.message)
        return appended

    async def _append(self, request: Append, *, is_bound: bool) -> AppendResult:
        """Append; if a key was looked up for it and moved on meanwhile, to the session that it points at now. One that
        was deleted is not made again without its key."""
        while True:
            try:
                return await self._runtime.store.append(request)
            except (SessionEndedError, SessionNotFoundError) as error:
                is_gone = isinstance(error, SessionNotFoundError)
                if is_bound and not is_gone:
                    raise
                self._id = None
                current = await self._append_id(request.parent, request.expected_head)
                if current == request.session_id and not is_gone:
                    raise
                request = msgspec.structs.replace(request, session_id=current)

    async def _append_id(self, parent: str | FollowHead | None, expected_head: str | None) -> str:
        """The session to append to. Under a key without one, what can only be refused does not make it."""
        if self._id is None and await self._readable_id() is None:
            if expected_head is not None:
                raise HeadMovedError(expected_head, None, self._name())
            if isinstance(parent, str):
                raise MessageNotFoundError(parent, self._name())
        return await self._writable_id()

    async def upsert(self, message: Given, *, reopen: bool = False) -> Appended:
        """Replace the message that has this id, where it stands, or append it as `append` does. Atomic; `inserted` says
        which."""
        stored = self._ingest(message, self._runtime.now())
        while True:
            if _has_id(message) and (replaced := await self._replace(stored)) is not None:
                return Appended(replaced, inserted=False)
            appended = await self.append(message, reopen=reopen)
            if appended.inserted:
                return appended

    async def update_message(self, message: Given) -> Message:
        """Replace the content of the message that has this id; unchanged content writes nothing.

        Raises `MessageNotFoundError`, `InvalidMessageError`."""
        stored = self._ingest(message, self._runtime.now())
        replaced = await self._replace(stored) if _has_id(message) else None
        if replaced is None:
            raise MessageNotFoundError(stored.id, self._name())
        return replaced

    async def _replace(self, stored: StoredMessage) -> Message | None:
        current: Message | None = None

        async def build(tree: Tree) -> Plan | None:
            nonlocal current
            place = tree.find(stored.id)
            if place is None:
                current = None
                return None
            messages = await reading.read_items(self._runtime, tree.between(place, place))
            if not messages:
                moved = await self._tree(find=[stored.id])
                return None if moved is None else await build(moved)
            current = messages[0]
            if (current.stored.raw, current.role) == (stored.raw, stored.role):
                return None
            kept = msgspec.structs.replace(stored, created_at=current.stored.created_at)
            tokens_before = current.tokens
            current = Message.from_stored(kept, current.parent_id)
            return plans.replace_message(tree, place, kept, tokens_before, self._runtime.now())

        await self._change(build, find=[stored.id], family=_touches_others([stored.id]))
        if current is not None:
            await self._notice_skills([stored])
        return current

    async def delete_messages(self, ids: Iterable[str]) -> int:
        """Remove messages for good, wherever they stand; those after them stay connected, a deleted head falls back.

        Gives how many were there. A summary's id raises `InvalidMessageError`."""
        wanted = list(dict.fromkeys(check_id(message_id, "message id") for message_id in check_list(ids, "ids")))
        for message_id in wanted:
            if message_id.startswith(SUMMARY_PREFIX):
                raise InvalidMessageError(f"{message_id!r} is a summary, not a message: use `undo_compaction`")
        removed = 0

        async def build(tree: Tree) -> Plan | None:
            nonlocal removed
            places = [place for message_id in wanted if (place := tree.find(message_id)) is not None]
            removed = len(places)
            if not places:
                return None
            return plans.delete_messages(tree, places, self._runtime.now())

        await self._change(build, find=wanted, family=_touches_others(wanted))
        return removed

    async def clear_messages(self) -> None:
        """Remove all messages and overlays of the session for good; name, tags, metadata, usage stay."""

        async def build(tree: Tree) -> Plan | None:
            return plans.clear_messages(tree.rows, self._runtime.now())

        if await self._change(build, family=True):
            await self._prompt.forget(self.id)

    def _ingest(self, message: Given, now: int) -> StoredMessage:
        runtime = self._runtime
        return ingest(
            message, counter=runtime.settings.counter, max_bytes=runtime.settings.max_message_bytes, now_us=now
        )


def _has_id(message: Given) -> bool:
    return isinstance(message, Message) or isinstance(message.get("id"), str)


def _touches_others(ids: Sequence[str]) -> Callable[[Tree], bool]:
    """Whether other sessions may see the messages with these ids."""

    def touches(tree: Tree) -> bool:
        places = [place for message_id in ids if (place := tree.find(message_id)) is not None]
        return plans.touches_others(tree, places)

    return touches
