"""`SQLiteStore`: the methods of the `Store` protocol, each one operation that is passed to the engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from frontdesk.errors import StoreURLError
from frontdesk.stores.sqlite import (
    append,
    directory,
    documents,
    erasure,
    index,
    leases,
    log,
    plans,
    prompts,
    reading,
    sessions,
    states,
    usage,
    vectors,
)
from frontdesk.stores.sqlite.connections import Connection, Database
from frontdesk.stores.sqlite.engine import SQLiteEngine

P = ParamSpec("P")
T = TypeVar("T")
N = TypeVar("N", int, float)
Operation = Callable[Concatenate[Connection, P], T]
_OPTIONS = ("busy_timeout", "readers", "synchronous")


def _read(operation: Operation[P, T]) -> Callable[Concatenate[SQLiteStore, P], Coroutine[Any, Any, T]]:
    """A method that runs an operation on a connection that reads."""

    async def run(store: SQLiteStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store.engine.read(lambda connection: operation(connection, *args, **kwargs))

    return run


def _write(operation: Operation[P, T]) -> Callable[Concatenate[SQLiteStore, P], Coroutine[Any, Any, T]]:
    """A method that runs an operation on the connection that writes, and returns once it is committed."""

    async def run(store: SQLiteStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store.engine.write(lambda connection: operation(connection, *args, **kwargs))

    return run


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
        self.engine = SQLiteEngine(Database(self.path, synchronous=synchronous, busy_timeout=busy_timeout), readers)
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

    @property
    def url(self) -> str:
        return f"sqlite:///{quote(self.path)}"

    async def open(self) -> None:
        self.engine.reopen()
        await self.engine.read(lambda connection: None)

    async def close(self) -> None:
        await self.engine.close()

    create = _write(sessions.create)
    get = _read(sessions.get)
    get_current = _read(sessions.get_current)
    page = _read(directory.page)
    due = _read(directory.due)
    stats = _read(directory.stats)

    append = _write(append.append)
    view = _read(reading.view)
    trees = _read(reading.trees)
    read = _read(reading.read)
    sums = _read(reading.sums)
    segments = _read(reading.segments)
    relatives = _read(sessions.relatives)
    families = _read(sessions.families)
    sessions = _read(sessions.by_number)
    apply = _write(plans.apply)

    get_documents = _read(documents.get)
    list_documents = _read(documents.list_label)
    document_versions = _read(documents.versions)
    put_document = _write(documents.put)
    rewrite_document = _write(documents.rewrite)
    delete_documents = _write(documents.delete_owned)
    get_prompt = _read(prompts.get)
    put_prompt = _write(prompts.put)

    get_lease = _read(leases.get)
    held_leases = _read(leases.held)
    acquire_lease = _write(leases.acquire)
    renew_lease = _write(leases.renew)
    queue_lease = _write(leases.queue)
    leave_lease = _write(leases.leave)
    next_queued = _write(leases.next_queued)

    add_usage = _write(usage.add)
    usage = _read(usage.totals)

    log_change = _write(log.add)
    changes = _read(log.read)
    last_change = _read(log.last)
    trim_changes = _write(log.trim)
    count_rows = _read(erasure.count)

    async def wait_for_change(self, seconds: float) -> None:
        await self.engine.bell.wait(seconds)

    async def scrub(self, namespace: str) -> None:
        end: int | None = 0
        while end is not None:
            end = await self.engine.write(partial(erasure.clear_log, namespace=namespace, after=end))
        more = await self.engine.write(partial(erasure.merge_terms, begin=True))
        while more:
            more = await self.engine.write(partial(erasure.merge_terms, begin=False))
        await self.engine.empty_wal()

    index_state = _read(index.state)
    write_index = _write(index.write)
    matches = _read(index.matches)

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

    get_state = _write(states.slide)
    peek_state = _read(states.peek)
    touch_state = _write(states.touch)
    create_state = _write(states.create)
    replace_state = _write(states.replace)
    list_states = _read(states.page)
    count_states = _read(states.count)
    delete_state = _write(states.delete)
    delete_states = _write(states.delete_all)
    clear_states = _write(states.clear)
    delete_owned_states = _write(states.delete_owned)
    sweep_states = _write(states.sweep)
    add_state_store = _write(states.add_store)
    state_stores = _read(states.stores)
    forget_state_store = _write(states.forget_store)


def _number(options: dict[str, str], name: str, default: N) -> N:
    try:
        return type(default)(options.get(name, default))
    except ValueError:
        raise StoreURLError(f"{name} must be a number, not {options[name]!r}") from None
