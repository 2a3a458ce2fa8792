"""`PostgresStore`: the seam on PostgreSQL. Says which work is run how; the work itself is in the modules beside it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Self

from frontdesk.errors import SessionNotFoundError, StoreClosedError
from frontdesk.messages.stored import StoredMessage
from frontdesk.store import (
    BEGINNING,
    Address,
    Append,
    AppendResult,
    ChangeRow,
    Choose,
    DocumentRow,
    DueQuery,
    HeldLease,
    IndexBatch,
    IndexMatch,
    IndexQuery,
    IndexRow,
    IndexState,
    Item,
    LeaseAnswer,
    LeaseRow,
    LeaseWanted,
    Near,
    NewSession,
    NewVector,
    Piece,
    Place,
    Plan,
    Position,
    PromptRow,
    Range,
    RowCounts,
    SegmentRow,
    SessionQuery,
    SessionRow,
    Span,
    StateKey,
    StateRow,
    StatsQuery,
    StatsRow,
    Swept,
    TreeRows,
    UsageQuery,
    UsageRow,
    VectorRow,
    ViewRead,
)
from frontdesk.stores.bell import Bell
from frontdesk.stores.postgres.appending import Appender
from frontdesk.stores.postgres.changes import Changer
from frontdesk.stores.postgres.directory import Directory
from frontdesk.stores.postgres.documents import Documents
from frontdesk.stores.postgres.engine import Connection, Engine, Lane
from frontdesk.stores.postgres.erasing import TABLES, Erasing
from frontdesk.stores.postgres.index import Index
from frontdesk.stores.postgres.leases import Leases
from frontdesk.stores.postgres.log import Log
from frontdesk.stores.postgres.notices import NOTIFY, Notices, channel_of
from frontdesk.stores.postgres.reading import Reader
from frontdesk.stores.postgres.schema import migrate, quote_schema
from frontdesk.stores.postgres.states import States
from frontdesk.stores.postgres.totals import Totals
from frontdesk.stores.postgres.url import check_options, describe, parse_url
from frontdesk.stores.postgres.vectors import Vectors


class PostgresStore:
    """A `Store` on PostgreSQL 15 or newer, for any number of processes, threads and event loops.

    `pool` is the most connections that each event loop takes; `pooler` says that a transaction pooler stands between,
    so that nothing may be bound to a session; all tables lie in `schema`; no statement takes longer than `timeout`
    seconds (but for the removal of very many messages).
    Raises `StoreURLError` for options that make no sense. Connects at first use.
    """

    def __init__(
        self, dsn: str, *, pool: int = 10, pooler: bool = False, schema: str = "frontdesk", timeout: float = 30.0
    ) -> None:
        check_options(pool, timeout)
        self._schema = quote_schema(schema)
        self._described = describe(dsn)
        self._engine = Engine(dsn, pool=pool, pooler=pooler, timeout=timeout, prepare=self._migrate)
        self._reader = Reader(self._schema)
        self._changer = Changer(self._schema)
        self._directory = Directory(self._schema)
        self._documents = Documents(self._schema)
        self._leases = Leases(self._schema)
        self._index = Index(self._schema)
        self._log = Log(self._schema)
        self._erasing = Erasing(self._schema)
        self._totals = Totals(self._schema)
        self._states = States(self._schema)
        self._bell = Bell()

        self._vectors = Vectors(self._schema)

    @classmethod
    def from_url(cls, url: str) -> Self:
        """The store that a URL names: `postgresql://user:password@host:port/database`, with any of the options
        `pool=10`, `pooler=transaction`, `schema=frontdesk`, `timeout=30`, and those that libpq and asyncpg know.

        Raises `StoreURLError` for anything else."""
        dsn, options = parse_url(url)
        return cls(dsn, **options)

    def __repr__(self) -> str:
        return f"PostgresStore({self._described!r}, schema={self._schema})"

    async def _migrate(self, connection: Connection) -> None:
        await migrate(connection, self._schema)

    async def open(self) -> None:
        await self._engine.open()

    async def close(self) -> None:
        await self._engine.close()

    # sessions

    async def create(self, new: NewSession) -> tuple[SessionRow, bool]:
        key = None if new.agent is None else (new.agent, new.channel or "", new.peer or "", new.thread)
        while True:
            made = await self._engine.run(lambda connection: self._changer.create(connection, new), repeatable=False)
            if made is not None:
                self._tell()
                return made, True
            existing = await self.get(new.namespace, new.id)
            if existing is None and key is not None:
                existing = await self.get_current(new.namespace, key)
            if existing is not None:
                return existing, False

    async def get(self, namespace: str, session_id: str) -> SessionRow | None:
        return await self._engine.run(
            lambda connection: self._reader.session(connection, namespace, session_id), repeatable=True
        )

    async def get_current(self, namespace: str, key: tuple[str, str, str, str | None]) -> SessionRow | None:
        return await self._engine.run(
            lambda connection: self._reader.current(connection, namespace, key), repeatable=True
        )

    async def page(self, query: SessionQuery) -> list[SessionRow]:
        return await self._engine.run(lambda connection: self._directory.page(connection, query), repeatable=True)

    async def due(self, query: DueQuery) -> list[SessionRow]:
        return await self._engine.run(lambda connection: self._directory.due(connection, query), repeatable=True)

    # messages

    async def append(self, request: Append) -> AppendResult:
        lane = await self._engine.open()
        if lane.appender is None:
            lane.appender = Appender(self._engine, lane, self._schema)
        result = await lane.appender.append(request)
        self._tell()
        return result

    async def view(self, namespace: str, session_id: str, choose: Choose) -> ViewRead | None:
        return await self._engine.run(
            lambda connection: self._reader.view(connection, namespace, session_id, choose), repeatable=True
        )

    async def tree(
        self, namespace: str, session_id: str, *, find: Sequence[str] = (), family: bool = False
    ) -> TreeRows | None:
        return await self._engine.run(
            lambda connection: self._reader.tree(connection, namespace, session_id, find, family), repeatable=True
        )

    async def read(self, items: Sequence[Item]) -> tuple[Piece, ...]:
        return await self._engine.run(lambda connection: self._reader.read(connection, items), repeatable=True)

    async def sums(self, places: Sequence[Place]) -> list[tuple[int, int]]:
        return await self._engine.run(lambda connection: self._reader.sums(connection, places), repeatable=True)

    async def apply(self, plan: Plan) -> bool:
        applied = await self._engine.transact(lambda connection: self._changer.apply(connection, plan))
        self._tell()
        return applied

    # documents

    async def get_documents(
        self, namespace: str, session_id: str | None, names: Sequence[tuple[str, str]]
    ) -> list[DocumentRow]:
        return await self._engine.run(
            lambda connection: self._documents.get(connection, namespace, session_id, names), repeatable=True
        )

    async def list_documents(self, namespace: str, session_id: str | None, label: str) -> list[DocumentRow]:
        return await self._engine.run(
            lambda connection: self._documents.entries(connection, namespace, session_id, label), repeatable=True
        )

    async def document_versions(
        self, namespace: str, session_id: str | None, label: str, key: str
    ) -> list[DocumentRow]:
        return await self._engine.run(
            lambda connection: self._documents.versions(connection, namespace, session_id, label, key), repeatable=True
        )

    async def put_document(
        self,
        namespace: str,
        session_id: str | None,
        document: DocumentRow,
        *,
        keep_history: bool = True,
        drop_prompt: bool = False,
    ) -> bool:
        done = await self._engine.transact(
            lambda connection: self._documents.put(
                connection, namespace, session_id, document, keep_history, drop_prompt
            )
        )
        self._tell()
        return done

    async def get_prompt(self, namespace: str, session_id: str) -> PromptRow | None:
        return await self._engine.run(
            lambda connection: self._documents.get_prompt(connection, namespace, session_id), repeatable=True
        )

    async def put_prompt(self, namespace: str, session_id: str, prompt: PromptRow, replaces: int | None) -> PromptRow:
        return await self._engine.transact(
            lambda connection: self._documents.put_prompt(connection, namespace, session_id, prompt, replaces)
        )

    # leases

    async def get_lease(self, namespace: str, session_id: str | None, name: str) -> LeaseRow | None:
        return await self._engine.run(
            lambda connection: self._leases.get(connection, namespace, session_id, name), repeatable=True
        )

    async def acquire_lease(
        self, namespace: str, session_id: str | None, name: str, holder: str, ttl: int
    ) -> LeaseRow | None:
        return await self._engine.run(
            lambda connection: self._leases.acquire(connection, namespace, session_id, name, holder, ttl),
            repeatable=False,
        )

    async def held_leases(self, namespace: str, name: str | None = None) -> list[HeldLease]:
        return await self._engine.run(
            lambda connection: self._leases.held(connection, namespace, name), repeatable=True
        )

    async def renew_lease(self, namespace: str, session_id: str | None, name: str, number: int, ttl: int) -> bool:
        return await self._engine.run(
            lambda connection: self._leases.end_at(connection, namespace, session_id, name, number, ttl),
            repeatable=False,
        )

    async def release_lease(self, namespace: str, session_id: str | None, name: str, number: int) -> bool:
        return await self.renew_lease(namespace, session_id, name, number, 0)

    # the log

    async def changes(
        self, namespace: str, after: Position | None, limit: int, *, settled: bool = True
    ) -> list[ChangeRow]:
        return await self._engine.run(
            lambda connection: self._log.read(connection, namespace, after, limit, settled), repeatable=True
        )

    async def last_change(self, namespace: str) -> Position:
        return await self._engine.run(lambda connection: self._log.last(connection, namespace), repeatable=True)

    async def wait_for_change(self, seconds: float) -> None:
        await self._notices(await self._engine.open()).wait(seconds)

    def _notices(self, lane: Lane) -> Notices:
        if lane.notices is None:
            channel = channel_of(self._schema)

            async def notify() -> None:
                await self._engine.run_on(
                    lane, lambda connection: connection.execute(NOTIFY, channel), repeatable=False
                )

            lane.notices = Notices(
                self._bell, channel, notify, self._engine.connect if self._engine.is_direct else None
            )
        return lane.notices

    def _tell(self) -> None:
        """Say that something was committed."""
        with suppress(StoreClosedError):
            self._notices(self._engine.lane()).written()

    async def trim_changes(self, namespace: str, before_at: int, limit: int, *, until: Position | None = None) -> int:
        return await self._engine.transact(
            lambda connection: self._log.trim(connection, namespace, before_at, limit, until)
        )

    # erasure

    async def count_rows(self, session: int, spans: Sequence[Span]) -> RowCounts:
        return await self._engine.run(
            lambda connection: self._erasing.count(connection, session, spans), repeatable=True
        )

    async def scrub(self, namespace: str) -> None:
        end: Position | None = BEGINNING
        while end is not None:
            end = await self._engine.transact(partial(self._erasing.clear_log, namespace=namespace, after=end))
        for table in TABLES:
            await self._engine.run(partial(self._erasing.vacuum, table=table), repeatable=True)

    # states: a write carries its mark, so that it can be done again after a lost connection

    async def get_state(self, key: StateKey) -> StateRow | None:
        return await self._engine.run(lambda connection: self._states.slide(connection, key), repeatable=True)

    async def peek_state(self, key: StateKey) -> StateRow | None:
        return await self._engine.run(lambda connection: self._states.peek(connection, key), repeatable=True)

    async def touch_state(self, key: StateKey) -> bool:
        return await self._engine.run(lambda connection: self._states.touch(connection, key), repeatable=True)

    async def create_state(self, key: StateKey, value: str, ttl: int | None, mark: str) -> StateRow | None:
        return await self._engine.run(
            lambda connection: self._states.create(connection, key, value, ttl, mark), repeatable=True
        )

    async def replace_state(self, key: StateKey, value: str, mark: str, seen: str) -> StateRow | None:
        return await self._engine.run(
            lambda connection: self._states.replace(connection, key, value, mark, seen), repeatable=True
        )

    async def delete_state(self, key: StateKey) -> bool:
        return await self._engine.run(lambda connection: self._states.delete(connection, key), repeatable=False)

    async def delete_states(self, namespace: str, id: str) -> int:
        return await self._engine.run(
            lambda connection: self._states.delete_all(connection, namespace, id), repeatable=False
        )

    async def sweep_states(self, limit: int) -> Swept:
        return await self._engine.run(lambda connection: self._states.sweep(connection, limit), repeatable=True)

    async def queue_lease(self, wanted: LeaseWanted) -> LeaseAnswer:
        return await self._engine.run(lambda connection: self._leases.queue(connection, wanted), repeatable=True)

    async def leave_lease(self, namespace: str, session_id: str, name: str, holder: str) -> None:
        await self._engine.run(
            lambda connection: self._leases.leave(connection, namespace, session_id, name, holder), repeatable=True
        )

    async def next_queued(self, namespace: str, session_id: str, name: str, number: int) -> StoredMessage | None:
        return await self._engine.run(
            lambda connection: self._leases.next_queued(connection, namespace, session_id, name, number),
            repeatable=True,
        )

    # the search index

    async def index_state(self, namespace: str) -> IndexRow | None:
        return await self._engine.run(lambda connection: self._index.state(connection, namespace), repeatable=True)

    async def write_index(self, batch: IndexBatch) -> bool:
        return await self._engine.transact(lambda connection: self._index.write(connection, batch))

    async def frequencies(self, namespace: str, terms: Sequence[str]) -> list[int]:
        return await self._engine.run(
            lambda connection: self._index.frequencies(connection, namespace, terms), repeatable=True
        )

    async def matches(self, query: IndexQuery) -> list[IndexMatch]:
        return await self._engine.transact(lambda connection: self._index.matches(connection, query))

    async def segments(self, namespace: str, numbers: Sequence[int]) -> list[SegmentRow]:
        return await self._engine.run(lambda connection: self._reader.segments(connection, numbers), repeatable=True)

    async def sessions(self, namespace: str, numbers: Sequence[int]) -> list[SessionRow]:
        return await self._engine.run(
            lambda connection: self._reader.sessions(connection, namespace, numbers), repeatable=True
        )

    async def relatives(self, namespace: str, families: Sequence[int]) -> list[SessionRow]:
        return await self._engine.run(
            lambda connection: self._reader.relatives(connection, namespace, families), repeatable=True
        )

    async def families(self, namespace: str, after: int, limit: int) -> list[int]:
        return await self._engine.run(
            lambda connection: self._reader.families(connection, namespace, after, limit), repeatable=True
        )

    async def trees(self, namespace: str, session_ids: Sequence[str], *, family: bool = False) -> list[TreeRows]:
        return await self._engine.run(
            lambda connection: self._reader.trees(connection, namespace, session_ids, family), repeatable=True
        )

    # usage and totals

    async def add_usage(self, namespace: str, session_id: str, line: UsageRow) -> bool:
        added = await self._engine.run(
            lambda connection: self._changer.add_usage(connection, namespace, session_id, line), repeatable=False
        )
        self._tell()
        return added

    async def usage(self, query: UsageQuery) -> list[UsageRow]:
        if query.session_id is not None and await self.get(query.namespace, query.session_id) is None:
            raise SessionNotFoundError(query.session_id, query.namespace)
        return await self._engine.run(lambda connection: self._totals.usage(connection, query), repeatable=True)

    async def stats(self, query: StatsQuery) -> StatsRow:
        return await self._engine.run(lambda connection: self._totals.stats(connection, query), repeatable=True)

    # vectors

    async def prepare_vectors(self, namespace: str, dimensions: int) -> None:
        await self._engine.run(
            lambda connection: self._vectors.prepare(connection, namespace, dimensions), repeatable=True
        )

    async def put_vectors(self, namespace: str, dimensions: int, given: Sequence[NewVector]) -> int:
        return await self._engine.transact(
            lambda connection: self._vectors.put(connection, namespace, dimensions, given)
        )

    async def vector_state(self, namespace: str) -> VectorRow | None:
        return await self._engine.run(lambda connection: self._vectors.state(connection, namespace), repeatable=True)

    async def mark_vectors(
        self, namespace: str, dimensions: int, replaces: IndexState | None, state: IndexState
    ) -> bool:
        return await self._engine.transact(
            lambda connection: self._vectors.mark(connection, namespace, dimensions, replaces, state)
        )

    async def without_vectors(self, namespace: str, addresses: Sequence[Address]) -> list[Address]:
        return await self._engine.run(
            lambda connection: self._vectors.without(connection, namespace, addresses), repeatable=True
        )

    async def count_vectors(self, namespace: str) -> int:
        return await self._engine.run(lambda connection: self._vectors.count(connection, namespace), repeatable=True)

    async def nearest(
        self, namespace: str, vector: bytes, limit: int, ranges: Sequence[Range] | None = None
    ) -> list[Near]:
        return await self._engine.run(
            lambda connection: self._vectors.nearest(connection, namespace, vector, limit, ranges), repeatable=True
        )

    async def drop_vectors(self, namespace: str) -> None:
        await self._engine.transact(lambda connection: self._vectors.drop(connection, namespace))
