"""Measuring: contenders take turns in one process, round after round; the result is the median of the rounds."""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

Measure = Literal["wall", "cpu"]


@dataclass(frozen=True, slots=True)
class Case:
    """Something to time: each call of `work` does `operations` operations."""

    name: str
    settings: str
    operations: int
    work: Callable[[], Awaitable[object]]
    after: Callable[[], Awaitable[object]] | None = None
    """finishes what the work has left to the background, which would run during other turns; not timed"""


@dataclass(frozen=True, slots=True)
class Timing:
    """Microseconds per operation, medians over the rounds. `cpu_us` counts every thread of this process."""

    name: str
    settings: str
    operations: int
    rounds: int
    wall_us: float
    cpu_us: float

    def by(self, measure: Measure) -> float:
        return self.wall_us if measure == "wall" else self.cpu_us


def one_by_one(
    name: str,
    settings: str,
    operations: int,
    operation: Callable[[], Awaitable[object]],
    after: Callable[[], Awaitable[object]] | None = None,
) -> Case:
    """A case that repeats an operation, one after the other."""

    async def work() -> None:
        for _ in range(operations):
            await operation()

    return Case(name, settings, operations, work, after)


def at_once(
    name: str,
    settings: str,
    tasks: int,
    operations: int,
    operation: Callable[[int], Awaitable[object]],
    after: Callable[[], Awaitable[object]] | None = None,
) -> Case:
    """A case of `tasks` concurrent tasks. Each repeats the operation, which gets the number of its task."""

    async def task(number: int) -> None:
        for _ in range(operations):
            await operation(number)

    async def work() -> None:
        await asyncio.gather(*map(task, range(tasks)))

    return Case(name, settings, tasks * operations, work, after)


async def interleave(
    cases: Sequence[Case], rounds: int, *, cpu_clock: Callable[[], int] = time.process_time_ns
) -> list[Timing]:
    """Time the cases in turns, in a new order in each round, after a first round that does not count.

    Garbage is collected before each turn; during a turn the collector is off."""
    walls: dict[str, list[int]] = {case.name: [] for case in cases}
    cpus: dict[str, list[int]] = {case.name: [] for case in cases}
    order = random.Random(len(cases))
    gc.collect()
    gc.freeze()
    try:
        for turn in range(rounds + 1):
            for case in order.sample(cases, len(cases)):
                wall, cpu = await _time(case, cpu_clock)
                if turn:
                    walls[case.name].append(wall)
                    cpus[case.name].append(cpu)
    finally:
        gc.unfreeze()
    return [
        Timing(
            case.name,
            case.settings,
            case.operations,
            rounds,
            median(walls[case.name]) / case.operations / 1000,
            median(cpus[case.name]) / case.operations / 1000,
        )
        for case in cases
    ]


async def _time(case: Case, cpu_clock: Callable[[], int]) -> tuple[int, int]:
    gc.collect()
    gc.disable()
    try:
        wall, cpu = time.perf_counter_ns(), cpu_clock()
        await case.work()
        found = time.perf_counter_ns() - wall, cpu_clock() - cpu
    finally:
        gc.enable()
    if case.after is not None:
        await case.after()
    return found
