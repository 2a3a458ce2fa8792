"""The vectors of texts: made by the user's embedding callable in batches, checked and normalised, and kept up to date.

They follow the log as the index does, with their own position. A vector is deleted in the same transaction as its text,
so an existing vector is always valid. After a failure, only the missing ones are made. No transaction waits for the
embedding."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from frontdesk.calls import call
from frontdesk.config.runtime import Runtime
from frontdesk.config.settings import EmbeddingSettings
from frontdesk.errors import ConfigurationError, EmbeddingError, FrontdeskError, StoreError
from frontdesk.search import texts
from frontdesk.search.follower import Follower, Progress, StateMovedError
from frontdesk.search.texts import StoredText, TextSelection
from frontdesk.store import IndexState, NewVector, VectorRow, VectorStore
from frontdesk.unattended import log_failure

_log = logging.getLogger("frontdesk.search")
_LONGEST_PAUSE = 300.0
_PROBE = "hello"
_MAX_TEXT = 8_000
"""characters of a text that are embedded; models read little more"""


async def embed_texts(settings: EmbeddingSettings, texts: Sequence[str]) -> list[bytes | None]:
    """The vector of each text, normalised to length 1, as little-endian float32; None for a blank text.

    Raises `EmbeddingError` if the callable fails or does not return vectors. A `FrontdeskError` of the callable is
    raised unchanged."""
    vectors: list[bytes | None] = [None] * len(texts)
    not_blank = [(index, text[:_MAX_TEXT]) for index, text in enumerate(texts) if text.strip()]
    for start in range(0, len(not_blank), settings.batch_size):
        batch = not_blank[start : start + settings.batch_size]
        result = await _call_embed(settings, [text for _, text in batch])
        for (index, _), vector in zip(batch, _normalise(result, len(batch), settings.dimensions), strict=True):
            vectors[index] = vector
    return vectors


async def _call_embed(settings: EmbeddingSettings, texts: list[str]) -> Any:
    assert settings.embed is not None, "only called with an embedding"
    try:
        async with asyncio.timeout(settings.timeout):
            return await call(settings.embed, texts)
    except FrontdeskError:
        raise
    except TimeoutError:
        raise EmbeddingError(
            f"the embedding took longer than {settings.timeout:g} s: try again, raise timeout, or lower batch_size"
        ) from None
    except Exception as error:
        raise EmbeddingError(f"the embedding failed ({type(error).__name__}): try again") from error


def _normalise(result: Any, texts: int, dimensions: int) -> list[bytes | None]:
    import numpy

    try:
        matrix = numpy.asarray(result, dtype=numpy.float64)
    except (TypeError, ValueError):
        raise EmbeddingError(
            f"the embedding returned {type(result).__name__}, not one vector of {dimensions} numbers for each text"
        ) from None
    if matrix.shape != (texts, dimensions):
        raise EmbeddingError(
            f"the embedding returned an array of shape {matrix.shape} for {texts} texts: return one vector of"
            f" {dimensions} numbers for each, or set other dimensions in with_embeddings",
            shape=matrix.shape,
        )
    if not numpy.isfinite(matrix).all():
        raise EmbeddingError("the embedding returned NaN or infinity: every number of a vector must be finite")
    largest = numpy.abs(matrix).max(axis=1, keepdims=True)
    # First divided by the largest number, so that no square overflows or underflows.
    scaled = matrix / numpy.where(largest > 0, largest, 1)
    lengths = numpy.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
    rows = (scaled / numpy.where(lengths > 0, lengths, 1)).astype("<f4")
    return [row.tobytes() if size > 0 else None for row, size in zip(rows, largest[:, 0], strict=True)]


@dataclass(slots=True)
class EmbeddingHealth:
    """Whether the embedding works, by what this manager knows. After a failure it is not called for a while, longer
    each time, so that searches do not wait for it and a server that is down is not called all the time."""

    failures: int = 0
    paused_until: float = 0.0
    error: str | None = None

    @property
    def pause(self) -> float:
        """The number of seconds for which the embedding is not called."""
        return max(0.0, self.paused_until - time.monotonic())

    def record_failure(self, error: FrontdeskError) -> None:
        """Record a failure. The texts of other errors may quote a message, and are not repeated."""
        own = isinstance(error, EmbeddingError | ConfigurationError)
        self.error = str(error) if own else f"the embedding failed ({type(error).__name__})"
        self.paused_until = time.monotonic() + min(2.0**self.failures, _LONGEST_PAUSE)
        self.failures += 1
        if own:
            log_failure(_log, error, "search uses words only for a while")
        else:
            _log.warning("search uses words only for a while: %s", self.error)

    def record_success(self) -> None:
        self.failures, self.paused_until, self.error = 0, 0.0, None


async def vector_row(runtime: Runtime) -> VectorRow | None:
    """The state of the namespace's vectors, if there are any. Raises `EmbeddingError` if another model made them, and
    `ConfigurationError` if the store does not support vectors."""
    settings = runtime.settings.embeddings
    store = vector_store(runtime)
    await store.prepare_vectors(runtime.namespace, settings.dimensions)
    row = await store.vector_state(runtime.namespace)
    made_with = "" if row is None or row.state is None else row.state.made_with
    if made_with and settings.model and made_with != settings.model:
        raise EmbeddingError(
            f"the vectors of namespace {runtime.namespace!r} were made by {made_with!r}, not {settings.model!r}:"
            " use that model, or make them again with reindex",
            namespace=runtime.namespace,
            present=made_with,
            wanted=settings.model,
        )
    return row


def vector_store(runtime: Runtime) -> VectorStore:
    """The store, if it supports vectors. Raises `ConfigurationError`."""
    store = runtime.store
    if not isinstance(store, VectorStore):
        raise ConfigurationError(f"{type(store).__name__} does not support vectors: leave out with_embeddings")
    return store


# keeping them up to date


async def update(runtime: Runtime) -> bool:
    """Bring the vectors up to date; False if another worker is doing that. Raises what the embedding raises, and
    `EmbeddingError` if the vectors of the namespace were made by another model."""
    vectors = _Vectors(runtime)
    return await vectors.run_exclusively(vectors.advance_until_closed)


async def rebuild(runtime: Runtime, progress: Progress | None) -> None:
    """Make all vectors again with the current model and dimensions; waits for another worker that is embedding.

    Raises what the embedding raises. If it fails at once, the old vectors stay."""
    vectors = _Vectors(runtime, progress)
    await vectors.wait_and_run(vectors.rebuild)


class _ClosingError(Exception):
    """The manager is being closed: another worker will continue."""


class _Vectors(Follower):
    lease = "search-vectors"
    follows_index = False

    def __init__(self, runtime: Runtime, progress: Progress | None = None) -> None:
        super().__init__(runtime, progress)
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
            sources = await self._missing(await texts.load(self.runtime, batch))
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

    async def _embed(self, given: list[str]) -> list[bytes | None]:
        """The vectors of a batch. If the embedding works but refuses the batch, the batch is halved until the refused
        text is found. That text gets no vector, so that it does not block the others forever."""
        await self.renew()
        try:
            return await embed_texts(self._settings, given)
        except StoreError:
            raise
        except FrontdeskError:
            await embed_texts(self._settings, [_PROBE])
        if len(given) == 1:
            _log.warning("the embedding refused a text of %d characters: it is found by words only", len(given[0]))
            return [None]
        middle = len(given) // 2
        return [*await self._embed(given[:middle]), *await self._embed(given[middle:])]
