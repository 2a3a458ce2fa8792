"""Vectors of texts from a callable that the user gives: checked, normalised, asked for in batches."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from frontdesk.calls import call
from frontdesk.errors import ConfigurationError, EmbeddingError, FrontdeskError
from frontdesk.scope import Scope
from frontdesk.store import Address, NewVector, Range, VectorStore

Embed: TypeAlias = Callable[[list[str]], Sequence[Sequence[float]] | Awaitable[Sequence[Sequence[float]]]]
"""texts -> vectors, one for each in the same order; sync or async"""

MOST_DIMENSIONS = 16_000
_LONGEST_TEXT = 8_000
"""characters of a text that are embedded; models read little more"""


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """What `with_embeddings` was told. Without an `embed` search is lexical."""

    embed: Embed | None = None
    dimensions: int = 0
    batch_size: int = 64
    timeout: float = 60.0

    def __post_init__(self) -> None:
        if self.embed is None:
            return
        if not callable(self.embed):
            raise ConfigurationError(f"embed is a callable from texts to vectors, not {type(self.embed).__name__}")
        for what, value, most in (("dimensions", self.dimensions, MOST_DIMENSIONS), ("batch_size", self.batch_size, 0)):
            if type(value) is not int or value < 1 or (most and value > most):
                upper = f" and at most {most:,}" if most else ""
                raise ConfigurationError(f"{what} must be a whole number, at least 1{upper}, not {value!r}")
        if not self.timeout > 0:
            raise ConfigurationError(f"timeout must be a number of seconds above 0, not {self.timeout!r}")
        if importlib.util.find_spec("numpy") is None:
            raise ConfigurationError("embeddings need numpy: pip install 'frontdesk[embeddings]'")


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


def vector_store(scope: Scope) -> VectorStore:
    """The store, if it can keep vectors. Raises `ConfigurationError`."""
    store = scope.store
    if not isinstance(store, VectorStore):
        raise ConfigurationError(f"{type(store).__name__} keeps no vectors: leave with_embeddings out")
    return store


async def embed_pending(scope: Scope, texts: Sequence[tuple[Address, str, str | None]]) -> int:
    """Compute and store the vectors of texts: (address, text, content), where `content` is the raw message that the
    text was made from; a vector of what has gone or changed meanwhile is not stored. Gives how many were.

    Does nothing without `with_embeddings`. Raises `EmbeddingError`."""
    settings = scope.settings(EmbeddingSettings)
    if settings.embed is None or not texts:
        return 0
    store = vector_store(scope)
    await store.prepare_vectors(scope.namespace, settings.dimensions)
    vectors = await embed_texts(settings, [text for _, text, _ in texts])
    made = [
        NewVector(address, vector, content)
        for (address, _, content), vector in zip(texts, vectors, strict=True)
        if vector is not None
    ]
    return await store.put_vectors(scope.namespace, settings.dimensions, made) if made else 0


async def nearest_to(scope: Scope, text: str, limit: int, ranges: Sequence[Range] | None = None) -> list[Address]:
    """The texts whose vectors are nearest to that of a query, nearest first; none without `with_embeddings`.

    `ranges` (from one address to another of its kind) name the only ones that are wanted. Raises `EmbeddingError`."""
    settings = scope.settings(EmbeddingSettings)
    if settings.embed is None:
        return []
    store = vector_store(scope)
    await store.prepare_vectors(scope.namespace, settings.dimensions)
    [vector] = await embed_texts(settings, [text])
    if vector is None:
        return []
    return [near.address for near in await store.nearest(scope.namespace, vector, limit, ranges)]
