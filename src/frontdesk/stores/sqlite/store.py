"""`SQLiteStore`: the methods of the `Store` protocol, each one operation that is passed to the engine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from frontdesk.errors import StoreURLError
from frontdesk.store import Append, AppendResult, ShelfVersion, ShelfWrite
from frontdesk.stores.sql import database as sql
from frontdesk.stores.sql import directory, documents, leases, prompts, sessions, shelves, states, unfinished, usage
from frontdesk.stores.sql import erasure as shared_erasure
from frontdesk.stores.sql import transfer as shared_transfer
from frontdesk.stores.sqlite import append, erasure, index, log, plans, reading, transfer, vectors
from frontdesk.stores.sqlite.backup import back_up
from frontdesk.stores.sqlite.connections import DatabaseFile, SQLiteConnection
from frontdesk.stores.sqlite.database import shared
from frontdesk.stores.sqlite.engine import SQLiteEngine
from frontdesk.stores.sqlite.watch import watched

P = ParamSpec("P")
T = TypeVar("T")
N = TypeVar("N", int, float)
Operation = Callable[Concatenate[SQLiteConnection, P], T]
Shared = Callable[Concatenate[sql.Database, P], Coroutine[Any, Any, T]]
Method = Callable[Concatenate["SQLiteStore", P], Coroutine[Any, Any, T]]
_SMALL_COUNT, _SMALL_SIZE = 8, 65_536
_OPTIONS = ("busy_timeout", "readers", "synchronous")


def _read(operation: Operation[P, T], *, by_key: bool = False) -> Method[P, T]:
    """A method that runs an operation on a connection that reads. One that finds its rows `by_key` may be run on the
    event loop, while it is quick."""
    kind = operation if by_key else None

    async def run(store: SQLiteStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store.engine.read(lambda connection: operation(connection, *args, **kwargs), kind=kind)

    return run


def _write(operation: Operation[P, T]) -> Method[P, T]:
    """A method that runs an operation on the connection that writes, and returns once it is committed."""

    async def run(store: SQLiteStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store.engine.write(lambda connection: operation(connection, *args, **kwargs))

    return run


def _shared_read(operation: Shared[P, T], *, by_key: bool = False) -> Method[P, T]:
    return _read(shared(operation), by_key=by_key)


def _shared_write(operation: Shared[P, T]) -> Method[P, T]:
    return _write(shared(operation))


_write_shelf = shared(shelves.write)


class SQLiteStore:
    """A `Store` in one SQLite file, which any number of processes of one machine may share.

    An append that returned survives a power failure; with `synchronous="normal"`, it survives only a crash of the
    process. `busy_timeout` is how many seconds to wait for other processes, `readers` how many reads may run at a time.
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
            raise StoreURLError("SQLite needs the path of a file: for a store in memory use memory://")
        if "\0" in name:
            raise StoreURLError(f"{name!r} contains a NUL character: no file can have this name")
        if synchronous not in ("full", "normal"):
            raise StoreURLError(f"synchronous must be full or normal, not {synchronous!r}")
        if not 0 <= busy_timeout <= 86_400:
            raise StoreURLError(f"busy_timeout must be 0 to 86400 seconds, not {busy_timeout!r}")
        if not 1 <= readers <= 64:
            raise StoreURLError(f"readers must be 1 to 64, not {readers!r}")
        self.path = os.path.abspath(name)
        self.engine = SQLiteEngine(DatabaseFile(self.path, synchronous=synchronous, busy_timeout=busy_timeout), readers)
        self._frequencies = index.TextCounts()

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

    @property
    def url(self) -> str:
        return f"sqlite:///{quote(self.path)}"

    async def open(self) -> None:
        self.engine.reopen()
        await self.engine.read(lambda connection: None)

    async def close(self) -> None:
        await self.engine.close()

    create = _shared_write(sessions.create)
    get = _shared_read(sessions.get, by_key=True)
    get_current = _shared_read(sessions.get_current, by_key=True)
    page = _shared_read(directory.page, by_key=True)
    due = _shared_read(directory.due)
    stats = _shared_read(usage.stats)

    async def append(self, request: Append) -> AppendResult:
        return await self.engine.write(partial(append.append, request=request), small=_is_small(request))

    view = _read(reading.view, by_key=True)
    trees = _read(reading.trees)
    read = _read(reading.read, by_key=True)
    sums = _read(reading.sums, by_key=True)
    tally = _read(reading.tally)
    segments = _read(reading.segments)
    relatives = _shared_read(sessions.relatives)
    families = _shared_read(sessions.families)
    sessions = _shared_read(sessions.get_numbered, by_key=True)
    apply = _write(plans.apply)

    get_documents = _shared_read(documents.get, by_key=True)
    list_documents = _shared_read(documents.list_label)
    document_versions = _shared_read(documents.versions)
    put_document = _shared_write(documents.put)
    rewrite_document = _shared_write(documents.rewrite)
    delete_documents = _shared_write(documents.delete_owned)
    get_prompt = _shared_read(prompts.get, by_key=True)
    put_prompt = _shared_write(prompts.put)

    get_lease = _shared_read(leases.get, by_key=True)
    held_leases = _shared_read(leases.held, by_key=True)
    lease_queue = _shared_read(leases.waiting)
    acquire_lease = _shared_write(leases.acquire)
    renew_lease = _shared_write(leases.renew)
    queue_lease = _shared_write(leases.queue)
    leave_lease = _shared_write(leases.leave)
    next_queued = _shared_write(leases.next_queued)
    queued_messages = _shared_read(leases.queued)
    remove_queued = _shared_write(leases.remove_queued)

    add_usage = _shared_write(usage.add)
    recent_usage = _shared_read(usage.recent)
    usage = _shared_read(usage.totals)

    log_change = _write(log.add)
    changes = _read(log.read, by_key=True)
    last_change = _read(log.last, by_key=True)
    trim_changes = _write(log.trim)
    count_rows = _shared_read(shared_erasure.count)

    async def wait_for_change(self, seconds: float, since: int | None = None) -> int:
        with watched(self.path, self.engine.bell):
            return await self.engine.bell.wait(seconds, since)

    async def scrub(self, namespace: str) -> None:
        end: int | None = 0
        while end is not None:
            end = await self.engine.write(partial(erasure.clear_log, namespace=namespace, after=end))
        more = await self.engine.write(partial(erasure.merge_terms, begin=True))
        while more:
            more = await self.engine.write(partial(erasure.merge_terms, begin=False))
        await self.engine.empty_wal()

    async def backup(self, path: str) -> None:
        await asyncio.to_thread(back_up, self.path, path)

    document_owners = _shared_read(shared_transfer.document_owners)
    documents_of = _shared_read(shared_transfer.documents_of)
    placed_messages = _read(transfer.placed_messages)
    usage_entries = _shared_read(shared_transfer.usage_entries)
    usage_days = _shared_read(shared_transfer.usage_days)
    states_after = _shared_read(shared_transfer.states_after)
    shelves_after = _shared_read(shelves.after)
    draw_numbers = _shared_write(shared_transfer.draw_numbers)
    begin_family = _shared_write(unfinished.begin)
    unfinished_families = _shared_read(unfinished.families)
    remove_unfinished = _shared_write(unfinished.remove)
    restore = _write(transfer.restore)

    index_state = _read(index.state)
    write_index = _write(index.write)
    terms = _read(index.terms)
    matches = _read(index.matches)
    unindexed = _read(index.unindexed)
    owner_trees = _read(index.owner_trees)

    async def frequencies(self, namespace: str, terms: Sequence[str]) -> list[int]:
        return await self.engine.read(lambda connection: self._frequencies.of(connection, namespace, terms))

    prepare_vectors = _read(vectors.prepare)
    put_vectors = _write(vectors.put)
    vector_state = _read(vectors.state)
    mark_vectors = _write(vectors.mark)
    without_vectors = _read(vectors.without)
    count_vectors = _read(vectors.count)
    nearest = _read(vectors.nearest)
    drop_vectors = _write(vectors.drop)

    get_state = _shared_write(states.get)
    peek_state = _shared_read(states.peek)
    touch_state = _shared_write(states.touch)
    create_state = _shared_write(states.create)
    replace_state = _shared_write(states.replace)
    list_states = _shared_read(states.page)
    count_states = _shared_read(states.count)
    delete_state = _shared_write(states.delete)
    delete_states = _shared_write(states.delete_all)
    clear_states = _shared_write(states.clear)
    delete_owned_states = _shared_write(states.delete_owned)
    sweep_states = _shared_write(states.sweep)
    add_state_store = _shared_write(states.add_store)
    state_stores = _shared_read(states.stores)
    forget_state_store = _shared_write(states.forget_store)

    read_shelf = _shared_read(shelves.read, by_key=True)

    async def write_shelf(self, write: ShelfWrite) -> ShelfVersion | None:
        return await self.engine.write(partial(_write_shelf, given=write), small=_is_small_write(write))

    delete_shelf = _shared_write(shelves.delete)
    list_shelves = _shared_read(shelves.page)
    delete_owned_shelves = _shared_write(shelves.delete_owned)


def _is_small(request: Append) -> bool:
    """Whether an append takes less time than a switch between threads."""
    return len(request.messages) <= _SMALL_COUNT and sum([len(one.raw) for one in request.messages]) <= _SMALL_SIZE


def _is_small_write(write: ShelfWrite) -> bool:
    """The same for a write to a shelf."""
    blobs = (*write.put, *write.add)
    return not write.delete and len(blobs) <= _SMALL_COUNT and sum([len(blob.value) for blob in blobs]) <= _SMALL_SIZE


def _number(options: dict[str, str], name: str, default: N) -> N:
    try:
        return type(default)(options.get(name, default))
    except ValueError:
        raise StoreURLError(f"{name} must be a number, not {options[name]!r}") from None
