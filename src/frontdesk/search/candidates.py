"""The candidates of a search: matches in the index, matches in texts that are not indexed yet, and the term statistics
by which both are ranked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from frontdesk.calls import call
from frontdesk.config.runtime import Runtime
from frontdesk.pauses import sleep
from frontdesk.search import stored_texts
from frontdesk.search.facets import KINDS, period_facets, role_facet
from frontdesk.search.query import Query
from frontdesk.search.ranking import (
    MAX_RANKED_TERMS,
    NEIGHBOUR_WEIGHTS,
    Candidate,
    Matcher,
    Statistics,
    TermPlaces,
    rank,
)
from frontdesk.search.request import SHOWN_ROLES, Request, is_shown
from frontdesk.search.settings import tokeniser
from frontdesk.search.stored_texts import StoredText, TextSelection
from frontdesk.store import (
    LONGEST_STRETCH,
    Address,
    IndexMatch,
    IndexQuery,
    IndexRow,
    Phrase,
    Place,
    Range,
    SessionSelection,
)

MAX_CANDIDATES = 2_000
"""how many texts are ranked: those with the rarest words"""
MAX_COMMON_CANDIDATES = 1_000
"""how many texts are ranked if even the rarest word is in more than `MAX_CANDIDATES`: the newest"""
_MAX_INLINE = 200
"""how many texts are ranked without a thread"""


class Ranked(NamedTuple):
    """A text that matched, and its score."""

    score: float
    match: IndexMatch


@dataclass(slots=True)
class CandidatePool:
    """The candidates that were found so far, by address, and the term statistics of the texts searched."""

    matches: dict[Address, IndexMatch] = field(default_factory=dict)
    statistics: Statistics = field(default_factory=Statistics)

    def add_index(self, matches: Iterable[IndexMatch]) -> None:
        """Add matches from the index, except for texts that were read directly: those are newer."""
        for match in matches:
            self.matches.setdefault(match.address, match)

    def keep(self, is_wanted: Callable[[IndexMatch], bool]) -> None:
        self.matches = {address: match for address, match in self.matches.items() if is_wanted(match)}

    def use_statistics(self, row: IndexRow, frequencies: Mapping[str, int]) -> None:
        """Rank by the statistics of the whole index and of the texts that were read directly."""
        statistics = self.statistics
        statistics.texts += row.texts
        statistics.length += row.length
        for term, frequency in frequencies.items():
            statistics.frequencies[term] = statistics.frequencies.get(term, 0) + frequency

    def use_partial_statistics(self, texts: int, row: IndexRow, frequencies: Mapping[str, int] | None) -> None:
        """Rank by the statistics of `texts` texts, which are a part of the index. Without `frequencies`, the matches in
        the pool are counted, which are all there are."""
        statistics = self.statistics
        average = row.length / row.texts if row.texts else 1.0
        statistics.length += round(average * max(texts - statistics.texts, 0))
        statistics.texts = max(texts, statistics.texts)
        if frequencies is not None:
            statistics.frequencies = dict(frequencies)
            return
        statistics.frequencies = {}
        for match in self.matches.values():
            for term in match.places:
                statistics.frequencies[term] = statistics.frequencies.get(term, 0) + 1

    def unmatched(self, near: Iterable[IndexMatch]) -> list[Ranked]:
        """The nearest texts that were not found by words, with a score of 0."""
        return [Ranked(0.0, match) for match in near if match.address not in self.matches]

    async def rank(self, query: Query, parents: Mapping[int, tuple[int, int]]) -> list[Ranked]:
        """All candidates with their scores, in no particular order."""
        matches = list(self.matches.values())
        candidates = [_candidate(match) for match in matches]
        if len(candidates) <= _MAX_INLINE:
            scores = rank(query, candidates, self.statistics, parents)
        else:
            scores = await call(rank, query, candidates, self.statistics, parents)
        return [Ranked(score, match) for score, match in zip(scores, matches, strict=True)]


def _candidate(match: IndexMatch) -> Candidate:
    found = TermPlaces(match.length, match.places)
    return Candidate(found) if match.place is None else Candidate(found, *match.place)


def segments_near_start(matches: Iterable[IndexMatch]) -> list[int]:
    """The segments of matches near the start of a segment: their neighbours may be in the parent segment."""
    places = (match.place for match in matches if match.place is not None)
    return sorted({place.segment for place in places if place.position < len(NEIGHBOUR_WEIGHTS)})


# the index


def terms_of(query: Query) -> list[str]:
    return [*query.words, *(f"{prefix}*" for prefix in query.prefixes)]


class Terms(NamedTuple):
    """What to look for: at most `limit` texts with any of the terms `seek`. In these, `also` counts too."""

    seek: tuple[str, ...]
    also: tuple[str, ...]
    limit: int


def choose_terms(query: Query, frequencies: Mapping[str, int]) -> Terms:
    """Choose the rarest terms, as many as occur in no more than `MAX_CANDIDATES` texts. The other terms count only in
    the texts found by these. If the query has a phrase, that is selective enough, and all terms are looked for.

    For "zanzibar report", with "zanzibar" in 100 texts and "report" in 50,000, the texts with "zanzibar" are looked
    for, and "report" only adds to their scores."""
    known = [term for term in terms_of(query) if frequencies[term]]
    known = sorted(known, key=lambda term: frequencies[term])[:MAX_RANKED_TERMS]
    limit = MAX_COMMON_CANDIDATES if known and frequencies[known[0]] > MAX_CANDIDATES else MAX_CANDIDATES
    if query.phrases:
        return Terms(tuple(known), (), limit)
    texts = 0
    for index, term in enumerate(known):
        texts += frequencies[term]
        if index and texts > MAX_CANDIDATES:
            return Terms(tuple(known[:index]), tuple(known[index:]), limit)
    return Terms(tuple(known), (), limit)


def facets(request: Request, *, by_time: bool = True) -> tuple[tuple[str, ...], ...]:
    """The facets that a text needs for the filters by role and time: one of each group. In a small number of texts,
    checking the exact time of each is faster than facets (`by_time=False`).

    Summaries, and the names of sessions, are no messages: they are not hidden from a model."""
    query = request.query
    groups: list[tuple[str, ...]] = []
    if query.roles:
        groups.append(tuple(role_facet(role) for role in sorted(query.roles)))
    if request.for_model:
        groups.append((*map(role_facet, sorted(SHOWN_ROLES)), KINDS["overlay"], KINDS["session"]))
    if by_time and (query.after is not None or query.before is not None):
        groups.append(period_facets(query.after, query.before))
    if not (groups or query.has_terms):
        groups.append(tuple(KINDS.values()))
    return tuple(groups)


def split_phrase(phrase: Phrase) -> Phrase:
    """A phrase with its stretches split to a length that every store can look for."""
    return tuple(
        stretch[start : start + LONGEST_STRETCH]
        for stretch in phrase
        for start in range(0, len(stretch), LONGEST_STRETCH)
    )


async def look_up(
    runtime: Runtime,
    request: Request,
    terms: Terms,
    *,
    ranges: tuple[Range, ...] | None = None,
    sessions: SessionSelection | None = None,
    after: Address | None = None,
    by_time: bool = True,
) -> list[IndexMatch]:
    """The matches in the index for the terms of `choose_terms`; none if the query has terms, but all are unknown."""
    query = request.query
    if query.has_terms and not terms.seek:
        return []
    return await runtime.store.matches(
        IndexQuery(
            namespace=runtime.namespace,
            seek=terms.seek,
            count=terms.also,
            phrases=tuple(map(split_phrase, query.phrases)),
            excluded=tuple(map(split_phrase, query.excluded)),
            facets=facets(request, by_time=by_time),
            ranges=ranges,
            sessions=sessions,
            after=after,
            limit=terms.limit,
        )
    )


# texts that are not in the index


async def scan(runtime: Runtime, request: Request, selection: TextSelection, pool: CandidatePool) -> None:
    """Read texts, and add those that match."""
    settings = runtime.settings.search
    matcher = Matcher(request.query)
    owners = sorted(set(selection.owners.values()) | set(selection.sessions))
    rows = await runtime.store.sessions(runtime.namespace, owners) if owners else []
    families = {row.number: row.family for row in rows}
    for batch in selection.batches():
        for source in await stored_texts.load(runtime, batch):
            terms = tokeniser(settings).terms(source.text)
            found = matcher.match(terms, pool.statistics)
            kind, number, _ = source.address
            if found is None or not _passes(source, request):
                continue
            owner = number if kind == "session" else selection.owners.get((kind, number), 0)
            pool.matches[source.address] = IndexMatch(
                source.address, _place(source, selection), families.get(owner, 0), source.at, *found
            )
        # Let other tasks run: matching a batch keeps the processor busy.
        await sleep(0)


def _place(source: StoredText, selection: TextSelection) -> Place | None:
    kind, number, position = source.address
    if kind == "message":
        return Place(number, position)
    return selection.edits.get(number) if kind == "edit" else None


def _passes(source: StoredText, request: Request) -> bool:
    """Whether a text passes the filters by role and time. The time of a session is its last activity, which is checked
    later."""
    if request.query.roles and source.role.lower() not in request.query.roles:
        return False
    if request.for_model and source.message is not None and not is_shown(source.role):
        return False
    return source.address.kind == "session" or request.is_in_time(source.at)
