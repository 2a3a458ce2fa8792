"""LangGraph with its own SQLite saver and with ours: a checkpoint of a short and of a long thread, and loading it.
`frameworks` runs graphs."""

from __future__ import annotations

from collections.abc import Callable

from bench.contenders.frontdesk_langgraph import FrontdeskLangGraph
from bench.contenders.langgraph_saver import LangGraphMemory, LangGraphSaver
from bench.measure import Case, interleave, one_by_one
from bench.run import Run
from bench.targets import Outcome, Table, at_least, flat

_ROUNDS = 10
_SHORT, _LONG = 100, 10_000
_OURS, _THEIRS = "FrontdeskSaver", "AsyncSqliteSaver"


async def measure(run: Run) -> Outcome:
    lengths = (_SHORT, run.size(_LONG))
    ours = {length: FrontdeskLangGraph(f"{_OURS} at {length:,}") for length in lengths}
    theirs = {length: LangGraphSaver(f"{_THEIRS} at {length:,}") for length in lengths}
    every = [*ours.items(), *theirs.items(), (_SHORT, LangGraphMemory(f"InMemorySaver at {_SHORT:,}"))]
    async with run.opened(*(contender for _, contender in every), on=run.fast):
        for length, contender in every:
            await run.fill(contender, "s", length)
        put = await _table(run, every, "a checkpoint of a thread of so many messages", "aput", 4, _append)
        load = await _table(run, every, "loading it", "aget_tuple", 1, _read)
    short, long = (put[f"{_OURS} at {length:,}"] for length in lengths)
    return Outcome(
        "langgraph",
        [put, load],
        [
            flat(f"LangGraph: a checkpoint at {lengths[1]:,} messages, against at {_SHORT}", long, short, 2),
            at_least(
                f"LangGraph: a checkpoint at {_SHORT} messages, its own saver against ours",
                1,
                short,
                put.timings[2],
                floor=put.timings[2].cpu_us / put.timings[4].cpu_us,
            ),
            at_least(
                f"LangGraph: a checkpoint at {lengths[1]:,} messages, its own saver against ours",
                10,
                long,
                put.timings[3],
                floor=put.timings[3].cpu_us / min(short.cpu_us, long.cpu_us),
            ),
        ],
    )


Operation = Callable[[Run, LangGraphSaver, int], Case]


async def _table(
    run: Run, every: list[tuple[int, LangGraphSaver]], title: str, operation: str, count: int, make: Operation
) -> Table:
    timings = await interleave([make(run, contender, count) for _, contender in every], run.rounds(_ROUNDS))
    return Table(f"LangGraph: {title}, tmpfs", operation, timings, ours=timings[0].name)


def _append(run: Run, contender: LangGraphSaver, count: int) -> Case:
    return one_by_one(contender.name, contender.settings, count, lambda: contender.append("s", run.fresh()[0]))


def _read(run: Run, contender: LangGraphSaver, count: int) -> Case:
    return one_by_one(contender.name, contender.settings, count, lambda: contender.read_all("s"))
