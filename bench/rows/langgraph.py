"""LangGraph with its own SQLite saver and with ours: a checkpoint of a short and of a long thread, loading it, and
runs of a graph."""

from __future__ import annotations

from collections.abc import Callable

from bench.contenders.frontdesk_langgraph import FrontdeskLangGraph
from bench.contenders.langgraph_saver import LangGraphSaver
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
    every = [*ours.items(), *theirs.items()]
    async with run.opened(*(contender for _, contender in every), on=run.fast):
        for length, contender in every:
            await run.fill(contender, "s", length)
        put = await _table(run, every, "a checkpoint of a thread of so many messages", "aput", 4, _append)
        load = await _table(run, every, "loading it", "aget_tuple", 1, _read)
        graph = await _table(
            run, every[::2], "a run of a graph with one node, from its first message on", "run", 2, _run
        )
    short, long = (put[f"{_OURS} at {length:,}"] for length in lengths)
    return Outcome(
        "langgraph",
        [put, load, graph],
        [
            flat(f"LangGraph: a checkpoint at {lengths[1]:,} messages, against at {_SHORT}", long, short, 2),
            at_least(
                f"LangGraph: a checkpoint at {_SHORT} messages, its own saver against ours",
                1,
                short,
                put.timings[2],
                floor=None,
            ),
            at_least(
                f"LangGraph: a checkpoint at {lengths[1]:,} messages, its own saver against ours",
                10,
                long,
                put.timings[3],
                floor=None,
            ),
            at_least(
                "LangGraph: a run of a graph, its own saver against ours",
                1,
                graph.timings[0],
                graph.timings[1],
                floor=None,
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


def _run(run: Run, contender: LangGraphSaver, count: int) -> Case:
    name, _, _ = contender.name.partition(" at ")
    return one_by_one(name, contender.settings, count, lambda: contender.invoke("graph", run.fresh()[0]))
