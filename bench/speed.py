"""The speed of search and of indexing in a corpus of a million messages, on SQLite and on PostgreSQL, and what indexing
costs appends."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import apsw

from bench.corpus import QUERIES, SESSION_SIZE, WORDS_A_MESSAGE, Corpus
from bench.server import clock_with_server
from frontdesk import SessionManager
from frontdesk.search.texts import BATCH_SIZE
from frontdesk.search.tokeniser import TOKENISER
from tests.servers.postgres import PostgresServer

_ONE_SESSION_MS = 10.0
_EVERYTHING_MS = 60.0
_INDEXED_PER_SECOND = 20_000
_APPEND_RATIO = 1.15
_FLOOR = 8_192
_ROUNDS = 5
_APPENDS = 2_000


class Duration(NamedTuple):
    """Seconds of wall time, and of CPU time of all threads of this process and of the server."""

    wall: float
    cpu: float


class Timer:
    """Measures work on a store."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock

    @classmethod
    async def of(cls, url: str) -> Timer:
        server = await clock_with_server(url) if url.startswith("postgresql:") else None
        return cls(server or time.process_time_ns)

    async def time(self, work: Callable[[], Awaitable[Any]]) -> Duration:
        wall, cpu = time.perf_counter(), self._clock()
        await work()
        return Duration(time.perf_counter() - wall, (self._clock() - cpu) / 1e9)


async def measure_speed(messages: int, stores: Sequence[str]) -> None:
    print(f"{messages:,} messages of {WORDS_A_MESSAGE} words, {SESSION_SIZE:,} per session;")
    print("targets are judged by CPU time, since wall time depends on the load of the machine", flush=True)
    with TemporaryDirectory(prefix="frontdesk-bench-") as folder:
        if "sqlite" in stores:
            await _measure_store(f"sqlite:///{Path(folder) / 'search.db'}?synchronous=normal", messages)
        if "postgresql" in stores:
            with PostgresServer() as server:
                await _measure_store(server.create_database(), messages)
        await _measure_appends(Path(folder), Corpus())


async def _measure_store(url: str, messages: int) -> None:
    timer = await Timer.of(url)
    corpus = Corpus()
    async with SessionManager(url) as manager:
        _prevent_indexing(manager)
        start = time.perf_counter()
        for first in range(0, messages, SESSION_SIZE):
            batch = list(corpus.messages(first, SESSION_SIZE))
            await manager.session(f"s{first // SESSION_SIZE}").append_all(batch)
        print(f"{url.partition(':')[0]}: written in {time.perf_counter() - start:.0f} s", flush=True)
        await _measure_indexing(manager, timer, messages)
        if url.startswith("sqlite"):
            print(f"    FTS5 alone, with terms that are ready: {_fts5_rate():,.0f} messages/s by CPU", flush=True)
        size = (await manager.stats()).store_bytes / messages
        print(f"  {size:,.0f} bytes per message, including the index")
        await _measure_searches(manager, timer, messages // SESSION_SIZE)


def _prevent_indexing(manager: SessionManager) -> None:
    """Prevent indexing in the background."""
    manager._runtime.background.later = lambda *_: None  # type: ignore[method-assign]


async def _measure_indexing(manager: SessionManager, timer: Timer, messages: int) -> None:
    spent = await timer.time(manager.reindex)
    rate = messages / spent.wall
    by_cpu = f"{messages / spent.cpu:,.0f} by CPU of all threads and processes"
    met = verdict(rate >= _INDEXED_PER_SECOND)
    print(f"  {met} indexing: {rate:,.0f} messages/s ({by_cpu}), target >= {_INDEXED_PER_SECOND:,}", flush=True)


def _fts5_rate() -> float:
    """How many messages FTS5 itself takes in a second of CPU time: the most that indexing can reach."""
    texts = [" ".join(TOKENISER.terms(message["content"])) for message in Corpus().messages(0, _FLOOR)]
    connection = apsw.Connection("")
    connection.execute("CREATE VIRTUAL TABLE texts USING fts5 (terms, content = '', contentless_delete = 1)")
    start = time.process_time()
    for first in range(0, _FLOOR, BATCH_SIZE):
        with connection:
            connection.executemany(
                "INSERT INTO texts (terms) VALUES (?)", [(text,) for text in texts[first:][:BATCH_SIZE]]
            )
    return _FLOOR / (time.process_time() - start)


async def _measure_searches(manager: SessionManager, timer: Timer, sessions: int) -> None:
    print("  milliseconds, median of five            one session          everything")
    print("                                         CPU   (wall)        CPU   (wall)     first time")
    session = manager.session(f"s{sessions // 2}")
    for kind, query in QUERIES.items():
        first = await timer.time(partial(manager.search, query))
        one = await _median(timer, partial(session.search, query))
        everything = await _median(timer, partial(manager.search, query))
        met = one.cpu <= _ONE_SESSION_MS / 1000 and everything.cpu <= _EVERYTHING_MS / 1000
        print(
            f"  {verdict(met)} {kind:27} {one.cpu * 1000:7.1f} ({one.wall * 1000:7.1f})"
            f" {everything.cpu * 1000:9.1f} ({everything.wall * 1000:7.1f}) {first.cpu * 1000:9.1f}",
            flush=True,
        )
    print(f"  targets: one session <= {_ONE_SESSION_MS:g} ms, everything <= {_EVERYTHING_MS:g} ms")


async def _median(timer: Timer, search: Callable[[], Awaitable[Any]]) -> Duration:
    rounds = [await timer.time(search) for _ in range(_ROUNDS)]
    return Duration(median(spent.wall for spent in rounds), median(spent.cpu for spent in rounds))


async def _measure_appends(folder: Path, corpus: Corpus) -> None:
    """Measure single appends, alternating between rounds with and without background indexing."""
    rounds: dict[bool, list[Duration]] = {True: [], False: []}
    for number in range(6):
        indexed = number % 2 == 0
        path = folder / f"append{number}.db"
        async with SessionManager(f"sqlite:///{path}?synchronous=normal") as manager:
            if not indexed:
                _prevent_indexing(manager)
            session = manager.session("chat")
            messages = list(corpus.messages(0, _APPENDS))
            await manager.reindex()

            async def append(session: Any = session, messages: Any = messages) -> None:
                for message in messages:
                    await session.append(message)

            rounds[indexed].append(await Timer(time.process_time_ns).time(append))
    on, off = (median(spent.cpu for spent in rounds[indexed]) for indexed in (True, False))
    print(
        f"  {verdict(on <= _APPEND_RATIO * off)} append: {on / _APPENDS * 1e6:.0f} µs of CPU with indexing on,"
        f" {off / _APPENDS * 1e6:.0f} without: {on / off:.2f}x, target <= {_APPEND_RATIO}x"
    )


def verdict(met: bool) -> str:
    return "PASS  " if met else "MISSED"
