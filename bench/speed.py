"""The speed of search and of indexing in a corpus of a million messages, and what indexing costs appends."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from bench.corpus import QUERIES, SESSION_SIZE, WORDS_A_MESSAGE, Corpus
from frontdesk import SessionManager

_ONE_SESSION_MS = 10.0
_EVERYTHING_MS = 60.0
_INDEXED_PER_SECOND = 20_000
_APPEND_RATIO = 1.15
_ROUNDS = 5
_APPENDS = 2_000


class Duration(NamedTuple):
    """Seconds of wall time, and of CPU time of all threads of this process."""

    wall: float
    cpu: float


async def timed(work: Callable[[], Awaitable[Any]]) -> Duration:
    wall, cpu = time.perf_counter(), time.process_time()
    await work()
    return Duration(time.perf_counter() - wall, time.process_time() - cpu)


async def measure_speed(messages: int) -> None:
    with TemporaryDirectory(prefix="frontdesk-bench-") as folder:
        url = f"sqlite:///{Path(folder) / 'search.db'}?synchronous=normal"
        async with SessionManager(url) as manager:
            _prevent_indexing(manager)
            corpus = Corpus()
            print(f"{messages:,} messages of {WORDS_A_MESSAGE} words, {SESSION_SIZE:,} per session (SQLite);")
            print("targets are judged by CPU time, since wall time depends on the load of the machine", flush=True)
            start = time.perf_counter()
            for first in range(0, messages, SESSION_SIZE):
                batch = list(corpus.messages(first, SESSION_SIZE))
                await manager.session(f"s{first // SESSION_SIZE}").append_all(batch)
            print(f"  written in {time.perf_counter() - start:.0f} s", flush=True)
            await _measure_indexing(manager, messages)
            size = (await manager.stats()).store_bytes / messages
            print(f"  {size:,.0f} bytes per message, including the index")
            await _measure_searches(manager, messages // SESSION_SIZE)
        await _measure_appends(Path(folder), corpus)


def _prevent_indexing(manager: SessionManager) -> None:
    """Prevent indexing in the background."""
    manager._runtime.background.later = lambda *_: None  # type: ignore[method-assign]


async def _measure_indexing(manager: SessionManager, messages: int) -> None:
    spent = await timed(manager.reindex)
    rate = messages / spent.wall
    by_cpu = f"{messages / spent.cpu:,.0f} by CPU of all threads"
    verdict = _verdict(rate >= _INDEXED_PER_SECOND)
    print(f"  {verdict} indexing: {rate:,.0f} messages/s ({by_cpu}), target >= {_INDEXED_PER_SECOND:,}", flush=True)


async def _measure_searches(manager: SessionManager, sessions: int) -> None:
    print("  milliseconds, median of five            one session          everything")
    print("                                         CPU   (wall)        CPU   (wall)     first time")
    session = manager.session(f"s{sessions // 2}")
    for kind, query in QUERIES.items():
        first = await timed(partial(manager.search, query))
        one = await _median(partial(session.search, query))
        everything = await _median(partial(manager.search, query))
        met = one.cpu <= _ONE_SESSION_MS / 1000 and everything.cpu <= _EVERYTHING_MS / 1000
        print(
            f"  {_verdict(met)} {kind:27} {one.cpu * 1000:7.1f} ({one.wall * 1000:7.1f})"
            f" {everything.cpu * 1000:9.1f} ({everything.wall * 1000:7.1f}) {first.cpu * 1000:9.1f}",
            flush=True,
        )
    print(f"  targets: one session <= {_ONE_SESSION_MS:g} ms, everything <= {_EVERYTHING_MS:g} ms")


async def _median(search: Callable[[], Awaitable[Any]]) -> Duration:
    rounds = [await timed(search) for _ in range(_ROUNDS)]
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

            rounds[indexed].append(await timed(append))
    on, off = (median(spent.cpu for spent in rounds[indexed]) for indexed in (True, False))
    print(
        f"  {_verdict(on <= _APPEND_RATIO * off)} append: {on / _APPENDS * 1e6:.0f} µs of CPU with indexing on,"
        f" {off / _APPENDS * 1e6:.0f} without: {on / off:.2f}x, target <= {_APPEND_RATIO}x"
    )


def _verdict(met: bool) -> str:
    return "PASS  " if met else "MISSED"
