"""16 concurrent appends to PostgreSQL, each to its own session, on disk: the case that coalescing is for."""

from __future__ import annotations

import time

from bench.contenders import Contender
from bench.contenders.frontdesk import Frontdesk
from bench.contenders.openai_agents import OpenAISQLAlchemy
from bench.contenders.raw_postgres import RawPool
from bench.measure import Case, at_once, interleave
from bench.run import Run
from bench.server import clock_with_server
from bench.targets import Outcome, Table, at_least
from tests.servers.postgres import PostgresServer

_ROUNDS = 25
_TASKS = 16


async def measure(run: Run) -> Outcome:
    with PostgresServer(durable=True) as server:
        driver = server.create_database().replace("postgresql://", "postgresql+asyncpg://", 1)
        pool = RawPool(server.create_database(), size=_TASKS)
        ours = Frontdesk(url=server.create_database())
        contenders: dict[Contender, int] = {
            pool: 8,
            RawPool(server.create_database(), size=_TASKS, reset=False): 8,
            ours: 32,
            OpenAISQLAlchemy(url=driver, pool=_TASKS): 1,
        }
        async with run.opened(*contenders, on=run.disk):
            cases = [_case(run, contender, operations) for contender, operations in contenders.items()]
            clock = await clock_with_server(server.url)
            run.note(f"CPU time {'includes' if clock else 'does not include'} the server's")
            timings = await interleave(cases, run.rounds(_ROUNDS), cpu_clock=clock or time.process_time_ns)
    table = Table(
        f"PostgreSQL: append, {_TASKS} at once to {_TASKS} sessions, disk, fsync on",
        "append",
        timings,
        ours="Frontdesk",
        measure="wall",
    )
    what = f"PostgreSQL, {_TASKS} at once, against a pool of {_TASKS}"
    target = at_least(what, 3, table["Frontdesk"], table[pool.name], measure="wall")
    return Outcome("postgres", [table], [target])


def _case(run: Run, contender: Contender, operations: int) -> Case:
    return at_once(
        contender.name,
        contender.settings,
        _TASKS,
        operations,
        lambda task: contender.append(f"s{task}", run.fresh()[0]),
    )
