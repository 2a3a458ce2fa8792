"""The candidates of a search: matches in the index, matches in texts that are not indexed yet, and texts that are near
in meaning. With them come the term statistics by which they are ranked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from frontdesk.calls import call
from frontdesk.config.runtime import Runtime
from frontdesk.errors import FrontdeskError, StoreError
from frontdesk.search import texts
from frontdesk.search.fields import AUTHOR_MARK, KINDS, QUESTION, author_facet, period_facets, role_facet
from frontdesk.search.index import IndexSnapshot, start_indexing
from frontdesk.search.query import Query
from frontdesk.search.ranking import (
    COMPARED,
    MAX_RANKED_TERMS,
    NEAREST,
    NEIGHBOUR_WEIGHTS,
    NOTHING_FOUND,
    Candidate,
    Matcher,
    Statistics,
    TermPlaces,
    rank,
)
from frontdesk.search.request import SHOWN_ROLES, START, Request, is_shown
from frontdesk.search.texts import StoredText, TextSelection
from frontdesk.search.tokeniser import tokeniser_for
from frontdesk.search.vectors import EmbeddingHealth, embed_texts, vector_row, vector_store
from frontdesk.store import (
    LONGEST_STRETCH,
    Address,
    IndexMatch,
    IndexQuery,
    IndexRow,
    Near,
    Phrase,
    Place,
    Range,
    SessionSelection,
    VectorRow,
)
from frontdesk.unattended import sleep

MAX_CANDIDATES = 2_000
"""how many texts are ranked: those with the rarest words"""
MAX_COMMON_CANDIDATES = 1_000
"""how many texts are ranked if even the rarest word is in more than `MAX_CANDIDATES`: the newest"""
_MAX_INLINE = 1_000
"""how many texts are ranked without a thread"""
_QUERY_TIMEOUT = 5.0
"""seconds that a search waits for the vector of its query"""
_NEAREST_TO_FILTER = (200, 2_000)
"""how many of the nearest texts are checked if there are filters; the second number if the first leaves too few"""

Keep = Callable[[list[IndexMatch]], Awaitable[list[IndexMatch]]]
"""those of the matches that may be shown, in the same order"""


class Ranked(NamedTuple):
    """A text that matched, and its score."""

    score: float
    match: IndexMatch


@dataclass(slots=True)
class CandidatePool:
    """The candidates that were found so far, by address, and the term statistics of the texts searched."""

    matches: dict[Address, IndexMatch] = field(default_factory=dict)
    statistics: Statistics = field(default_factory=Statistics)
    read_terms: dict[Address, tuple[IndexMatch, set[str]]] = field(default_factory=dict)
    """texts that were read directly, with those of their terms that words of the query may be typos of"""

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
        statistics.add(frequencies)

    def use_partial_statistics(self, texts: int, row: IndexRow, frequencies: Mapping[str, int] | None) -> None:
        """Rank by the statistics of `texts` texts, which are a part of the index. Without `frequencies`, the matches in
        the pool are counted, which are all there are."""
        statistics = self.statistics
        average = row.length / row.texts if row.texts else 1.0
        statistics.length += round(average * max(texts - statistics.texts, 0))
        statistics.texts = max(texts, statistics.texts)
        if frequencies is not None:
            statistics.add(frequencies)
            return
        statistics.frequencies = {}
        for match in self.matches.values():
            for term in match.places:
                statistics.frequencies[term] = statistics.frequencies.get(term, 0) + 1

    async def rank(self, query: Query, parents: Mapping[int, tuple[int, int]]) -> list[Ranked]:
        """The candidates with their scores, in no particular order, without those that are no hit after all."""
        matches = list(self.matches.values())
        candidates = [_candidate(match) for match in matches]
        if len(candidates) <= _MAX_INLINE:
            scores = rank(query, candidates, self.statistics, parents)
        else:
            scores = await call(rank, query, candidates, self.statistics, parents)
        ranked = [Ranked(score, match) for score, match in zip(scores, matches, strict=True)]
        return [one for one in ranked if one.score > 0] if query.has_terms else ranked


def _candidate(match: IndexMatch) -> Candidate:
    segment, position = match.place or (None, 0)
    return Candidate(TermPlaces(match.length, match.places), segment, position, match.at)


def segments_near_start(matches: Iterable[IndexMatch]) -> list[int]:
    """The segments of matches near the start of a segment: their neighbours may be in the parent segment."""
    places = (match.place for match in matches if match.place is not None)
    return sorted({place.segment for place in places if place.position < len(NEIGHBOUR_WEIGHTS)})


# the index


def terms_of(query: Query) -> list[str]:
    """The terms by which texts are found: words, prefixes, and names of authors."""
    names = [name for name in query.names if name[0] == AUTHOR_MARK]
    return [*query.words, *(f"{prefix}*" for prefix in query.prefixes), *names]


def roles_of(query: Query) -> tuple[str, ...]:
    """The terms of the roles that the query means by "I" and "you"."""
    return tuple(name for name in query.names if name[0] != AUTHOR_MARK)


class SoughtTerms(NamedTuple):
    """What to look for: at most `limit` texts with any of the terms `seek`. In these, `also` counts too. `is_complete`
    says that no text matches only by other terms."""

    seek: tuple[str, ...]
    also: tuple[str, ...]
    limit: int
    is_complete: bool = True


def choose_terms(query: Query, frequencies: Mapping[str, int]) -> SoughtTerms:
    """Choose the rarest terms, as many as occur in no more than `MAX_CANDIDATES` texts. The other terms count only in
    the texts found by these. If the query has a phrase, that is selective enough, and all terms are looked for.

    For "zanzibar report", with "zanzibar" in 100 texts and "report" in 50,000, the texts with "zanzibar" are looked
    for, and "report" only adds to their scores."""
    every = [term for term in terms_of(query) if frequencies[term]]
    known = sorted(every, key=lambda term: frequencies[term])[:MAX_RANKED_TERMS]
    fields = (QUESTION, *roles_of(query))
    limit = MAX_COMMON_CANDIDATES if known and frequencies[known[0]] > MAX_CANDIDATES else MAX_CANDIDATES
    is_complete = len(known) == len(every)
    if query.phrases:
        return SoughtTerms(tuple(known), fields, limit, is_complete)
    count = 0
    for index, term in enumerate(known):
        count += frequencies[term]
        if index and count > MAX_CANDIDATES:
            return SoughtTerms(tuple(known[:index]), (*known[index:], *fields), limit, is_complete=False)
    return SoughtTerms(tuple(known), fields, limit, is_complete)


def facets(request: Request, *, by_time: bool = True) -> tuple[tuple[str, ...], ...]:
    """The facets that a text needs for the filters by role and time: one of each group. In a small number of texts,
    checking the exact time of each is faster than facets (`by_time=False`).

    Summaries, and the names of sessions, are no messages: they are not hidden from a model."""
    query = request.query
    groups: list[tuple[str, ...]] = []
    if query.roles:
        groups.append(tuple(role_facet(role) for role in sorted(query.roles)))
    if query.authors:
        groups.append(tuple(facet(name) for name in sorted(query.authors) for facet in (author_facet, role_facet)))
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
    terms: SoughtTerms,
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


async def scan(
    runtime: Runtime, request: Request, selection: TextSelection, pool: CandidatePool, starts: Set[str]
) -> None:
    """Read texts, and add those that match. Of each, keep the terms that begin with one of `starts`."""
    tokeniser = tokeniser_for(runtime.settings.search.language)
    matcher = Matcher(request.query)
    owners = sorted(set(selection.owners.values()) | set(selection.sessions))
    rows = await runtime.store.sessions(runtime.namespace, owners) if owners else []
    families = {row.number: row.family for row in rows}
    for batch in selection.batches():
        for source in await texts.load(runtime, batch):
            terms = source.terms(tokeniser)
            found = matcher.match(terms, pool.statistics)
            near = {term for term in terms if term[:START] in starts}
            if found is None and not near:
                continue
            kind, number, _ = source.address
            owner = number if kind == "session" else selection.owners.get((kind, number), 0)
            match = IndexMatch(
                source.address, _place(source, selection), families.get(owner, 0), source.at, *(found or NOTHING_FOUND)
            )
            if near:
                pool.read_terms[source.address] = match, near
            if found is not None and _passes(source, request):
                pool.matches[source.address] = match
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
    query = request.query
    if query.roles and source.role.lower() not in query.roles:
        return False
    by = {source.role.lower(), *source.author_facets}
    if query.authors and by.isdisjoint((*query.authors, *map(author_facet, query.authors))):
        return False
    if request.for_model and source.message is not None and not is_shown(source.role):
        return False
    return source.address.kind == "session" or request.is_in_time(source.at)


# texts near in meaning


class Nearest(NamedTuple):
    """The nearest texts that can be hits, nearest first, and the similarities of these and of further texts."""

    matches: Sequence[IndexMatch] = ()
    similarities: Mapping[Address, float] = {}


async def find_nearest(
    runtime: Runtime,
    request: Request,
    snapshot: IndexSnapshot,
    keep: Keep,
    *,
    ranges: Callable[[], tuple[Range, ...] | None],
    sessions: SessionSelection | None,
    is_narrowed: bool,
) -> Nearest:
    """The texts in the index that are nearest to a query and pass its filters, as far as `keep` returns them. If the
    search `is_narrowed`, many of them may not be shown. `ranges` is called only if vectors are compared.

    Nothing without `with_embeddings`, for a search by words or by time, and if the embedding fails. A failure is
    logged, and shown by `search_info`."""
    health = runtime.shared(EmbeddingHealth)
    if runtime.settings.embeddings.embed is None or snapshot.row is None or health.pause:
        return Nearest()
    if request.newest or not request.meaning or not request.query.words:
        return Nearest()
    try:
        row = await vector_row(runtime)
        if _is_behind(row, snapshot):
            start_indexing(runtime)
        vector = None if row is None else await _vector(runtime, request.query.text)
    except StoreError:
        raise
    except FrontdeskError as error:
        health.record_failure(error)
        return Nearest()
    if vector is None:
        return Nearest()
    is_filtered = bool(facets(request) or request.query.phrases or request.query.excluded)
    limits = _NEAREST_TO_FILTER if is_filtered or is_narrowed else (COMPARED,)
    kept: list[IndexMatch] = []
    found: Sequence[Near] = ()
    within = ranges()
    for limit in limits:
        found = await vector_store(runtime).nearest(runtime.namespace, vector, limit, within, sessions)
        wanted = found if len(limits) > 1 else found[:NEAREST]
        kept = await keep(await _apply_filters(runtime, request, [one.address for one in wanted]))
        if len(kept) >= NEAREST or len(found) < limit:
            break
    return Nearest(kept, {one.address: one.similarity for one in found[:COMPARED]})


def _is_behind(row: VectorRow | None, snapshot: IndexSnapshot) -> bool:
    if row is None or row.state is None or row.state.cursor is not None or snapshot.row is None:
        return True
    return bool(snapshot.entries) or row.state.position != snapshot.row.state.position


async def _vector(runtime: Runtime, text: str) -> bytes | None:
    settings = runtime.settings.embeddings
    [vector] = await embed_texts(replace(settings, timeout=min(settings.timeout, _QUERY_TIMEOUT)), [text])
    runtime.shared(EmbeddingHealth).record_success()
    return vector


async def _apply_filters(runtime: Runtime, request: Request, addresses: list[Address]) -> list[IndexMatch]:
    """The matches of the texts that pass the filters, in the order of the addresses."""
    if not addresses:
        return []
    matches = await runtime.store.matches(
        IndexQuery(
            namespace=runtime.namespace,
            phrases=tuple(map(split_phrase, request.query.phrases)),
            excluded=tuple(map(split_phrase, request.query.excluded)),
            facets=facets(request) or (tuple(KINDS.values()),),
            ranges=tuple((address, address) for address in addresses),
            limit=len(addresses),
        )
    )
    by_address = {match.address: match for match in matches}
    return [by_address[address] for address in addresses if address in by_address]
