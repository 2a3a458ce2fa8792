"""Turns: acquired and released alone, with two fenced appends, and passed from task to task in one process."""

from __future__ import annotations

from bench.contenders.frontdesk import Frontdesk
from bench.measure import Case, Measure, at_once, interleave, one_by_one
from bench.payload import message
from bench.run import Run
from bench.targets import Outcome, Table, at_most
from tests.servers.postgres import PostgresServer

_ROUNDS = 25
_TASKS = 16


async def measure(run: Run) -> Outcome:
    with PostgresServer(durable=True) as server:
        sqlite, postgres = Frontdesk("SQLite"), Frontdesk("PostgreSQL", url=server.create_database())
        async with run.opened(sqlite, postgres, on=run.fast):
            tables = [
                await _table(run, sqlite, "SQLite: turns, tmpfs", "cpu"),
                await _table(run, postgres, "PostgreSQL: turns, fsync on", "wall"),
            ]
    targets = [
        at_most(
            f"{name}: a turn taken and given back, against one append",
            3,
            table[f"{name} turn"],
            table[f"{name} append"],
            measure=table.measure,
            floor=1,  # one transaction to take it and one to give it back, of one small row each
        )
        for name, table in zip(("SQLite", "PostgreSQL"), tables, strict=True)
    ]
    return Outcome("turns", tables, targets)


async def _table(run: Run, contender: Frontdesk, title: str, measure: Measure) -> Table:
    timings = await interleave(_cases(run, contender), run.rounds(_ROUNDS))
    return Table(title, "turn", timings, ours=f"{contender.name} turn", measure=measure)


def _cases(run: Run, contender: Frontdesk) -> list[Case]:
    session = contender.session("s")

    async def turn() -> None:
        async with session.turn():
            pass

    async def answer() -> None:
        async with session.turn() as turn:
            for number in run.fresh(2):
                await turn.append(message(number))

    async def hand_over(_: int) -> None:
        async with contender.session("busy").turn():
            pass

    return [
        one_by_one(f"{contender.name} append", contender.settings, 10, lambda: contender.append("s", run.fresh()[0])),
        one_by_one(f"{contender.name} turn", contender.settings, 10, turn),
        one_by_one(f"{contender.name} turn with two appends", contender.settings, 10, answer),
        at_once(f"{contender.name} turn, {_TASKS} waiting for it", contender.settings, _TASKS, 4, hand_over),
    ]
