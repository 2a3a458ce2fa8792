"""The state of the index at the time of a search: whether it is usable, and the log entries that are not in it yet."""

from __future__ import annotations

from typing import Any, NamedTuple

from frontdesk.config.runtime import Runtime
from frontdesk.errors import ChangesTrimmedError, ConfigurationError, EmbeddingError
from frontdesk.moments import to_datetime
from frontdesk.search import indexing
from frontdesk.search.embeddings import EmbeddingHealth, vector_row, vector_store
from frontdesk.search.follower import LOG_BATCH
from frontdesk.search.results import SearchInfo
from frontdesk.search.settings import made_with
from frontdesk.search.stored_texts import TextSelection
from frontdesk.store import ChangeRow, IndexRow, StatsQuery

MAX_SCANNED = 512
"""how many texts that are not in the index yet are read directly; if there are more, a search in the namespace waits
for the index"""
_INDEXED_BY_SESSION_SEARCH = 2_000
"""how many texts a search in one session adds to an index that is not complete yet"""


class IndexSnapshot(NamedTuple):
    """The index (None: not usable yet), and the log entries after its position."""

    row: IndexRow | None
    entries: list[ChangeRow]

    def pending(self) -> TextSelection:
        """The texts that are not in the index yet."""
        selection = TextSelection()
        for entry in self.entries:
            selection.add_entry(entry)
        return selection


async def snapshot_for_session(runtime: Runtime) -> IndexSnapshot:
    """The index for a search in one session. Without a usable index, the session itself is read."""
    snapshot = await load_snapshot(runtime)
    if snapshot.row is None and await indexing.run(runtime, _INDEXED_BY_SESSION_SEARCH):
        snapshot = await load_snapshot(runtime)
    return snapshot


async def snapshot_for_namespace(runtime: Runtime) -> IndexSnapshot:
    """The index for a search in the namespace. It is brought up to date first if many texts are missing, unless another
    worker is doing that."""
    snapshot = await load_snapshot(runtime)
    if (snapshot.row is None or len(snapshot.pending()) > MAX_SCANNED) and await indexing.run(runtime):
        snapshot = await load_snapshot(runtime)
    return snapshot


async def load_snapshot(runtime: Runtime) -> IndexSnapshot:
    """The index in its current state."""
    row = await runtime.store.index_state(runtime.namespace)
    if row is None or not indexing.is_usable(row.state, runtime.settings.search):
        return IndexSnapshot(None, [])
    try:
        return IndexSnapshot(row, await _entries_after(runtime, row.state.position))
    except ChangesTrimmedError:
        return IndexSnapshot(None, [])


async def _entries_after(runtime: Runtime, after: tuple[int, int]) -> list[ChangeRow]:
    """All log entries after a position, including those that are not settled yet."""
    found: list[ChangeRow] = []
    while True:
        entries = await runtime.store.changes(runtime.namespace, after, LOG_BATCH, settled=False)
        found += entries
        if len(entries) < LOG_BATCH:
            return found
        after = entries[-1].position


async def count_missing(runtime: Runtime) -> int:
    """How many texts are not in the index yet; an estimate if the index is not complete."""
    snapshot = await load_snapshot(runtime)
    if snapshot.row is not None:
        return len(snapshot.pending())
    row = await runtime.store.index_state(runtime.namespace)
    stats = await runtime.store.stats(StatsQuery(namespace=runtime.namespace))
    return max(stats.messages - (0 if row is None else row.texts), 0 if row is None else 1)


async def search_info(runtime: Runtime) -> SearchInfo:
    """See `SessionManager.search_info`."""
    settings = runtime.settings.search
    row = await runtime.store.index_state(runtime.namespace)
    snapshot = await load_snapshot(runtime)
    moment = None
    if snapshot.row is not None:
        # Everything that happened before the first missing entry is in the index.
        moment = to_datetime(snapshot.entries[0].at if snapshot.entries else runtime.now())
    return SearchInfo(
        language=settings.language,
        reasoning=settings.reasoning,
        texts=0 if row is None else row.texts,
        pending=len(snapshot.pending()),
        indexed_up_to=moment,
        building=row is not None and (snapshot.row is None or row.state.cursor is not None),
        made_with=made_with(settings),
        **await _vector_info(runtime),
    )


async def _vector_info(runtime: Runtime) -> dict[str, Any]:
    """The fields of `SearchInfo` about vectors."""
    settings = runtime.settings.embeddings
    if settings.embed is None:
        return {"mode": "lexical"}
    error = runtime.shared(EmbeddingHealth).error
    vectors = 0
    try:
        await vector_row(runtime)
        vectors = await vector_store(runtime).count_vectors(runtime.namespace)
    except (EmbeddingError, ConfigurationError) as refusal:
        error = str(refusal)
    return {
        "mode": "lexical" if error else "hybrid",
        "dimensions": settings.dimensions,
        "embedding_model": settings.model or None,
        "vectors": vectors,
        "embedding_error": error,
    }
