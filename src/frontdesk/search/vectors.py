"""Bringing vectors up to date: they follow the log as the index does, behind a mark of their own.

A vector goes in the same transaction as what it was made from, so one that is there is right: whoever begins again
after a failure asks only for those that are missing. No transaction waits for the embedding."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from frontdesk.config.runtime import Runtime
from frontdesk.errors import FrontdeskError, StoreError
from frontdesk.search import loading
from frontdesk.search.embeddings import EmbeddingHealth, embed_texts, vector_row, vector_store
from frontdesk.search.following import Follower, OvertakenError, Progress
from frontdesk.search.loading import Source, Wanted
from frontdesk.store import IndexState, NewVector

_PROBE = "hello"
_log = logging.getLogger("frontdesk.search")


async def run(runtime: Runtime) -> bool:
    """Bring the vectors up to date; False if another is at it. Raises what the embedding raises, and `EmbeddingError`
    if the namespace has vectors of another kind."""
    vectors = _Vectors(runtime)
    return await vectors.alone(vectors.advance_until_closed)


async def rebuild(runtime: Runtime, progress: Progress | None) -> None:
    """Make all vectors anew, by whichever model and of as many numbers as are set up now; waits for whoever is at it.

    Raises what the embedding raises: then the old ones stay if it did not work from the start."""
    vectors = _Vectors(runtime, None, progress)
    await vectors.alone_at_last(vectors.begin_again)


class _ClosingError(Exception):
    """The manager is being closed: somebody else goes on."""


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

    def fits(self, state: IndexState) -> bool:
        return True  # `state` raises if not

    async def state(self) -> IndexState | None:
        row = await vector_row(self.runtime)
        return None if row is None else row.state

    async def mark(self, replaces: IndexState | None, state: IndexState) -> None:
        namespace, dimensions = self.runtime.namespace, self._settings.dimensions
        if not await self._store.mark_vectors(namespace, dimensions, replaces, state):
            raise OvertakenError

    async def advance_until_closed(self) -> None:
        try:
            await self.advance()
        except _ClosingError:
            pass

    async def begin_again(self) -> None:
        await embed_texts(self._settings, [_PROBE])
        await self._store.drop_vectors(self.runtime.namespace)
        await self.advance_until_closed()

    async def take(self, state: IndexState, wanted: Wanted, reached: IndexState) -> None:
        for portion in wanted.portions():
            sources = await self._missing(await loading.load(self.runtime, portion))
            for start in range(0, len(sources), self._settings.batch_size):
                if self.runtime.background.closing:
                    raise _ClosingError
                await self._put(sources[start : start + self._settings.batch_size])
        await self.mark(state, reached)

    async def _missing(self, sources: list[Source]) -> list[Source]:
        """Those without a vector. The name of a session may have changed while its vector was being made: it gets one
        whenever it is spoken of."""
        others = [source.address for source in sources if source.address.kind != "session"]
        missing = set(await self._store.without_vectors(self.runtime.namespace, others) if others else ())
        return [source for source in sources if source.address.kind == "session" or source.address in missing]

    async def _put(self, sources: Sequence[Source]) -> None:
        vectors = await self._embed([source.text for source in sources])
        made = [
            NewVector(source.address, vector, source.content[0] if source.address.kind == "message" else None)
            for source, vector in zip(sources, vectors, strict=True)
            if vector is not None
        ]
        if made:
            await self._store.put_vectors(self.runtime.namespace, self._settings.dimensions, made)
        self.runtime.shared(EmbeddingHealth).worked()
        await self.tell(len(sources))

    async def _embed(self, texts: list[str]) -> list[bytes | None]:
        """Vectors of a batch. Where it is the texts that fail, and not the embedding, the one at fault is looked for by
        halving and goes without, so that the others need not wait for it for ever."""
        await self.renew()
        try:
            return await embed_texts(self._settings, texts)
        except StoreError:
            raise
        except FrontdeskError:
            await embed_texts(self._settings, [_PROBE])
        if len(texts) == 1:
            _log.warning("the embedding refuses a text of %d characters: it is found by its words", len(texts[0]))
            return [None]
        middle = len(texts) // 2
        return [*await self._embed(texts[:middle]), *await self._embed(texts[middle:])]
