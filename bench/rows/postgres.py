"""Appends to PostgreSQL on disk: one at a time against one raw statement, and 16 concurrent ones, each to its own
session: the case that coalescing is for."""

from __future__ import annotations

import time

from bench.contenders import Contender
from bench.contenders.frontdesk import Frontdesk
from bench.contenders.openai_agents import OpenAISQLAlchemy
from bench.contenders.raw_postgres import RawPool
from bench.measure import Case, at_once, interleave, one_by_one
from bench.run import Run
from bench.server import clock_with_server
from bench.targets import Outcome, Table, at_least, at_most
from tests.servers.postgres import PostgresServer

_ROUNDS = 25
_TASKS = 16
_REASON = "a call of the server also writes the segment and the log, and checks for known ids"


async def measure(run: Run) -> Outcome:
    with PostgresServer(durable=True) as server:
        driver = server.create_database().replace("postgresql://", "postgresql+asyncpg://", 1)
        pool = RawPool(server.create_database(), size=_TASKS)
        plain = RawPool(server.create_database(), size=_TASKS, reset=False)
        ours = Frontdesk(url=server.create_database())
        contenders: dict[Contender, int] = {
            pool: 8,
            plain: 8,
            ours: 32,
            OpenAISQLAlchemy(url=driver, pool=_TASKS): 1,
        }
        async with run.opened(*contenders, on=run.disk):
            cases = [_case(run, contender, operations) for contender, operations in contenders.items()]
            clock = await clock_with_server(server.url)
            run.note(f"CPU time {'includes' if clock else 'does not include'} the server's")
            timings = await interleave(cases, run.rounds(_ROUNDS), cpu_clock=clock or time.process_time_ns)
            singles = [_single(run, contender) for contender in (plain, ours)]
            alone = await interleave(singles, run.rounds(_ROUNDS), cpu_clock=clock or time.process_time_ns)
    table = Table(
        f"PostgreSQL: append, {_TASKS} at once to {_TASKS} sessions, disk, fsync on",
        "append",
        timings,
        ours="Frontdesk",
        measure="wall",
    )
    what = f"PostgreSQL, {_TASKS} at once, against a pool of {_TASKS}"
    one = Table("PostgreSQL: append, one at a time, disk, fsync on", "append", alone, ours="Frontdesk")
    return Outcome(
        "postgres",
        [table, one],
        [
            at_least(what, 1.4, table["Frontdesk"], table[pool.name], measure="wall", floor=2.6, reason=_REASON),
            at_most(
                "PostgreSQL, one at a time, against one raw statement",
                1.5,
                one["Frontdesk"],
                one[plain.name],
                floor=1.47,
                reason=_REASON,
            ),
        ],
    )


def _case(run: Run, contender: Contender, operations: int) -> Case:
    return at_once(
        contender.name,
        contender.settings,
        _TASKS,
        operations,
        lambda task: contender.append(f"s{task}", run.fresh()[0]),
    )


def _single(run: Run, contender: Contender) -> Case:
    return one_by_one(contender.name, contender.settings, 20, lambda: contender.append("s0", run.fresh()[0]))
