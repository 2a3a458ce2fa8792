"""The index as a search meets it: of use or not, and what the log tells that it does not hold yet."""

from __future__ import annotations

from typing import Any, NamedTuple

from frontdesk.config.scope import Scope
from frontdesk.errors import ChangesTrimmedError, ConfigurationError, EmbeddingError
from frontdesk.records import SearchInfo, to_datetime
from frontdesk.search import indexing
from frontdesk.search.embeddings import EmbeddingHealth, EmbeddingSettings, vector_row, vector_store
from frontdesk.search.following import LINES
from frontdesk.search.loading import Wanted
from frontdesk.search.settings import SearchSettings
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


async def for_session(scope: Scope) -> Met:
    """The index for a search in one session, which rather reads the session than wait for the others."""
    met = await meet(scope)
    if met.row is None and await indexing.run(scope, _HELP):
        met = await meet(scope)
    return met


async def for_namespace(scope: Scope) -> Met:
    """The index for a search across sessions, brought up to date if much is missing and nobody is at it."""
    met = await meet(scope)
    if (met.row is None or len(met.pending()) > MOST_SCANNED) and await indexing.run(scope):
        met = await meet(scope)
    return met


async def meet(scope: Scope) -> Met:
    """The index as it is."""
    row = await scope.store.index_state(scope.namespace)
    if row is None or not indexing.is_usable(row.state, scope.settings(SearchSettings)):
        return Met(None, [])
    try:
        return Met(row, await _lines(scope, row.state.position))
    except ChangesTrimmedError:
        return Met(None, [])


async def _lines(scope: Scope, after: tuple[int, int]) -> list[ChangeRow]:
    """All lines behind a position, those that may still get company ahead of them included."""
    found: list[ChangeRow] = []
    while True:
        lines = await scope.store.changes(scope.namespace, after, LINES, settled=False)
        found += lines
        if len(lines) < LINES:
            return found
        after = lines[-1].position


async def missing(scope: Scope) -> int:
    """How many texts the index does not hold yet; about how many, where it is still to be built."""
    met = await meet(scope)
    if met.row is not None:
        return len(met.pending())
    row = await scope.store.index_state(scope.namespace)
    stats = await scope.store.stats(StatsQuery(namespace=scope.namespace))
    return max(stats.messages - (0 if row is None else row.texts), 0 if row is None else 1)


async def info(scope: Scope) -> SearchInfo:
    """How the namespace is searched; see `SessionManager.search_info`."""
    settings = scope.settings(SearchSettings)
    row = await scope.store.index_state(scope.namespace)
    met = await meet(scope)
    moment = None
    if met.row is not None:
        # Everything is in the index that happened before what it does not hold yet.
        moment = to_datetime(met.lines[0].at if met.lines else scope.now())
    return SearchInfo(
        language=settings.language,
        reasoning=settings.reasoning,
        texts=0 if row is None else row.texts,
        pending=len(met.pending()),
        indexed_up_to=moment,
        building=row is not None and (met.row is None or row.state.cursor is not None),
        made_with=settings.made_with,
        **await _meaning(scope),
    )


async def _meaning(scope: Scope) -> dict[str, Any]:
    """What `SearchInfo` tells of vectors."""
    settings = scope.settings(EmbeddingSettings)
    if settings.embed is None:
        return {"mode": "lexical"}
    error = scope.settings(EmbeddingHealth).error
    vectors = 0
    try:
        await vector_row(scope)
        vectors = await vector_store(scope).count_vectors(scope.namespace)
    except (EmbeddingError, ConfigurationError) as refusal:
        error = str(refusal)
    return {
        "mode": "lexical" if error else "hybrid",
        "dimensions": settings.dimensions,
        "embedding_model": settings.model or None,
        "vectors": vectors,
        "embedding_error": error,
    }
