"""Append, one message at a time, on tmpfs: the cost of the software without the disk."""

from __future__ import annotations

from bench.contenders import Contender
from bench.contenders.frontdesk import Frontdesk
from bench.contenders.google_adk import ADKDatabase, ADKSqlite
from bench.contenders.langgraph_saver import LangGraphSaver
from bench.contenders.openai_agents import OpenAIAdvanced, OpenAIAsyncSQLite, OpenAISQLAlchemy, OpenAISQLite
from bench.contenders.raw_sqlite import RawSQLite
from bench.measure import Case, interleave, one_by_one
from bench.run import Run
from bench.targets import Outcome, Table, Target, at_least, at_most

_ROUNDS = 50
_LENGTH = 100
_FLOOR = 3.6
"""times raw sqlite3: what the message, its session, its segment and its log entry take as statements"""


async def measure(run: Run) -> Outcome:
    quick: list[Contender] = [RawSQLite(), Frontdesk(), Frontdesk("Frontdesk, ids made", ids=False), OpenAISQLite()]
    slow: list[Contender] = [
        OpenAIAsyncSQLite(),
        OpenAIAdvanced(),
        OpenAISQLAlchemy(),
        ADKSqlite(),
        ADKDatabase(),
        LangGraphSaver(),
    ]
    async with run.opened(*quick, *slow, on=run.fast):
        for contender in (*quick, *slow):
            await run.fill(contender, "s", _LENGTH)
        cases = [_case(run, contender, 20) for contender in quick] + [_case(run, contender, 4) for contender in slow]
        table = Table(
            f"append one message to a session of {_LENGTH} and more, tmpfs",
            "append",
            await interleave(cases, run.rounds(_ROUNDS)),
            ours="Frontdesk",
        )
    ours, raw = table["Frontdesk"], table["raw sqlite3"]
    what = "append, one at a time"

    def against(name: str, limit: float) -> Target:
        floor = table[name].cpu_us / (_FLOOR * raw.cpu_us)
        return at_least(f"{what}, against {name}", limit, ours, table[name], floor=floor)

    return Outcome(
        "append",
        [table],
        [
            at_most(f"{what}, against raw sqlite3", 5.5, ours, raw, floor=_FLOOR),
            against("OpenAI SQLiteSession", 1.5),
            against("OpenAI SQLAlchemySession", 15),
            against("ADK DatabaseSessionService", 15),
        ],
    )


def _case(run: Run, contender: Contender, operations: int) -> Case:
    return one_by_one(contender.name, contender.settings, operations, lambda: contender.append("s", run.fresh()[0]))
