"""Vectors of texts from the user's embedding callable, in batches, checked and normalised."""

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
from frontdesk.errors import ConfigurationError, EmbeddingError, FrontdeskError
from frontdesk.reports import log_failure
from frontdesk.store import VectorRow, VectorStore

_log = logging.getLogger("frontdesk.search")
_LONGEST_PAUSE = 300.0
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
    """Whether the embedding works, as far as this manager knows. After a failure it is not called for a while, longer
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
