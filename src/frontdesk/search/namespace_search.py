"""Search in all sessions of a namespace, or in those that pass the filters and may be shown."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from frontdesk.config.runtime import Runtime
from frontdesk.lifecycle.transitions import status_query
from frontdesk.search import candidates, index_snapshot, pages, stored_texts
from frontdesk.search.access import Access
from frontdesk.search.candidates import CandidatePool, Ranked, Terms
from frontdesk.search.facets import KINDS
from frontdesk.search.index_snapshot import IndexSnapshot
from frontdesk.search.nearest import find_nearest
from frontdesk.search.owners import Entry, attribute_hits
from frontdesk.search.request import Request
from frontdesk.search.results import SearchResults
from frontdesk.search.session_search import search_sessions
from frontdesk.search.settings import tokeniser as tokeniser_of
from frontdesk.search.tokeniser import fold
from frontdesk.store import (
    LONGEST_STRETCH,
    Address,
    IndexMatch,
    IndexQuery,
    SessionQuery,
    SessionRow,
    SessionSelection,
)

_MAX_SESSIONS = 256
"""up to this number, the sessions that pass the filters are searched one by one: exactly what they see. If more pass,
the index is searched for texts of their families, and hits are filtered afterwards"""
_MAX_ROUNDS = 10
"""how often more candidates are looked up if too few of them can be shown"""
_MAX_IN_ROUND = 16_000
"""each round looks up twice as many candidates as the one before it, up to this number"""


async def search_namespace(runtime: Runtime, request: Request, access: Access) -> SearchResults:
    """The hits in all sessions that may be shown. A message that forks share is returned once."""
    if request.query.is_empty and not request.where and request.status is None:
        return pages.NO_RESULTS
    snapshot = await index_snapshot.snapshot_for_namespace(runtime)
    selection = _selection(request, access)
    rows = await _few_sessions(runtime, request, access, snapshot, selection)
    if rows is not None:
        return await search_sessions(runtime, request, rows, snapshot)
    search = _NamespaceSearch(runtime, request, access, snapshot, selection)
    return await search.page()


def _selection(request: Request, access: Access) -> SessionSelection | None:
    """What the filters and the rule require of the rows of sessions, as far as an index can look for it."""
    given = access.rule.selection or SessionSelection()
    tags = tuple(sorted(request.query.tags | set(given.tags)))
    selection = msgspec.structs.replace(given, **request.where, tags=tags)
    return None if selection == SessionSelection() else selection


async def _few_sessions(
    runtime: Runtime, request: Request, access: Access, snapshot: IndexSnapshot, selection: SessionSelection | None
) -> list[SessionRow] | None:
    """The sessions that pass the filters and may be shown; None if they are too many, or if nothing narrows them."""
    rule, store = access.rule, runtime.store
    rows: Sequence[SessionRow] | None = None
    if rule.numbers is not None:
        rows = await store.sessions(runtime.namespace, sorted(rule.numbers)) if rule.numbers else []
    elif rule.ids is not None:
        found = await asyncio.gather(*(store.get(runtime.namespace, session_id) for session_id in sorted(rule.ids)))
        rows = [row for row in found if row is not None]
    elif selection is not None or request.status is not None:
        rows = await _sessions_by_columns(runtime, request, selection or SessionSelection())
    if rows is None and request.query.sessions:
        rows = await _sessions_by_name(runtime, request, snapshot, selection)
    return None if rows is None else await access.admit([row for row in rows if request.accepts(row)])


async def _sessions_by_columns(
    runtime: Runtime, request: Request, selection: SessionSelection
) -> list[SessionRow] | None:
    """The sessions that pass the filters on their rows, and perhaps others; None if they are too many."""
    status = {} if request.status is None else status_query(runtime, request.status.status)
    tag = next(iter(selection.tags), None)
    every = SessionQuery(namespace=runtime.namespace, limit=_MAX_SESSIONS + 1, tag=tag)
    rows = await runtime.store.page(msgspec.structs.replace(every, **selection.parts, **status))
    return None if len(rows) > _MAX_SESSIONS else rows


async def _sessions_by_name(
    runtime: Runtime, request: Request, snapshot: IndexSnapshot, selection: SessionSelection | None
) -> list[SessionRow]:
    """The sessions with one of the requested ids or names. Names are looked up in the index."""
    numbers = set(snapshot.pending().sessions)
    rows: dict[int, SessionRow] = {}
    tokeniser = tokeniser_of(runtime.settings.search)
    for name in sorted(request.query.sessions):
        row = await runtime.store.get(runtime.namespace, name)
        rows |= {} if row is None else {row.number: row}
        terms = tokeniser.terms(fold(name))[:LONGEST_STRETCH]
        if terms:
            matches = await runtime.store.matches(
                IndexQuery(
                    namespace=runtime.namespace,
                    phrases=((tuple(terms),),),
                    facets=((KINDS["session"],),),
                    sessions=selection,
                    limit=_MAX_SESSIONS,
                )
            )
            numbers |= {match.address.number for match in matches}
    for row in await runtime.store.sessions(runtime.namespace, sorted(numbers)) if numbers else ():
        rows[row.number] = row
    return list(rows.values())


class _NamespaceSearch:
    """A search among so many sessions that the index is searched first, and then the hits are attributed.

    If not all hits can be shown, the index is searched in rounds, the latest texts first, until there is more than the
    page needs. Hits of later rounds come after those of earlier ones, so that the next page continues this one."""

    def __init__(
        self,
        runtime: Runtime,
        request: Request,
        access: Access,
        snapshot: IndexSnapshot,
        selection: SessionSelection | None,
    ) -> None:
        self._runtime = runtime
        self._request = request
        self._access = access
        self._snapshot = snapshot
        self._selection = selection
        self._entries: dict[Address, Entry] = {}

    async def page(self) -> SearchResults:
        pool = CandidatePool()
        await self._scan(pool)
        frequencies = await self._frequencies()
        chosen = candidates.choose_terms(self._request.query, frequencies)
        read_directly = frozenset(pool.matches)
        after: Address | None = None
        for number in range(_MAX_ROUNDS):
            matches = await self._look_up(chosen, after)
            pool.add_index(match for match in matches if match.address not in read_directly)
            if self._snapshot.row is not None:
                pool.use_statistics(self._snapshot.row, frequencies)
            await self._add(pool)
            if not matches or self._is_enough():
                break
            after = matches[-1].address
            if number == _MAX_ROUNDS - 1:
                self._access.is_exhausted = True
            if self._access.is_exhausted:
                break
            chosen = chosen._replace(limit=min(2 * chosen.limit, _MAX_IN_ROUND))
            pool = CandidatePool()
        near = await self._nearest()
        return await pages.page(self._runtime, self._request, list(self._entries.values()), near)

    @property
    def _is_narrowed(self) -> bool:
        return self._request.narrows_sessions or self._access.rule.is_limited

    def _is_enough(self) -> bool:
        return not self._is_narrowed or len(self._entries) > self._request.returned + self._request.limit

    async def _scan(self, pool: CandidatePool) -> None:
        """Add the texts that are not in the index."""
        if self._snapshot.row is None:
            async for _, family in stored_texts.families(self._runtime, 0):
                await candidates.scan(self._runtime, self._request, family, pool)
        else:
            pending = self._snapshot.pending()
            await stored_texts.add_orphans(self._runtime, pending)
            await candidates.scan(self._runtime, self._request, pending, pool)

    async def _frequencies(self) -> Mapping[str, int]:
        terms = candidates.terms_of(self._request.query)
        counted = await self._runtime.store.frequencies(self._runtime.namespace, terms) if terms else []
        return dict(zip(terms, counted, strict=True))

    async def _look_up(self, chosen: Terms, after: Address | None) -> list[IndexMatch]:
        if self._snapshot.row is None:
            return []
        return await candidates.look_up(self._runtime, self._request, chosen, sessions=self._selection, after=after)

    async def _add(self, pool: CandidatePool) -> None:
        """Rank the candidates that can be shown, and add them after those of earlier rounds."""
        owners = await self._attribute(list(pool.matches.values()))
        pool.keep(lambda match: match.address in owners)
        starts = candidates.segments_near_start(pool.matches.values())
        segments = await self._runtime.store.segments(self._runtime.namespace, starts) if starts else []
        parents = {segment.number: segment.parent for segment in segments if segment.parent}
        ranked = await pool.rank(self._request.query, parents)
        scale = _scale([entry.score for entry in self._entries.values()], ranked)
        for score, match in ranked:
            self._entries[match.address] = Entry(score * scale, match, owners[match.address])

    async def _attribute(self, matches: Sequence[IndexMatch]) -> dict[Address, SessionRow]:
        return await attribute_hits(self._runtime, self._request, matches, self._access)

    async def _nearest(self) -> list[IndexMatch]:
        """The nearest texts that can be shown; those that were not found by words get a score of 0."""

        async def keep(matches: list[IndexMatch]) -> list[IndexMatch]:
            owners = await self._attribute([match for match in matches if match.address not in self._entries])
            for match in matches:
                if match.address in owners:
                    self._entries[match.address] = Entry(0.0, match, owners[match.address])
            return [match for match in matches if match.address in self._entries]

        if self._is_narrowed:
            return await find_nearest(self._runtime, self._request, self._snapshot, sessions=self._selection, keep=keep)
        return await keep(await find_nearest(self._runtime, self._request, self._snapshot))


def _scale(earlier: Sequence[float], ranked: Sequence[Ranked]) -> float:
    """The factor by which the scores of a round become lower than those of earlier rounds."""
    lowest, best = min(earlier, default=None), max((score for score, _ in ranked), default=0.0)
    return 1.0 if lowest is None or best < lowest else 0.999 * lowest / best if best else 1.0
