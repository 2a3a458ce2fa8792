"""64 concurrent appends, each to its own session, durable on disk: the case that group commit is for."""

from __future__ import annotations

from bench.contenders import Contender
from bench.contenders.frontdesk import Frontdesk
from bench.contenders.openai_agents import OpenAISQLite
from bench.contenders.raw_sqlite import RawSQLite
from bench.measure import Case, at_once, interleave
from bench.run import Run
from bench.targets import Outcome, Table, at_least, at_most

_ROUNDS = 20
_TASKS = 64


async def measure(run: Run) -> Outcome:
    fast = await _measure_in_memory(run)
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
        [fast, table],
        [
            at_most(
                f"append, {_TASKS} at once, tmpfs, against raw", 4, fast["Frontdesk"], fast["raw sqlite3"], floor=None
            ),
            at_least(f"{what}, against raw one commit each", 3, found, table["raw sqlite3"], measure="wall", floor=3),
            at_least(
                f"{what}, against OpenAI SQLiteSession", 4.5, found, table[openai.name], measure="wall", floor=None
            ),
        ],
    )


async def _measure_in_memory(run: Run) -> Table:
    """What it costs where nothing waits for a disk. Raw sqlite3 commits each append, as on the disk."""
    raw, ours = RawSQLite(), Frontdesk()
    async with run.opened(raw, ours, on=run.fast):
        cases = [_case(run, raw, 8), _case(run, ours, 8)]
        timings = await interleave(cases, run.rounds(_ROUNDS))
    return Table(f"append, {_TASKS} at once to {_TASKS} sessions, tmpfs", "append", timings, ours="Frontdesk")


def _case(run: Run, contender: Contender, operations: int) -> Case:
    return at_once(
        contender.name,
        contender.settings,
        _TASKS,
        operations,
        lambda task: contender.append(f"s{task}", run.fresh()[0]),
    )
