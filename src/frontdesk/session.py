"""One conversation: a handle that appends, reads, branches and compacts. It holds no messages, only where they are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any, Literal, Self, TypeVar, overload

import msgspec

from frontdesk import formats, history, lifecycle, plans, turns
from frontdesk.checks import check_count, check_format, check_list
from frontdesk.context.skills import rewritten
from frontdesk.errors import (
    ConfigurationError,
    HeadMovedError,
    InvalidInputError,
    InvalidMessageError,
    MessageNotFoundError,
    SessionEndedError,
    SessionNotFoundError,
    TurnLostError,
)
from frontdesk.hooks import Hooks
from frontdesk.keys import SessionKey
from frontdesk.messages import SUMMARY_PREFIX, Message, StoredMessage, check_id
from frontdesk.records import Appended, SearchResults, SessionInfo
from frontdesk.scope import DEFAULT_MAX_MESSAGE_BYTES, Clock, Scope
from frontdesk.search import background
from frontdesk.search.request import understood
from frontdesk.search.within import search_session
from frontdesk.session_attributes import AttributeCalls
from frontdesk.store import FOLLOW_HEAD, TURN, Append, AppendResult, FollowHead, Plan, SessionRow, Store
from frontdesk.tree import Tree, count
from frontdesk.turns import DEFAULT_TTL, ON_BUSY, Duration, Holding, OnBusy, TurnRequest, check_seconds

R = TypeVar("R")
"""what some work gives"""
Given = Mapping[str, Any] | Message


class Session(AttributeCalls):
    """A handle on one session. Making it does no I/O; the session is created by its first write.

    A handle made from a key finds (or, writing, makes) the current session at its first I/O, and stays with it.
    """

    @classmethod
    def create(
        cls,
        store: Store | str,
        *,
        namespace: str = "default",
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        clock: Clock | None = None,
    ) -> Self:
        """One conversation without a manager, called "default" unless `for_session` says otherwise.

        Takes the same set-up calls as `SessionManager`; close it, or use it in `async with`."""
        return cls(Scope(store, namespace, max_message_bytes, clock), "default", configurable=True)

    def for_session(self, ref: str | SessionKey) -> Self:
        """Choose which session a `Session.create` handle is. `ConfigurationError` after first use."""
        return type(self)(self._unused(), ref, configurable=True)

    async def __aenter__(self) -> Self:
        await self._scope.store.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the store, if this handle came from `Session.create`; idempotent."""
        if self._configurable:
            await self._scope.close()

    def __repr__(self) -> str:
        return f"Session({self._id or self._key!r}, namespace={self._scope.namespace!r})"

    async def info(self) -> SessionInfo:
        """What is known of the session. Raises `SessionNotFoundError` if nobody has written to it yet."""
        row = await history.settled_row(self._scope, await self._row())
        (status,) = await lifecycle.statuses(self._scope, [row])
        return SessionInfo.from_row(row, self._window(row), status)

    # writing

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
        now = self._scope.now()
        given = check_list(messages, "messages")
        stored = tuple([self._ingest(message, now) for message in given])
        if not stored:
            return []
        for what, message_id in (("parent", parent), ("expected_head", expected_head)):
            if message_id is not None and not isinstance(message_id, FollowHead):
                check_id(message_id, what)
        is_bound = self._id is not None
        request = Append(
            namespace=self._scope.namespace,
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
        background.notice(self._scope, len(stored))
        self._after_append(result.session, sum(message.tokens for message, row in inserted if row.inserted))
        appended = [
            Appended(Message.from_stored(row.existing or message, row.parent_id), row.inserted)
            for message, row in zip(stored, result.rows, strict=True)
        ]
        if result.created:
            self._announce("on_session_start")
        if self._scope.settings(Hooks).listens("on_message"):
            for each in appended:
                if each.inserted:
                    self._announce("on_message", each.message)
        return appended

    async def _append(self, request: Append, *, is_bound: bool) -> AppendResult:
        """Append; if a key was looked up for it and moved on meanwhile, to the session that it points at now. One that
        was deleted is not made again without its key."""
        while True:
            try:
                return await self._scope.store.append(request)
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
        stored = self._ingest(message, self._scope.now())
        while True:
            if _has_id(message) and (replaced := await self._replace(stored)) is not None:
                return Appended(replaced, inserted=False)
            appended = await self.append(message, reopen=reopen)
            if appended.inserted:
                return appended

    async def update_message(self, message: Given) -> Message:
        """Replace the content of the message that has this id; unchanged content writes nothing.

        Raises `MessageNotFoundError`, `InvalidMessageError`."""
        stored = self._ingest(message, self._scope.now())
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
            messages = await history.read_items(self._scope, tree.between(place, place))
            if not messages:
                moved = await self._tree(find=[stored.id])
                return None if moved is None else await build(moved)
            current = messages[0]
            if (current.stored.raw, current.role) == (stored.raw, stored.role):
                return None
            kept = msgspec.structs.replace(stored, created_at=current.stored.created_at)
            tokens_before = current.tokens
            current = Message.from_stored(kept, current.parent_id)
            return plans.replace_message(tree, place, kept, tokens_before, self._scope.now())

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
            return plans.delete_messages(tree, places, self._scope.now())

        await self._change(build, find=wanted, family=_touches_others(wanted))
        return removed

    async def clear_messages(self) -> None:
        """Remove all messages and overlays of the session for good; name, tags, metadata, usage stay."""

        async def build(tree: Tree) -> Plan | None:
            return plans.clear_messages(tree.rows, self._scope.now())

        if await self._change(build, family=True):
            await self._prompt.forget(self.id)

    # turns

    @overload
    def turn(
        self,
        *,
        wait: Duration | None = None,
        ttl: Duration = DEFAULT_TTL,
        on_busy: Literal["wait", "reject", "interrupt"] = "wait",
    ) -> AbstractAsyncContextManager[Turn]: ...

    @overload
    def turn(
        self,
        *,
        wait: Duration | None = None,
        ttl: Duration = DEFAULT_TTL,
        on_busy: Literal["queue"],
        message: Given,
    ) -> AbstractAsyncContextManager[Turn | None]: ...

    def turn(
        self,
        *,
        wait: Duration | None = None,
        ttl: Duration = DEFAULT_TTL,
        on_busy: OnBusy = "wait",
        message: Given | None = None,
    ) -> AbstractAsyncContextManager[Any]:
        """The exclusive right to extend the session, over all workers, for `async with`; makes the session if needed.

        It is renewed by itself, and passes to the next `ttl` seconds after its holder died. `on_busy` says what to do
        while another has it: "wait" in line, `wait` seconds or (None) as long as it takes; "reject"; "interrupt" the
        holder and take over at once; "queue" the `message` for the holder, and get None in place of a `Turn`. With
        "queue" the message comes from `Turn.take_queued`, whoever calls it. Raises `TurnBusyError`."""
        if self._fence is not None:
            raise ConfigurationError("a turn has no turns: end it before taking another")
        if on_busy not in ON_BUSY:
            raise InvalidInputError(f"unknown on_busy {on_busy!r}: choose one of {', '.join(ON_BUSY)}")
        if (message is not None) != (on_busy == "queue"):
            raise InvalidInputError('a message belongs to on_busy="queue", and on_busy="queue" wants a message')
        request = TurnRequest(
            wait=None if wait is None else check_seconds(wait, "wait", least=0),
            ttl=check_seconds(ttl, "ttl", least=0.05),
            on_busy=on_busy,
            message=None if message is None else self._ingest(message, self._scope.now()),
        )
        return self._hold(request)

    @asynccontextmanager
    async def _hold(self, request: TurnRequest) -> AsyncIterator[Turn | None]:
        session_id = await self._writable_id()
        try:
            holding = await turns.take(self._scope, session_id, request)
        except SessionNotFoundError:
            await self._ensure()
            holding = await turns.take(self._scope, session_id, request)
        if holding is None:
            yield None
        else:
            async with holding:
                yield Turn(self, holding)

    # reading

    async def history(
        self,
        *,
        leaf: str | None = None,
        last: int | None = None,
        max_tokens: int | None = None,
        format: str | None = None,
    ) -> Any:
        """What the model sees: the path to the head (or `leaf`) with overlays applied, oldest first.

        `last` keeps the last messages, `max_tokens` the leading system messages and as many of the last ones as fit
        (`ContextOverflowError` if the last turn does not). Gives `Message`s, or with `format` ("openai",
        "openai-responses", "anthropic", "ui", "raw") the dicts for that provider's call, valid for it."""
        check_count(last, "last")
        check_count(max_tokens, "max_tokens")
        check_format(format)
        session_id = await self._readable_id()
        if session_id is None:
            messages: list[Message] = []
        else:
            messages = await self._view(session_id, leaf, last, max_tokens, shortens=format != "raw")
        return messages if format is None else formats.render(messages, format)

    async def transcript(
        self, *, leaf: str | None = None, after: str | None = None, limit: int | None = None, reverse: bool = False
    ) -> AsyncIterator[Message]:
        """Stream the path to the head (or `leaf`) as it was written, of any length.

        `after` begins behind that message, in the direction of reading. Raises `MessageNotFoundError`."""
        check_count(limit, "limit")
        session_id = await self._readable_id()
        if session_id is not None:
            load = history.transcript_load(self._scope, session_id, leaf, after, limit, reverse)
            async for portion in history.portions(self._scope, load, reverse=reverse):
                for message in portion:
                    yield message
        elif leaf or after:
            raise MessageNotFoundError(leaf or after or "", self._name())

    async def get_message(self, message_id: str) -> Message:
        """The message with this id, on whichever branch. Raises `MessageNotFoundError`."""
        messages = await self._look(lambda tree: [history.place_of(tree, message_id)], find=[message_id])
        if messages is None:
            raise MessageNotFoundError(message_id, self._name())
        return messages[0]

    async def path_length(self, leaf: str | None = None) -> int:
        """How many messages the path to the head (or `leaf`) has, overlays ignored; nothing is read for it."""
        tree = await self._tree(find=() if leaf is None else [leaf])
        if tree is None:
            if leaf is not None:
                raise MessageNotFoundError(leaf, self._name())
            return 0
        place = tree.session.head if leaf is None else history.place_of(tree, leaf)
        return count(tree.lay(place, overlays=False))

    async def head(self) -> Message | None:
        """The message that the next append follows."""
        messages = await self._look(lambda tree: [] if tree.session.head is None else [tree.session.head])
        return messages[0] if messages else None

    async def leaves(self) -> list[Message]:
        """The last message of every branch."""
        return await self._look(lambda tree: tree.leaves()) or []

    async def branches(self, message_id: str | None) -> list[Message]:
        """The messages that follow a message directly (for None: the roots), oldest first."""
        if message_id is None:
            return sorted(await self._look(lambda tree: tree.children(None)) or [], key=_age)
        messages = await self._look(lambda tree: tree.children(history.place_of(tree, message_id)), find=[message_id])
        if messages is None:
            raise MessageNotFoundError(message_id, self._name())
        return sorted(messages, key=_age)

    async def switch(self, leaf: str) -> Message:
        """Make a message the head, so that the next append follows it. Raises `MessageNotFoundError`."""

        async def build(tree: Tree) -> Plan | None:
            place = history.place_of(tree, leaf)
            return None if place == tree.session.head else plans.switch(tree, place, self._scope.now())

        if not await self._change(build, find=[leaf]):
            raise MessageNotFoundError(leaf, self._name())
        return await self.get_message(leaf)

    async def search(
        self,
        query: str,
        *,
        limit: int = 20,
        cursor: str | None = None,
        role: str | None = None,
        before: datetime | None = None,
        after: datetime | None = None,
        context: int = 0,
        newest: bool = False,
    ) -> SearchResults:
        """Messages on any branch, and summaries, that answer the query: any of its words may match, best first (or
        `newest` first), each with `context` messages before and after it.

        Every text is a query: words or a question; "exact phrases", -excluded, prefix*, role:user, after:2025-01,
        before:2025-06-30 do as they say, and `role`, `after` (included) and `before` beside it narrow it further.
        `next_cursor` of the results gets the next ones with the same arguments.
        Raises `InvalidInputError`, `InvalidCursorError`."""
        request = await understood(
            self._scope,
            query,
            limit=limit,
            cursor=cursor,
            within=self._name(),
            role=role,
            before=before,
            after=after,
            context=context,
            newest=newest,
        )
        return await search_session(self._scope, await self._readable_id(), request)

    async def _rewrite_message(self, message_id: str, change: Callable[[Any], Any]) -> None:
        try:
            await self.update_message(rewritten(await self.get_message(message_id), change))
        except MessageNotFoundError:
            pass  # deleted meanwhile: there is nothing left to take out

    def _ingest(self, message: Given, now: int) -> StoredMessage:
        scope = self._scope
        return formats.ingest(message, counter=scope.counter, max_bytes=scope.max_message_bytes, now_us=now)


class Turn(Session):
    """A session in one's turn: everything that a `Session` can do, but what it writes is refused with `TurnLostError`
    once the turn is over. Comes from `Session.turn`.

    Context blocks are guarded by their versions, not by the turn."""

    def __init__(self, session: Session, holding: Holding) -> None:
        super().__init__(session._scope, holding.session_id)
        self._fence = holding.number
        self._session = session
        self._holding = holding
        self._working, self._frozen = session._context, session._prompt

    @property
    def number(self) -> int:
        """The fencing number: it grows with every turn of the session."""
        return self._holding.number

    @property
    def lost(self) -> bool:
        """Whether the turn is known to be over: ended, run out, taken over, or the store out of reach for too long."""
        return self._holding.lost

    @property
    def interrupted(self) -> bool:
        """Whether another took over with `on_busy="interrupt"`: known at once in the same process, otherwise within a
        second."""
        return self._holding.interrupted

    async def run(self, work: Awaitable[R]) -> R:
        """What the work gives, such as a model's answer; cancelled, with `TurnLostError`, when the turn is lost."""
        return await self._holding.run(work)

    async def take_queued(self) -> Message | None:
        """Append the next message that was queued for the holder of the turn, and give it; each comes once.

        None if there is no more. From then on others wait for their turn instead of queueing a message, so that none
        is left behind; what is queued when a turn ends goes to the next one. Raises `TurnLostError`."""
        store, namespace = self._scope.store, self._scope.namespace
        while (queued := await store.next_queued(namespace, self.id, TURN, self.number)) is not None:
            request = Append(
                namespace=namespace,
                session_id=self.id,
                messages=(queued,),
                fresh=(False,),
                now=self._scope.now(),
                fence=self._fence,
                dequeue=True,
            )
            (appended,) = await self._send(request, is_bound=True)
            if appended.inserted:
                return appended.message
        return None

    def __repr__(self) -> str:
        return f"Turn({self.number}, session={self.id!r}, namespace={self._scope.namespace!r})"

    async def _ensure(self) -> SessionRow:
        row = await self._scope.store.get(self._scope.namespace, self.id)
        if row is None:
            raise TurnLostError(self.id, self.number)
        return row

    def _after_append(self, row: SessionRow, added: int) -> None:
        self._session._after_append(row, added)  # what runs beside the conversation outlives the turn


def _has_id(message: Given) -> bool:
    return isinstance(message, Message) or isinstance(message.get("id"), str)


def _age(message: Message) -> int:
    return message.stored.created_at


def _touches_others(ids: Sequence[str]) -> Callable[[Tree], bool]:
    """Whether other sessions may see the messages with these ids."""

    def touches(tree: Tree) -> bool:
        places = [place for message_id in ids if (place := tree.find(message_id)) is not None]
        return plans.touches_others(tree, places)

    return touches
