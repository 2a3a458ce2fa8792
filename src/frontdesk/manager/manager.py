"""`SessionManager`: the public calls on all sessions of a namespace. It only delegates: to `Session` for one session,
and to the components in this package for all of them."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, overload

from frontdesk.config.builder import Configurable
from frontdesk.config.hooks import DEFAULT_TIMEOUT
from frontdesk.config.runtime import Clock, Runtime
from frontdesk.config.scopes import WideScope, check_wide_scope
from frontdesk.config.settings import ANSWER_TOKENS, check_answer_tokens
from frontdesk.deadlines import one_call
from frontdesk.errors import ConfigurationError, SessionNotFoundError
from frontdesk.events import feed
from frontdesk.events.feed import Event
from frontdesk.events.filters import parse_filter
from frontdesk.keys import SessionKey
from frontdesk.lifecycle.usage import usage_entry
from frontdesk.manager.directory import Directory, Filters, ListOrder
from frontdesk.manager.erasure import Eraser
from frontdesk.manager.forks import Forks
from frontdesk.manager.lifecycle import Lifecycle
from frontdesk.manager.recovery import recover
from frontdesk.manager.states import StateCleaner
from frontdesk.manager.sweeps import Sweeper
from frontdesk.manager.usage import read_entries, read_stats, read_usage
from frontdesk.messages import Message, NewMessage, check_id
from frontdesk.messages.formats import MessageFormat, Notes
from frontdesk.messages.stored import DEFAULT_MAX_MESSAGE_BYTES
from frontdesk.records import (
    AnyStatus,
    Appended,
    CheckReport,
    Compaction,
    CompactionResult,
    CopyReport,
    ErasureReport,
    ImportReport,
    Page,
    RecoveryReport,
    SessionInfo,
    Stats,
    SweepReport,
    TranscriptReport,
    Usage,
    UsageEntry,
    UsageField,
)
from frontdesk.search import index, vectors
from frontdesk.search.hits import SearchResults
from frontdesk.search.index import SearchInfo
from frontdesk.search.pipeline import search
from frontdesk.search.request import parse_request
from frontdesk.search.scopes import ScopedHistory
from frontdesk.search.tools import OF_MANAGER, history_tools
from frontdesk.search.visibility import Access
from frontdesk.session import Session
from frontdesk.session.handle import Handle
from frontdesk.session.turns import Duration, new_request
from frontdesk.session.writing import Given
from frontdesk.states import DEFAULT_TTL, States
from frontdesk.states.migration import Migrate
from frontdesk.states.shelves import Shelves
from frontdesk.states.states import T
from frontdesk.store import ANY_HEAD, FOLLOW_HEAD, AnyHead, FollowHead, StateStore, Store
from frontdesk.tools import Tool
from frontdesk.transfer.transcripts import TranscriptFormat

# Inside the class, `list` is its method.
AppendedList: TypeAlias = list[Appended]
MessageList: TypeAlias = list[Message]
DictList: TypeAlias = list[dict[str, Any]]
EventList: TypeAlias = list[Event]
_PAGE = 50


class SessionManager(Configurable):
    """All sessions of one namespace of a store. `store` is a URL or a `Store`.

    Set it up with the `with_...` calls, which return the manager. Then use it in `async with`, or close it. A store
    that was passed as a URL is closed with it. `async with` opens a closed manager again."""

    def __init__(
        self,
        store: Store | str,
        *,
        namespace: str = "default",
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        clock: Clock | None = None,
    ) -> None:
        """`clock` returns the time (a datetime with a time zone) instead of the machine's clock, for tests and
        simulations."""
        runtime = self._runtime = Runtime(store, namespace, max_message_bytes, clock)
        runtime.hooks.session_for = lambda session_id: Session(runtime, session_id)
        states = self._states = StateCleaner(runtime)
        self._directory = Directory(runtime)
        self._forks = Forks(runtime)
        self._lifecycle = Lifecycle(runtime, states)
        self._eraser = Eraser(runtime, states)
        self._sweeper = Sweeper(runtime, self._lifecycle, states)
        runtime.when_used(self._sweeper.start)

    async def __aenter__(self) -> Self:
        await self._runtime.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End all `events()` iterators, wait up to two seconds for background work and then cancel it, and close the
        store if it was passed as a URL. Idempotent. Afterwards calls raise `StoreClosedError`, until `async with` opens
        the manager again."""
        self.end_events()
        await self._runtime.close()

    def __repr__(self) -> str:
        return f"SessionManager(namespace={self._runtime.namespace!r})"

    @property
    def namespace(self) -> str:
        return self._runtime.namespace

    @property
    def compacts_at(self) -> float:
        """The share of a window at which a compaction starts: `hard_ratio` of `with_compaction`."""
        return self._runtime.settings.compaction.hard_ratio

    # handles, making and finding

    def session(self, ref: str | SessionKey) -> Session:
        """A handle on a session, by id or key. No I/O."""
        return Session(self._runtime, ref)

    def _under_key(self, session_id: str, key: SessionKey | None) -> Session:
        """A handle on a session whose key is known."""
        return Session(self._runtime, session_id, None if key is None else self._runtime.stored_key(key))

    async def _id_of(self, ref: str | SessionKey) -> str:
        session_id = await Handle(self._runtime, ref).readable_id()
        if session_id is None:
            raise SessionNotFoundError(str(ref), self.namespace)
        return session_id

    async def create(
        self,
        name: str = "",
        *,
        id: str | None = None,
        key: SessionKey | None = None,
        parent: str | None = None,
        model: str | None = None,
        source: str | None = None,
        max_tokens: int | None = None,
        tags: Iterable[str] = (),
        metadata: dict[str, Any] | None = None,
    ) -> Session:
        """Create a session. `max_tokens` is the size of its window; without it, that of `with_compaction` or of its
        `model` applies. Raises `SessionExistsError` if its id is taken or its key has a current session."""
        new = self._directory.new_session(name, id, key, parent, model, source, max_tokens, tags, metadata)
        return self._under_key(await self._directory.create(new, key), key)

    async def get_or_create(
        self,
        ref: str | SessionKey,
        *,
        name: str = "",
        parent: str | None = None,
        model: str | None = None,
        source: str | None = None,
        max_tokens: int | None = None,
        tags: Iterable[str] = (),
        metadata: dict[str, Any] | None = None,
    ) -> Session:
        """The session with this id, or the current session under this key. Created with these values if there is
        none."""
        key = ref if isinstance(ref, SessionKey) else None
        session_id = None if isinstance(ref, SessionKey) else check_id(ref, "session id")
        new = self._directory.new_session(name, session_id, key, parent, model, source, max_tokens, tags, metadata)
        return self._under_key(await self._directory.get_or_create(new), key)

    async def get(self, ref: str | SessionKey) -> SessionInfo | None:
        """Information about a session; None if there is none."""
        try:
            return await self.session(ref).info()
        except SessionNotFoundError:
            return None

    async def list(
        self,
        *,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        thread: str | None = None,
        status: AnyStatus | None = None,
        tag: str | None = None,
        metadata: Mapping[str, str | int | float | bool] | None = None,
        id_prefix: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        model: str | None = None,
        exclude: Mapping[str, str | Sequence[str]] | None = None,
        min_usage: float | None = None,
        order: ListOrder = "recent",
        limit: int = _PAGE,
        cursor: str | None = None,
    ) -> Page[SessionInfo]:
        """A page of sessions, of every status unless one is given. Pass `next_cursor` of a page as `cursor`, with the
        same arguments, for the next page.

        `order` is "recent", with the newest activity first, or "created", with the newest session first. A session that
        becomes active between two pages changes its position in "recent", but never in "created": there, the pages
        contain every session that existed when the first page was read. `metadata` selects sessions that have all these
        values (texts, numbers or bools) at the top level of their metadata. `id_prefix` selects ids that begin with it.
        `created_after` and `created_before` are exclusive. `exclude` leaves out sessions with any of these values of
        agent, channel, peer, thread, tag, model or source, such as {"channel": "cron"}. `min_usage` is the least share
        of their window that they must use (their `window_usage`), such as 0.8. Raises `InvalidInputError`,
        `InvalidCursorError`."""
        filters = Filters(
            agent,
            channel,
            peer,
            thread,
            status,
            tag,
            metadata,
            id_prefix,
            created_after,
            created_before,
            model,
            exclude,
            min_usage,
        )
        return await self._directory.page(filters, order, limit, cursor)

    async def count(
        self,
        *,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        thread: str | None = None,
        status: AnyStatus | None = None,
        tag: str | None = None,
        metadata: Mapping[str, str | int | float | bool] | None = None,
        id_prefix: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        model: str | None = None,
        exclude: Mapping[str, str | Sequence[str]] | None = None,
        min_usage: float | None = None,
        most: int = 1000,
    ) -> int:
        """How many sessions match the filters of `list`. Counting stops at `most`, so that the cost is bounded. `stats`
        counts all sessions of the namespace. Raises `InvalidInputError`."""
        filters = Filters(
            agent,
            channel,
            peer,
            thread,
            status,
            tag,
            metadata,
            id_prefix,
            created_after,
            created_before,
            model,
            exclude,
            min_usage,
        )
        return await self._directory.count(filters, most)

    async def iterate(
        self,
        *,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        thread: str | None = None,
        status: AnyStatus | None = None,
        tag: str | None = None,
        metadata: Mapping[str, str | int | float | bool] | None = None,
        id_prefix: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        model: str | None = None,
        exclude: Mapping[str, str | Sequence[str]] | None = None,
        min_usage: float | None = None,
        limit: int = _PAGE,
    ) -> AsyncIterator[SessionInfo]:
        """Every session that exists when the iteration begins and still matches when it is reached, exactly once,
        whatever is written meanwhile. The newest session comes first. Reads pages of `limit` sessions. Takes the
        filters of `list`, and raises `InvalidInputError` like it."""
        filters = Filters(
            agent,
            channel,
            peer,
            thread,
            status,
            tag,
            metadata,
            id_prefix,
            created_after,
            created_before,
            model,
            exclude,
            min_usage,
        )
        async for info in self._directory.iterate(filters, limit):
            yield info

    async def rename(self, id: str | SessionKey, name: str) -> None:
        """Set the name of a session. Raises `SessionNotFoundError`."""
        await Handle(self._runtime, id).row()
        await self.session(id).rename(name)

    async def fork(
        self,
        id: str | SessionKey,
        at: str | None = None,
        *,
        name: str | None = None,
        new_id: str | None = None,
        key: SessionKey | None = None,
    ) -> Session:
        """Create a session that starts with the history of another one, up to the message `at` (default: its head).
        Nothing is copied.

        The fork has the messages, compactions, context blocks, frozen prompt, tags and metadata that its source has
        now. From then on, the two are independent. Without a `key`, it has its own copies of the blocks that its source
        shares with other sessions by its key. With a key of the same guest, it shares them. With the key of another
        guest, it gets neither those blocks nor the frozen prompt, the name or the summary.
        Raises `SessionNotFoundError`, `MessageNotFoundError`, and `SessionExistsError` if the id is taken or the key
        has a current session."""
        return self._under_key(await self._forks.fork(id, at, name, new_id, key), key)

    async def compact_and_split(
        self,
        id: str | SessionKey,
        summary: str | None = None,
        name: str | None = None,
        *,
        on_busy: Literal["wait", "reject", "interrupt"] = "wait",
        wait: Duration | None = None,
    ) -> Session:
        """End a session (reason `compaction`) and continue in a new one that starts with a summary of it.

        The new session takes over the key, the blocks, the tags, the metadata, and the messages that are queued for a
        turn. Its parent is the old session, and it can expand the summary into the original messages. Without a
        `summary`, the summariser of `with_compaction` makes one: of everything except a request that has no finished
        answer yet, which stays as it is. Messages that are appended after the call began follow the summary.

        Once there is a summary, takes the turn of the session, as `new` does: `on_busy` and `wait` mean the same as
        there. The holder of a turn calls `Turn.compact_and_split` instead.
        Raises `SessionNotFoundError`, `CompactionError`, `InvalidInputError`, `TurnBusyError`, `TurnLostError`."""
        request = new_request(on_busy, wait)
        return self.session(await self._forks.compact_and_split(id, summary, name, request))

    # one session, by id

    @overload
    async def append(
        self,
        session: str | SessionKey,
        message: Given,
        /,
        *,
        id: str | None = None,
        role: None = None,
        text: str | None = None,
        parent: str | FollowHead | None = FOLLOW_HEAD,
        expected_head: str | AnyHead | None = ANY_HEAD,
        reopen: bool = False,
    ) -> Appended: ...

    @overload
    async def append(
        self,
        session: str | SessionKey,
        message: Any,
        /,
        *,
        id: str | None = None,
        role: str,
        text: str | None = None,
        parent: str | FollowHead | None = FOLLOW_HEAD,
        expected_head: str | AnyHead | None = ANY_HEAD,
        reopen: bool = False,
    ) -> Appended: ...

    async def append(
        self,
        session: str | SessionKey,
        message: Any,
        /,
        *,
        id: str | None = None,
        role: str | None = None,
        text: str | None = None,
        parent: str | FollowHead | None = FOLLOW_HEAD,
        expected_head: str | AnyHead | None = ANY_HEAD,
        reopen: bool = False,
    ) -> Appended:
        """`Session.append`, by id or key of the session. `id` is that of the message."""
        given = message if id is role is text is None else NewMessage(message, id, role, text)
        return await self.session(session).append(given, parent=parent, expected_head=expected_head, reopen=reopen)

    async def append_all(
        self,
        id: str | SessionKey,
        messages: Iterable[Given],
        *,
        parent: str | FollowHead | None = FOLLOW_HEAD,
        expected_head: str | AnyHead | None = ANY_HEAD,
        reopen: bool = False,
    ) -> AppendedList:
        """`Session.append_all`, by id or key."""
        return await self.session(id).append_all(messages, parent=parent, expected_head=expected_head, reopen=reopen)

    async def upsert(self, id: str | SessionKey, message: Given, *, reopen: bool = False) -> Appended:
        """`Session.upsert`, by id or key."""
        return await self.session(id).upsert(message, reopen=reopen)

    @overload
    async def history(
        self,
        id: str | SessionKey,
        *,
        leaf: str | None = None,
        last: int | None = None,
        max_tokens: int | None = None,
        format: None = None,
        notes: Notes = "user",
        alternate: bool = False,
    ) -> MessageList: ...

    @overload
    async def history(
        self,
        id: str | SessionKey,
        *,
        leaf: str | None = None,
        last: int | None = None,
        max_tokens: int | None = None,
        format: MessageFormat,
        notes: Notes = "user",
        alternate: bool = False,
    ) -> DictList: ...

    async def history(
        self,
        id: str | SessionKey,
        *,
        leaf: str | None = None,
        last: int | None = None,
        max_tokens: int | None = None,
        format: MessageFormat | None = None,
        notes: Notes = "user",
        alternate: bool = False,
    ) -> MessageList | DictList:
        """`Session.history`, by id or key."""
        session = self.session(id)
        if format is None:
            return await session.history(leaf=leaf, last=last, max_tokens=max_tokens)
        return await session.history(
            leaf=leaf, last=last, max_tokens=max_tokens, format=format, notes=notes, alternate=alternate
        )

    async def delete_messages(
        self, id: str | SessionKey, ids: Iterable[str], *, expected_head: str | AnyHead | None = ANY_HEAD
    ) -> int:
        """`Session.delete_messages`, by id or key."""
        return await self.session(id).delete_messages(ids, expected_head=expected_head)

    async def clear_messages(self, id: str | SessionKey, *, expected_head: str | AnyHead | None = ANY_HEAD) -> None:
        """`Session.clear_messages`, by id or key."""
        await self.session(id).clear_messages(expected_head=expected_head)

    async def add_compaction(self, id: str | SessionKey, summary: str, from_id: str, to_id: str) -> Compaction:
        """`Session.add_compaction`, by id or key."""
        return await self.session(id).add_compaction(summary, from_id, to_id)

    async def needs_compaction(self, id: str | SessionKey) -> bool:
        """`Session.needs_compaction`, by id or key."""
        return await self.session(id).needs_compaction()

    async def compact(
        self, id: str | SessionKey, *, instructions: str | None = None, prompt: str | None = None
    ) -> CompactionResult | None:
        """`Session.compact`, by id or key."""
        return await self.session(id).compact(instructions=instructions, prompt=prompt)

    # usage

    async def add_usage(
        self,
        id: str | SessionKey,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        reasoning_tokens: int = 0,
        cost: Decimal | int | float | str = 0,
        model: str | None = None,
        usage_id: str | None = None,
        at: datetime | None = None,
    ) -> bool:
        """Record a model call in the usage ledger of a session. An entry with the same `usage_id` counts once: the
        second call returns False.

        `cost` is stored as an exact decimal; of a float, the digits that Python prints.
        Raises `SessionNotFoundError`."""
        tokens = {
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "cache_read_tokens": cache_read_tokens,
            "cache_write_tokens": cache_write_tokens,
            "reasoning_tokens": reasoning_tokens,
        }
        entry = usage_entry(self._runtime.now(), tokens, cost=cost, model=model, usage_id=usage_id, at=at)
        return await self._runtime.store.add_usage(self.namespace, await self._id_of(id), entry)

    async def usage(
        self,
        *,
        session: str | SessionKey | None = None,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        model: str | None = None,
        since: date | None = None,
        until: date | None = None,
        by: Sequence[UsageField] = ("day",),
    ) -> Usage:
        """Totals of the usage ledger, grouped by any of `day` (UTC), `session`, `agent`, `channel`, `peer` and `model`.

        `session` (an id, or a key for its current session), `agent`, `channel`, `peer` and `model` select entries, and
        so do the days `since` and `until`, both included; a datetime counts as its day in UTC. One query.

        The totals include calls of sessions that were deleted or erased, without their session and peer, so a filter by
        `session` or `peer` does not find these. Raises `SessionNotFoundError`, `InvalidInputError`."""
        session_id = None if session is None else await self._id_of(session)
        filters = {"session_id": session_id, "agent": agent, "channel": channel, "peer": peer, "model": model}
        return await read_usage(self._runtime, filters, since, until, by)

    async def usage_entries(
        self, id: str | SessionKey, *, limit: int = _PAGE, cursor: str | None = None
    ) -> Page[UsageEntry]:
        """The usage ledger of a session: a page of its model calls, the newest first, with what was read from and
        written to the cache. Raises `SessionNotFoundError`, `InvalidInputError`, `InvalidCursorError`."""
        return await read_entries(self._runtime, await self._id_of(id), limit, cursor)

    async def stats(self) -> Stats:
        """Totals over the namespace. Reads its sessions, but not their messages."""
        return await read_stats(self._runtime)

    # search

    @one_call
    async def search(
        self,
        query: str,
        *,
        limit: int = 20,
        cursor: str | None = None,
        session: str | None = None,
        role: str | Sequence[str] | None = None,
        author: str | None = None,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        thread: str | None = None,
        status: AnyStatus | None = None,
        archived: bool = True,
        tag: str | None = None,
        before: datetime | None = None,
        after: datetime | None = None,
        context: int = 0,
        group: bool = False,
        newest: bool = False,
        meaning: bool = True,
    ) -> SearchResults:
        """Search all sessions of the namespace, in the same way as `Session.search`, and also the names and summaries
        of sessions. A message that forks share is found once.

        `session` (an id or a name), `agent`, `channel`, `peer`, `thread`, `status` and `tag` choose sessions, and
        `archived=False` leaves out those that have ended. A query can also contain session:trip and tag:work. With
        `group`, the hits of a session come together, and the session with the best hit comes first. Raises
        `InvalidInputError`, `InvalidCursorError`."""
        request = await parse_request(
            self._runtime,
            query,
            limit=limit,
            cursor=cursor,
            session=session,
            role=role,
            author=author,
            status=status,
            archived=archived,
            tag=tag,
            before=before,
            after=after,
            context=context,
            group=group,
            newest=newest,
            meaning=meaning,
            agent=agent,
            channel=channel,
            peer=peer,
            thread=thread,
        )
        return await search(self._runtime, request, Access(self._runtime))

    async def search_info(self) -> SearchInfo:
        """How the namespace is searched, and how much of it is indexed."""
        return await index.search_info(self._runtime)

    async def reindex(self, on_progress: Callable[[int, int], Any] | None = None) -> SearchInfo:
        """Build the search index again while it is in use. Meanwhile, searches return correct results, and nothing is
        blocked.

        With embeddings, all vectors are also computed again, with the current model. Until then, a text without a
        vector is found by its words. `on_progress(done, total)` is called with the number of texts that are done and
        the approximate total, first for the index, then for the vectors. Raises `EmbeddingError` and the errors of the
        embedding."""
        if on_progress is not None and not callable(on_progress):
            raise ConfigurationError(f"on_progress must be a callable, not {type(on_progress).__name__}")
        await index.rebuild(self._runtime, on_progress)
        if self._runtime.settings.embeddings.embed is not None:
            await vectors.rebuild(self._runtime, on_progress)
        return await self.search_info()

    def tools(self, *, scope: WideScope, max_tokens: int = ANSWER_TOKENS) -> dict[str, Tool]:
        """Tools for the agent of an operator, by name: `search_sessions` and `read_any_session`. They reach sessions of
        different guests. The tools for a guest's own agent are those of `Session.tools`.

        `scope` is "namespace" (all sessions), filters such as {"agent": "concierge", "tag": "public"}, or a function
        from `SessionInfo` to a bool, sync or async. A session outside the scope looks like one that does not exist.
        System messages are not shown. An answer has at most `max_tokens` tokens. Raises `ConfigurationError` for any
        other scope."""
        history = ScopedHistory(self._runtime, check_wide_scope(scope))
        return history_tools(history, OF_MANAGER, check_answer_tokens(max_tokens))

    # events and states

    def events(
        self,
        *,
        after: str | None = None,
        session: str | SessionKey | None = None,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        follow: bool = True,
    ) -> AsyncIterator[Event]:
        """Stream all changes of the namespace, by any process, in order, until the manager is closed.

        Pass a `position` as `after` to continue right after it: no event is lost or repeated. With `after="start"`, the
        stream starts with the oldest event in the log. Without `after`, it starts with the first change after the
        iteration begins. With `follow=False`, the stream ends with the events that existed when it began.

        `session` selects the events of a session by id, or of all sessions under a key, including those that `new`
        starts later. `agent`, `channel` and `peer` select the sessions under keys with all of these parts. None of them
        needs to exist yet.

        When a session was deleted, only "session.deleted" is reported. A message that was deleted meanwhile is not
        reported as appended. Arguments are checked at the call: it raises `InvalidInputError`, or `InvalidCursorError`
        for a position that was altered or belongs to another namespace. The iterator raises `ChangesTrimmedError` if
        the log no longer reaches back that far, and `ChangesRewoundError` if it has gone back: its `position` is where
        to continue."""
        wanted = parse_filter(self._runtime, session, agent, channel, peer)
        return feed.follow(self._runtime, after, wanted, forever=follow)

    async def recent_events(
        self,
        count: int = 100,
        *,
        session: str | SessionKey | None = None,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
    ) -> EventList:
        """The last `count` (at most 1,000) events until now, newest first, of the sessions that `events` would report
        with the same arguments. There may be fewer, because `sweep` removes old entries. Raises `InvalidInputError`."""
        wanted = parse_filter(self._runtime, session, agent, channel, peer)
        return await feed.read_recent(self._runtime, count, wanted)

    async def position(self) -> str:
        """The current position, for `events(after=...)`. Take it, then load what you want to show, then follow: no
        change is missed. A change that you have already loaded may be reported again."""
        return await feed.newest_position(self._runtime)

    def end_events(self) -> None:
        """End all open iterators of `events`, for example when a server shuts down and waits for its connections. The
        manager stays open. No I/O; may be called in any thread and in a signal handler."""
        feed.end_streams(self._runtime)

    def states(
        self,
        kind: type[T],
        *,
        name: str = "sessions",
        default: Callable[[str], T | Awaitable[T]] | None = None,
        ttl: timedelta | None = DEFAULT_TTL,
        store: StateStore | str | None = None,
        version: int = 1,
        migrate: Migrate[T] | None = None,
    ) -> States[T]:
        """Typed states under `name`, one value per id. The id may be that of a session. No I/O.

        `kind` is a dataclass, a pydantic model, a msgspec Struct, a TypedDict or a NamedTuple. A new state is
        `default(id)`, or `kind()`. A state expires `ttl` after it was last used; None means never. Without `ttl`, the
        environment variable SESSION_TTL_SECONDS applies, otherwise 30 minutes. `store` is a URL or a `StateStore`.
        Without `store`, the environment variable FRONTDESK_STATE_URL applies, otherwise the manager's own store.

        `version` is stored with each value. A value that was written with a lower version, or that does not fit `kind`,
        is passed to `migrate(stored, version)` (sync or async), where `stored` is its JSON. The result is a `kind`, or
        JSON that fits it. The next write stores it as the current version. Raises `ConfigurationError`,
        `StoreURLError`, `InvalidInputError`."""
        return States(
            self._runtime,
            kind,
            name=name,
            default=default,
            ttl=ttl,
            store=store,
            version=version,
            migrate=migrate,
        )

    def shelves(self, name: str) -> Shelves:
        """Bytes under ordered keys, on one shelf per id, for data that is not a conversation. `name` separates them
        from the shelves of other features. No I/O. Raises `InvalidIdError` and `InvalidInputError`."""
        return Shelves(self._runtime, name)

    async def forget_state_store(self, url: str) -> bool:
        """Forget that the namespace keeps states in another store, because that store no longer exists. `url` is
        that of the `StateStoreMissingError`. False if it was not recorded.

        From then on, `delete` and `erase` do not find states in that store."""
        return await self._states.forget(url)

    # export and import: what they need is imported when they are called, so that all other programs start faster

    async def export(self, on_progress: Callable[[int, int], Any] | None = None) -> AsyncIterator[bytes]:
        """The whole namespace as JSON lines, each with its line break: sessions with their trees, compactions, blocks
        with all versions, prompts, usage, states, shelves. Sessions that share messages are read as of one moment.
        Leases and the search index are not part of it.

        Its use of memory does not grow with the namespace. `on_progress(done, total)` is called with the number of
        families of sessions that are done; the total is not known before the end. Raises `ConcurrentChangeError` if
        sessions change every time they are read."""
        from frontdesk.transfer.exporting import export_lines

        async for line in export_lines(self._runtime, on_progress):
            yield line

    async def import_lines(
        self,
        lines: AsyncIterable[bytes] | Iterable[bytes],
        *,
        dry_run: bool = False,
        on_progress: Callable[[int, int], Any] | None = None,
    ) -> ImportReport:
        """Import the lines of an export: exactly what was exported, with the same ids, times, branches, forks and
        compactions. What already exists stays as it is, so importing again changes nothing. Sessions appear when they
        are complete.

        A line that cannot be read is reported, and the sessions that it belongs to are left out. With `dry_run`,
        nothing is written. `on_progress(lines, bytes)` is called with how much was read. Raises `InvalidInputError` if
        the lines are not an export."""
        from frontdesk.transfer.importing import as_stream, import_lines

        return await import_lines(self._runtime, as_stream(lines), dry_run=dry_run, on_progress=on_progress)

    async def import_transcripts(
        self,
        path: str | Path,
        *,
        format: TranscriptFormat | None = None,
        dry_run: bool = False,
        on_progress: Callable[[int, int], Any] | None = None,
    ) -> TranscriptReport:
        """Import a transcript of another tool, or all in a folder: of Claude Code, Codex, Pi or OpenClaw (JSONL),
        ChatGPT (`conversations.json`) or Hermes (`state.db`), with branches, compactions, usage, tool calls and times.
        `format` ("claude-code", "codex", "pi", "chatgpt", "hermes") is recognised if it is not given.

        Sessions keep their ids, have no key, and their `source` is the format. What already exists stays as it is, so
        importing again changes nothing, and importing a transcript that has grown adds what is new. A session that was
        not imported from the same format is not written to. What cannot be read is reported, and the rest is imported.
        No hook and no model is called. Its use of memory does not grow with a JSONL file or a database; ChatGPT's
        export is read one conversation at a time. With `dry_run`, nothing is written. `on_progress(done, total)` is
        called with numbers of bytes. Raises `InvalidInputError` if the file is in no known format or the folder has no
        transcripts, and `OSError`s."""
        from frontdesk.transfer.transcripts.importing import import_transcripts

        return await import_transcripts(
            self._runtime, Path(path), format=format, dry_run=dry_run, on_progress=on_progress
        )

    async def copy_to(
        self,
        target: SessionManager,
        *,
        follow: bool = False,
        on_progress: Callable[[CopyReport], Any] | None = None,
    ) -> CopyReport:
        """Make the namespace of another manager, in any store, the same as this one, while this one is in use. The
        target must not be in use, and what this one does not have is deleted from it.

        What is already the same is skipped, so a copy that was interrupted continues with the same call. Then what has
        changed meanwhile is copied; with `follow`, this continues until the call is cancelled. After appends, only new
        messages are copied; after any other change, the session is copied again with all sessions that share its
        messages. `on_progress(report)` is called after each family of sessions."""
        from frontdesk.transfer.copying import Copier

        copier = Copier(self._runtime, target._runtime, target.delete, on_progress)
        return await copier.run(follow=follow)

    async def check(self, *, fix: bool = False, on_progress: Callable[[int, int], Any] | None = None) -> CheckReport:
        """Check the namespace: counters, views, usage totals of sessions, heads, places of compactions, missing
        messages, records that cannot be read, and what an import that was killed has left. Reads everything.

        With `fix`, counters and totals are computed again from the rows, and what an import has left is removed; make a
        `backup` first, and let no import run meanwhile. Sessions that change meanwhile are left alone.
        `on_progress(done, total)` is called with the number of families of sessions that are done."""
        from frontdesk.transfer.checking import check_namespace

        return await check_namespace(self._runtime, fix=fix, on_progress=on_progress)

    async def backup(self, path: str | Path) -> None:
        """Write a backup of a store in use to a file that does not exist yet: for SQLite, a copy of the whole file as
        of one moment, which can be opened like the original; for any other store, an `export` of the namespace.

        Raises `FileExistsError` and other `OSError`s."""
        from frontdesk.transfer.backups import write_backup

        await write_backup(self._runtime, str(path))

    # hooks and life cycle

    def register_hook(self, hook: Any, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Call the methods of an object when something happens. It has one or more of `on_session_start(session)`,
        `on_message(session, message)`, `on_compaction(session, compaction)` and `on_session_end(session, reason)`, sync
        or async.

        Hooks are called in the order of their registration, and for each session in the order of its events. They run
        in the background. Only the end of a session waits for its hooks, which are called before anything changes. A
        hook that raises, or takes longer than `timeout` seconds, is cancelled, logged and counted
        (`stats().hook_failures`), and the operation continues. Raises `ConfigurationError` if the object has none of
        these methods, or is already registered.

        In `frontdesk.sync`, plain methods are passed the sync `Session`, and async methods the async one."""
        self._runtime.hooks.register(hook, timeout)

    def unregister_hook(self, hook: Any) -> bool:
        """Stop calling a hook. False if it was not registered."""
        return self._runtime.hooks.unregister(hook)

    async def archive(self, id: str | SessionKey) -> None:
        """End a session (reason `archive`). It stays listed and searchable, and its key still points at it.

        Raises `SessionNotFoundError`, and `InvalidTransitionError` if it has already ended."""
        await self._lifecycle.archive(id)

    async def suspend(self, id: str | SessionKey) -> None:
        """Suspend a session until `resume`: appends are refused, and sweeps skip it.

        Raises `SessionNotFoundError`, and `InvalidTransitionError` unless it is active, idle or compacting."""
        await self._lifecycle.suspend(id)

    async def resume(self, id: str | SessionKey) -> None:
        """Make an idle, suspended or ended session active. This counts as activity. The session gets its key back,
        unless another session is current under it.

        Raises `SessionNotFoundError`, and `InvalidTransitionError` if it is active."""
        await self._lifecycle.resume(id)

    async def reset(self, id: str | SessionKey) -> None:
        """Hide everything in the view of a session except the leading system messages. Nothing is deleted: the
        transcript and search still have all messages, and `undo_compaction` makes them visible again. The prompt,
        blocks and status do not change. Hooks are called as for an end with reason `reset`. If the view is already
        empty, nothing happens. Raises `SessionNotFoundError`."""
        await self._lifecycle.reset(id)

    async def new(
        self,
        key: SessionKey,
        *,
        on_busy: Literal["wait", "reject", "interrupt"] = "wait",
        wait: Duration | None = None,
    ) -> Session:
        """End the current session under a key (reason `new`), if there is one, and start an empty one. The ended
        session stays listed and searchable.

        The new session has the system prompt, model, source, tags, `max_tokens` and life-cycle times of the old one,
        and the messages that are queued for a turn. Context blocks with a scope wider than the session stay the same.
        Messages, summary, name and metadata are not carried over.

        Takes the turn of the current session first: `on_busy` and `wait` mean the same as in `Session.turn`. So an
        answer in progress is finished in the session that it belongs to, and callers that wait for a turn by key
        continue in the new session. The holder of a turn calls `Turn.new` instead: here it would wait for itself, and
        an async task that would do so gets `InvalidInputError`. Of several concurrent calls, each ends the session that
        the one before it started.
        Raises `InvalidKeyError`, `InvalidInputError`, `TurnBusyError`, and `TurnLostError` if another worker took over
        the turn with "interrupt"."""
        return self._under_key(await self._lifecycle.new(key, new_request(on_busy, wait)), key)

    async def delete(self, id: str | SessionKey) -> bool:
        """Delete a session and all its data permanently, except messages that its forks still see. False if there was
        none.

        Its states are deleted as well: in the same transaction if they are in the same store, otherwise right after it.
        States with this id are deleted even if there was no session. Hooks are called as for an end (reason `delete`)
        if the session had not ended before."""
        return await self._lifecycle.delete(id)

    async def sweep(self) -> SweepReport:
        """Archive sessions that were not written to for `archive_after` (reason `timeout`), delete sessions that ended
        `delete_after` ago, and remove expired states and events older than `keep_events`. A sweep covers the whole
        namespace, and for states the whole store. It works in batches, so its use of memory is bounded. Only one worker
        at a time sweeps."""
        return await self._sweeper.sweep()

    async def recover(self) -> RecoveryReport:
        """Clean up after processes on this machine that died. Their leases are released, so that sessions that they
        were compacting are active and can be compacted again. The search index is brought up to date in the background.
        Leases held on other machines expire by themselves, within seconds."""
        return await recover(self._runtime)

    async def erase(
        self,
        *,
        key: SessionKey | None = None,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        author: str | None = None,
    ) -> ErasureReport:
        """Remove all data of a person, an agent or a channel: the sessions under the key, or under keys with all of
        these parts, of every status, and the sessions forked from them. A key without a thread means all threads of
        its guest, a key with one only that thread. Their messages, summaries, blocks, states, shelves, usage entries
        and search entries are removed with them. The events that remain (`session.deleted`) do not name them.

        With `author`, sessions stay: only the messages of that author are deleted, on all branches, as by
        `Session.delete_messages`. They are deleted from all sessions of the namespace, or from those under the key or
        parts and their forks. Reads all messages of these sessions.

        Everything that existed when it began is removed, whatever others write meanwhile. So are sessions that others
        start meanwhile; `remaining` counts those that are left if others do not stop. If an erasure is interrupted,
        call it again: it continues with what is left. Hooks are called for ends (reason `erase`). Usage totals per day
        stay, and so do the blocks of the namespace. Raises `InvalidInputError` without a filter, with both a key and
        parts, or for a part that does not distinguish sessions (`with_isolation`); `InvalidKeyError`; and
        `StoreUnavailableError` if another reader of the store prevents the removal of the last bytes."""
        return await self._eraser.erase(key, agent, channel, peer, author)
