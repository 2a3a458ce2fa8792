"""Each agent framework runs the same script with its own durable store and with ours: conversations of a few runs,
each of which loads what was said before, calls a model that is a script, and stores the answer."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path

from bench.contenders.frameworks import FRAMEWORKS, NOT_MEASURED, Framework, Kind, Place
from bench.contenders.frameworks import Run as Talk
from bench.measure import Case, Timing, interleave
from bench.payload import message
from bench.run import Run
from bench.targets import Outcome, Table, Target, at_least

_ROUNDS = 10
_RUNS = 10


async def measure(run: Run) -> Outcome:
    outcome = Outcome("frameworks")
    for framework in FRAMEWORKS:
        table = await _table(run, framework)
        outcome.tables.append(table)
        if framework.own is None:
            run.note(_without_own(framework.name, framework.settings))
        else:
            outcome.targets.append(_target(framework, *table.timings))
    for name, why in NOT_MEASURED.items():
        run.note(_without_own(name, why))
    return outcome


def _without_own(name: str, why: str) -> str:
    return f"{name}: {why}, so there is nothing to compare ours with"


async def _table(run: Run, framework: Framework) -> Table:
    names: dict[Kind, str | None] = {"ours": framework.ours, "own": framework.own, "memory": framework.memory}
    settings = {"ours": "WAL, FULL, group commit", "own": framework.settings, "memory": "nothing is kept"}
    cases = []
    async with AsyncExitStack() as stack:
        for kind, name in names.items():
            if name is not None:
                directory = stack.enter_context(tempfile.TemporaryDirectory(dir=run.fast))
                place = Place(kind, Path(directory), stack)
                talk = await framework.prepare(place)
                cases.append(Case(name, settings[kind], _RUNS, _conversing(name, talk), _settling(place)))
        timings = await interleave(cases, run.rounds(_ROUNDS))
    return Table(f"{framework.name}: runs in conversations of {_RUNS}, tmpfs", "run", timings, ours=framework.ours)


def _target(framework: Framework, ours: Timing, own: Timing, memory: Timing) -> Target:
    text = f"{framework.name}: a run with {framework.own}, against one with {framework.ours}"
    return at_least(text, 1, ours, own, floor=own.cpu_us / memory.cpu_us, reason=framework.reason)


def _settling(place: Place) -> Callable[[], Awaitable[None]] | None:
    return place.settle if place.kind == "ours" else None


def _conversing(name: str, talk: Talk) -> Callable[[], Awaitable[None]]:
    conversations = count()

    async def converse() -> None:
        conversation = f"chat-{next(conversations)}"
        for number in range(_RUNS):
            said = await talk(conversation, message(number)["content"])
            if not said.startswith(f"{2 * number + 1} messages"):
                raise AssertionError(f"run {number} with {name}: {said[:40]!r}")

    return converse
