"""Append, one message at a time, on tmpfs: the cost of the software without the disk."""

from __future__ import annotations

from bench.contenders import Contender
from bench.contenders.bare_store import BareStore
from bench.contenders.frontdesk import Frontdesk, indexing_of
from bench.contenders.google_adk import ADKDatabase, ADKSqlite
from bench.contenders.langgraph_saver import LangGraphSaver
from bench.contenders.openai_agents import OpenAIAdvanced, OpenAIAsyncSQLite, OpenAISQLAlchemy, OpenAISQLite
from bench.contenders.raw_sqlite import RawSQLite
from bench.measure import Case, interleave, one_by_one
from bench.run import Run
from bench.targets import Outcome, Table, Target, at_least, at_most

_ROUNDS = 50
_LENGTH = 100
_REASON = "the rest checks the message, looks for a replaced file, lets other tasks join the commit, and answers"


async def measure(run: Run) -> Outcome:
    ours = Frontdesk()
    quick: list[Contender] = [RawSQLite(), ours, Frontdesk("Frontdesk, ids made", ids=False), OpenAISQLite()]
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
        cases = [append_case(run, contender, 20) for contender in quick] + [
            append_case(run, contender, 4) for contender in slow
        ]
        with BareStore(ours) as bare:
            cases.append(one_by_one(bare.name, bare.settings, 20, lambda: bare.append("s", run.fresh())))
            timings = await interleave(cases, run.rounds(_ROUNDS))
    title = f"append one message to a session of {_LENGTH} and more, tmpfs"
    table = Table(title, "append", timings, ours="Frontdesk")
    found, raw, least = table["Frontdesk"], table["raw sqlite3"], table[BareStore.name]
    what = "append, one at a time"

    def against(name: str, limit: float) -> Target:
        floor = table[name].cpu_us / least.cpu_us
        return at_least(f"{what}, against {name}", limit, found, table[name], floor=floor, reason=_REASON)

    return Outcome(
        "append",
        [table],
        [
            at_most(f"{what}, against raw sqlite3", 5.5, found, raw, floor=least.cpu_us / raw.cpu_us, reason=_REASON),
            against("OpenAI SQLiteSession", 1.5),
            against("OpenAI SQLAlchemySession", 15),
            against("ADK DatabaseSessionService", 15),
        ],
    )


def append_case(run: Run, contender: Contender, operations: int) -> Case:
    """One message after the other, to a session that is there."""
    return one_by_one(
        contender.name,
        contender.settings,
        operations,
        lambda: contender.append("s", run.fresh()[0]),
        indexing_of(contender),
    )
