"""Brings the vectors up to date. They follow the log as the index does, with their own position.

A vector is deleted in the same transaction as its text, so an existing vector is always valid. After a failure, only
the missing ones are computed. No transaction waits for the embedding."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from frontdesk.config.runtime import Runtime
from frontdesk.errors import FrontdeskError, StoreError
from frontdesk.search import stored_texts
from frontdesk.search.embeddings import EmbeddingHealth, embed_texts, vector_row, vector_store
from frontdesk.search.follower import Follower, Progress, StateMovedError
from frontdesk.search.stored_texts import StoredText, TextSelection
from frontdesk.store import IndexState, NewVector

_PROBE = "hello"
_log = logging.getLogger("frontdesk.search")


async def run(runtime: Runtime) -> bool:
    """Bring the vectors up to date; False if another worker is doing that. Raises what the embedding raises, and
    `EmbeddingError` if the vectors of the namespace were made by another model."""
    vectors = _Vectors(runtime)
    return await vectors.run_exclusively(vectors.advance_until_closed)


async def rebuild(runtime: Runtime, progress: Progress | None) -> None:
    """Make all vectors again with the current model and dimensions; waits for another worker that is embedding.

    Raises what the embedding raises. If it fails at once, the old vectors stay."""
    vectors = _Vectors(runtime, None, progress)
    await vectors.wait_and_run(vectors.rebuild)


class _ClosingError(Exception):
    """The manager is being closed: another worker will continue."""


class _Vectors(Follower):
    lease = "search-vectors"

    def __init__(self, runtime: Runtime, budget: int | None = None, progress: Progress | None = None) -> None:
        super().__init__(runtime, budget, progress)
        self._settings = runtime.settings.embeddings
        self._store = vector_store(runtime)
        self.ttl += round(self._settings.timeout * 1_000_000)

    @property
    def made_with(self) -> str:
        return self._settings.model

    def is_current(self, state: IndexState) -> bool:
        return True  # `state` raises if it is not

    async def state(self) -> IndexState | None:
        row = await vector_row(self.runtime)
        return None if row is None else row.state

    async def save_state(self, replaces: IndexState | None, state: IndexState) -> None:
        namespace, dimensions = self.runtime.namespace, self._settings.dimensions
        if not await self._store.mark_vectors(namespace, dimensions, replaces, state):
            raise StateMovedError

    async def advance_until_closed(self) -> None:
        try:
            await self.advance()
        except _ClosingError:
            pass

    async def rebuild(self) -> None:
        await embed_texts(self._settings, [_PROBE])
        await self._store.drop_vectors(self.runtime.namespace)
        await self.advance_until_closed()

    async def process(self, state: IndexState, selection: TextSelection, reached: IndexState) -> None:
        for batch in selection.batches():
            sources = await self._missing(await stored_texts.load(self.runtime, batch))
            for start in range(0, len(sources), self._settings.batch_size):
                if self.runtime.background.closing:
                    raise _ClosingError
                await self._put(sources[start : start + self._settings.batch_size])
        await self.save_state(state, reached)

    async def _missing(self, sources: list[StoredText]) -> list[StoredText]:
        """The texts without a vector, and all sessions: the name of a session may have changed while its vector was
        made, so its vector is made again with each log entry about it."""
        others = [source.address for source in sources if source.address.kind != "session"]
        missing = set(await self._store.without_vectors(self.runtime.namespace, others) if others else ())
        return [source for source in sources if source.address.kind == "session" or source.address in missing]

    async def _put(self, sources: Sequence[StoredText]) -> None:
        vectors = await self._embed([source.text for source in sources])
        made = [
            NewVector(source.address, vector, source.content[0] if source.address.kind == "message" else None)
            for source, vector in zip(sources, vectors, strict=True)
            if vector is not None
        ]
        if made:
            await self._store.put_vectors(self.runtime.namespace, self._settings.dimensions, made)
        self.runtime.shared(EmbeddingHealth).record_success()
        await self.report_progress(len(sources))

    async def _embed(self, texts: list[str]) -> list[bytes | None]:
        """The vectors of a batch. If the embedding works but refuses the batch, the batch is halved until the refused
        text is found. That text gets no vector, so that it does not block the others forever."""
        await self.renew()
        try:
            return await embed_texts(self._settings, texts)
        except StoreError:
            raise
        except FrontdeskError:
            await embed_texts(self._settings, [_PROBE])
        if len(texts) == 1:
            _log.warning("the embedding refused a text of %d characters: it is found by words only", len(texts[0]))
            return [None]
        middle = len(texts) // 2
        return [*await self._embed(texts[:middle]), *await self._embed(texts[middle:])]
