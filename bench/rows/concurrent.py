"""64 concurrent appends, each to its own session, durable on disk: the case that group commit is for."""

from __future__ import annotations

from bench.contenders import Contender
from bench.contenders.bare_store import BareStore
from bench.contenders.frontdesk import Frontdesk, indexing_of
from bench.contenders.openai_agents import OpenAISQLite
from bench.contenders.raw_sqlite import RawSQLite
from bench.measure import Case, Timing, at_once, interleave
from bench.run import Run
from bench.targets import Outcome, Table, at_least, at_most

_ROUNDS = 20
_TASKS = 64
_REASON = "each append has a task, a future and an answer of its own"
_DISK = "the commits that are saved are worth what the disk needs for one"


async def measure(run: Run) -> Outcome:
    fast = await _measure_in_memory(run)
    raw, ours, openai = RawSQLite(), Frontdesk(), OpenAISQLite()
    async with run.opened(raw, ours, openai, on=run.disk):
        timings = await _timed(run, ours, [_case(run, raw, 1), _case(run, ours, 8), _case(run, openai, 1)])
    title = f"append, {_TASKS} at once to {_TASKS} sessions, disk, synchronous=FULL"
    table = Table(title, "append", timings, ours="Frontdesk", measure="wall")
    what = f"append, {_TASKS} at once, FULL"
    found = table["Frontdesk"]
    return Outcome(
        "concurrent",
        [fast, table],
        [
            at_most(
                f"append, {_TASKS} at once, tmpfs, against raw",
                4,
                fast["Frontdesk"],
                fast["raw sqlite3"],
                floor=fast[BareStore.name].cpu_us / fast["raw sqlite3"].cpu_us,
                reason=_REASON,
            ),
            *(
                at_least(
                    f"{what}, against {against}",
                    limit,
                    found,
                    table[name],
                    measure="wall",
                    floor=table[name].wall_us / table[BareStore.name].wall_us,
                    reason=_DISK,
                )
                for against, limit, name in (
                    ("raw one commit each", 3, raw.name),
                    ("OpenAI SQLiteSession", 4.5, openai.name),
                )
            ),
        ],
    )


async def _measure_in_memory(run: Run) -> Table:
    """What it costs where nothing waits for a disk. Raw sqlite3 commits each append, as on the disk."""
    raw, ours = RawSQLite(), Frontdesk()
    async with run.opened(raw, ours, on=run.fast):
        timings = await _timed(run, ours, [_case(run, raw, 8), _case(run, ours, 8)])
    return Table(f"append, {_TASKS} at once to {_TASKS} sessions, tmpfs", "append", timings, ours="Frontdesk")


async def _timed(run: Run, ours: Frontdesk, cases: list[Case]) -> list[Timing]:
    """With the statements of one message to each session in one transaction, as the floor."""
    sessions = [f"s{task}" for task in range(_TASKS)]
    for session in sessions:
        await ours.append(session, run.fresh()[0])

    with BareStore(ours) as bare:

        async def together() -> None:
            await bare.append_together(sessions, run.fresh(_TASKS))

        return await interleave([*cases, Case(bare.name, bare.settings, _TASKS, together)], run.rounds(_ROUNDS))


def _case(run: Run, contender: Contender, operations: int) -> Case:
    return at_once(
        contender.name,
        contender.settings,
        _TASKS,
        operations,
        lambda task: contender.append(f"s{task}", run.fresh()[0]),
        indexing_of(contender),
    )
