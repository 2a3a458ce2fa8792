"""Append a hundred messages in one call: the cost per message in one transaction."""

from __future__ import annotations

from bench.contenders import Contender
from bench.contenders.frontdesk import Frontdesk
from bench.contenders.openai_agents import OpenAISQLite
from bench.contenders.raw_sqlite import RawSQLite
from bench.measure import Case, interleave
from bench.run import Run
from bench.targets import Outcome, Table, at_most

_ROUNDS = 50
_BATCH = 100
_CALLS = 5


async def measure(run: Run) -> Outcome:
    contenders: list[Contender] = [RawSQLite(), Frontdesk(), OpenAISQLite()]
    async with run.opened(*contenders, on=run.fast):
        timings = await interleave([_case(run, contender) for contender in contenders], run.rounds(_ROUNDS))
    table = Table(f"append {_BATCH} messages in one call, tmpfs", "message", timings, ours="Frontdesk")
    what = f"batch of {_BATCH}, against raw executemany"
    target = at_most(what, 3.8, table["Frontdesk"], table["raw sqlite3"], floor=None)
    return Outcome("batch", [table], [target])


def _case(run: Run, contender: Contender) -> Case:
    async def work() -> None:
        for _ in range(_CALLS):
            await contender.append_many("s", run.fresh(_BATCH))

    return Case(contender.name, contender.settings, _CALLS * _BATCH, work)
