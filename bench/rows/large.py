"""PostgreSQL with 10,000,000 messages, against the same with 10,000: what users wait for must not grow.

The messages are in sessions of 1,000. They are appended in batches, by several tasks, and indexed as they come."""

from __future__ import annotations

import asyncio
import time
from itertools import count

from bench.contenders.frontdesk import Frontdesk
from bench.measure import Case, interleave, one_by_one
from bench.payload import messages
from bench.run import Run
from bench.server import clock_with_server
from bench.targets import Outcome, Table, flat
from tests.servers.postgres import PostgresServer

_ROUNDS = 30
_FEW, _MANY = 10_000, 10_000_000
_QUICK = 100_000
_LENGTH = 1_000
_BATCH = 500
_TASKS = 8
_LIMIT = 1.5
_FILL_SECONDS = 3_000
"""after which the run ends without a result: the machine is too slow for it"""


async def measure(run: Run) -> Outcome:
    size = _QUICK if run.quick else _MANY
    with PostgresServer() as server:
        few, many = (Frontdesk(f"at {number:,}", url=server.create_database()) for number in (_FEW, size))
        async with run.opened(few, many, on=run.disk):
            await _fill(run, few, _FEW)
            await _fill(run, many, size)
            clock = await clock_with_server(server.url)
            run.note(f"CPU time {'includes' if clock else 'does not include'} the server's")
            cases = [case for contender in (few, many) for case in _cases(run, contender)]
            timings = await interleave(cases, run.rounds(_ROUNDS), cpu_clock=clock or time.process_time_ns)
    half = len(timings) // 2
    tables = [
        Table(f"PostgreSQL: {name}, with {_FEW:,} and {size:,} messages", name, pair, ours=pair[0].name)
        for name, *pair in zip(_NAMES, timings[:half], timings[half:], strict=True)
    ]
    return Outcome(
        "large",
        tables,
        [
            flat(f"PostgreSQL at {size:,} messages: {table.operation}, against {_FEW:,}", more, less, _LIMIT)
            for table in tables
            for less, more in [table.timings]
        ],
    )


async def _fill(run: Run, contender: Frontdesk, size: int) -> None:
    start = time.perf_counter()
    sessions = iter(range(size // _LENGTH))

    async def fill() -> None:
        for session in sessions:
            for first in range(0, _LENGTH, _BATCH):
                await contender.append_many(_name(session), range(first, first + _BATCH))

    async with asyncio.timeout(_FILL_SECONDS):
        await asyncio.gather(*(fill() for _ in range(_TASKS)))
        await contender.append(_RARE, 0)
        await contender.session(_RARE).append({"role": "user", "content": "the zeppelin landed at noon"})
        while (await contender.manager.search_info()).pending:
            await contender.settle()
    run.note(f"set-up: {size:,} messages: {time.perf_counter() - start:.0f} s")


_RARE = "rare"
_NAMES = ("append", "view", "page", "fork", "search", "search in a session")


def _name(session: int) -> str:
    return f"s{session}"


def _cases(run: Run, contender: Frontdesk) -> list[Case]:
    manager, session = contender.manager, contender.session(_name(3))
    numbers = count()

    async def append() -> None:
        await session.append_all(messages(run.fresh(1)))

    work = {
        "append": append,
        "view": lambda: session.history(last=50),
        "page": lambda: manager.list(limit=50),
        "fork": lambda: manager.fork(session.id, new_id=f"fork-{next(numbers)}"),
        "search": lambda: manager.search("zeppelin"),
        "search in a session": lambda: contender.session(_name(5)).search("invoice damaged box", limit=10),
    }
    return [one_by_one(f"{name} {contender.name}", contender.settings, 5, work[name]) for name in _NAMES]
