"""From a query to ranked texts: what the index gives, what is not in it yet, and the figures both are weighed by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from frontdesk.calls import call
from frontdesk.config.runtime import Runtime
from frontdesk.search import loading
from frontdesk.search.facets import KINDS, of_period, of_role
from frontdesk.search.loading import Source, Wanted
from frontdesk.search.query import Query
from frontdesk.search.ranking import (
    MOST_RANKED_TERMS,
    NEIGHBOUR_WEIGHTS,
    Candidate,
    Found,
    Matcher,
    Statistics,
    rank,
)
from frontdesk.search.request import Request
from frontdesk.search.settings import tokeniser
from frontdesk.store import LONGEST_STRETCH, Address, IndexMatch, IndexQuery, IndexRow, Phrase, Place, TextKind

MOST_CANDIDATES = 2_000
"""texts that are ranked: those with the rarest words"""
MOST_COMMON = 1_000
"""texts that are ranked where even the rarest word stands in more than that: the latest"""
_ON_THE_LOOP = 200
"""texts that are ranked without a thread of their own"""


class Ranked(NamedTuple):
    """A text that matched, and how well."""

    score: float
    match: IndexMatch


@dataclass(slots=True)
class Findings:
    """What was found so far, by address, and the figures of the texts it was found among."""

    matches: dict[Address, IndexMatch] = field(default_factory=dict)
    statistics: Statistics = field(default_factory=Statistics)

    def add_index(self, matches: Iterable[IndexMatch]) -> None:
        """Take in what the index gave; what was read directly is newer."""
        for match in matches:
            self.matches.setdefault(match.address, match)

    def keep(self, is_wanted: Callable[[IndexMatch], bool]) -> None:
        self.matches = {address: match for address, match in self.matches.items() if is_wanted(match)}

    def take_figures(self, row: IndexRow, frequencies: Mapping[str, int]) -> None:
        """Weigh by the figures of the whole index, and of what was read directly."""
        figures = self.statistics
        figures.texts += row.texts
        figures.length += row.length
        for term, frequency in frequencies.items():
            figures.frequencies[term] = figures.frequencies.get(term, 0) + frequency

    def take_figures_of_part(self, texts: int, row: IndexRow, frequencies: Mapping[str, int] | None) -> None:
        """Weigh by the figures of `texts` texts, which are among those of the index; without frequencies all that match
        are here to be counted."""
        figures = self.statistics
        average = row.length / row.texts if row.texts else 1.0
        figures.length += round(average * max(texts - figures.texts, 0))
        figures.texts = max(texts, figures.texts)
        if frequencies is not None:
            figures.frequencies = dict(frequencies)
            return
        figures.frequencies = {}
        for match in self.matches.values():
            for term in match.places:
                figures.frequencies[term] = figures.frequencies.get(term, 0) + 1

    def lacking(self, near: Iterable[IndexMatch]) -> list[Ranked]:
        """Those of the nearest that were not found by words, without a score."""
        return [Ranked(0.0, match) for match in near if match.address not in self.matches]

    async def ranked(self, query: Query, parents: Mapping[int, tuple[int, int]]) -> list[Ranked]:
        """All of it with scores, in no order."""
        matches = list(self.matches.values())
        candidates = [_candidate(match) for match in matches]
        if len(candidates) <= _ON_THE_LOOP:
            scores = rank(query, candidates, self.statistics, parents)
        else:
            scores = await call(rank, query, candidates, self.statistics, parents)
        return [Ranked(score, match) for score, match in zip(scores, matches, strict=True)]


def _candidate(match: IndexMatch) -> Candidate:
    found = Found(match.length, match.places)
    return Candidate(found) if match.place is None else Candidate(found, *match.place)


def near_the_start(matches: Iterable[IndexMatch]) -> list[int]:
    """The segments whose parents matter for ranking, since a neighbour may stand in them."""
    places = (match.place for match in matches if match.place is not None)
    return sorted({place.segment for place in places if place.position < len(NEIGHBOUR_WEIGHTS)})


# the index


def terms_of(query: Query) -> list[str]:
    return [*query.words, *(f"{prefix}*" for prefix in query.prefixes)]


class Terms(NamedTuple):
    """What to look for: texts with any of `seek`, at most `limit`, in which `also` counts, too."""

    seek: tuple[str, ...]
    also: tuple[str, ...]
    limit: int


def split(query: Query, frequencies: Mapping[str, int]) -> Terms:
    """Look for the rarest terms, as many as stand in no more texts than are ranked; the others count where one of these
    stands. Where a phrase is demanded, that narrows enough."""
    known = [term for term in terms_of(query) if frequencies[term]]
    known = sorted(known, key=lambda term: frequencies[term])[:MOST_RANKED_TERMS]
    limit = MOST_COMMON if known and frequencies[known[0]] > MOST_CANDIDATES else MOST_CANDIDATES
    if query.phrases:
        return Terms(tuple(known), (), limit)
    texts = 0
    for index, term in enumerate(known):
        texts += frequencies[term]
        if index and texts > MOST_CANDIDATES:
            return Terms(tuple(known[:index]), tuple(known[index:]), limit)
    return Terms(tuple(known), (), limit)


def facets(
    request: Request, kinds: Collection[TextKind] = tuple(KINDS), *, by_time: bool = True
) -> tuple[tuple[str, ...], ...]:
    """What a text must be to pass the filters by role and time. Where few texts are looked at, their exact moment tells
    sooner than days do."""
    query = request.query
    lines: list[tuple[str, ...]] = []
    if query.roles:
        lines.append(tuple(of_role(role) for role in sorted(query.roles)))
    if by_time and (query.after is not None or query.before is not None):
        lines.append(of_period(query.after, query.before))
    if len(kinds) < len(KINDS) or not (lines or query.has_terms):
        lines.append(tuple(KINDS[kind] for kind in kinds))
    return tuple(lines)


def cut(phrase: Phrase) -> Phrase:
    """A phrase in stretches that every store can look for."""
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
    kinds: Collection[TextKind] = tuple(KINDS),
    families: tuple[int, ...] | None = None,
    spans: tuple[tuple[int, int, int], ...] | None = None,
    by_time: bool = True,
) -> list[IndexMatch]:
    """What the index gives for the terms of `split`; nothing if there are none although some are asked for."""
    query = request.query
    if query.has_terms and not terms.seek:
        return []
    return await runtime.store.matches(
        IndexQuery(
            namespace=runtime.namespace,
            seek=terms.seek,
            count=terms.also,
            phrases=tuple(map(cut, query.phrases)),
            excluded=tuple(map(cut, query.excluded)),
            facets=facets(request, kinds, by_time=by_time),
            families=families,
            spans=spans,
            limit=terms.limit,
        )
    )


# what is not in the index


async def scan(
    runtime: Runtime, request: Request, wanted: Wanted, findings: Findings, kinds: Collection[TextKind] = tuple(KINDS)
) -> None:
    """Read texts and take in those that match."""
    settings = runtime.settings.search
    matcher = Matcher(request.query)
    owners = sorted(set(wanted.owners.values()) | set(wanted.sessions))
    rows = await runtime.store.sessions(runtime.namespace, owners) if owners else []
    families = {row.number: row.family for row in rows}
    for portion in wanted.portions():
        for source in await loading.load(runtime, portion):
            terms = tokeniser(settings).terms(source.text)
            found = matcher.take(terms, findings.statistics)
            kind, number, position = source.address
            if found is None or kind not in kinds or not _passes(source, request):
                continue
            owner = number if kind == "session" else wanted.owners.get((kind, number), 0)
            place = (
                Place(number, position) if kind == "message" else wanted.edits.get(number) if kind == "edit" else None
            )
            findings.matches[source.address] = IndexMatch(
                source.address, place, families.get(owner, 0), source.at, found.length, found.places
            )
        # Other tasks get a turn: matching a portion keeps the processor busy.
        await asyncio.sleep(0)


def _passes(source: Source, request: Request) -> bool:
    """Whether a text passes the filters by role and time; a session goes on, and is asked for its time later."""
    if request.query.roles and source.role.lower() not in request.query.roles:
        return False
    return source.address.kind == "session" or request.is_in_time(source.at)
