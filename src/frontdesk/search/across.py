"""Search in all sessions of a namespace, or in those that pass a filter."""

from __future__ import annotations

import msgspec

from frontdesk.config.runtime import Runtime
from frontdesk.lifecycle.transitions import status_query
from frontdesk.records import SearchResults
from frontdesk.search import finding, freshness, loading, meaning, pages
from frontdesk.search.attributing import attributed
from frontdesk.search.facets import KINDS
from frontdesk.search.finding import Findings
from frontdesk.search.freshness import Met
from frontdesk.search.request import Request
from frontdesk.search.settings import tokeniser as tokeniser_of
from frontdesk.search.tokeniser import fold
from frontdesk.store import LONGEST_STRETCH, IndexQuery, IndexRow, SessionQuery, SessionRow

_MOST_SESSIONS = 256
"""sessions that a search is narrowed to in the index; where more pass a filter, hits are filtered afterwards"""


async def search_namespace(runtime: Runtime, request: Request) -> SearchResults:
    """The hits in any session; a message that forks share is given once."""
    if request.query.is_empty and not request.where and request.status is None:
        return pages.NOTHING
    met = await freshness.for_namespace(runtime)
    findings = Findings()
    families: tuple[int, ...] | None = None
    if met.row is None:
        async for _, family in loading.families(runtime, 0):
            await finding.scan(runtime, request, family, findings)
    else:
        wanted = met.pending()
        await loading.add_orphans(runtime, wanted)
        await finding.scan(runtime, request, wanted, findings)
        families = await _families(runtime, request, met)
        await _look_up(runtime, request, families, met.row, findings)
    starts = finding.near_the_start(findings.matches.values())
    segments = await runtime.store.segments(runtime.namespace, starts) if starts else []
    parents = {segment.number: segment.parent for segment in segments if segment.parent}
    ranked = await findings.ranked(request.query, parents)
    near = await meaning.near(runtime, request, met, families=families)
    ranked += findings.lacking(near)
    return await pages.page(runtime, request, await attributed(runtime, request, ranked), near)


async def _look_up(
    runtime: Runtime, request: Request, families: tuple[int, ...] | None, row: IndexRow, findings: Findings
) -> None:
    terms = finding.terms_of(request.query)
    counted = await runtime.store.frequencies(runtime.namespace, terms) if terms else []
    frequencies = dict(zip(terms, counted, strict=True))
    wanted = finding.split(request.query, frequencies)
    if families != ():
        findings.add_index(await finding.look_up(runtime, request, wanted, families=families))
    findings.take_figures(row, frequencies)


async def _families(runtime: Runtime, request: Request, met: Met) -> tuple[int, ...] | None:
    """The families of the sessions that pass the filters, if they are not too many: None otherwise."""
    if not request.narrows_sessions:
        return None
    if request.query.sessions:
        rows = await _named(runtime, request, met)
    else:
        status = {} if request.status is None else status_query(runtime, request.status.status)
        tag = next(iter(sorted(request.query.tags)), None)
        every = SessionQuery(namespace=runtime.namespace, limit=_MOST_SESSIONS + 1, tag=tag)
        rows = await runtime.store.page(msgspec.structs.replace(every, **request.where, **status))
        if len(rows) > _MOST_SESSIONS:
            return None
    return tuple(sorted({row.family for row in rows if request.wants(row)}))


async def _named(runtime: Runtime, request: Request, met: Met) -> list[SessionRow]:
    """The sessions with one of the wanted ids or names. Names are looked up in the index, too."""
    numbers = set(met.pending().sessions)
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
                    limit=_MOST_SESSIONS,
                )
            )
            numbers |= {match.address.number for match in matches}
    if numbers:
        rows += await runtime.store.sessions(runtime.namespace, sorted(numbers))
    return rows
