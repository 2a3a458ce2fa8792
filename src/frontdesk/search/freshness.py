"""The index as a search meets it: of use or not, and what the log tells that it does not hold yet."""

from __future__ import annotations

from typing import Any, NamedTuple

from frontdesk.config.runtime import Runtime
from frontdesk.errors import ChangesTrimmedError, ConfigurationError, EmbeddingError
from frontdesk.moments import to_datetime
from frontdesk.records import SearchInfo
from frontdesk.search import indexing
from frontdesk.search.embeddings import EmbeddingHealth, vector_row, vector_store
from frontdesk.search.following import LINES
from frontdesk.search.loading import Wanted
from frontdesk.search.settings import made_with
from frontdesk.store import ChangeRow, IndexRow, StatsQuery

MOST_SCANNED = 512
"""texts that are not in the index yet and are read directly; of more, a search across sessions waits for the index"""
_HELP = 2_000
"""texts that a search in one session helps to index where there is no index yet"""


class Met(NamedTuple):
    """The index (None: of no use yet), and the lines of the log behind its mark."""

    row: IndexRow | None
    lines: list[ChangeRow]

    def pending(self) -> Wanted:
        wanted = Wanted()
        for line in self.lines:
            wanted.add_line(line)
        return wanted


async def for_session(runtime: Runtime) -> Met:
    """The index for a search in one session, which rather reads the session than wait for the others."""
    met = await meet(runtime)
    if met.row is None and await indexing.run(runtime, _HELP):
        met = await meet(runtime)
    return met


async def for_namespace(runtime: Runtime) -> Met:
    """The index for a search across sessions, brought up to date if much is missing and nobody is at it."""
    met = await meet(runtime)
    if (met.row is None or len(met.pending()) > MOST_SCANNED) and await indexing.run(runtime):
        met = await meet(runtime)
    return met


async def meet(runtime: Runtime) -> Met:
    """The index as it is."""
    row = await runtime.store.index_state(runtime.namespace)
    if row is None or not indexing.is_usable(row.state, runtime.settings.search):
        return Met(None, [])
    try:
        return Met(row, await _lines(runtime, row.state.position))
    except ChangesTrimmedError:
        return Met(None, [])


async def _lines(runtime: Runtime, after: tuple[int, int]) -> list[ChangeRow]:
    """All lines behind a position, those that may still get company ahead of them included."""
    found: list[ChangeRow] = []
    while True:
        lines = await runtime.store.changes(runtime.namespace, after, LINES, settled=False)
        found += lines
        if len(lines) < LINES:
            return found
        after = lines[-1].position


async def missing(runtime: Runtime) -> int:
    """How many texts the index does not hold yet; about how many, where it is still to be built."""
    met = await meet(runtime)
    if met.row is not None:
        return len(met.pending())
    row = await runtime.store.index_state(runtime.namespace)
    stats = await runtime.store.stats(StatsQuery(namespace=runtime.namespace))
    return max(stats.messages - (0 if row is None else row.texts), 0 if row is None else 1)


async def info(runtime: Runtime) -> SearchInfo:
    """How the namespace is searched; see `SessionManager.search_info`."""
    settings = runtime.settings.search
    row = await runtime.store.index_state(runtime.namespace)
    met = await meet(runtime)
    moment = None
    if met.row is not None:
        # Everything is in the index that happened before what it does not hold yet.
        moment = to_datetime(met.lines[0].at if met.lines else runtime.now())
    return SearchInfo(
        language=settings.language,
        reasoning=settings.reasoning,
        texts=0 if row is None else row.texts,
        pending=len(met.pending()),
        indexed_up_to=moment,
        building=row is not None and (met.row is None or row.state.cursor is not None),
        made_with=made_with(settings),
        **await _meaning(runtime),
    )


async def _meaning(runtime: Runtime) -> dict[str, Any]:
    """What `SearchInfo` tells of vectors."""
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
