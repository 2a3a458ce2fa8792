"""`SessionManager`: the public calls on all sessions of a namespace. It only delegates, to `Session` for one session
and to the components of this room for all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Self, TypeAlias, overload

from frontdesk.config.builder import Configurable
from frontdesk.config.hooks import DEFAULT_TIMEOUT
from frontdesk.config.runtime import Clock, Runtime
from frontdesk.config.settings import ANSWER_TOKENS, SessionFilter, check_answer_tokens
from frontdesk.errors import ConfigurationError, SessionNotFoundError
from frontdesk.events import feed
from frontdesk.events.feed import Event
from frontdesk.keys import SessionKey
from frontdesk.lifecycle.usage import usage_entry
from frontdesk.manager.directory import Directory
from frontdesk.manager.erasure import Eraser
from frontdesk.manager.forks import Forks
from frontdesk.manager.lifecycle import Lifecycle
from frontdesk.manager.recovery import recover
from frontdesk.manager.states import StateCleaner
from frontdesk.manager.sweeps import Sweeper
from frontdesk.manager.usage import read_stats, read_usage
from frontdesk.messages import Message, check_id
from frontdesk.messages.formats import MessageFormat
from frontdesk.messages.stored import DEFAULT_MAX_MESSAGE_BYTES
from frontdesk.records import (
    AnyStatus,
    Appended,
    Compaction,
    CompactionResult,
    ErasureReport,
    Page,
    RecoveryReport,
    SessionInfo,
    Stats,
    SweepReport,
    Usage,
)
from frontdesk.search import index_snapshot, indexing, vectors
from frontdesk.search.namespace_search import search_namespace
from frontdesk.search.request import parse_request
from frontdesk.search.results import SearchInfo, SearchResults
from frontdesk.search.tools import history_tools
from frontdesk.search.visibility import ScopedHistory
from frontdesk.session import Session
from frontdesk.session.handle import Handle
from frontdesk.session.writing import Given
from frontdesk.states import DEFAULT_TTL, States
from frontdesk.states.states import T
from frontdesk.store import FOLLOW_HEAD, FollowHead, StateStore, Store
from frontdesk.tools import Tool

# Inside the class, `list` is its method.
AppendedList: TypeAlias = list[Appended]
MessageList: TypeAlias = list[Message]
DictList: TypeAlias = list[dict[str, Any]]
_PAGE = 50


class SessionManager(Configurable):
    """The sessions of one namespace of a store, named by a URL or given as a `Store`.

    Set it up with the chainable calls, then use it in `async with`, or close it; a store given by URL is closed too."""

    def __init__(
        self,
        store: Store | str,
        *,
        namespace: str = "default",
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        clock: Clock | None = None,
    ) -> None:
        """`clock` returns the time (a datetime with a zone) in place of the machine's, for tests and simulations."""
        runtime = self._runtime = Runtime(store, namespace, max_message_bytes, clock)
        runtime.hooks.session_for = lambda session_id: Session(runtime, session_id)
        states = StateCleaner(runtime)
        self._directory = Directory(runtime)
        self._forks = Forks(runtime)
        self._lifecycle = Lifecycle(runtime, states)
        self._eraser = Eraser(runtime, states)
        self._sweeper = Sweeper(runtime, self._lifecycle, states)
        runtime.when_used(self._sweeper.start)

    async def __aenter__(self) -> Self:
        await self._runtime.store.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish what is in flight and close the store; idempotent."""
        await self._runtime.close()

    def __repr__(self) -> str:
        return f"SessionManager(namespace={self._runtime.namespace!r})"

    @property
    def namespace(self) -> str:
        return self._runtime.namespace

    # handles, making and finding

    def session(self, ref: str | SessionKey) -> Session:
        """A handle on a session, by id or key; no I/O."""
        return Session(self._runtime, ref)

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
        """A new session. Raises `SessionExistsError` if its id is taken or its key has a current session."""
        new = self._directory.new_session(name, id, key, parent, model, source, max_tokens, tags, metadata)
        return self.session(await self._directory.create(new, key))

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
        """The session with this id, or the current one under this key; made with these values if there is none."""
        key = ref if isinstance(ref, SessionKey) else None
        session_id = None if isinstance(ref, SessionKey) else check_id(ref, "session id")
        new = self._directory.new_session(name, session_id, key, parent, model, source, max_tokens, tags, metadata)
        return self.session(await self._directory.get_or_create(new))

    async def get(self, ref: str | SessionKey) -> SessionInfo | None:
        """What is known of a session, or None if there is none."""
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
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        limit: int = _PAGE,
        cursor: str | None = None,
    ) -> Page[SessionInfo]:
        """A page of sessions, most recent activity first, of every status unless one is given.

        Raises `InvalidCursorError`."""
        filters = _filters(agent, channel, peer, thread, status, tag, created_after, created_before)
        return await self._directory.page(filters, limit, cursor)

    async def iterate(
        self,
        *,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        thread: str | None = None,
        status: AnyStatus | None = None,
        tag: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        limit: int = _PAGE,
    ) -> AsyncIterator[SessionInfo]:
        """Every session that `list` with these filters returns, in pages of `limit`."""
        filters = _filters(agent, channel, peer, thread, status, tag, created_after, created_before)
        async for info in self._directory.iterate(filters, limit):
            yield info

    async def rename(self, id: str | SessionKey, name: str) -> None:
        """Set the name of a session. Raises `SessionNotFoundError`."""
        await Handle(self._runtime, id).row()
        await self.session(id).rename(name)

    async def fork(
        self, id: str | SessionKey, at: str | None = None, *, name: str | None = None, new_id: str | None = None
    ) -> Session:
        """A session that begins with the history of another up to `at` (its head, if not given); nothing is copied.

        It sees the messages, overlays, tags and metadata as they are now; from then on the two are independent.
        Raises `SessionNotFoundError`, `MessageNotFoundError`, `SessionExistsError`."""
        return self.session(await self._forks.fork(id, at, name, new_id))

    async def compact_and_split(
        self, id: str | SessionKey, summary: str | None = None, name: str | None = None
    ) -> Session:
        """End a session (reason `compaction`) and continue in a new one that opens with the summary of it.

        The new one takes over the key, keeps blocks, tags and metadata, has the old one as its parent, and can expand
        the summary into what was said. Without a `summary` the summariser of `with_compaction` is asked for one.
        Raises `SessionNotFoundError`, `CompactionError`."""
        return self.session(await self._forks.compact_and_split(id, summary, name))

    # one session, by id

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
    ) -> AppendedList:
        """`Session.append_all` by id."""
        return await self.session(id).append_all(messages, parent=parent, expected_head=expected_head, reopen=reopen)

    async def upsert(self, id: str | SessionKey, message: Given, *, reopen: bool = False) -> Appended:
        """`Session.upsert` by id."""
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
    ) -> DictList: ...

    async def history(
        self,
        id: str | SessionKey,
        *,
        leaf: str | None = None,
        last: int | None = None,
        max_tokens: int | None = None,
        format: MessageFormat | None = None,
    ) -> MessageList | DictList:
        """`Session.history` by id."""
        session = self.session(id)
        if format is None:
            return await session.history(leaf=leaf, last=last, max_tokens=max_tokens)
        return await session.history(leaf=leaf, last=last, max_tokens=max_tokens, format=format)

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
        """Enter a model call into the usage ledger of a session. The same `usage_id` counts once: the second time
        returns False.

        `cost` is kept as an exact decimal (a float as it is printed). Raises `SessionNotFoundError`."""
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
        self, id: str | SessionKey | None = None, *, first_day: date | None = None, last_day: date | None = None
    ) -> Usage:
        """Totals of one session, or of the whole namespace, per day (UTC) and model.

        The namespace's days keep the cost of sessions that were deleted since."""
        return await read_usage(self._runtime, None if id is None else await self._id_of(id), first_day, last_day)

    async def stats(self) -> Stats:
        """Totals over the namespace, from one pass over its sessions; their messages are not read."""
        return await read_stats(self._runtime)

    # search

    async def search(
        self,
        query: str,
        *,
        limit: int = 20,
        cursor: str | None = None,
        session: str | None = None,
        role: str | None = None,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        thread: str | None = None,
        status: AnyStatus | None = None,
        tag: str | None = None,
        before: datetime | None = None,
        after: datetime | None = None,
        context: int = 0,
        group: bool = False,
        newest: bool = False,
    ) -> SearchResults:
        """What answers the query in any session of the namespace, as `Session.search` does; also sessions by their
        names and summaries. What forks share is found once.

        session: and tag: in the query, and the other arguments, choose sessions: by id or name, by the parts of their
        keys, by status and by tag. With `group` the hits of a session come together, in the order of its best.
        Raises `InvalidInputError`, `InvalidCursorError`."""
        request = await parse_request(
            self._runtime,
            query,
            limit=limit,
            cursor=cursor,
            session=session,
            role=role,
            status=status,
            tag=tag,
            before=before,
            after=after,
            context=context,
            group=group,
            newest=newest,
            agent=agent,
            channel=channel,
            peer=peer,
            thread=thread,
        )
        return await search_namespace(self._runtime, request)

    async def search_info(self) -> SearchInfo:
        """How the namespace is searched, and how far its index has come."""
        return await index_snapshot.search_info(self._runtime)

    async def reindex(self, on_progress: Callable[[int, int], Any] | None = None) -> SearchInfo:
        """Build the search index again while it is in use. Searches stay right meanwhile, and nothing waits for it.

        With embeddings all vectors are computed again too, by the model that is set up now; until then, a text without
        one is found by words. `on_progress(done, total)` is called with how many texts are done and about how many
        there are, first of the index, then of the vectors. Raises what the embedding raises, and `EmbeddingError`."""
        if on_progress is not None and not callable(on_progress):
            raise ConfigurationError(f"on_progress is a callable, not {type(on_progress).__name__}")
        await indexing.rebuild(self._runtime, on_progress)
        if self._runtime.settings.embeddings.embed is not None:
            await vectors.rebuild(self._runtime, on_progress)
        return await self.search_info()

    def tools(self, *, scope: SessionFilter | None = None, max_tokens: int = ANSWER_TOKENS) -> dict[str, Tool]:
        """The tools that reach beyond one session, by name: `session_search` and `read_session`.

        `scope(session_info)`, sync or async, says of each session whether the model may see it; one out of scope looks
        like one that does not exist. `max_tokens` is the most that an answer costs."""
        return history_tools(ScopedHistory(self._runtime, scope), check_answer_tokens(max_tokens))

    # events and states

    async def events(
        self, after: str | None = None, *, session: str | SessionKey | None = None, follow: bool = True
    ) -> AsyncIterator[Event]:
        """Everything that changes in the namespace, by any process, in order, until the manager is closed.

        Begins after the event with the position `after`, with nothing lost or repeated; at the oldest event in the log
        with `after="start"`; without `after`, with what happens from the first step of the iteration on. `session`
        chooses the events of one session. With `follow=False` it ends with what was there when it began.

        Of a deleted session only "session.deleted" is reported; a message deleted meanwhile is not reported as
        appended. Raises `InvalidCursorError` for a position that is altered or of another namespace,
        `ChangesTrimmedError` if the log no longer reaches back that far."""
        session_id = None if session is None else await self._id_of(session)
        async for event in feed.follow(self._runtime, after, session_id, forever=follow):
            yield event

    def states(
        self,
        kind: type[T],
        *,
        name: str = "sessions",
        default: Callable[[str], T | Awaitable[T]] | None = None,
        ttl: timedelta | None = DEFAULT_TTL,
        store: StateStore | str | None = None,
    ) -> States[T]:
        """Typed states, a value per session id under `name`; no I/O.

        `kind` is a dataclass, a pydantic model, a msgspec Struct or a TypedDict; a fresh state is `default(session_id)`
        or `kind()`. A state expires `ttl` after it was last used; None means never, and without the argument
        SESSION_TTL_SECONDS decides. `store` is a URL or a `StateStore`; without it FRONTDESK_STATE_URL names one,
        or they live in the manager's own store. Raises `ConfigurationError`, `StoreURLError`, `InvalidInputError`."""
        return States(self._runtime, kind, name=name, default=default, ttl=ttl, store=store)

    # hooks and life cycle

    def register_hook(self, hook: Any, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Have an object called when something happens: it has any of `on_session_start(session)`,
        `on_message(session, message)`, `on_compaction(session, compaction)` and `on_session_end(session, reason)`, sync
        or async.

        Hooks are called in the order of registration, for each session one event after the other. They run in the
        background, except for ends: those are announced, and waited for, before anything changes. A hook that raises,
        or takes longer than `timeout` seconds, is cut off, logged and counted (`stats().hook_failures`); the operation
        continues. Raises `ConfigurationError` for an object with none of these methods, or one that is registered
        already."""
        self._runtime.hooks.register(hook, timeout)

    def unregister_hook(self, hook: Any) -> bool:
        """Stop calling an object; False if it was not registered."""
        return self._runtime.hooks.unregister(hook)

    async def archive(self, id: str | SessionKey) -> None:
        """End a session (reason `archive`). It stays listed and searchable, and its key keeps pointing at it.

        Raises `SessionNotFoundError`, and `InvalidTransitionError` if it has ended already."""
        await self._lifecycle.archive(id)

    async def suspend(self, id: str | SessionKey) -> None:
        """Suspend a session until `resume`: appends are refused, sweeps pass it over.

        Raises `SessionNotFoundError`, and `InvalidTransitionError` unless it is active, idle or compacting."""
        await self._lifecycle.suspend(id)

    async def resume(self, id: str | SessionKey) -> None:
        """Make an idle, suspended or ended session active, as of now; it is current under its key again if no other is.

        Raises `SessionNotFoundError`, and `InvalidTransitionError` if it is active."""
        await self._lifecycle.resume(id)

    async def reset(self, id: str | SessionKey) -> None:
        """Empty the view of a session at its head, except for the leading system messages. Nothing is removed:
        transcript and search still have it all, `undo_compaction` brings it back; prompt, blocks and status stay. Hooks
        are called as for an end with reason `reset`. If the view is empty already, nothing happens.
        Raises `SessionNotFoundError`."""
        await self._lifecycle.reset(id)

    async def new(self, key: SessionKey) -> Session:
        """End the current session under a key, if there is one (reason `new`; it stays listed and searchable), and
        begin the next, an empty one. Of several at once, each ends the one before it. Raises `InvalidKeyError`."""
        return self.session(await self._lifecycle.new(key))

    async def delete(self, id: str | SessionKey) -> bool:
        """Remove a session and everything of it for good, except what forks still see; False if there was none.

        Its states go with it, in one step where they live in the same store, right after it where they do not; states
        with this id are gone afterwards even if there was no session. Hooks are called as for an end (reason `delete`)
        if it had not ended before."""
        return await self._lifecycle.delete(id)

    async def sweep(self) -> SweepReport:
        """Archive what was not written to for `archive_after` (reason `timeout`), delete what ended `delete_after` ago,
        and remove expired states and events older than `keep_events`, in the whole namespace (states: in the whole
        store); one worker at a time. All is done in batches, so that memory is bounded."""
        return await self._sweeper.sweep()

    async def recover(self) -> RecoveryReport:
        """Clear up after processes of this machine that died: their leases are freed, so that sessions that were being
        compacted are active and can be compacted again, and the search index catches up in the background. Leases of
        other machines expire by themselves, within seconds."""
        return await recover(self._runtime)

    async def erase(
        self,
        *,
        key: SessionKey | None = None,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
    ) -> ErasureReport:
        """Remove every trace of a person, an agent or a channel: all sessions under the key, or under keys with all of
        these parts, of every status, and those forked from them; with everything that was said, summarised, remembered,
        indexed and counted in them, and their states. The events about it (`session.deleted`) do not name them.

        Sessions are taken in batches: an erasure that was interrupted is finished by calling it again. Hooks are called
        for ends (reason `erase`). What concerns no person stays: the totals of usage per day, and the blocks that a
        namespace shares. Raises `InvalidInputError` without a filter, with a key and parts, or for a part that does not
        tell sessions apart (`with_isolation`); `InvalidKeyError`; and `StoreUnavailableError` if a reader of the store
        keeps the last bytes there."""
        return await self._eraser.erase(key, agent, channel, peer)


def _filters(
    agent: str | None,
    channel: str | None,
    peer: str | None,
    thread: str | None,
    status: AnyStatus | None,
    tag: str | None,
    created_after: datetime | None,
    created_before: datetime | None,
) -> dict[str, Any]:
    """The filters of a list, by the columns they are for."""
    return {
        "agent": agent,
        "channel": channel,
        "peer": peer,
        "thread": thread,
        "status": status,
        "tag": tag,
        "created_after": created_after,
        "created_before": created_before,
    }
