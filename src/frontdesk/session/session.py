"""One conversation: a handle that writes (in `session_messages`), reads, branches and searches it, alone or in turn. It
holds no messages, only where they are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any, Literal, Self, TypeVar, overload

from frontdesk.checks import check_count, check_format
from frontdesk.config.builder import Configurable
from frontdesk.config.runtime import Clock, Runtime
from frontdesk.config.settings import DEFAULT_MAX_MESSAGE_BYTES
from frontdesk.context.skills import rewrite_raw
from frontdesk.errors import (
    ConfigurationError,
    InvalidInputError,
    MessageNotFoundError,
    SessionNotFoundError,
    TurnLostError,
)
from frontdesk.history import reading
from frontdesk.keys import SessionKey
from frontdesk.lifecycle import transitions
from frontdesk.messages import Message, formats
from frontdesk.records import SearchResults, SessionInfo
from frontdesk.search.request import understood
from frontdesk.search.within import search_session
from frontdesk.session import turns
from frontdesk.session.turns import DEFAULT_TTL, ON_BUSY, Duration, Holding, OnBusy, TurnRequest, check_seconds
from frontdesk.session.writing import Given, MessageCalls
from frontdesk.store import TURN, Append, Plan, SessionRow, Store
from frontdesk.tree import plans
from frontdesk.tree.items import count
from frontdesk.tree.tree import Tree

R = TypeVar("R")
"""what some work gives"""


class Session(MessageCalls):
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
    ) -> StandaloneSession:
        """One conversation without a manager, called "default" unless `for_session` says otherwise."""
        return StandaloneSession(Runtime(store, namespace, max_message_bytes, clock), "default")

    def __repr__(self) -> str:
        return f"Session({self._id or self._key!r}, namespace={self._runtime.namespace!r})"

    async def info(self) -> SessionInfo:
        """What is known of the session. Raises `SessionNotFoundError` if nobody has written to it yet."""
        row = await reading.settled_row(self._runtime, await self._row())
        (status,) = await transitions.statuses(self._runtime, [row])
        return SessionInfo.from_row(row, self._window(row), status)

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
            message=None if message is None else self._ingest(message, self._runtime.now()),
        )
        return self._hold(request)

    @asynccontextmanager
    async def _hold(self, request: TurnRequest) -> AsyncIterator[Turn | None]:
        session_id = await self._writable_id()
        try:
            holding = await turns.take(self._runtime, session_id, request)
        except SessionNotFoundError:
            await self._ensure()
            holding = await turns.take(self._runtime, session_id, request)
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
            load = reading.transcript_load(self._runtime, session_id, leaf, after, limit, reverse)
            async for portion in reading.portions(self._runtime, load, reverse=reverse):
                for message in portion:
                    yield message
        elif leaf or after:
            raise MessageNotFoundError(leaf or after or "", self._name())

    async def get_message(self, message_id: str) -> Message:
        """The message with this id, on whichever branch. Raises `MessageNotFoundError`."""
        messages = await self._look(lambda tree: [reading.place_of(tree, message_id)], find=[message_id])
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
        place = tree.session.head if leaf is None else reading.place_of(tree, leaf)
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
        messages = await self._look(lambda tree: tree.children(reading.place_of(tree, message_id)), find=[message_id])
        if messages is None:
            raise MessageNotFoundError(message_id, self._name())
        return sorted(messages, key=_age)

    async def switch(self, leaf: str) -> Message:
        """Make a message the head, so that the next append follows it. Raises `MessageNotFoundError`."""

        async def build(tree: Tree) -> Plan | None:
            place = reading.place_of(tree, leaf)
            return None if place == tree.session.head else plans.switch(tree, place, self._runtime.now())

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
            self._runtime,
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
        return await search_session(self._runtime, await self._readable_id(), request)

    async def _rewrite_message(self, message_id: str, change: Callable[[Any], Any]) -> None:
        try:
            await self.update_message(rewrite_raw(await self.get_message(message_id), change))
        except MessageNotFoundError:
            pass  # deleted meanwhile: there is nothing left to take out


class StandaloneSession(Session, Configurable):
    """One conversation without a manager: every call of a session, and the set-up calls of a manager.

    Close it, or use it in `async with`. Comes from `Session.create`."""

    def for_session(self, ref: str | SessionKey) -> StandaloneSession:
        """Choose which session it is. Raises `ConfigurationError` after first use."""
        self._runtime.configure()
        return StandaloneSession(self._runtime, ref)

    async def __aenter__(self) -> Self:
        await self._runtime.store.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish background work and close the store; idempotent."""
        await self._runtime.close()


class Turn(Session):
    """A session in one's turn: everything that a `Session` can do, but what it writes is refused with `TurnLostError`
    once the turn is over. Comes from `Session.turn`.

    Context blocks are guarded by their versions, not by the turn."""

    def __init__(self, session: Session, holding: Holding) -> None:
        super().__init__(session._runtime, holding.session_id)
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
        store, namespace = self._runtime.store, self._runtime.namespace
        while (queued := await store.next_queued(namespace, self.id, TURN, self.number)) is not None:
            request = Append(
                namespace=namespace,
                session_id=self.id,
                messages=(queued,),
                fresh=(False,),
                now=self._runtime.now(),
                fence=self._fence,
                dequeue=True,
            )
            (appended,) = await self._send(request, is_bound=True)
            if appended.inserted:
                return appended.message
        return None

    def __repr__(self) -> str:
        return f"Turn({self.number}, session={self.id!r}, namespace={self._runtime.namespace!r})"

    async def _ensure(self) -> SessionRow:
        row = await self._runtime.store.get(self._runtime.namespace, self.id)
        if row is None:
            raise TurnLostError(self.id, self.number)
        return row

    def _after_append(self, row: SessionRow, added: int) -> None:
        self._session._after_append(row, added)  # what runs beside the conversation outlives the turn

    def _announce(self, event: str, *values: Any) -> None:
        Session(self._runtime, self.id)._announce(event, *values)  # so do hooks


def _age(message: Message) -> int:
    return message.stored.created_at
