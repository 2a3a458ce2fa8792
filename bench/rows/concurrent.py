"""64 concurrent appends, each to its own session, durable on disk: the case that group commit is for."""

from __future__ import annotations

from bench.contenders import Contender
from bench.contenders.frontdesk import Frontdesk
from bench.contenders.openai_agents import OpenAISQLite
from bench.contenders.raw_sqlite import RawSQLite
from bench.measure import Case, at_once, interleave
from bench.run import Run
from bench.targets import Outcome, Table, at_least

_ROUNDS = 20
_TASKS = 64


async def measure(run: Run) -> Outcome:
    raw, ours, openai = RawSQLite(), Frontdesk(), OpenAISQLite()
    async with run.opened(raw, ours, openai, on=run.disk):
        cases = [_case(run, raw, 1), _case(run, ours, 8), _case(run, openai, 1)]
        table = Table(
            f"append, {_TASKS} at once to {_TASKS} sessions, disk, synchronous=FULL",
            "append",
            await interleave(cases, run.rounds(_ROUNDS)),
            ours="Frontdesk",
            measure="wall",
        )
    what = f"append, {_TASKS} at once, FULL"
    found = table["Frontdesk"]
    return Outcome(
        "concurrent",
        [table],
        [
            at_least(f"{what}, against raw one commit each", 8, found, table["raw sqlite3"], measure="wall"),
            at_least(f"{what}, against OpenAI SQLiteSession", 4, found, table["OpenAI SQLiteSession"], measure="wall"),
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
