"""The texts that are nearest to a query in meaning. If the embedding fails, a search continues with words only."""

from __future__ import annotations

from dataclasses import replace

from frontdesk.config.runtime import Runtime
from frontdesk.errors import FrontdeskError, StoreError
from frontdesk.search import background, candidates
from frontdesk.search.embeddings import EmbeddingHealth, embed_texts, vector_row, vector_store
from frontdesk.search.facets import KINDS
from frontdesk.search.fusion import NEAREST
from frontdesk.search.index_snapshot import IndexSnapshot
from frontdesk.search.request import Request
from frontdesk.search.stored_texts import TextSelection
from frontdesk.store import Address, IndexMatch, IndexQuery, Range, VectorRow

_QUERY_TIMEOUT = 5.0
"""seconds that a search waits for the vector of its query"""
_NEAREST_TO_FILTER = 200
"""how many of the nearest texts are checked if there are filters"""
MAX_FAMILIES = 32
"""up to this number of families, the nearest are searched for in these; with more, the nearest of all are filtered"""


async def find_nearest(
    runtime: Runtime,
    request: Request,
    snapshot: IndexSnapshot,
    *,
    families: tuple[int, ...] | None = None,
    within: TextSelection | None = None,
) -> list[IndexMatch]:
    """The texts in the index that are nearest to a query and pass its filters, nearest first.

    An empty list without `with_embeddings`, for a search by time, and if the embedding fails. A failure is logged, and
    shown by `search_info`."""
    health = runtime.shared(EmbeddingHealth)
    if runtime.settings.embeddings.embed is None or snapshot.row is None or request.newest or not request.query.words:
        return []
    if health.pause:
        return []
    try:
        row = await vector_row(runtime)
        if _is_behind(row, snapshot):
            background.start_indexing(runtime)
        if row is None or families == ():
            return []
        vector = await _vector(runtime, request.query.text)
        if within is None and families is not None and len(families) <= MAX_FAMILIES:
            within = await _select_texts(runtime, families)
        is_filtered = bool(candidates.facets(request) or request.query.phrases or request.query.excluded)
        limit = _NEAREST_TO_FILTER if is_filtered or families is not None else NEAREST
        ranges = None if within is None else _ranges(within)
        found = await vector_store(runtime).nearest(runtime.namespace, vector, limit, ranges) if vector else []
    except StoreError:
        raise
    except FrontdeskError as error:
        health.record_failure(error)
        return []
    return await _apply_filters(runtime, request, [one.address for one in found], families)


def _is_behind(row: VectorRow | None, snapshot: IndexSnapshot) -> bool:
    if row is None or row.state is None or row.state.cursor is not None or snapshot.row is None:
        return True
    return bool(snapshot.entries) or row.state.position != snapshot.row.state.position


async def _vector(runtime: Runtime, text: str) -> bytes | None:
    settings = runtime.settings.embeddings
    [vector] = await embed_texts(replace(settings, timeout=min(settings.timeout, _QUERY_TIMEOUT)), [text])
    runtime.shared(EmbeddingHealth).record_success()
    return vector


async def _select_texts(runtime: Runtime, families: tuple[int, ...]) -> TextSelection:
    rows = await runtime.store.relatives(runtime.namespace, families)
    one_of_each = {row.family: row.id for row in rows}
    selection = TextSelection()
    for tree in await runtime.store.trees(runtime.namespace, list(one_of_each.values()), family=True):
        selection.add_family(tree)
    return selection


def _ranges(selection: TextSelection) -> list[Range]:
    runs = [(Address("message", span.segment, span.first), span.last) for span in selection.spans]
    runs += [(Address("edit", number), 0) for number in selection.edits]
    runs += [(Address("overlay", number), 0) for number in selection.overlays]
    runs += [(Address("session", number), 0) for number in selection.sessions]
    return [(first, first._replace(position=last)) for first, last in runs]


async def _apply_filters(
    runtime: Runtime, request: Request, addresses: list[Address], families: tuple[int, ...] | None
) -> list[IndexMatch]:
    """The matches of the texts that pass the filters, in the order of the addresses."""
    if not addresses:
        return []
    matches = await runtime.store.matches(
        IndexQuery(
            namespace=runtime.namespace,
            phrases=tuple(map(candidates.split_phrase, request.query.phrases)),
            excluded=tuple(map(candidates.split_phrase, request.query.excluded)),
            facets=candidates.facets(request) or (tuple(KINDS.values()),),
            families=families,
            addresses=tuple(addresses),
            limit=len(addresses),
        )
    )
    by_address = {match.address: match for match in matches}
    return [by_address[address] for address in addresses if address in by_address]
