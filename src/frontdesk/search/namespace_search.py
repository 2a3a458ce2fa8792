"""Search in all sessions of a namespace, or in those that pass a filter."""

from __future__ import annotations

import msgspec

from frontdesk.config.runtime import Runtime
from frontdesk.lifecycle.transitions import status_query
from frontdesk.search import candidates, index_snapshot, pages, stored_texts
from frontdesk.search.candidates import CandidatePool
from frontdesk.search.facets import KINDS
from frontdesk.search.index_snapshot import IndexSnapshot
from frontdesk.search.nearest import find_nearest
from frontdesk.search.owners import attribute_hits
from frontdesk.search.request import Request
from frontdesk.search.results import SearchResults
from frontdesk.search.settings import tokeniser as tokeniser_of
from frontdesk.search.tokeniser import fold
from frontdesk.store import LONGEST_STRETCH, IndexQuery, IndexRow, SessionQuery, SessionRow

_MAX_SESSIONS = 256
"""up to this number of sessions, a filter is applied in the index; if more pass it, hits are filtered afterwards"""


async def search_namespace(runtime: Runtime, request: Request) -> SearchResults:
    """The hits in all sessions. A message that forks share is returned once."""
    if request.query.is_empty and not request.where and request.status is None:
        return pages.NO_RESULTS
    snapshot = await index_snapshot.snapshot_for_namespace(runtime)
    pool = CandidatePool()
    families: tuple[int, ...] | None = None
    if snapshot.row is None:
        async for _, family in stored_texts.families(runtime, 0):
            await candidates.scan(runtime, request, family, pool)
    else:
        pending = snapshot.pending()
        await stored_texts.add_orphans(runtime, pending)
        await candidates.scan(runtime, request, pending, pool)
        families = await _families(runtime, request, snapshot)
        await _look_up(runtime, request, families, snapshot.row, pool)
    starts = candidates.segments_near_start(pool.matches.values())
    segments = await runtime.store.segments(runtime.namespace, starts) if starts else []
    parents = {segment.number: segment.parent for segment in segments if segment.parent}
    ranked = await pool.rank(request.query, parents)
    near = await find_nearest(runtime, request, snapshot, families=families)
    ranked += pool.unmatched(near)
    return await pages.page(runtime, request, await attribute_hits(runtime, request, ranked), near)


async def _look_up(
    runtime: Runtime, request: Request, families: tuple[int, ...] | None, row: IndexRow, pool: CandidatePool
) -> None:
    terms = candidates.terms_of(request.query)
    counted = await runtime.store.frequencies(runtime.namespace, terms) if terms else []
    frequencies = dict(zip(terms, counted, strict=True))
    chosen = candidates.choose_terms(request.query, frequencies)
    if families != ():
        pool.add_index(await candidates.look_up(runtime, request, chosen, families=families))
    pool.use_statistics(row, frequencies)


async def _families(runtime: Runtime, request: Request, snapshot: IndexSnapshot) -> tuple[int, ...] | None:
    """The families of the sessions that pass the filters; None if they are too many, or without such filters."""
    if not request.narrows_sessions:
        return None
    if request.query.sessions:
        rows = await _sessions_by_name(runtime, request, snapshot)
    else:
        status = {} if request.status is None else status_query(runtime, request.status.status)
        tag = next(iter(sorted(request.query.tags)), None)
        every = SessionQuery(namespace=runtime.namespace, limit=_MAX_SESSIONS + 1, tag=tag)
        rows = await runtime.store.page(msgspec.structs.replace(every, **request.where, **status))
        if len(rows) > _MAX_SESSIONS:
            return None
    return tuple(sorted({row.family for row in rows if request.accepts(row)}))


async def _sessions_by_name(runtime: Runtime, request: Request, snapshot: IndexSnapshot) -> list[SessionRow]:
    """The sessions with one of the requested ids or names. Names are looked up in the index."""
    numbers = set(snapshot.pending().sessions)
    rows: list[SessionRow] = []
    tokeniser = tokeniser_of(runtime.settings.search)
    for name in sorted(request.query.sessions):
        row = await runtime.store.get(runtime.namespace, name)
        rows += [] if row is None else [row]
        terms = tokeniser.terms(fold(name))[:LONGEST_STRETCH]
        if terms:
            matches = await runtime.store.matches(
                IndexQuery(
                    namespace=runtime.namespace,
                    phrases=((tuple(terms),),),
                    facets=((KINDS["session"],),),
                    limit=_MAX_SESSIONS,
                )
            )
            numbers |= {match.address.number for match in matches}
    if numbers:
        rows += await runtime.store.sessions(runtime.namespace, sorted(numbers))
    return rows
