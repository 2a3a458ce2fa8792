"""What a row of the benchmark returns: tables of timings, and the targets with what was measured for them.

On tmpfs nothing waits for a disk: there wall time differs from CPU time only by what other programs of the machine take
away, so that CPU time decides. Where the disk is the point, wall time does. Both are always shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from bench.measure import Measure, Timing

FLAT = 1.3
"""how much more may still be called "the same" on a machine that others use, too"""


@dataclass(frozen=True, slots=True)
class Target:
    """A promise in numbers. `value` is what was measured by `measure`, `other` the same by the other measure."""

    text: str
    kind: Literal["at most", "at least"]
    limit: float
    value: float
    unit: Literal["x", "ms"]
    measure: Measure
    other: float

    @property
    def used(self) -> float:
        """The part of the allowance that was used up; above 1 the target is missed."""
        return self.value / self.limit if self.kind == "at most" else self.limit / self.value

    @property
    def met(self) -> bool:
        return self.used <= 1


def at_most(text: str, limit: float, ours: Timing, yardstick: Timing, *, measure: Measure = "cpu") -> Target:
    """Ours may cost `limit` times what the yardstick costs."""
    return _compared(text, "at most", limit, ours, yardstick, measure)


def at_least(text: str, limit: float, ours: Timing, peer: Timing, *, measure: Measure = "cpu") -> Target:
    """The peer must cost `limit` times what ours costs."""
    return _compared(text, "at least", limit, peer, ours, measure)


def within(text: str, limit_ms: float, ours: Timing) -> Target:
    """Ours may take so many milliseconds."""
    return Target(text, "at most", limit_ms, ours.cpu_us / 1000, "ms", "cpu", ours.wall_us / 1000)


def _compared(
    text: str, kind: Literal["at most", "at least"], limit: float, above: Timing, below: Timing, measure: Measure
) -> Target:
    other: Measure = "cpu" if measure == "wall" else "wall"
    value = above.by(measure) / below.by(measure)
    return Target(text, kind, limit, value, "x", measure, above.by(other) / below.by(other))


@dataclass(frozen=True, slots=True)
class Table:
    """Timings that were taken side by side; ratios are shown against the one called `ours`."""

    title: str
    operation: str
    timings: Sequence[Timing]
    ours: str
    measure: Measure = "cpu"

    def __getitem__(self, name: str) -> Timing:
        return next(timing for timing in self.timings if timing.name == name)


@dataclass(slots=True)
class Outcome:
    """What one row found out."""

    name: str
    tables: list[Table] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
