"""`SQLiteStore`: the seam's methods, each one operation handed to the engine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Literal, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from frontdesk.errors import StoreURLError
from frontdesk.messages import StoredMessage
from frontdesk.store import (
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
from frontdesk.stores.sqlite import (
    append,
    changes,
    directory,
    documents,
    erasing,
    index,
    leases,
    log,
    reading,
    sessions,
    states,
    vectors,
)
from frontdesk.stores.sqlite.connections import Database
from frontdesk.stores.sqlite.engine import Engine

N = TypeVar("N", int, float)
_OPTIONS = ("busy_timeout", "readers", "synchronous")


class SQLiteStore:
    """A `Store` in one SQLite file, which any number of processes of one machine may share.

    An append that returned survives the loss of power, with `synchronous="normal"` only that of the process.
    `busy_timeout` is how many seconds to wait for other processes, `readers` how many reads may run at a time.
    Raises `StoreURLError` for values out of range.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Literal["full", "normal"] = "full",
        busy_timeout: float = 60.0,
        readers: int = 4,
    ) -> None:
        name = os.fspath(path)
        if name in ("", ":memory:"):
            raise StoreURLError("SQLite wants the path of a file: for a store in memory use memory://")
        if "\0" in name:
            raise StoreURLError(f"{name!r} holds a NUL character: no file can have this name")
        if synchronous not in ("full", "normal"):
            raise StoreURLError(f"synchronous must be full or normal, not {synchronous!r}")
        if not 0 <= busy_timeout <= 86_400:
            raise StoreURLError(f"busy_timeout must be 0 to 86400 seconds, not {busy_timeout!r}")
        if not 1 <= readers <= 64:
            raise StoreURLError(f"readers must be 1 to 64, not {readers!r}")
        self.path = os.path.abspath(name)
        self._engine = Engine(Database(self.path, synchronous=synchronous, busy_timeout=busy_timeout), readers)
        self._frequencies = index.Frequencies()

    @classmethod
    def from_url(cls, url: str) -> SQLiteStore:
        """The store of `sqlite:///relative.db` or `sqlite:////absolute.db`, with the keywords of the class as options.

        Raises `StoreURLError` for a URL without a file and for options that are not known or repeated.
        """
        parts = urlsplit(url)
        path = unquote(parts.path.removeprefix("/"))
        if parts.netloc:
            raise StoreURLError(f"{url!r} names a host: write sqlite:///relative.db or sqlite:////absolute.db")
        if parts.fragment:
            raise StoreURLError(f"{url!r} has a fragment: write %23 for a # in the name of a file")
        given = parse_qsl(parts.query, keep_blank_values=True)
        options = dict(given)
        unknown = sorted(set(options) - set(_OPTIONS))
        if unknown or len(options) < len(given):
            what = f"unknown option {unknown[0]!r}" if unknown else "an option is given twice"
            raise StoreURLError(f"{what} in {url!r}: sqlite takes {', '.join(_OPTIONS)}, each once")
        return cls(
            path,
            synchronous=options.get("synchronous", "full"),  # type: ignore[arg-type]
            busy_timeout=_number(options, "busy_timeout", 60.0),
            readers=_number(options, "readers", 4),
        )

    async def open(self) -> None:
        await self._engine.read(lambda connection: None)

    async def close(self) -> None:
        await self._engine.close()

    async def create(self, new: NewSession) -> tuple[SessionRow, bool]:
        return await self._engine.write(lambda connection: sessions.create(connection, new))

    async def get(self, namespace: str, session_id: str) -> SessionRow | None:
        return await self._engine.read(lambda connection: sessions.get(connection, namespace, session_id))

    async def get_current(self, namespace: str, key: tuple[str, str, str, str | None]) -> SessionRow | None:
        return await self._engine.read(lambda connection: sessions.get_current(connection, namespace, key))

    async def page(self, query: SessionQuery) -> list[SessionRow]:
        return await self._engine.read(lambda connection: directory.page(connection, query))

    async def due(self, query: DueQuery) -> list[SessionRow]:
        return await self._engine.read(lambda connection: directory.due(connection, query))

    async def append(self, request: Append) -> AppendResult:
        return await self._engine.write(lambda connection: append.append(connection, request))

    async def view(self, namespace: str, session_id: str, choose: Choose) -> ViewRead | None:
        return await self._engine.read(lambda connection: reading.view(connection, namespace, session_id, choose))

    async def tree(
        self, namespace: str, session_id: str, *, find: Sequence[str] = (), family: bool = False
    ) -> TreeRows | None:
        return await self._engine.read(lambda connection: reading.tree(connection, namespace, session_id, find, family))

    async def read(self, items: Sequence[Item]) -> tuple[Piece, ...]:
        return await self._engine.read(lambda connection: reading.pieces(connection, items))

    async def sums(self, places: Sequence[Place]) -> list[tuple[int, int]]:
        return await self._engine.read(lambda connection: reading.sums(connection, places))

    async def apply(self, plan: Plan) -> bool:
        return await self._engine.write(lambda connection: changes.apply(connection, plan))

    async def get_documents(
        self, namespace: str, session_id: str | None, names: Sequence[tuple[str, str]]
    ) -> list[DocumentRow]:
        return await self._engine.read(lambda connection: documents.get(connection, namespace, session_id, names))

    async def list_documents(self, namespace: str, session_id: str | None, label: str) -> list[DocumentRow]:
        return await self._engine.read(
            lambda connection: documents.list_label(connection, namespace, session_id, label)
        )

    async def document_versions(
        self, namespace: str, session_id: str | None, label: str, key: str
    ) -> list[DocumentRow]:
        return await self._engine.read(
            lambda connection: documents.versions(connection, namespace, session_id, label, key)
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
        return await self._engine.write(
            lambda connection: documents.put(connection, namespace, session_id, document, keep_history, drop_prompt)
        )

    async def get_prompt(self, namespace: str, session_id: str) -> PromptRow | None:
        return await self._engine.read(lambda connection: documents.get_prompt(connection, namespace, session_id))

    async def put_prompt(self, namespace: str, session_id: str, prompt: PromptRow, replaces: int | None) -> PromptRow:
        return await self._engine.write(
            lambda connection: documents.put_prompt(connection, namespace, session_id, prompt, replaces)
        )

    async def get_lease(self, namespace: str, session_id: str | None, name: str) -> LeaseRow | None:
        return await self._engine.read(lambda connection: leases.get(connection, namespace, session_id, name))

    async def acquire_lease(
        self, namespace: str, session_id: str | None, name: str, holder: str, ttl: int
    ) -> LeaseRow | None:
        return await self._engine.write(
            lambda connection: leases.acquire(connection, namespace, session_id, name, holder, ttl)
        )

    async def held_leases(self, namespace: str, name: str | None = None) -> list[HeldLease]:
        return await self._engine.read(lambda connection: leases.held(connection, namespace, name))

    async def renew_lease(self, namespace: str, session_id: str | None, name: str, number: int, ttl: int) -> bool:
        return await self._engine.write(
            lambda connection: leases.renew(connection, namespace, session_id, name, number, ttl)
        )

    async def release_lease(self, namespace: str, session_id: str | None, name: str, number: int) -> bool:
        return await self.renew_lease(namespace, session_id, name, number, 0)

    async def index_state(self, namespace: str) -> IndexRow | None:
        return await self._engine.read(lambda connection: index.state(connection, namespace))

    async def write_index(self, batch: IndexBatch) -> bool:
        return await self._engine.write(lambda connection: index.write(connection, batch))

    async def frequencies(self, namespace: str, terms: Sequence[str]) -> list[int]:
        return await self._engine.read(lambda connection: self._frequencies.of(connection, namespace, terms))

    async def matches(self, query: IndexQuery) -> list[IndexMatch]:
        return await self._engine.read(lambda connection: index.matches(connection, query))

    async def segments(self, namespace: str, numbers: Sequence[int]) -> list[SegmentRow]:
        return await self._engine.read(lambda connection: reading.segments(connection, numbers))

    async def sessions(self, namespace: str, numbers: Sequence[int]) -> list[SessionRow]:
        return await self._engine.read(lambda connection: sessions.by_number(connection, numbers))

    async def relatives(self, namespace: str, families: Sequence[int]) -> list[SessionRow]:
        return await self._engine.read(lambda connection: sessions.relatives(connection, namespace, families))

    async def families(self, namespace: str, after: int, limit: int) -> list[int]:
        return await self._engine.read(lambda connection: sessions.families(connection, namespace, after, limit))

    async def trees(self, namespace: str, session_ids: Sequence[str], *, family: bool = False) -> list[TreeRows]:
        return await self._engine.read(
            lambda connection: [
                rows
                for session_id in session_ids
                if (rows := reading.tree(connection, namespace, session_id, (), family)) is not None
            ]
        )

    async def changes(
        self, namespace: str, after: Position | None, limit: int, *, settled: bool = True
    ) -> list[ChangeRow]:
        return await self._engine.read(lambda connection: log.read(connection, namespace, after, limit))

    async def last_change(self, namespace: str) -> Position:
        return await self._engine.read(lambda connection: log.last(connection, namespace))

    async def wait_for_change(self, seconds: float) -> None:
        await self._engine.bell.wait(seconds)

    async def trim_changes(self, namespace: str, before_at: int, limit: int, *, until: Position | None = None) -> int:
        return await self._engine.write(lambda connection: log.trim(connection, namespace, before_at, limit, until))

    async def count_rows(self, session: int, spans: Sequence[Span]) -> RowCounts:
        return await self._engine.read(lambda connection: erasing.count(connection, session, spans))

    async def scrub(self, namespace: str) -> None:
        end: int | None = 0
        while end is not None:
            end = await self._engine.write(partial(erasing.clear_log, namespace=namespace, after=end))
        more = await self._engine.write(partial(erasing.merge_terms, begin=True))
        while more:
            more = await self._engine.write(partial(erasing.merge_terms, begin=False))
        await self._engine.empty_wal()

    async def queue_lease(self, wanted: LeaseWanted) -> LeaseAnswer:
        return await self._engine.write(lambda connection: leases.queue(connection, wanted))

    async def leave_lease(self, namespace: str, session_id: str, name: str, holder: str) -> None:
        await self._engine.write(lambda connection: leases.leave(connection, namespace, session_id, name, holder))

    async def next_queued(self, namespace: str, session_id: str, name: str, number: int) -> StoredMessage | None:
        return await self._engine.write(
            lambda connection: leases.next_queued(connection, namespace, session_id, name, number)
        )

    async def add_usage(self, namespace: str, session_id: str, line: UsageRow) -> bool:
        return await self._engine.write(lambda connection: sessions.add_usage(connection, namespace, session_id, line))

    async def usage(self, query: UsageQuery) -> list[UsageRow]:
        return await self._engine.read(lambda connection: sessions.usage(connection, query))

    async def get_state(self, key: StateKey) -> StateRow | None:
        return await self._engine.write(lambda connection: states.slide(connection, key))

    async def peek_state(self, key: StateKey) -> StateRow | None:
        return await self._engine.read(lambda connection: states.peek(connection, key))

    async def touch_state(self, key: StateKey) -> bool:
        return await self._engine.write(lambda connection: states.touch(connection, key))

    async def create_state(self, key: StateKey, value: str, ttl: int | None, mark: str) -> StateRow | None:
        return await self._engine.write(lambda connection: states.create(connection, key, value, ttl, mark))

    async def replace_state(self, key: StateKey, value: str, mark: str, seen: str) -> StateRow | None:
        return await self._engine.write(lambda connection: states.replace(connection, key, value, mark, seen))

    async def delete_state(self, key: StateKey) -> bool:
        return await self._engine.write(lambda connection: states.delete(connection, key))

    async def delete_states(self, namespace: str, id: str) -> int:
        return await self._engine.write(lambda connection: states.delete_all(connection, namespace, id))

    async def sweep_states(self, limit: int) -> Swept:
        return await self._engine.write(lambda connection: states.sweep(connection, limit))

    async def stats(self, query: StatsQuery) -> StatsRow:
        return await self._engine.read(lambda connection: directory.stats(connection, query))

    # vectors

    async def prepare_vectors(self, namespace: str, dimensions: int) -> None:
        vectors.check_engine()
        await self._engine.read(lambda connection: vectors.prepare(connection, namespace, dimensions))

    async def put_vectors(self, namespace: str, dimensions: int, given: Sequence[NewVector]) -> int:
        return await self._engine.write(lambda connection: vectors.put(connection, namespace, dimensions, given))

    async def vector_state(self, namespace: str) -> VectorRow | None:
        return await self._engine.read(lambda connection: vectors.state(connection, namespace))

    async def mark_vectors(
        self, namespace: str, dimensions: int, replaces: IndexState | None, state: IndexState
    ) -> bool:
        return await self._engine.write(
            lambda connection: vectors.mark(connection, namespace, dimensions, replaces, state)
        )

    async def without_vectors(self, namespace: str, addresses: Sequence[Address]) -> list[Address]:
        return await self._engine.read(lambda connection: vectors.without(connection, addresses))

    async def count_vectors(self, namespace: str) -> int:
        return await self._engine.read(lambda connection: vectors.count(connection, namespace))

    async def nearest(
        self, namespace: str, vector: bytes, limit: int, ranges: Sequence[Range] | None = None
    ) -> list[Near]:
        return await self._engine.read(lambda connection: vectors.nearest(connection, namespace, vector, limit, ranges))

    async def drop_vectors(self, namespace: str) -> None:
        await self._engine.write(lambda connection: vectors.drop(connection, namespace))


def _number(options: dict[str, str], name: str, default: N) -> N:
    try:
        return type(default)(options.get(name, default))
    except ValueError:
        raise StoreURLError(f"{name} must be a number, not {options[name]!r}") from None
