"""Vectors of texts from a callable that the user gives: checked, normalised, asked for in batches."""

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
from frontdesk.store import VectorRow, VectorStore

_log = logging.getLogger("frontdesk.search")
_LONGEST_REST = 300.0
_LONGEST_TEXT = 8_000
"""characters of a text that are embedded; models read little more"""


async def embed_texts(settings: EmbeddingSettings, texts: Sequence[str]) -> list[bytes | None]:
    """The vector of each text as float32 of length one, in little-endian bytes; None for one that says nothing.

    Raises `EmbeddingError` if the callable fails or gives what are not vectors; its own `FrontdeskError`s pass."""
    vectors: list[bytes | None] = [None] * len(texts)
    telling = [(index, text[:_LONGEST_TEXT]) for index, text in enumerate(texts) if text.strip()]
    for start in range(0, len(telling), settings.batch_size):
        batch = telling[start : start + settings.batch_size]
        given = await _ask(settings, [text for _, text in batch])
        for (index, _), vector in zip(batch, _normalised(given, len(batch), settings.dimensions), strict=True):
            vectors[index] = vector
    return vectors


async def _ask(settings: EmbeddingSettings, texts: list[str]) -> Any:
    assert settings.embed is not None, "there is nothing to ask without an embedding"
    try:
        async with asyncio.timeout(settings.timeout):
            return await call(settings.embed, texts)
    except FrontdeskError:
        raise
    except TimeoutError:
        raise EmbeddingError(
            f"no vectors came within {settings.timeout:g} s: try again, raise timeout, or lower batch_size"
        ) from None
    except Exception as error:
        raise EmbeddingError(f"the embedding failed ({type(error).__name__}): try again") from error


def _normalised(given: Any, wanted: int, dimensions: int) -> list[bytes | None]:
    import numpy

    try:
        matrix = numpy.asarray(given, dtype=numpy.float64)
    except (TypeError, ValueError):
        raise EmbeddingError(
            f"the embedding gave {type(given).__name__}, not one vector of {dimensions} numbers for each text"
        ) from None
    if matrix.shape != (wanted, dimensions):
        raise EmbeddingError(
            f"the embedding gave an array of shape {matrix.shape} for {wanted} texts: give one vector of"
            f" {dimensions} numbers for each, or say other dimensions in with_embeddings",
            shape=matrix.shape,
        )
    if not numpy.isfinite(matrix).all():
        raise EmbeddingError("the embedding gave NaN or infinity: every number of a vector must be finite")
    largest = numpy.abs(matrix).max(axis=1, keepdims=True)
    # Divided by the largest number first, no square can overflow or vanish.
    scaled = matrix / numpy.where(largest > 0, largest, 1)
    lengths = numpy.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
    rows = (scaled / numpy.where(lengths > 0, lengths, 1)).astype("<f4")
    return [row.tobytes() if size > 0 else None for row, size in zip(rows, largest[:, 0], strict=True)]


@dataclass(slots=True)
class EmbeddingHealth:
    """Whether the embedding works, as far as this manager knows. After a failure nobody asks it for a while, longer
    each time: neither does a search wait for what is not there, nor is a server that is down asked all the time."""

    failures: int = 0
    rests_until: float = 0.0
    error: str | None = None

    @property
    def rest(self) -> float:
        """For how many seconds not to ask it."""
        return max(0.0, self.rests_until - time.monotonic())

    def failed(self, error: FrontdeskError) -> None:
        """Take a failure down. What others say may quote a text, and is not repeated."""
        own = isinstance(error, EmbeddingError | ConfigurationError)
        self.error = str(error) if own else f"the embedding failed ({type(error).__name__})"
        self.rests_until = time.monotonic() + min(2.0**self.failures, _LONGEST_REST)
        self.failures += 1
        _log.warning("search goes by words alone for a while: %s", self.error)

    def worked(self) -> None:
        self.failures, self.rests_until, self.error = 0, 0.0, None


async def vector_row(runtime: Runtime) -> VectorRow | None:
    """The vectors of the namespace, if it has some. Raises `EmbeddingError` if they were made by another model,
    `ConfigurationError` if the store cannot keep any."""
    settings = runtime.settings.embeddings
    store = vector_store(runtime)
    await store.prepare_vectors(runtime.namespace, settings.dimensions)
    row = await store.vector_state(runtime.namespace)
    made_with = "" if row is None or row.state is None else row.state.made_with
    if made_with and settings.model and made_with != settings.model:
        raise EmbeddingError(
            f"the vectors of namespace {runtime.namespace!r} were made by {made_with!r}, not {settings.model!r}:"
            " use that, or have them made anew by reindex",
            namespace=runtime.namespace,
            present=made_with,
            wanted=settings.model,
        )
    return row


def vector_store(runtime: Runtime) -> VectorStore:
    """The store, if it can keep vectors. Raises `ConfigurationError`."""
    store = runtime.store
    if not isinstance(store, VectorStore):
        raise ConfigurationError(f"{type(store).__name__} keeps no vectors: leave with_embeddings out")
    return store
