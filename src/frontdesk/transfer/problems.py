"""The problems of a report. All are counted, but only the first ones are kept, so that memory does not grow with their
number."""

from __future__ import annotations

from typing import Generic, TypeVar

_MOST_KEPT = 1_000

P = TypeVar("P")


class Problems(Generic[P]):
    """The fields `problems` and `problems_total` of a report."""

    def __init__(self) -> None:
        self.first: tuple[P, ...] = ()
        self.total = 0

    def add(self, problem: P) -> None:
        self.total += 1
        if len(self.first) < _MOST_KEPT:
            self.first += (problem,)
