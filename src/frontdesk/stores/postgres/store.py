"""`PostgresStore`: the methods of the `Store` protocol. It says how each operation is run. The operations are functions
of a connection, in the modules of this package."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Concatenate, ParamSpec, Self, TypeVar
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from frontdesk.deadlines import one_call
from frontdesk.errors import StoreClosedError, StoreUnavailableError
from frontdesk.store import (
    BEGINNING,
    Append,
    AppendResult,
    Near,
    NewSession,
    Position,
    Range,
    SessionRow,
    SessionSelection,
    StatsQuery,
    StatsRow,
)
from frontdesk.stores.bell import Bell
from frontdesk.stores.postgres import erasure, index, log, plans, transfer, trees, vectors, views
from frontdesk.stores.postgres import sessions as own_sessions
from frontdesk.stores.postgres import usage as own_usage
from frontdesk.stores.postgres.batches import Appends
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.database import shared
from frontdesk.stores.postgres.engine import Engine
from frontdesk.stores.postgres.hosts import Hosts
from frontdesk.stores.postgres.lanes import Lane
from frontdesk.stores.postgres.notices import NOTIFY, Notices, channel_of
from frontdesk.stores.postgres.schema import migrate, quote_schema
from frontdesk.stores.postgres.url import check_options, describe, hosts_to_choose, parse_url, public_url, settings_of
from frontdesk.stores.sql import directory, documents, leases, prompts, sessions, shelves, states, unfinished, usage
from frontdesk.stores.sql import erasure as shared_erasure
from frontdesk.stores.sql import transfer as shared_transfer

P = ParamSpec("P")
T = TypeVar("T")
_Work = Callable[Concatenate[Connection, P], Awaitable[T]]
_Method = Callable[Concatenate["PostgresStore", P], Coroutine[Any, Any, T]]


def _read(work: _Work[P, T]) -> _Method[P, T]:
    """A method that reads, again if the connection is lost."""

    async def method(self: PostgresStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._engine.run(
            lambda connection: work(connection, *args, **kwargs), repeatable=True, changes=False
        )

    return method


def _again(work: _Work[P, T]) -> _Method[P, T]:
    """A method that changes something, and does so again if the connection is lost: nothing is changed twice."""

    async def method(self: PostgresStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._engine.run(lambda connection: work(connection, *args, **kwargs), repeatable=True)

    return method


def _marked(work: _Work[P, T | None]) -> _Method[P, T | None]:
    """The same for a write that carries a mark, and returns None if another caller was first. If it was sent again,
    that caller may have come after the first attempt: then it is unknown whether it happened."""

    async def method(connection: Connection, /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        result = await work(connection, *args, **kwargs)
        if result is None and connection.resent:
            raise StoreUnavailableError(
                "the answer to this change was lost, and another caller has changed the state;"
                " the change may have happened: check before trying again",
                uncertain=True,
            )
        return result

    return _again(method)


def _once(work: _Work[P, T]) -> _Method[P, T]:
    """A method that does some work which must not be done twice."""

    async def method(self: PostgresStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._engine.run(lambda connection: work(connection, *args, **kwargs), repeatable=False)

    return method


def _transaction(work: _Work[P, T]) -> _Method[P, T]:
    """A method that does some work in one transaction."""

    async def method(self: PostgresStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._engine.transact(lambda connection: work(connection, *args, **kwargs))

    return method


def _snapshot(work: _Work[P, T]) -> _Method[P, T]:
    """A method that reads in one transaction."""

    async def method(self: PostgresStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._engine.transact(
            lambda connection: work(connection, *args, **kwargs), repeatable=True, changes=False
        )

    return method


def _logged(method: _Method[P, T]) -> _Method[P, T]:
    """The same method, which then reports that something was logged."""

    async def reporting(self: PostgresStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result = await method(self, *args, **kwargs)
        self._report()
        return result

    return reporting


class PostgresStore:
    """A `Store` on PostgreSQL 15 or newer, for any number of processes, threads and event loops.

    `pool` is the maximum number of connections for each event loop. Set `pooler` behind a transaction pooler. All
    tables are in `schema`. No call takes longer than `timeout` seconds, except the removal of very many messages, and
    no attempt to connect to a host takes longer than `connect_timeout` seconds.
    Raises `StoreURLError` for options that make no sense. Connects at first use.
    """

    def __init__(
        self,
        dsn: str,
        *,
        pool: int = 10,
        pooler: bool = False,
        schema: str = "frontdesk",
        timeout: float = 30.0,
        connect_timeout: float = 5.0,
    ) -> None:
        check_options(pool, timeout, connect_timeout)
        self._schema = quote_schema(schema)
        self._described = describe(dsn)
        self._url = public_url(dsn, schema)
        hosts = Hosts(dsn, hosts_to_choose(dsn), seconds=connect_timeout, settings=settings_of(dsn), direct=not pooler)
        self._engine = Engine(
            hosts,
            self._described,
            self._schema,
            pool=pool,
            direct=not pooler,
            timeout=timeout,
            prepare=migrate,
            begin_epoch=log.begin_epoch,
        )
        self._bell = Bell()
        self._appends: WeakKeyDictionary[Lane, Appends] = WeakKeyDictionary()
        self._notices: WeakKeyDictionary[Lane, Notices] = WeakKeyDictionary()
        self._frequencies = index.Frequencies()
        self._extension = vectors.Extension()

    @classmethod
    def from_url(cls, url: str) -> Self:
        """The store that a URL names: `postgresql://user:password@host:port/database`, with any of the options
        `pool=10`, `pooler=transaction`, `schema=frontdesk`, `timeout=30`, `connect_timeout=5`, and those that libpq and
        asyncpg know. Of several hosts (`host:port,host:port`), the primary is used.

        Raises `StoreURLError` for anything else."""
        dsn, options = parse_url(url)
        return cls(dsn, **options)

    def __repr__(self) -> str:
        return f"PostgresStore({self._described!r}, schema={self._schema})"

    @property
    def url(self) -> str:
        return self._url

    @property
    def timeout(self) -> float:
        """How many seconds a call may take."""
        return self._engine.timeout

    async def open(self) -> None:
        self._engine.reopen()
        await self._engine.open()

    async def close(self) -> None:
        await self._engine.close()

    # sessions

    _create = _once(own_sessions.create)
    get = _read(shared(sessions.get))
    get_current = _read(shared(sessions.get_current))
    page = _read(shared(directory.page))
    due = _read(shared(directory.due))

    @one_call
    async def create(self, new: NewSession) -> tuple[SessionRow, bool]:
        while True:
            made = await self._create(new)
            if made is not None:
                self._report()
                return made, True
            existing = await self.get(new.namespace, new.id)
            if existing is None and new.agent is not None:
                key = (new.agent, new.channel or "", new.peer or "", new.thread)
                existing = await self.get_current(new.namespace, key)
            if existing is not None:
                return existing, False

    # messages

    async def append(self, request: Append) -> AppendResult:
        until = self._engine.end_of_call()
        lane = await self._engine.open(until)
        appends = self._appends.get(lane)
        if appends is None:
            appends = self._appends[lane] = Appends(self._engine, lane)
            lane.on_close.insert(0, appends.drain)
        result = await appends.append(request, until)
        self._report()
        return result

    view = _read(views.view)
    read = _read(views.read)
    sums = _read(views.sums)
    tally = _read(views.tally)
    apply = _logged(_transaction(plans.apply))

    async def hold(self, namespace: str, session_id: str, work: Callable[[], Awaitable[T]]) -> T:
        lock = partial(plans.lock_family, namespace=namespace, session_id=session_id)
        result = await self._engine.hold(lock, work)
        self._report()
        return result

    # documents

    get_documents = _read(shared(documents.get))
    list_documents = _read(shared(documents.list_label))
    document_versions = _read(shared(documents.versions))
    put_document = _logged(_transaction(shared(documents.put)))
    rewrite_document = _logged(_transaction(shared(documents.rewrite)))
    delete_documents = _transaction(shared(documents.delete_owned))
    get_prompt = _read(shared(prompts.get))
    put_prompt = _transaction(shared(prompts.put))

    # leases: asking again for a lease, or for a place in its queue, returns the one that the caller already has

    get_lease = _read(shared(leases.get))
    held_leases = _read(shared(leases.held))
    lease_queue = _read(shared(leases.waiting))
    acquire_lease = _once(shared(leases.acquire))
    renew_lease = _once(shared(leases.renew))
    queue_lease = _again(shared(leases.queue))
    leave_lease = _again(shared(leases.leave))
    next_queued = _again(shared(leases.next_queued))
    queued_messages = _read(shared(leases.queued))
    remove_queued = _again(shared(leases.remove_queued))

    # the change log

    log_change = _logged(_once(log.add))
    changes = _read(log.read)
    last_change = _read(log.last)
    trim_changes = _transaction(log.trim)

    async def wait_for_change(self, seconds: float, since: int | None = None) -> int:
        return await self._notices_of(await self._engine.open()).wait(seconds, since)

    def _report(self) -> None:
        """Report that something was committed to those that wait for changes."""
        with suppress(StoreClosedError):
            self._notices_of(self._engine.lane()).written()

    def _notices_of(self, lane: Lane) -> Notices:
        notices = self._notices.get(lane)
        if notices is None:
            channel = channel_of(self._schema)

            def notify() -> Awaitable[object]:
                return self._engine.run_on(
                    lane, lambda connection: connection.execute(NOTIFY, channel), repeatable=False
                )

            connect = self._engine.connect if self._engine.is_direct else None
            notices = self._notices[lane] = Notices(self._bell, channel, notify, connect)
            lane.on_close.append(notices.close)
            lane.on_cut.append(notices.terminate)
        return notices

    # erasure

    count_rows = _read(shared(shared_erasure.count))
    _clear_log = _transaction(erasure.clear_log)
    _vacuum = _again(erasure.vacuum)

    async def scrub(self, namespace: str) -> None:
        end: Position | None = BEGINNING
        while end is not None:
            end = await self._clear_log(namespace, end)
        for table in erasure.TABLES:
            await self._vacuum(table)

    # states: a write carries its mark, so that it can be repeated after a lost connection

    get_state = _read(shared(states.get))  # it postpones the expiry, which nobody has to know
    peek_state = _read(shared(states.peek))
    touch_state = _again(shared(states.touch))
    create_state = _marked(shared(states.create))
    replace_state = _marked(shared(states.replace))
    list_states = _read(shared(states.page))
    count_states = _read(shared(states.count))
    delete_state = _once(shared(states.delete))
    delete_states = _once(shared(states.delete_all))
    clear_states = _transaction(shared(states.clear))
    delete_owned_states = _transaction(shared(states.delete_owned))
    sweep_states = _transaction(shared(states.sweep))
    add_state_store = _again(shared(states.add_store))
    state_stores = _read(shared(states.stores))
    forget_state_store = _once(shared(states.forget_store))

    # shelves

    read_shelf = _read(shared(shelves.read))
    write_shelf = _transaction(shared(shelves.write))
    delete_shelf = _transaction(shared(shelves.delete))
    list_shelves = _read(shared(shelves.page))
    delete_owned_shelves = _transaction(shared(shelves.delete_owned))

    # the search index

    index_state = _read(index.state)
    write_index = _transaction(index.write)
    terms = _read(index.terms)
    matches = _snapshot(index.matches)
    unindexed = _read(index.unindexed)
    owner_trees = _read(index.owner_trees)

    async def frequencies(self, namespace: str, terms: Sequence[str]) -> list[int]:
        work = partial(self._frequencies.get, namespace=namespace, terms=terms)
        return await self._engine.run(work, repeatable=True)

    # export and import

    document_owners = _read(shared(shared_transfer.document_owners))
    documents_of = _read(shared(shared_transfer.documents_of))
    placed_messages = _read(transfer.placed_messages)
    usage_entries = _read(shared(shared_transfer.usage_entries))
    usage_days = _read(shared(shared_transfer.usage_days))
    states_after = _read(shared(shared_transfer.states_after))
    shelves_after = _read(shared(shelves.after))
    draw_numbers = _read(shared(shared_transfer.draw_numbers))
    begin_family = _transaction(shared(unfinished.begin))
    unfinished_families = _read(shared(unfinished.families))
    remove_unfinished = _transaction(shared(unfinished.remove))
    restore = _logged(_transaction(transfer.restore))

    # usage and totals

    add_usage = _logged(_once(own_usage.add))
    _stats = _read(shared(usage.stats))
    _lag = _read(log.lag)
    recent_usage = _read(shared(usage.recent))
    usage = _read(shared(usage.totals))

    async def stats(self, query: StatsQuery) -> StatsRow:
        lag, holder = await self._lag(query.namespace)
        return replace(await self._stats(query), log_lag=lag, log_holder=holder)

    # what searching reads in bulk; last, for these names hide the modules

    relatives = _read(shared(sessions.relatives))
    families = _read(shared(sessions.families))
    segments = _read(trees.segments)
    trees = _read(trees.trees)
    sessions = _read(shared(sessions.get_numbered))

    # vectors

    put_vectors = _transaction(vectors.put)
    vector_state = _read(vectors.state)
    mark_vectors = _transaction(vectors.mark)
    without_vectors = _read(vectors.without)
    count_vectors = _read(vectors.count)
    drop_vectors = _transaction(vectors.drop)

    async def prepare_vectors(self, namespace: str, dimensions: int) -> None:
        work = partial(self._extension.prepare, namespace=namespace, dimensions=dimensions)
        await self._engine.run(work, repeatable=True)

    async def nearest(
        self,
        namespace: str,
        vector: bytes,
        limit: int,
        ranges: Sequence[Range] | None = None,
        sessions: SessionSelection | None = None,
    ) -> list[Near]:
        work = partial(
            self._extension.nearest,
            namespace=namespace,
            vector=vector,
            limit=limit,
            ranges=ranges,
            sessions=sessions,
        )
        return await self._engine.run(work, repeatable=True)
