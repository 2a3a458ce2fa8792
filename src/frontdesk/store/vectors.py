"""What a store does for search by meaning, if it can: it keeps vectors of texts and finds the nearest.

Vectors have length one and are float32 in little-endian bytes; similarity is their cosine. All those of a namespace
have the same number of dimensions. They are deleted in the same transaction as what they were made from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from frontdesk.errors import EmbeddingError
from frontdesk.store.index import Address, IndexState, Range


class NewVector(NamedTuple):
    """The vector of a text. `content` is the raw message it was made from: it is stored only if that is still there."""

    address: Address
    vector: bytes
    content: str | None = None


class Near(NamedTuple):
    address: Address
    similarity: float


class VectorRow(NamedTuple):
    """The vectors of a namespace: their dimensions, and how far they have followed the change log (None: they have not
    begun to). `made_with` of the state is the name of the model, if it is known."""

    dimensions: int
    state: IndexState | None


@runtime_checkable
class VectorStore(Protocol):
    """A store that keeps vectors."""

    async def prepare_vectors(self, namespace: str, dimensions: int) -> None:
        """Check that vectors can be kept and compared. Raises `ConfigurationError` if the engine lacks what it needs,
        `EmbeddingError` if the namespace has vectors of other dimensions."""

    async def put_vectors(self, namespace: str, dimensions: int, given: Sequence[NewVector]) -> int:
        """Store vectors in one transaction, in place of those that the same texts had; returns how many.

        Texts that are deleted, or have another content, are left out. Raises `EmbeddingError` if the namespace has
        vectors of other dimensions."""

    async def vector_state(self, namespace: str) -> VectorRow | None:
        """How far the vectors are; None where there are none."""

    async def mark_vectors(
        self, namespace: str, dimensions: int, replaces: IndexState | None, state: IndexState
    ) -> bool:
        """Set how far the vectors are; False, and nothing changed, if that is not what is to be replaced.

        Raises `EmbeddingError` if the namespace has vectors of other dimensions."""

    async def without_vectors(self, namespace: str, addresses: Sequence[Address]) -> list[Address]:
        """Those of these texts that have no vector, in their order."""

    async def count_vectors(self, namespace: str) -> int:
        """How many texts have one."""

    async def nearest(
        self, namespace: str, vector: bytes, limit: int, ranges: Sequence[Range] | None = None
    ) -> list[Near]:
        """The nearest texts, nearest first; with `ranges` only those from one address to another of the same kind."""

    async def drop_vectors(self, namespace: str) -> None:
        """Remove all vectors of a namespace, so that others may have other dimensions."""


def check_dimensions(namespace: str, present: int | None, wanted: int) -> None:
    """Raises `EmbeddingError` if a namespace has vectors of other dimensions than are wanted."""
    if present is not None and present != wanted:
        raise EmbeddingError(
            f"the vectors of namespace {namespace!r} have {present} dimensions, not {wanted}: say {present} in"
            " with_embeddings, or drop them by building the index again",
            namespace=namespace,
            present=present,
            wanted=wanted,
        )
