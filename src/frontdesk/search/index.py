"""The index of a namespace: how it is brought up to date, when, and what of it a search can rely on.

An append never waits for the index. A batch of texts and the new position are written in one transaction, so a crash
loses nothing. A search reads what is not in the index yet directly, so it never depends on how far the index is."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

import Stemmer

from frontdesk.calls import call
from frontdesk.config.runtime import Runtime
from frontdesk.config.settings import SearchSettings
from frontdesk.errors import ChangesTrimmedError, ConfigurationError, EmbeddingError, FrontdeskError, StoreError
from frontdesk.events import feed
from frontdesk.moments import to_datetime
from frontdesk.record import Record
from frontdesk.search import texts, vectors
from frontdesk.search.follower import LOG_BATCH, Follower, Progress, StateMovedError
from frontdesk.search.texts import TEXTS_VERSION, StoredText, TextSelection
from frontdesk.search.tokeniser import VERSION
from frontdesk.search.vectors import EmbeddingHealth, vector_row, vector_store
from frontdesk.store import ChangeRow, IndexBatch, IndexRow, IndexState, IndexText, Position, StatsQuery

_MAX_INLINE = 32
"""how many texts are tokenised without a thread"""
_PAUSE = 1.0
"""seconds without an append after which indexing starts"""
_MAX_BACKLOG = 10_000
"""messages after which indexing does not wait for a pause any longer"""
_MAX_SCANNED = 512
"""a search waits for the index if more texts than this are missing in it"""
_PATIENCE = 1.0
"""seconds that a search waits for the index at most"""
_VERSIONS = re.compile(r"tokeniser (\d+), texts (\d+)")
_NAME = "search index"
_VECTORS = "search vectors"


def made_with(settings: SearchSettings) -> str:
    """Everything that the terms of an index depend on."""
    reasoning = "with" if settings.reasoning else "without"
    versions = f"tokeniser {VERSION}, texts {TEXTS_VERSION}, stemmer {Stemmer.version()}"
    return f"{settings.language}, {versions}, {reasoning} reasoning"


def _is_newer(other: str, own: str) -> bool:
    """Whether an index was made with the same settings by a newer version."""
    theirs, ours = _VERSIONS.search(other), _VERSIONS.search(own)
    if theirs is None or ours is None or _VERSIONS.sub("", other) != _VERSIONS.sub("", own):
        return False
    return [*map(int, theirs.groups())] > [*map(int, ours.groups())]


# bringing it up to date


async def update(runtime: Runtime, progress: Progress | None = None) -> bool:
    """Bring the index up to date; False if another worker is doing that."""
    index = _Index(runtime, progress)
    return await index.run_exclusively(index.update)


async def rebuild(runtime: Runtime, progress: Progress | None) -> None:
    """Build the index again while it stays in use; waits for another worker that is indexing."""
    index = _Index(runtime, progress)
    await index.wait_and_run(index.rebuild)


class _Index(Follower):
    lease = "search-index"

    @property
    def made_with(self) -> str:
        return made_with(self.runtime.settings.search)

    async def state(self) -> IndexState | None:
        row = await self.runtime.store.index_state(self.runtime.namespace)
        return None if row is None else row.state

    async def update(self) -> None:
        """Bring the index up to date, unless it was made by a newer version: while two versions run, as in a rolling
        deploy, the newer one indexes, and the older one reads what is missing."""
        state = await self.state()
        if state is None or not _is_newer(state.made_with, self.made_with):
            await self.advance()

    async def rebuild(self) -> None:
        """Build the index again, unless it was made by a newer version."""
        state = await self.state()
        if state is not None and _is_newer(state.made_with, self.made_with):
            return
        is_usable = state is not None and self.is_current(state) and (state.cursor is None or state.usable)
        await self.start_walk(state, usable=is_usable)
        await self.advance()

    async def save_state(self, replaces: IndexState | None, state: IndexState) -> None:
        await self._write(replaces, state, ())

    async def process(self, state: IndexState, selection: TextSelection, reached: IndexState) -> None:
        """Write batch by batch, and the state with the last one. While a batch is written, the next is prepared."""
        ready: list[IndexText] | tuple[()] = ()
        for batch in selection.batches():
            writing = asyncio.ensure_future(self._write(state, state, ready)) if ready else None
            try:
                ready = await self._texts(await texts.load(self.runtime, batch))
            finally:
                if writing is not None:
                    await writing
        await self._write(state, reached, ready)

    async def _texts(self, sources: list[StoredText]) -> list[IndexText]:
        settings = self.runtime.settings.search
        if len(sources) <= _MAX_INLINE:
            return [source.to_index(settings) for source in sources]
        made: list[IndexText] = await call(lambda: [source.to_index(settings) for source in sources])
        return made

    async def _write(self, replaces: IndexState | None, state: IndexState, given: list[IndexText] | tuple[()]) -> None:
        batch = IndexBatch(namespace=self.runtime.namespace, replaces=replaces, state=state, texts=given)
        if not await self.runtime.store.write_index(batch):
            raise StateMovedError
        await self.report_progress(len(given))


# when that happens


@dataclass(slots=True)
class Backlog:
    """What this worker has written since it last started indexing."""

    messages: int = 0
    last: float = 0.0


def record_change(runtime: Runtime, messages: int = 0) -> None:
    """Record that there is something to index, such as new messages or a fork. Costs almost nothing."""
    backlog = runtime.shared(Backlog)
    backlog.last = time.monotonic()
    backlog.messages += messages
    runtime.background.later(_PAUSE, lambda: _start_if_due(runtime), _NAME)


def _start_if_due(runtime: Runtime) -> None:
    backlog = runtime.shared(Backlog)
    if time.monotonic() - backlog.last < _PAUSE and backlog.messages < _MAX_BACKLOG:
        runtime.background.later(_PAUSE, lambda: _start_if_due(runtime), _NAME)
        return
    backlog.messages = 0
    start_indexing(runtime)


def start_indexing(runtime: Runtime) -> asyncio.Task[None] | None:
    """Bring the index up to date in the background, and then the vectors, if embeddings are set up. Returns the task,
    or None if the manager is being closed."""
    if runtime.background.closing:
        return None
    return runtime.background.spawn(_index(runtime), _NAME)


async def _index(runtime: Runtime) -> None:
    try:
        if await update(runtime):
            # Without sweeps nothing else trims the log. This removes more than is appended between two runs.
            await feed.trim(runtime, runtime.settings.lifecycle.keep_events, 4 * _MAX_BACKLOG)
    except FrontdeskError:
        pass  # the next search or append tries again; a store that cannot be written to is searched without
    _start_embedding(runtime)


def _start_embedding(runtime: Runtime) -> None:
    if runtime.settings.embeddings.embed is None or runtime.background.closing:
        return
    pause = runtime.shared(EmbeddingHealth).pause
    if pause:
        runtime.background.later(pause, lambda: _start_embedding(runtime), _VECTORS)
    else:
        runtime.background.spawn(_embed(runtime), _VECTORS)


async def _embed(runtime: Runtime) -> None:
    try:
        await vectors.update(runtime)
    except StoreError:
        pass
    except FrontdeskError as error:
        health = runtime.shared(EmbeddingHealth)
        health.record_failure(error)
        if not runtime.background.closing:
            runtime.background.later(health.pause, lambda: _start_embedding(runtime), _VECTORS)


# what a search can rely on


class IndexSnapshot(NamedTuple):
    """The index at the time of a search (None: there is none that can be used), and the log entries after its position.
    While it is being built, it contains only the families up to `cursor`."""

    row: IndexRow | None
    entries: list[ChangeRow]
    cursor: int | None = None

    @property
    def is_complete(self) -> bool:
        return self.row is not None and self.cursor is None

    def includes(self, family: int) -> bool:
        """Whether the index contains the texts of a family, as of its position."""
        return self.row is not None and (self.cursor is None or family <= self.cursor)

    def pending(self) -> TextSelection:
        """The texts that were written after the position of the index."""
        selection = TextSelection()
        for entry in self.entries:
            selection.add_entry(entry)
        return selection


async def snapshot(runtime: Runtime, *, wait: bool) -> IndexSnapshot:
    """The index as a search finds it. If much is missing in it, it is brought up to date in the background, and with
    `wait` the search waits for that, but not for long."""
    found = await load_snapshot(runtime)
    if found.is_complete and len(found.entries) <= _MAX_SCANNED and len(found.pending()) <= _MAX_SCANNED:
        return found
    task = start_indexing(runtime)
    if not wait or task is None or task.get_loop() is not asyncio.get_running_loop():
        return found
    await asyncio.wait([task], timeout=_PATIENCE)
    return await load_snapshot(runtime)


async def load_snapshot(runtime: Runtime) -> IndexSnapshot:
    """The index in its current state."""
    row = await runtime.store.index_state(runtime.namespace)
    own = made_with(runtime.settings.search)
    if row is None or (row.state.made_with != own and not _is_newer(row.state.made_with, own)):
        return IndexSnapshot(None, [])
    try:
        entries = await _entries_after(runtime, row.state.position)
    except ChangesTrimmedError:
        return IndexSnapshot(None, [])
    return IndexSnapshot(row, entries, None if row.state.usable else row.state.cursor)


async def _entries_after(runtime: Runtime, after: Position) -> list[ChangeRow]:
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
    found = await load_snapshot(runtime)
    if found.is_complete:
        return len(found.pending())
    row = await runtime.store.index_state(runtime.namespace)
    stats = await runtime.store.stats(StatsQuery(namespace=runtime.namespace))
    return max(stats.messages - (0 if row is None else row.texts), 0 if row is None else 1)


@dataclass(frozen=True, slots=True)
class SearchInfo(Record):
    """How a namespace is searched. `mode` is "lexical" (by words) or "hybrid" (by words and by meaning).

    The index contains `texts` texts and everything up to the moment `indexed_up_to` (None: nothing yet). `pending`
    changes are not in it yet; a search still takes them into account. It is `building` while it is built, or built
    again for another language or version.

    With embeddings, `vectors` texts have a vector of `dimensions` numbers so far, by `embedding_model` if that is
    known; the others are found by words. While embeddings fail, `embedding_error` says why, and `mode` is "lexical"."""

    mode: Literal["lexical", "hybrid"]
    language: str
    reasoning: bool
    texts: int
    pending: int
    indexed_up_to: datetime | None
    building: bool
    made_with: str
    dimensions: int | None = None
    embedding_model: str | None = None
    vectors: int = 0
    embedding_error: str | None = None


async def search_info(runtime: Runtime) -> SearchInfo:
    """See `SessionManager.search_info`."""
    settings = runtime.settings.search
    row = await runtime.store.index_state(runtime.namespace)
    found = await load_snapshot(runtime)
    moment = None
    if found.is_complete:
        # Everything that happened before the first missing entry is in the index.
        moment = to_datetime(found.entries[0].at if found.entries else runtime.now())
    return SearchInfo(
        language=settings.language,
        reasoning=settings.reasoning,
        texts=0 if row is None else row.texts,
        pending=len(found.pending()),
        indexed_up_to=moment,
        building=row is not None and (found.row is None or row.state.cursor is not None),
        made_with=made_with(settings),
        **await _vector_info(runtime),
    )


async def _vector_info(runtime: Runtime) -> dict[str, Any]:
    """The fields of `SearchInfo` about vectors."""
    settings = runtime.settings.embeddings
    if settings.embed is None:
        return {"mode": "lexical"}
    error = runtime.shared(EmbeddingHealth).error
    count = 0
    try:
        await vector_row(runtime)
        count = await vector_store(runtime).count_vectors(runtime.namespace)
    except (EmbeddingError, ConfigurationError) as refusal:
        error = str(refusal)
    return {
        "mode": "lexical" if error else "hybrid",
        "dimensions": settings.dimensions,
        "embedding_model": settings.model or None,
        "vectors": count,
        "embedding_error": error,
    }
