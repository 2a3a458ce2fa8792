"""Append to a long session compared with a short one, also for peers whose appends get slower with the length."""

from __future__ import annotations

from collections.abc import Callable

from bench.contenders import Contender
from bench.contenders.frontdesk import Frontdesk, indexing_of
from bench.contenders.langgraph_saver import LangGraphSaver
from bench.contenders.openai_agents import OpenAIAdvanced
from bench.measure import Case, interleave
from bench.rows.append import append_case
from bench.run import Run
from bench.targets import Outcome, Table, flat

_ROUNDS = 50
_PEER_ROUNDS = 5
_SHORT, _LONG = 100, 100_000
_PEER_LENGTHS = (100, 1_000, 10_000)


async def measure(run: Run) -> Outcome:
    ours = await _frontdesk(run)
    short, long = ours.timings
    return Outcome(
        "growth",
        [
            ours,
            await _peer(run, "OpenAI AdvancedSQLiteSession", OpenAIAdvanced),
            await _peer(run, "LangGraph AsyncSqliteSaver", LangGraphSaver),
        ],
        [flat(f"append at {run.size(_LONG):,} messages, against at {_SHORT}", long, short)],
    )


async def _frontdesk(run: Run) -> Table:
    """Each session is in its own file, so that the short one also has a small index, and is new in every round."""
    rounds, size = run.rounds(_ROUNDS), run.size(_LONG)
    short, long = Frontdesk(f"Frontdesk at {_SHORT}"), Frontdesk(f"Frontdesk at {size:,}")
    async with run.opened(short, long, on=run.fast):
        await run.fill(long, "s", size)
        names = [f"s{turn}" for turn in range(rounds + 1)]
        for name in names:
            await run.fill(short, name, _SHORT)
        cases = [_taking_turns(run, short, names), append_case(run, long, 20)]
        timings = await interleave(cases, rounds)
    return Table("append to a session of so many messages, tmpfs", "append", timings, ours=short.name)


async def _peer(run: Run, name: str, make: Callable[[str], Contender]) -> Table:
    lengths = [run.size(length) for length in _PEER_LENGTHS]
    peers = [make(f"{name} at {length:,}") for length in lengths]
    async with run.opened(*peers, on=run.fast):
        for peer, length in zip(peers, lengths, strict=True):
            await run.fill(peer, "s", length)
        timings = await interleave([append_case(run, peer, 4) for peer in peers], run.rounds(_PEER_ROUNDS))
    return Table(f"the same for {name}", "append", timings, ours=peers[0].name)


def _taking_turns(run: Run, contender: Contender, names: list[str]) -> Case:
    turns = iter(names)

    async def work() -> None:
        name = next(turns)
        for _ in range(20):
            await contender.append(name, run.fresh()[0])

    return Case(contender.name, contender.settings, 20, work, indexing_of(contender))
