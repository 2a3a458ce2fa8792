"""The texts that are nearest to a query in meaning. If the embedding fails, a search continues with words only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
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
from frontdesk.store import Address, IndexMatch, IndexQuery, SessionSelection, VectorRow

_QUERY_TIMEOUT = 5.0
"""seconds that a search waits for the vector of its query"""
_NEAREST_TO_FILTER = (200, 2_000)
"""how many of the nearest texts are checked if there are filters; the second number if the first leaves too few"""

Keep = Callable[[list[IndexMatch]], Awaitable[list[IndexMatch]]]
"""those of the matches that may be shown, in the same order"""


async def find_nearest(
    runtime: Runtime,
    request: Request,
    snapshot: IndexSnapshot,
    *,
    within: TextSelection | None = None,
    sessions: SessionSelection | None = None,
    keep: Keep | None = None,
) -> list[IndexMatch]:
    """The texts in the index that are nearest to a query and pass its filters, nearest first: of those `within` a
    selection, or of the families of some `sessions`, and of these only those that `keep` returns.

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
        vector = None if row is None else await _vector(runtime, request.query.text)
    except StoreError:
        raise
    except FrontdeskError as error:
        health.record_failure(error)
        return []
    if vector is None:
        return []
    is_filtered = bool(candidates.facets(request) or request.query.phrases or request.query.excluded)
    ranges = None if within is None else within.ranges()
    limits = _NEAREST_TO_FILTER if is_filtered or keep is not None else (NEAREST,)
    kept: list[IndexMatch] = []
    for limit in limits:
        found = await vector_store(runtime).nearest(runtime.namespace, vector, limit, ranges, sessions)
        kept = await _apply_filters(runtime, request, [one.address for one in found])
        kept = kept if keep is None else await keep(kept)
        if len(kept) >= NEAREST or len(found) < limit:
            break
    return kept


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
            phrases=tuple(map(candidates.split_phrase, request.query.phrases)),
            excluded=tuple(map(candidates.split_phrase, request.query.excluded)),
            facets=candidates.facets(request) or (tuple(KINDS.values()),),
            ranges=tuple((address, address) for address in addresses),
            limit=len(addresses),
        )
    )
    by_address = {match.address: match for match in matches}
    return [by_address[address] for address in addresses if address in by_address]
