"""The result of a row of the benchmark: tables of timings, and targets with their measured values.

On tmpfs nothing waits for a disk. There, wall time differs from CPU time only by the load of other programs, so targets
are judged by CPU time. Where the disk matters, they are judged by wall time. Both are always shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from bench.measure import Measure, Timing

FLAT = 1.3
"""the ratio up to which two values count as equal, on a machine that runs other programs too"""
Kind = Literal["at most", "at least"]
Unit = Literal["x", "ms", "MB", "%"]


@dataclass(frozen=True, slots=True)
class Target:
    """A limit for a measured value. A time was measured by `measure`, and `other` is what the other measure says.
    `floor` is the best value that is possible with this design: what is left without all but the unavoidable work.
    `reason` says why it is worth what is above that, where the limit is missed."""

    text: str
    kind: Kind
    limit: float
    value: float
    unit: Unit
    floor: float
    measure: Measure | None = None
    other: float | None = None
    reason: str = ""

    @property
    def used(self) -> float:
        """The value as a share of the limit; above 1 the target is missed."""
        return self.value / self.limit if self.kind == "at most" else self.limit / self.value

    @property
    def met(self) -> bool:
        return self.used <= 1


def at_most(
    text: str,
    limit: float,
    ours: Timing,
    yardstick: Timing,
    *,
    floor: float,
    measure: Measure = "cpu",
    reason: str = "",
) -> Target:
    """Ours may cost at most `limit` times as much as the yardstick."""
    return _compared(text, "at most", limit, ours, yardstick, measure, floor, reason)


def at_least(
    text: str,
    limit: float,
    ours: Timing,
    peer: Timing,
    *,
    floor: float,
    measure: Measure = "cpu",
    reason: str = "",
) -> Target:
    """The peer must cost at least `limit` times as much as ours."""
    return _compared(text, "at least", limit, peer, ours, measure, floor, reason)


def flat(text: str, ours: Timing, smaller: Timing, limit: float = FLAT) -> Target:
    """Ours may cost at most `limit` times as much as the same with less data."""
    return at_most(text, limit, ours, smaller, floor=1)


def within(text: str, limit_ms: float, ours: Timing, *, floor: float, reason: str = "") -> Target:
    """Ours may take at most `limit_ms` milliseconds."""
    return Target(text, "at most", limit_ms, ours.cpu_us / 1000, "ms", floor, "cpu", ours.wall_us / 1000, reason)


def _compared(
    text: str,
    kind: Kind,
    limit: float,
    above: Timing,
    below: Timing,
    measure: Measure,
    floor: float,
    reason: str,
) -> Target:
    other: Measure = "cpu" if measure == "wall" else "wall"
    value = above.by(measure) / below.by(measure)
    return Target(text, kind, limit, value, "x", floor, measure, above.by(other) / below.by(other), reason)


@dataclass(frozen=True, slots=True)
class Table:
    """Timings that were taken in turns. Ratios are relative to the one called `ours`."""

    title: str
    operation: str
    timings: Sequence[Timing]
    ours: str
    measure: Measure = "cpu"

    def __getitem__(self, name: str) -> Timing:
        return next(timing for timing in self.timings if timing.name == name)


@dataclass(slots=True)
class Outcome:
    """The result of one row."""

    name: str
    tables: list[Table] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
