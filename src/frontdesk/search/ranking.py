"""Ranking texts by a query, the same for every store: scores from the candidates and the statistics of their corpus.

The score is BM25 with three additions:

- A word in a nearby message of the conversation also counts for a message, with a lower weight, since question and
  answer belong together. For "amber lamp", the answer "the lamp" right after the question "which amber?" scores for
  both words. Each word counts once for a message, where it scores highest.
- Words that are adjacent in the query score more if they are adjacent in the text.
- Phrases are required, exclusions are forbidden, and a prefix counts less than the word itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import NamedTuple

from frontdesk.search.query import Phrase, Query, parse
from frontdesk.search.tokeniser import Tokeniser

# The weights come from a coarse grid search on five public conversations (`bench/search.py`). Nearby weights are almost
# as good.
SATURATION = 0.8
"""k1 of BM25: how soon further occurrences of a word stop counting; low, since messages are short"""
LENGTH_WEIGHT = 0.3
"""b of BM25: how much long messages are penalised"""
NEIGHBOUR_WEIGHTS = (0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
"""the weight of a word for a message that is one, two, ... messages after it"""
LATER_WEIGHT = 0.8
"""the factor for a message that is before the word: answers follow questions, not the other way round"""
ADJACENCY_WEIGHT = 0.3
"""what adjacent words add, as a share of their weights"""
ADJACENCY_GAP = 2
"""how far apart adjacent words may be: with one word between them"""
PREFIX_WEIGHT = 0.7
"""the weight of a prefix compared with the word itself"""
MAX_RANKED_TERMS = 64
"""a longer query is ranked by its rarest words"""

_NO_PARENTS: Mapping[int, tuple[int, int]] = {}


class TermPlaces(NamedTuple):
    """The places of a query's terms in a text of `length` terms. Prefixes end in "*"."""

    length: int
    places: Mapping[str, Sequence[int]]


@dataclass(slots=True)
class Statistics:
    """The statistics of a corpus: the number of texts, their total length, and how many texts contain each term."""

    texts: int = 0
    length: int = 0
    frequencies: dict[str, int] = field(default_factory=dict)

    def count(self, length: int, found: TermPlaces | None) -> None:
        """Add one text."""
        self.texts += 1
        self.length += length
        for term in found.places if found else ():
            self.frequencies[term] = self.frequencies.get(term, 0) + 1

    def weight(self, term: str) -> float:
        """The weight of a term: the rarer, the higher (the inverse document frequency of BM25)."""
        frequency = self.frequencies.get(term, 0)
        return log(1 + (self.texts - frequency + 0.5) / (frequency + 0.5))


class Matcher:
    """Finds the terms of one query in texts."""

    def __init__(self, query: Query) -> None:
        self._query = query
        clauses = [term for phrase in (*query.phrases, *query.excluded) for stretch in phrase for term in stretch]
        self._wanted = frozenset((*query.words, *clauses))
        self._prefixes = query.prefixes
        self._words = frozenset(query.words)

    def match(self, terms: Sequence[str], statistics: Statistics) -> TermPlaces | None:
        """`find`, and add the text to the statistics."""
        found = self.find(terms)
        statistics.count(len(terms), found)
        return found

    def find(self, terms: Sequence[str]) -> TermPlaces | None:
        """The places of the query's words and prefixes in a text; None if the text does not match the query."""
        places = self._places(terms)
        if not places and (self._query.has_terms or self._query.phrases):
            return None
        if not all(_contains(places, phrase) for phrase in self._query.phrases):
            return None
        if any(_contains(places, phrase) for phrase in self._query.excluded):
            return None
        found = {term: places[term] for term in places if term in self._words or term[-1] == "*"}
        return TermPlaces(len(terms), found) if found or not self._query.has_terms else None

    def _places(self, terms: Sequence[str]) -> dict[str, list[int]]:
        places: dict[str, list[int]] = {}
        if not self._wanted.isdisjoint(terms):
            for place, term in enumerate(terms):
                if term in self._wanted:
                    places.setdefault(term, []).append(place)
        for prefix in self._prefixes:
            at = [place for place, term in enumerate(terms) if term.startswith(prefix)]
            if at:
                places[f"{prefix}*"] = at
        return places


def _contains(places: Mapping[str, Sequence[int]], phrase: Phrase) -> bool:
    return all(_occurs(places, stretch) for stretch in phrase)


def _occurs(places: Mapping[str, Sequence[int]], stretch: Sequence[str]) -> bool:
    """Whether the terms are adjacent somewhere, in this order."""
    if any(term not in places for term in stretch):
        return False
    rest = [set(places[term]) for term in stretch[1:]]
    return any(all(start + step in at for step, at in enumerate(rest, 1)) for start in places[stretch[0]])


class Candidate(NamedTuple):
    """A text to be ranked: the terms found in it, and its segment and position in the conversation.

    Texts of one segment are neighbours by their positions. A text without a segment has no neighbours."""

    found: TermPlaces
    segment: int | None = None
    position: int = 0


def rank(
    query: Query,
    candidates: Sequence[Candidate],
    statistics: Statistics,
    parents: Mapping[int, tuple[int, int]] = _NO_PARENTS,
) -> list[float]:
    """The score of each candidate, in their order; all 0 if the query has no terms.

    `parents` maps a segment to the (segment, position) after which it branches off."""
    weights = _weights(query, statistics)
    average = statistics.length / statistics.texts if statistics.length else 1.0
    numbers = {term: number for number, term in enumerate(weights)}
    pairs = [pair for pair in query.pairs if pair[0] in weights and pair[1] in weights]
    own = [_own_scores(candidate.found, weights, numbers, pairs, average) for candidate in candidates]
    best = [[0.0] * (len(numbers) + len(pairs)) for _ in candidates]
    for scores, mine in zip(best, own, strict=True):
        for number, score in mine:
            scores[number] = score
    for index, other, weight in _neighbours(candidates, parents):
        scores, others = best[index], best[other]
        for number, score in own[other]:
            if score * weight > scores[number]:
                scores[number] = score * weight
        weight *= LATER_WEIGHT
        for number, score in own[index]:
            if score * weight > others[number]:
                others[number] = score * weight
    return [sum(scores) for scores in best]


def _neighbours(
    candidates: Sequence[Candidate], parents: Mapping[int, tuple[int, int]]
) -> Iterator[tuple[int, int, float]]:
    """Pairs of neighbours: the indexes of a candidate and of one shortly before it, and the weight of their distance.

    The second may be in the segment that the first one's segment branches off: after a branch from position 7 of
    segment 1, the text at (2, 0) follows the one at (1, 7)."""
    at = {(segment, position): index for index, (_, segment, position) in enumerate(candidates) if segment is not None}
    order = sorted(at)
    for rank, (segment, position) in enumerate(order):
        index = at[segment, position]
        for before in range(rank - 1, -1, -1):
            other_segment, other = order[before]
            if other_segment != segment or position - other > len(NEIGHBOUR_WEIGHTS):
                break
            yield index, at[other_segment, other], NEIGHBOUR_WEIGHTS[position - other - 1]
        if segment in parents and position < len(NEIGHBOUR_WEIGHTS):
            for weight, place in zip(NEIGHBOUR_WEIGHTS[position:], _places_before(segment, parents), strict=False):
                if place in at:
                    yield index, at[place], weight


def _places_before(segment: int, parents: Mapping[int, tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The places before the start of a segment, in the segments that it branches off, nearest first."""
    while segment in parents:
        segment, position = parents[segment]
        yield from ((segment, at) for at in range(position, -1, -1))


def rank_texts(
    text: str, documents: Iterable[str], tokeniser: Tokeniser, *, consecutive: bool
) -> list[tuple[int, float]]:
    """(index, score) of the documents that match a query, best first, in their order among equals.

    With `consecutive`, the documents are consecutive messages of one conversation."""
    query = parse(text, tokeniser)
    matcher, statistics = Matcher(query), Statistics()
    found = [matcher.match(tokeniser.terms(document), statistics) for document in documents]
    matched = [(index, places) for index, places in enumerate(found) if places is not None and query.has_terms]
    segment = 0 if consecutive else None
    scores = rank(query, [Candidate(places, segment, index) for index, places in matched], statistics)
    pairs = [(index, score) for (index, _), score in zip(matched, scores, strict=True)]
    return sorted(pairs, key=lambda pair: -pair[1])


def _weights(query: Query, statistics: Statistics) -> dict[str, float]:
    """The weights of the terms that count: those that occur in the corpus, at most `MAX_RANKED_TERMS`, the rarest."""
    terms = [term for term in query.words if statistics.frequencies.get(term)]
    rarest = sorted(terms, key=lambda term: statistics.frequencies[term])[:MAX_RANKED_TERMS]
    weights = {term: statistics.weight(term) for term in rarest}
    return weights | {f"{prefix}*": PREFIX_WEIGHT * statistics.weight(f"{prefix}*") for prefix in query.prefixes}


def _own_scores(
    found: TermPlaces,
    weights: Mapping[str, float],
    numbers: Mapping[str, int],
    pairs: Sequence[tuple[str, str]],
    average: float,
) -> list[tuple[int, float]]:
    """The scores of one text by its own words: (number, score) of each term, and of each pair of adjacent words, whose
    numbers follow those of the terms."""
    damping = SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * found.length / average)
    scores: list[tuple[int, float]] = []
    places = found.places
    for term, occurrences in places.items():
        if term in weights:
            count = len(occurrences)
            scores.append((numbers[term], weights[term] * count * (SATURATION + 1) / (count + damping)))
    if len(scores) > 1:
        for number, (first, second) in enumerate(pairs, len(numbers)):
            if first in places and second in places and _are_adjacent(places[first], places[second]):
                scores.append((number, ADJACENCY_WEIGHT * (weights[first] + weights[second])))
    return scores


def _are_adjacent(first: Sequence[int], second: Iterable[int]) -> bool:
    later = list(second)
    for place in first:
        index = bisect_left(later, place + 1)
        if index < len(later) and later[index] <= place + ADJACENCY_GAP:
            return True
    return False
