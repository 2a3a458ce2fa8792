"""The texts that mean what a query means, as a search asks for them: beside the words, and never in their way."""

from __future__ import annotations

from dataclasses import replace

from frontdesk.config.runtime import Runtime
from frontdesk.errors import FrontdeskError, StoreError
from frontdesk.search import background, finding
from frontdesk.search.embeddings import EmbeddingHealth, embed_texts, vector_row, vector_store
from frontdesk.search.facets import KINDS
from frontdesk.search.freshness import Met
from frontdesk.search.fusion import NEAREST
from frontdesk.search.loading import Wanted
from frontdesk.search.request import Request
from frontdesk.store import Address, IndexMatch, IndexQuery, Range, VectorRow

_LONGEST_WAIT = 5.0
"""seconds that a search waits for the vector of its query"""
_NEAREST_TO_FILTER = 200
"""how many of the nearest are looked at where not all of them pass the filters"""
MOST_FAMILIES = 32
"""families among which the nearest are looked for; of more, the nearest of all are filtered"""


async def near(
    runtime: Runtime,
    request: Request,
    met: Met,
    *,
    families: tuple[int, ...] | None = None,
    within: Wanted | None = None,
) -> list[IndexMatch]:
    """The texts nearest to a query that pass its filters, nearest first; of those that are in the index.

    None without `with_embeddings`, where hits are wanted by time, and where the embedding fails: that is logged, and
    `search_info` tells."""
    health = runtime.shared(EmbeddingHealth)
    if runtime.settings.embeddings.embed is None or met.row is None or request.newest or not request.query.words:
        return []
    if health.rest:
        return []
    try:
        row = await vector_row(runtime)
        if _is_behind(row, met):
            background.follow(runtime)
        if row is None or families == ():
            return []
        vector = await _vector(runtime, request.query.text)
        if within is None and families is not None and len(families) <= MOST_FAMILIES:
            within = await _texts_of(runtime, families)
        is_filtered = bool(finding.facets(request) or request.query.phrases or request.query.excluded)
        limit = _NEAREST_TO_FILTER if is_filtered or families is not None else NEAREST
        ranges = None if within is None else _ranges(within)
        found = await vector_store(runtime).nearest(runtime.namespace, vector, limit, ranges) if vector else []
    except StoreError:
        raise
    except FrontdeskError as error:
        health.failed(error)
        return []
    return await _passing(runtime, request, [one.address for one in found], families)


def _is_behind(row: VectorRow | None, met: Met) -> bool:
    if row is None or row.state is None or row.state.cursor is not None or met.row is None:
        return True
    return bool(met.lines) or row.state.position != met.row.state.position


async def _vector(runtime: Runtime, text: str) -> bytes | None:
    settings = runtime.settings.embeddings
    [vector] = await embed_texts(replace(settings, timeout=min(settings.timeout, _LONGEST_WAIT)), [text])
    runtime.shared(EmbeddingHealth).worked()
    return vector


async def _texts_of(runtime: Runtime, families: tuple[int, ...]) -> Wanted:
    rows = await runtime.store.relatives(runtime.namespace, families)
    one_of_each = {row.family: row.id for row in rows}
    wanted = Wanted()
    for tree in await runtime.store.trees(runtime.namespace, list(one_of_each.values()), family=True):
        wanted.add_family(tree)
    return wanted


def _ranges(wanted: Wanted) -> list[Range]:
    runs = [(Address("message", span.segment, span.first), span.last) for span in wanted.spans]
    runs += [(Address("edit", number), 0) for number in wanted.edits]
    runs += [(Address("overlay", number), 0) for number in wanted.overlays]
    runs += [(Address("session", number), 0) for number in wanted.sessions]
    return [(first, first._replace(position=last)) for first, last in runs]


async def _passing(
    runtime: Runtime, request: Request, addresses: list[Address], families: tuple[int, ...] | None
) -> list[IndexMatch]:
    """What the index knows of these texts, of those that pass the filters, in their order."""
    if not addresses:
        return []
    matches = await runtime.store.matches(
        IndexQuery(
            namespace=runtime.namespace,
            phrases=tuple(map(finding.cut, request.query.phrases)),
            excluded=tuple(map(finding.cut, request.query.excluded)),
            facets=finding.facets(request) or (tuple(KINDS.values()),),
            families=families,
            addresses=tuple(addresses),
            limit=len(addresses),
        )
    )
    by_address = {match.address: match for match in matches}
    return [by_address[address] for address in addresses if address in by_address]
