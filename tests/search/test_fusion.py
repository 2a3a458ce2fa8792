"""Fusion of words and vectors: what it guarantees, and that it neither trusts a poor embedding nor wastes a
good one, on a corpus where half of the questions use other words than the texts."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from functools import cache

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontdesk.search.ranking import COMPARED, NEAREST, VECTOR_WEIGHT, fuse, normalise, rank_texts
from frontdesk.search.tokeniser import TOKENISER
from frontdesk.store import Address

Matrix = numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.float64]]


def at(number: int) -> Address:
    """The address of a text that has no neighbours."""
    return Address("message", number, 0)


numbers = st.integers(0, 60)
hits = st.lists(st.tuples(numbers.map(at), st.floats(0.01, 100)), unique_by=lambda hit: hit[0], max_size=60).map(
    lambda found: sorted(found, key=lambda hit: -hit[1])
)
cosines = st.dictionaries(numbers.map(at), st.floats(-1, 1), max_size=40)


def fused(lexical: list[tuple[Address, float]], similar: dict[Address, float]) -> list[tuple[Address, float]]:
    return fuse(lexical, sorted(similar, key=lambda address: -similar[address]), similar)


@given(hits, cosines)
def test_every_hit_comes_once_and_best_first(
    lexical: list[tuple[Address, float]], similar: dict[Address, float]
) -> None:
    near = sorted(similar, key=lambda address: -similar[address])[:NEAREST]
    found = fused(lexical, similar)
    assert sorted(hit for hit, _ in found) == sorted({hit for hit, _ in lexical} | set(near))
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)


@given(hits)
def test_without_vectors_nothing_changes(lexical: list[tuple[Address, float]]) -> None:
    assert fused(lexical, {}) == lexical


@given(cosines)
def test_without_words_the_nearest_come_in_their_order(similar: dict[Address, float]) -> None:
    found = [similar[hit] for hit, _ in fused([], similar)]
    assert found == sorted(similar.values(), reverse=True)[:NEAREST]


@given(hits, cosines)
def test_a_clear_order_by_words_is_not_reversed(
    lexical: list[tuple[Address, float]], similar: dict[Address, float]
) -> None:
    place = {hit: index for index, (hit, _) in enumerate(fused(lexical, similar))}
    for better, high in lexical:
        for worse, low in lexical:
            if high - low > VECTOR_WEIGHT * lexical[0][1] * 1.001:
                assert place[better] < place[worse]


def test_similar_neighbours_count_for_a_message() -> None:
    similar = {Address("message", 1, position): value for position, value in ((1, 0.5), (2, 0.5), (7, 0.5), (9, 0.1))}
    made = normalise(similar)
    assert made[Address("message", 1, 1)] == made[Address("message", 1, 2)] == 1.0
    assert 0 < made[Address("message", 1, 7)] < 1
    assert made[Address("message", 1, 9)] == 0


# what it gains

TEXTS = 500
QUESTIONS = 500


@cache
def corpus() -> tuple[list[str], list[list[int]], list[str], list[list[int]]]:
    """Texts with their topics, and questions with theirs. Question number n is about text number n.

    Every concept has two words, one of which is chosen at random."""
    rng = random.Random(3)
    syllables = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]
    words = rng.sample(["".join(rng.choices(syllables, k=3)) for _ in range(4_000)], 1_200)
    concepts = [(words[2 * index], words[2 * index + 1]) for index in range(len(words) // 2)]
    weights = [1 / (index + 10) for index in range(len(concepts))]
    meant = [rng.choices(range(len(concepts)), weights, k=8) for _ in range(TEXTS)]
    asked = [rng.sample(meant[number], 3) for number in range(QUESTIONS)]

    def said(meanings: list[int]) -> str:
        return " ".join(rng.choice(concepts[meaning]) for meaning in meanings)

    return [said(one) for one in meant], meant, [said(one) for one in asked], asked


def unit(matrix: Matrix) -> Matrix:
    lengths = numpy.linalg.norm(matrix, axis=1, keepdims=True)
    scaled: Matrix = matrix / numpy.maximum(lengths, 1e-9)
    return scaled


def random_vectors() -> tuple[Matrix, Matrix]:
    rng = numpy.random.default_rng(5)
    return unit(rng.normal(size=(TEXTS, 64))), unit(rng.normal(size=(QUESTIONS, 64)))


def same_vectors() -> tuple[Matrix, Matrix]:
    return unit(numpy.ones((TEXTS, 8))), unit(numpy.ones((QUESTIONS, 8)))


def hashed(size: int) -> Callable[[], tuple[Matrix, Matrix]]:
    """Counts of groups of letters: similar for words that are spelled alike, whatever they mean."""

    def vectors() -> tuple[Matrix, Matrix]:
        texts, _, questions, _ = corpus()
        return unit(numpy.array([_counts(text, size) for text in texts])), unit(
            numpy.array([_counts(text, size) for text in questions])
        )

    return vectors


def _counts(text: str, size: int) -> list[float]:
    counts = [0.0] * 64
    for start in range(len(text) - size + 1):
        counts[zlib.crc32(text[start : start + size].encode()) % 64] += 1
    return counts


def by_meaning(noise: float) -> Callable[[], tuple[Matrix, Matrix]]:
    """The meaning, whichever word is used, with some noise."""

    def vectors() -> tuple[Matrix, Matrix]:
        _, meant, _, asked = corpus()
        rng = numpy.random.default_rng(9)
        concepts = rng.normal(size=(600, 128))
        made = [
            unit(unit(numpy.array([concepts[one].sum(axis=0) for one in meanings])) + noise * unit(extra))
            for meanings, extra in ((meant, rng.normal(size=(TEXTS, 128))), (asked, rng.normal(size=(QUESTIONS, 128))))
        ]
        return made[0], made[1]

    return vectors


@cache
def by_words() -> list[list[tuple[int, float]]]:
    texts, _, questions, _ = corpus()
    return [rank_texts(question, texts, TOKENISER, consecutive=False) for question in questions]


def recall(rankings: list[list[int]], depth: int) -> float:
    """The percentage of questions that have their text among the first hits."""
    return 100 * sum(number in ranking[:depth] for number, ranking in enumerate(rankings)) / len(rankings)


def measured(vectors: tuple[Matrix, Matrix], depth: int) -> tuple[float, float, float]:
    """Recall by words, by vectors, and by both."""
    similar = vectors[1] @ vectors[0].T
    both: list[list[int]] = []
    near: list[list[int]] = []
    for words, row in zip(by_words(), similar, strict=True):
        close = numpy.argsort(-row, kind="stable")[:COMPARED].tolist()
        near.append(close)
        cosines = {at(number): float(row[number]) for number in close}
        lexical = [(at(number), score) for number, score in words]
        both.append([hit.number for hit, _ in fuse(lexical, [at(number) for number in close], cosines)])
    words_alone = [[hit for hit, _ in ranking] for ranking in by_words()]
    return recall(words_alone, depth), recall(near, depth), recall(both, depth)


@pytest.mark.parametrize("depth", [1, 5, 10, 20])
@pytest.mark.parametrize(
    "vectors", [random_vectors, same_vectors, hashed(1), hashed(2), hashed(3)], ids=["random", "same", "1", "2", "3"]
)
def test_a_poor_embedding_costs_at_most_a_point(vectors: Callable[[], tuple[Matrix, Matrix]], depth: int) -> None:
    words, alone, both = measured(vectors(), depth)
    assert alone < words
    assert both >= words - 1.0


@pytest.mark.parametrize("depth", [1, 5, 10, 20])
@pytest.mark.parametrize("noise", [0.5, 1.0])
def test_a_good_embedding_finds_more(noise: float, depth: int) -> None:
    words, _, both = measured(by_meaning(noise)(), depth)
    assert both >= words + 3.0
