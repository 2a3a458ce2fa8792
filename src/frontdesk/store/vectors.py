"""What a store does for search by meaning, an optional ability: it keeps vectors of texts and finds the nearest ones.

Vectors have length one and are float32 in little-endian bytes. Their similarity is the cosine. All vectors of a
namespace have the same number of dimensions. A vector is deleted in the same transaction as the text that it was made
from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from frontdesk.errors import EmbeddingError
from frontdesk.store.index import Address, IndexState, Range, SessionSelection

COMPARED_IN_FULL = 4_000
"""how many vectors a store compares in full, at least, before it may choose them by `sign_bits`"""
_COMPARED_PER_NEAREST = 20


class NewVector(NamedTuple):
    """The vector of a text. `content` is the raw message that it was made from: it is stored only if that is
    unchanged."""

    address: Address
    vector: bytes
    content: str | None = None


class Near(NamedTuple):
    address: Address
    similarity: float


class VectorRow(NamedTuple):
    """The vectors of a namespace: their dimensions, and how far they follow the change log (None: not at all yet).
    `made_with` of the state is the name of the model, if it is known."""

    dimensions: int
    state: IndexState | None


@runtime_checkable
class VectorStore(Protocol):
    """A store that keeps vectors. Frontdesk checks with `isinstance` whether a store is one."""

    async def prepare_vectors(self, namespace: str, dimensions: int) -> None:
        """Check that vectors can be stored and compared. Raises `ConfigurationError` if the engine lacks an extension,
        and `EmbeddingError` if the namespace has vectors of other dimensions."""

    async def put_vectors(self, namespace: str, dimensions: int, given: Sequence[NewVector]) -> int:
        """Store vectors in one transaction, replacing those that the texts had. Returns how many were stored.

        Texts that were deleted or changed are left out. Raises `EmbeddingError` if the namespace has
        vectors of other dimensions."""

    async def vector_state(self, namespace: str) -> VectorRow | None:
        """The state of the vectors; None if there are none."""

    async def mark_vectors(
        self, namespace: str, dimensions: int, replaces: IndexState | None, state: IndexState
    ) -> bool:
        """Set the state of the vectors. If the current state is not `replaces`, returns False and changes nothing.

        Raises `EmbeddingError` if the namespace has vectors of other dimensions."""

    async def without_vectors(self, namespace: str, addresses: Sequence[Address]) -> list[Address]:
        """The texts that have no vector, of those given, in the given order."""

    async def count_vectors(self, namespace: str) -> int:
        """How many texts have a vector."""

    async def nearest(
        self,
        namespace: str,
        vector: bytes,
        limit: int,
        ranges: Sequence[Range] | None = None,
        sessions: SessionSelection | None = None,
    ) -> list[Near]:
        """The nearest texts, nearest first. With `ranges`, only texts in these ranges. With `sessions` (never together
        with `ranges`), only texts that the index has for the families of these sessions.

        Of more than `COMPARED_IN_FULL` texts, a store may miss a few of the nearest."""

    async def drop_vectors(self, namespace: str) -> None:
        """Remove all vectors of a namespace, so that new ones can have other dimensions."""


def sign_bits(vector: bytes) -> bytes:
    """The signs of a vector's numbers, one bit for each. Vectors that are near have many of them in common. Bits are
    compared many times as fast as numbers, so that they can choose the vectors that are worth comparing in full."""
    import numpy

    return numpy.packbits(numpy.frombuffer(vector, dtype="<f4") > 0, bitorder="little").tobytes()


def compared_in_full(limit: int) -> int:
    """How many vectors are compared in full to find the `limit` nearest ones."""
    return max(COMPARED_IN_FULL, _COMPARED_PER_NEAREST * limit)


def check_dimensions(namespace: str, present: int | None, wanted: int) -> None:
    """Raises `EmbeddingError` if a namespace has vectors of other dimensions than are wanted."""
    if present is not None and present != wanted:
        raise EmbeddingError(
            f"the vectors of namespace {namespace!r} have {present} dimensions, not {wanted}: pass {present} to"
            " with_embeddings, or call `reindex` to replace them",
            namespace=namespace,
            present=present,
            wanted=wanted,
        )
