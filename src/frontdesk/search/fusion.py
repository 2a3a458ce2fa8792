"""Which hits come first where words and vectors both have a say: pure, over the two rankings.

Words lead. A hit counts by its share of the best score, and being among the nearest vectors adds at most a tenth, less
the further down: that decides between hits which the words leave close together, and cannot overturn what they say
clearly. So an embedding that knows nothing, or only what the words know already, changes next to nothing; a good one
lifts what it agrees on. What it alone finds gets one place among the first ten, and only where both rankings have
something in common, since vectors that place nothing where the words do are no evidence for this query."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

NEAREST = 20
"""how many of the nearest vectors have a say"""
WEIGHT = 0.1
"""what the nearest one adds, as a share of the best score by words"""
HALVING = 5
"""the one so many places behind the nearest adds half of that"""
RESERVED_PLACE = 10
"""where the nearest one comes at the latest, if the rankings agree"""
AGREEMENT = 2
"""how many of the nearest must be among the first hits by words for that"""
FIRST_HITS = 30


def fuse(lexical: Sequence[tuple[T, float]], nearest: Sequence[T]) -> list[tuple[T, float]]:
    """Hits and scores, best first, from those by words (best first, each once) and the nearest by vectors (likewise).

    Scores stay in the measure of the words; without hits by words the nearest come in their order."""
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
    """Let the nearest one come in time, with the score of the hit whose place it takes."""
    place = next(index for index, (hit, _) in enumerate(fused) if hit == nearest)
    if place >= RESERVED_PLACE:
        del fused[place]
        fused.insert(RESERVED_PLACE - 1, (nearest, fused[RESERVED_PLACE - 1][1]))
