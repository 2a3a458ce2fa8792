"""Combining the ranking by words with the ranking by vectors.

Words have priority. Being among the nearest vectors adds at most a tenth of the best score by words, and less for each
further place. That decides between hits whose scores are close, and cannot reverse a clear order. So a worthless
embedding changes almost nothing, and a good one moves up what both rankings agree on.

A text that only the vectors find can get one place among the first ten, if the two rankings have some hits in common.
If they have none, the vectors are not reliable for this query."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

NEAREST = 20
"""how many of the nearest vectors count"""
WEIGHT = 0.1
"""what the nearest vector adds, as a share of the best score by words"""
HALVING = 5
"""the vector this number of places after the nearest adds half as much"""
RESERVED_PLACE = 10
"""the nearest text comes at this place or before it, if the rankings agree"""
AGREEMENT = 2
"""the rankings agree if this number of the nearest are among the first `FIRST_HITS` by words"""
FIRST_HITS = 30


def fuse(lexical: Sequence[tuple[T, float]], nearest: Sequence[T]) -> list[tuple[T, float]]:
    """Hits and scores, best first, from the hits by words and the nearest by vectors, both best first and without
    repetitions.

    Scores are on the scale of the scores by words. Without hits by words, the nearest come in their own order."""
    near = nearest[:NEAREST]
    best = lexical[0][1] if lexical and lexical[0][1] > 0 else 1.0
    scores = dict(lexical)
    for place, hit in enumerate(near):
        scores[hit] = scores.get(hit, 0.0) + WEIGHT * best * HALVING / (HALVING + place)
    fused = sorted(scores.items(), key=lambda pair: -pair[1])
    if near and _agree(lexical, near):
        _reserve(fused, near[0])
    return fused


def _agree(lexical: Sequence[tuple[T, float]], near: Sequence[T]) -> bool:
    first = {hit for hit, _ in lexical[:FIRST_HITS]}
    return sum(hit in first for hit in near) >= AGREEMENT


def _reserve(fused: list[tuple[T, float]], nearest: T) -> None:
    """Move the nearest hit up to the reserved place, with the score of the hit that was there."""
    place = next(index for index, (hit, _) in enumerate(fused) if hit == nearest)
    if place >= RESERVED_PLACE:
        del fused[place]
        fused.insert(RESERVED_PLACE - 1, (nearest, fused[RESERVED_PLACE - 1][1]))
