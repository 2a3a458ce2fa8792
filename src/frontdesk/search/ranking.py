"""Ranking texts by a query, the same for every store: scores from the candidates and the statistics of their corpus.

The score is BM25 with these additions:

- A word in a nearby message of the conversation also counts for a message, with a lower weight, since question and
  answer belong together. For "amber lamp", the answer "the lamp" right after the question "which amber?" scores for
  both words. Each word counts once for a message, where it scores highest.
- Words that are adjacent in the query score more if they are adjacent in the text.
- The author and the time count if the query names them: "what did Ana buy in May?" These are not shared with nearby
  messages: the answer of somebody else is not by Ana.
- A message that asks something counts a little less, since most queries look for answers.
- Phrases are required, exclusions are forbidden, and a prefix counts less than the word itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import NamedTuple

from frontdesk.moments import DAY
from frontdesk.search.dates import closeness
from frontdesk.search.fields import AUTHOR_MARK, QUESTION
from frontdesk.search.query import Phrase, Query, parse
from frontdesk.search.tokeniser import Tokeniser
from frontdesk.store import Address

# The weights come from a coarse grid search on five public conversations, leaving out one at a time
# (`bench/search.py`). Nearby weights are almost as good.
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
TYPO_WEIGHT = 0.6
"""the weight of a word that is similar to a word that no text contains"""
MENTION_WEIGHT = 0.5
"""the factor for a word in a text if it is the name of an author: usually, what that author wrote is meant"""
MAX_RANKED_TERMS = 64
"""a longer query is ranked by its rarest words"""

_NO_PARENTS: Mapping[int, tuple[int, int]] = {}


class FieldWeights(NamedTuple):
    """What counts besides words."""

    author: float = 3.0
    """what a text by an author that the query names gets; a word gets this if about 5 % of the texts contain it"""
    date: float = 4.0
    """what a text of a time that the query names gets"""
    question: float = 0.9
    """the factor for texts that are questions"""


class TermPlaces(NamedTuple):
    """The places of a query's terms in a text of `length` terms. Prefixes end in "*"."""

    length: int
    places: Mapping[str, Sequence[int]]


NOTHING_FOUND = TermPlaces(0, {})


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
        self.add(dict.fromkeys(found.places, 1) if found else {})

    def add(self, frequencies: Mapping[str, int]) -> None:
        """Add how many further texts contain each term."""
        for term, frequency in frequencies.items():
            self.frequencies[term] = self.frequencies.get(term, 0) + frequency

    def weight(self, term: str) -> float:
        """The weight of a term: the rarer, the higher (the inverse document frequency of BM25). Always above 0, even if
        texts with the term were added to the corpus between the two counts."""
        frequency = min(self.frequencies.get(term, 0), self.texts)
        return log(1 + (self.texts - frequency + 0.5) / (frequency + 0.5))


class Matcher:
    """Finds the terms of one query in texts."""

    def __init__(self, query: Query) -> None:
        self._query = query
        clauses = [term for phrase in (*query.phrases, *query.excluded) for stretch in phrase for term in stretch]
        self._wanted = frozenset((*query.words, *query.names, QUESTION, *clauses))
        self._prefixes = query.prefixes
        self._words = frozenset((*query.words, *query.names))

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
        if not found and self._query.has_terms:
            return None
        if QUESTION in places:
            found[QUESTION] = places[QUESTION]
        return TermPlaces(len(terms), found)

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
    """A text to be ranked: the terms found in it, its segment and position in the conversation, and its time.

    Texts of one segment are neighbours by their positions. A text without a segment has no neighbours."""

    found: TermPlaces
    segment: int | None = None
    position: int = 0
    at: int = 0


def rank(
    query: Query,
    candidates: Sequence[Candidate],
    statistics: Statistics,
    parents: Mapping[int, tuple[int, int]] = _NO_PARENTS,
) -> list[float]:
    """The score of each candidate, in their order; all 0 if the query has no terms. A candidate with nothing but the
    role that the query means ("what did I say?") has a score only if there are words of the query near it.

    `parents` maps a segment to the (segment, position) after which it branches off."""
    by_words = rank_by_words(query, candidates, statistics, parents)
    return add_fields(query, candidates, by_words, FieldWeights()) if query.has_terms else by_words


def rank_by_words(
    query: Query,
    candidates: Sequence[Candidate],
    statistics: Statistics,
    parents: Mapping[int, tuple[int, int]] = _NO_PARENTS,
) -> list[float]:
    """The scores by words alone.

    Example: for "amber lamp", message 4 says "which amber?" and message 5 "the lamp". 5 gets the score of its own
    "lamp", and 0.6 of that of "amber" in 4. 4 gets the score of its own "amber", and 0.6 * 0.8 of that of "lamp" in 5,
    which comes later. If 5 says "amber", too, it gets the higher of both scores for it, not their sum."""
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


def add_fields(
    query: Query, candidates: Sequence[Candidate], by_words: Sequence[float], weights: FieldWeights
) -> list[float]:
    """The scores with what the author, the time and a question change about them.

    Example: "what did Ana buy?" A message by Ana gets `author`, even if it has no word of the query: it may be the
    answer. For "what did I buy?", a message of the user needs "buy" in it or near it: otherwise every message of the
    user would be a hit."""
    names = frozenset(query.names)
    question = 1.0 if query.is_about_questions else weights.question
    by_day: dict[int, float] = {}
    scores: list[float] = []
    for score, (found, _, _, at) in zip(by_words, candidates, strict=True):
        by = [name for name in found.places if name in names]
        if score == 0 and not any(name[0] == AUTHOR_MARK for name in by):
            scores.append(0.0)
            continue
        score += weights.author if by else 0.0
        if query.dates:
            day = at // DAY
            if day not in by_day:
                by_day[day] = closeness(query.dates, at)
            score += weights.date * by_day[day]
        scores.append(score * question if QUESTION in found.places else score)
    return scores


def _neighbours(
    candidates: Sequence[Candidate], parents: Mapping[int, tuple[int, int]]
) -> Iterator[tuple[int, int, float]]:
    """Pairs of neighbours: the indexes of a candidate and of one shortly before it, and the weight of their distance.

    The second may be in the segment that the first one's segment branches off: after a branch from position 7 of
    segment 1, the text at (2, 0) follows the one at (1, 7)."""
    at = {(one.segment, one.position): index for index, one in enumerate(candidates) if one.segment is not None}
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
    pairs = [(index, score) for (index, _), score in zip(matched, scores, strict=True) if score > 0]
    return sorted(pairs, key=lambda pair: -pair[1])


def _weights(query: Query, statistics: Statistics) -> dict[str, float]:
    """The weights of the terms that count: those that occur in the corpus, at most `MAX_RANKED_TERMS`, the rarest. In
    "the lamp", "lamp" outweighs "the", which nearly every text contains. A word that replaces a typo counts less."""
    terms = [term for term in query.words if statistics.frequencies.get(term)]
    rarest = sorted(terms, key=lambda term: statistics.frequencies[term])[:MAX_RANKED_TERMS]
    weights = {term: _word_weight(term, statistics) for term in rarest}
    for term, _ in query.corrected:
        if term in weights:
            weights[term] *= TYPO_WEIGHT
    return weights | {f"{prefix}*": PREFIX_WEIGHT * statistics.weight(f"{prefix}*") for prefix in query.prefixes}


def _word_weight(term: str, statistics: Statistics) -> float:
    is_name = bool(statistics.frequencies.get(AUTHOR_MARK + term))
    return statistics.weight(term) * (MENTION_WEIGHT if is_name else 1.0)


def _own_scores(
    found: TermPlaces,
    weights: Mapping[str, float],
    numbers: Mapping[str, int],
    pairs: Sequence[tuple[str, str]],
    average: float,
) -> list[tuple[int, float]]:
    """The scores of one text by its own words: (number, score) of each term, and of each pair of adjacent words, whose
    numbers follow those of the terms.

    Example: for "amber lamp", "an amber desk lamp" scores for both words and for the pair, "a lamp of amber" only for
    both words. The second "lamp" of a text adds less than the first one."""
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


# adding what vectors say
#
# Both are scores, so they are added: the text that is nearest in meaning gets a fifth of the best score by words, and
# others as much less as they are less similar. A message also counts as similar if the messages next to it are.
#
# How much the vectors count depends on whether they agree with the words: if the best hits by words are no more similar
# to the query than other texts are, the embedding does not understand the query, and counts little. So a worthless
# embedding changes almost nothing, and a good one moves up what both rankings agree on.

COMPARED = 200
"""how many of the nearest vectors count"""
NEAREST = 20
"""how many of the nearest texts can become hits without a word of the query"""
VECTOR_WEIGHT = 0.2
"""what the nearest text gets, as a share of the best score by words"""
VECTOR_NEIGHBOUR_WEIGHT = 0.3
"""how much the similarity of the message before and the message after counts for a message"""
_FIRST_HITS = 10
"""the hits by words that vectors have to agree with"""
_FULL_AGREEMENT = 0.2
"""by how much the first hits must be more similar than other texts for the vectors to count in full"""

_SAME = 1e-6
"""similarities that differ less than this are the same"""


def fuse(
    lexical: Sequence[tuple[Address, float]],
    nearest: Sequence[Address],
    similarities: Mapping[Address, float],
    weight: float = VECTOR_WEIGHT,
) -> list[tuple[Address, float]]:
    """Hits and scores, best first, from the hits by words, best first, and the nearest texts that may be added to them.
    `similarities` are the cosines of the nearest texts of all, at most `COMPARED`.

    Scores are on the scale of the scores by words. Without hits by words, the nearest come in their own order.

    Example: the hits by words have the scores 10 and 1, and both rankings agree. The nearest text gets 2. If it has no
    word of the query, it is the second hit: after the first one, and before the one with 1."""
    similar = normalise(similarities)
    best = lexical[0][1] if lexical and lexical[0][1] > 0 else 1.0
    factor = weight * best * (_agreement(lexical, similar) if lexical else 1.0)
    scores = dict(lexical)
    for address in nearest[:NEAREST]:
        scores.setdefault(address, 0.0)
    fused = [(address, score + factor * similar.get(address, 0.0)) for address, score in scores.items()]
    return sorted(fused, key=lambda pair: -pair[1])


def normalise(similarities: Mapping[Address, float]) -> dict[Address, float]:
    """Similarities from 0 for the least similar text to 1 for the most similar one, with those of the neighbours mixed
    in. A neighbour that is not among the nearest counts as the least similar one. If all are the same, they say
    nothing, and are all 0. Example: 0.9, 0.7 and 0.5 of three conversations become 1, 0.5 and 0."""
    if not similarities:
        return {}
    lowest = min(similarities.values())
    mixed: dict[Address, float] = {}
    for address, similarity in similarities.items():
        value = similarity - lowest
        if address.kind == "message":
            for position in (address.position - 1, address.position + 1):
                value += VECTOR_NEIGHBOUR_WEIGHT * (
                    similarities.get(address._replace(position=position), lowest) - lowest
                )
        mixed[address] = value
    highest = max(mixed.values())
    return {address: value / highest if highest > _SAME else 0.0 for address, value in mixed.items()}


def _agreement(lexical: Sequence[tuple[Address, float]], similar: Mapping[Address, float]) -> float:
    """From 0 if the best hits by words are no more similar to the query than other texts are, to 1. Example: the first
    ten have 0.5 on average, and the others 0.4. That is half of what full agreement needs, so it is 0.5."""
    first = [similar.get(address, 0.0) for address, _ in lexical[:_FIRST_HITS]]
    others = [similar.get(address, 0.0) for address, _ in lexical[_FIRST_HITS:]] or [0.0]
    difference = sum(first) / len(first) - sum(others) / len(others)
    return min(max(difference / _FULL_AGREEMENT, 0.0), 1.0)
