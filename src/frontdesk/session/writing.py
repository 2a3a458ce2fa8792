"""The writes of a session: appending messages and replacing their content, each in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from frontdesk.checks import check_list
from frontdesk.context.session_blocks import SessionBlocks
from frontdesk.context.skills import LoadedSkills, may_hold_skill, rewrite_raw
from frontdesk.deadlines import one_call
from frontdesk.errors import (
    FrontdeskError,
    HeadMovedError,
    MessageNotFoundError,
    SessionEndedError,
    SessionNotFoundError,
)
from frontdesk.history import views
from frontdesk.messages import Message, NewMessage, StoredMessage, check_id
from frontdesk.messages.ingestion import Ingested, ingest_message, missing_id
from frontdesk.messages.model_objects import ProviderModel
from frontdesk.records import Appended
from frontdesk.search import index
from frontdesk.session.fact_notes import FactNotes
from frontdesk.session.handle import Handle
from frontdesk.session.removing import touches_others
from frontdesk.store import ANY_HEAD, TURN, AnyHead, Append, AppendResult, FollowHead, Place, Plan, SessionRow
from frontdesk.tree import edits
from frontdesk.tree.tree import Tree
from frontdesk.unattended import log_failure

Given = Mapping[str, Any] | Message | NewMessage | ProviderModel
"""what can be appended: a dict in a known format, a message, a value with its role, or an object of a provider's SDK"""
_log = logging.getLogger("frontdesk.session")


class Writer:
    """Writes messages for a handle.

    `after_append` is called with the session's row and the tokens that were added. What it starts works in the
    background, so it must not be bound to a turn."""

    def __init__(
        self,
        handle: Handle,
        context: SessionBlocks,
        after_append: Callable[[SessionRow, int], None],
    ) -> None:
        self._handle = handle
        self._start_work = after_append
        self._notes = FactNotes(handle)
        self.skills = LoadedSkills(context, self._rewrite)

    # appending

    async def append(
        self,
        messages: Iterable[Given],
        *,
        parent: str | FollowHead | None,
        expected_head: str | AnyHead | None,
        reopen: bool,
        is_path: bool = False,
    ) -> list[Appended]:
        """Store messages one after the other; see `Session.append_all`."""
        ingested = self.ingest_all(messages)
        return await self.store(ingested, parent=parent, expected_head=expected_head, reopen=reopen, is_path=is_path)

    @one_call
    async def store(
        self,
        ingested: Sequence[Ingested],
        *,
        parent: str | FollowHead | None,
        expected_head: str | AnyHead | None,
        reopen: bool,
        is_path: bool = False,
    ) -> list[Appended]:
        """The same for messages that have been checked."""
        if not ingested:
            return []
        for what, message_id in (("parent", parent), ("expected_head", expected_head)):
            if message_id is not None and not isinstance(message_id, FollowHead | AnyHead):
                check_id(message_id, what)
        stays = self._handle.is_resolved
        request = Append(
            namespace=self._handle.runtime.namespace,
            session_id=await self._append_id(parent, expected_head),
            messages=tuple([message.stored for message in ingested]),
            fresh=tuple([not message.id_given for message in ingested]),
            now=self._handle.runtime.now(),
            parent=parent,
            expected_head=expected_head,
            reopen=reopen,
            is_path=is_path,
            fence=self._handle.fence,
            existing=self._handle.key is not None,
        )
        return await self._after_append(request, await self._append(request, stays=stays))

    async def _append(self, request: Append, *, stays: bool) -> AppendResult:
        """Append. If the key was resolved for this call and has moved on since, append to its present session; a
        session that was deleted is made again only together with its key.

        `stays`: the handle had its session before this call, and does not leave one that has ended."""
        while True:
            try:
                return await self._handle.runtime.store.append(request)
            except (SessionEndedError, SessionNotFoundError) as error:
                is_gone = isinstance(error, SessionNotFoundError)
                if stays and not is_gone:
                    raise
                self._handle.forget_id()
                current = await self._append_id(request.parent, request.expected_head)
                if current == request.session_id and not is_gone:
                    raise
                request = msgspec.structs.replace(request, session_id=current)

    async def _append_id(self, parent: str | FollowHead | None, expected_head: str | AnyHead | None) -> str:
        """The session to append to. An append that can only be refused does not make one."""
        if not self._handle.is_resolved and await self._handle.readable_id() is None:
            if isinstance(expected_head, str):
                raise HeadMovedError(expected_head, None, self._handle.name)
            if isinstance(parent, str):
                raise MessageNotFoundError(parent, self._handle.name)
        return await self._handle.writable_id()

    async def _after_append(self, request: Append, result: AppendResult) -> list[Appended]:
        """Everything that happens after an append, in this order. The append is durable: nothing here can undo it."""
        appended = [
            Appended(Message.from_stored(row.existing or message, row.parent_id), row.inserted)
            for message, row in zip(request.messages, result.rows, strict=True)
        ]
        if may_hold_skill(request.messages):
            await self._note_skills(request.messages)
        if result.created:
            self._handle.announce("on_session_start")
        self._start_work_for([each.message for each in appended if each.inserted], result.session)
        return appended

    async def after_write(self, messages: Sequence[Message], session: SessionRow) -> None:
        """The same for messages that a plan has appended to a session."""
        stored = [message.stored for message in messages]
        if may_hold_skill(stored):
            await self._note_skills(stored)
        self._start_work_for(messages, session)

    def _start_work_for(self, messages: Sequence[Message], session: SessionRow) -> None:
        """Start in the background what new messages make necessary."""
        hooks = self._handle.runtime.hooks
        index.record_change(self._handle.runtime, len(messages))
        self._start_work(session, sum([message.tokens for message in messages]))
        if hooks.listens("on_message"):
            for message in messages:
                self._handle.announce("on_message", message)

    async def take_queued(self, fence: int) -> Message | None:
        """Append the next message that was queued for the holder of a turn; see `Turn.take_queued`."""
        runtime = self._handle.runtime
        session_id = self._handle.id
        while (queued := await runtime.store.next_queued(runtime.namespace, session_id, TURN, fence)) is not None:
            request = Append(
                namespace=runtime.namespace,
                session_id=session_id,
                messages=(queued,),
                fresh=(False,),
                now=runtime.now(),
                fence=fence,
                dequeue=True,
            )
            (appended,) = await self._after_append(request, await self._append(request, stays=True))
            if appended.inserted:
                return appended.message
        return None

    # replacing

    async def upsert(self, message: Given, parent: FollowHead, *, reopen: bool) -> Appended:
        """Replace the message that has this id, or append it; see `Session.upsert`."""
        new = self._ingest(message, self._handle.runtime.now())
        while True:
            if new.id_given and (replaced := await self._replace(new.stored)) is not None:
                return Appended(replaced, inserted=False)
            (appended,) = await self.append([message], parent=parent, expected_head=ANY_HEAD, reopen=reopen)
            if appended.inserted:
                return appended

    async def update(self, message: Given) -> Message:
        """Replace the content of the message that has this id; see `Session.update_message`."""
        new = self._ingest(message, self._handle.runtime.now())
        if not new.id_given:
            raise missing_id()
        replaced = await self._replace(new.stored)
        if replaced is None:
            raise MessageNotFoundError(new.stored.id, self._handle.name)
        return replaced

    async def _replace(self, stored: StoredMessage) -> Message | None:
        current: Message | None = None
        changed: Place | None = None

        async def build(tree: Tree) -> Plan | None:
            nonlocal current, changed
            changed = None
            place = tree.find(stored.id)
            if place is None:
                current = None
                return None
            (current,) = await views.read_all(self._handle.runtime, tree.between(place, place))
            old = current.stored
            if (old.raw, old.role, old.derived) == (stored.raw, stored.role, stored.derived):
                return None
            kept = msgspec.structs.replace(stored, created_at=current.stored.created_at)
            tokens_before = current.tokens
            current, changed = Message.from_stored(kept, current.parent_id), place
            return edits.replace_message(tree, place, kept, tokens_before, self._handle.runtime.now())

        await self._handle.change(build, find=[stored.id], family=touches_others([stored.id]))
        if changed is not None:
            await self._note_edit(changed)  # afterwards: an extraction that runs now may have read the old text
        if current is not None and may_hold_skill([stored]):
            await self._note_skills([stored])
        return current

    async def _note_edit(self, place: Place) -> None:
        """Remember that facts may be out of date. The edit is durable: nothing here can undo it."""
        try:
            await self._notes.note_edit(place)
        except FrontdeskError as error:
            log_failure(_log, error, "an edit in session %r was not noted for its facts", self._handle.id)

    # loaded skills

    async def _note_skills(self, messages: Sequence[StoredMessage]) -> None:
        """Remember which messages hold loaded skills."""
        try:
            await self.skills.record_results(messages)
        except FrontdeskError as error:
            log_failure(_log, error, "a skill that was loaded in session %r was not noted", self._handle.id)

    async def _rewrite(self, message_id: str, change: Callable[[Any], Any]) -> None:
        """Change the content of a stored message, if it is still there."""
        messages = await self._handle.read_places(
            lambda tree: [] if (place := tree.find(message_id)) is None else [place], find=[message_id]
        )
        try:
            for message in messages or ():
                await self.update(rewrite_raw(message, change))
        except MessageNotFoundError:
            pass  # deleted meanwhile: there is nothing left to take out

    def ingest(self, message: Given) -> StoredMessage:
        """What is stored of a message. Raises `InvalidMessageError`, `MessageTooLargeError`."""
        return self._ingest(message, self._handle.runtime.now()).stored

    def ingest_all(self, messages: Iterable[Given]) -> list[Ingested]:
        """The same for a list, with whether each was given its id."""
        now = self._handle.runtime.now()
        return [self._ingest(message, now) for message in check_list(messages, "messages")]

    def _ingest(self, message: Given, now: int) -> Ingested:
        settings = self._handle.runtime.settings
        return ingest_message(message, settings.counter, settings.max_message_bytes, now)
