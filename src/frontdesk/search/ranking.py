"""Which texts answer a query best: pure, the same for every store, over candidates and the figures of their corpus.

Ranked is by bm25 with three additions. A word that stands not in a message but near it in the conversation counts
for it in part, since question and answer belong together; a word counts once, where it stands nearest. Words that are
neighbours in the query are worth more as neighbours in the text. And phrases, exclusions and prefixes do as asked.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import NamedTuple

from frontdesk.search.query import Phrase, Query, parse
from frontdesk.search.tokeniser import Tokeniser

# The weights were chosen by a coarse grid over five public conversations (`bench/search.py`), where the figures around
# them do nearly as well.
SATURATION = 0.8
"""bm25's k1: how soon one more occurrence of a word stops counting; messages are short"""
LENGTH_WEIGHT = 0.3
"""bm25's b: how much a long message has to hold more to be worth the same"""
NEIGHBOUR_WEIGHTS = (0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
"""what a word counts for a message that stands one, two, ... messages away from it"""
LATER_WEIGHT = 0.8
"""how much of that is left where the word comes after the message: answers follow questions"""
ADJACENCY_WEIGHT = 0.3
"""what two words side by side, as in the query, are worth beside their weights"""
ADJACENCY_GAP = 2
"""how far apart "side by side" may be: one word may stand between"""
PREFIX_WEIGHT = 0.7
"""what a word that only begins as asked counts against the word itself"""
MOST_RANKED_TERMS = 64
"""a longer query is ranked by the rarest of its words"""

_NO_PARENTS: Mapping[int, tuple[int, int]] = {}


class Found(NamedTuple):
    """What a query found in one text: `places` by term, of a text of `length` terms; prefixes end in "*"."""

    length: int
    places: Mapping[str, Sequence[int]]


@dataclass(slots=True)
class Statistics:
    """The figures of a corpus: how many texts, how long, and in how many of them each term of the query stands."""

    texts: int = 0
    length: int = 0
    frequencies: dict[str, int] = field(default_factory=dict)

    def count(self, length: int, found: Found | None) -> None:
        """Take one more text into account."""
        self.texts += 1
        self.length += length
        for term in found.places if found else ():
            self.frequencies[term] = self.frequencies.get(term, 0) + 1

    def weight(self, term: str) -> float:
        """How much a term says: the rarer the more (bm25's inverse document frequency)."""
        frequency = self.frequencies.get(term, 0)
        return log(1 + (self.texts - frequency + 0.5) / (frequency + 0.5))


class Matcher:
    """Finds the terms of one query in lines of terms."""

    def __init__(self, query: Query) -> None:
        self._query = query
        clauses = [term for phrase in (*query.phrases, *query.excluded) for stretch in phrase for term in stretch]
        self._wanted = frozenset((*query.words, *clauses))
        self._prefixes = query.prefixes
        self._words = frozenset(query.words)

    def take(self, terms: Sequence[str], statistics: Statistics) -> Found | None:
        """What `find` gives, counted in."""
        found = self.find(terms)
        statistics.count(len(terms), found)
        return found

    def find(self, terms: Sequence[str]) -> Found | None:
        """What a text holds of the query's words and prefixes; None if that is nothing, or not what was demanded."""
        places = self._places(terms)
        if not places and (self._query.has_terms or self._query.phrases):
            return None
        if not all(_holds(places, phrase) for phrase in self._query.phrases):
            return None
        if any(_holds(places, phrase) for phrase in self._query.excluded):
            return None
        found = {term: places[term] for term in places if term in self._words or term[-1] == "*"}
        return Found(len(terms), found) if found or not self._query.has_terms else None

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


def _holds(places: Mapping[str, Sequence[int]], phrase: Phrase) -> bool:
    return all(_stands(places, stretch) for stretch in phrase)


def _stands(places: Mapping[str, Sequence[int]], stretch: Sequence[str]) -> bool:
    """Whether the terms follow one another somewhere without a gap."""
    if any(term not in places for term in stretch):
        return False
    rest = [set(places[term]) for term in stretch[1:]]
    return any(all(start + step in at for step, at in enumerate(rest, 1)) for start in places[stretch[0]])


class Candidate(NamedTuple):
    """A text to be ranked: what was found in it, and the line (a branch of a conversation) and place it stands at.

    Texts on one line are neighbours by their places; one without a line stands for itself."""

    found: Found
    line: int | None = None
    place: int = 0


def rank(
    query: Query,
    candidates: Sequence[Candidate],
    statistics: Statistics,
    parents: Mapping[int, tuple[int, int]] = _NO_PARENTS,
) -> list[float]:
    """The score of each candidate, in their order; 0 for all where the query has no terms.

    `parents` says after which (line, place) a line branches off."""
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
    """Each candidate with each one that stands shortly before it, and what the earlier one's words count for it."""
    at = {(line, place): index for index, (_, line, place) in enumerate(candidates) if line is not None}
    order = sorted(at)
    for rank, (line, place) in enumerate(order):
        index = at[line, place]
        for before in range(rank - 1, -1, -1):
            other_line, other_place = order[before]
            if other_line != line or place - other_place > len(NEIGHBOUR_WEIGHTS):
                break
            yield index, at[other_line, other_place], NEIGHBOUR_WEIGHTS[place - other_place - 1]
        if line in parents and place < len(NEIGHBOUR_WEIGHTS):
            for weight, where in zip(NEIGHBOUR_WEIGHTS[place:], _across(line, parents), strict=False):
                if where in at:
                    yield index, at[where], weight


def _across(line: int, parents: Mapping[int, tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The places ahead of the beginning of a line, on those it branches off, nearest first."""
    while line in parents:
        line, place = parents[line]
        yield from ((line, at) for at in range(place, -1, -1))


def rank_texts(text: str, documents: Iterable[str], tokeniser: Tokeniser, *, in_line: bool) -> list[tuple[int, float]]:
    """(index, score) of the documents that match the words of a query, best first and equals in their order.

    With `in_line` they follow one another in one conversation."""
    query = parse(text, tokeniser)
    matcher, statistics = Matcher(query), Statistics()
    found = [matcher.take(tokeniser.terms(document), statistics) for document in documents]
    matched = [(index, one) for index, one in enumerate(found) if one is not None and query.has_terms]
    scores = rank(query, [Candidate(one, 0 if in_line else None, index) for index, one in matched], statistics)
    pairs = [(index, score) for (index, _), score in zip(matched, scores, strict=True)]
    return sorted(pairs, key=lambda pair: -pair[1])


def _weights(query: Query, statistics: Statistics) -> dict[str, float]:
    """The weights of the terms that are ranked by: those that stand anywhere, and of too many the rarest."""
    terms = [term for term in query.words if statistics.frequencies.get(term)]
    rarest = sorted(terms, key=lambda term: statistics.frequencies[term])[:MOST_RANKED_TERMS]
    weights = {term: statistics.weight(term) for term in rarest}
    return weights | {f"{prefix}*": PREFIX_WEIGHT * statistics.weight(f"{prefix}*") for prefix in query.prefixes}


def _own_scores(
    found: Found,
    weights: Mapping[str, float],
    numbers: Mapping[str, int],
    pairs: Sequence[tuple[str, str]],
    average: float,
) -> list[tuple[int, float]]:
    """What each term is worth in one text, by its number, and each pair of neighbours, by the numbers behind these."""
    damping = SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * found.length / average)
    scores: list[tuple[int, float]] = []
    places = found.places
    for term, stands in places.items():
        if term in weights:
            count = len(stands)
            scores.append((numbers[term], weights[term] * count * (SATURATION + 1) / (count + damping)))
    if len(scores) > 1:
        for number, (first, second) in enumerate(pairs, len(numbers)):
            if first in places and second in places and _side_by_side(places[first], places[second]):
                scores.append((number, ADJACENCY_WEIGHT * (weights[first] + weights[second])))
    return scores


def _side_by_side(first: Sequence[int], second: Iterable[int]) -> bool:
    later = list(second)
    for place in first:
        index = bisect_left(later, place + 1)
        if index < len(later) and later[index] <= place + ADJACENCY_GAP:
            return True
    return False
