"""Vectors in the memory store: one matrix for each namespace, compared as a whole."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from typing import Any

from frontdesk.errors import ConfigurationError
from frontdesk.store import Address, IndexState, Near, NewVector, Plan, Range, VectorRow
from frontdesk.store.vectors import check_dimensions, leaving
from frontdesk.stores.memory.rows import Rows

_FIRST_ROWS = 256


class VectorSpace:
    """The vectors of a namespace, without gaps: the last one takes the place of one that goes."""

    def __init__(self, dimensions: int) -> None:
        import numpy

        self.dimensions = dimensions
        self.state: IndexState | None = None
        self._matrix: Any = numpy.zeros((_FIRST_ROWS, dimensions), dtype="<f4")
        self._addresses: list[Address] = []
        self._rows: dict[Address, int] = {}
        self._positions: dict[tuple[str, int], set[int]] = {}

    def __len__(self) -> int:
        return len(self._addresses)

    def __contains__(self, address: Address) -> bool:
        return address in self._rows

    def put(self, address: Address, vector: bytes) -> None:
        import numpy

        row = self._rows.get(address)
        if row is None:
            row = self._rows[address] = len(self._addresses)
            self._addresses.append(address)
            self._positions.setdefault(address[:2], set()).add(address.position)
            if row == len(self._matrix):
                self._matrix = numpy.concatenate([self._matrix, numpy.zeros_like(self._matrix)])
        self._matrix[row] = numpy.frombuffer(vector, dtype="<f4")

    def remove(self, first: Address, last: Address) -> None:
        for address in self._within(first, last):
            row, moved = self._rows.pop(address), self._addresses.pop()
            self._positions[address[:2]].discard(address.position)
            if moved != address:
                self._matrix[row] = self._matrix[len(self._addresses)]
                self._addresses[row], self._rows[moved] = moved, row
        if not self._positions.get(first[:2], True):
            del self._positions[first[:2]]

    def _within(self, first: Address, last: Address) -> list[Address]:
        here = self._positions.get(first[:2], ())
        return [first._replace(position=position) for position in here if first.position <= position <= last.position]

    def nearest(self, vector: bytes, limit: int, ranges: Sequence[Range] | None) -> list[Near]:
        import numpy

        query = numpy.frombuffer(vector, dtype="<f4")
        if ranges is None:
            addresses, matrix = self._addresses, self._matrix[: len(self._addresses)]
        else:
            addresses = list(dict.fromkeys(found for first, last in ranges for found in self._within(first, last)))
            matrix = self._matrix[[self._rows[address] for address in addresses]]
        if not addresses:
            return []
        similar = matrix @ query
        best: Iterable[int] = range(len(addresses))
        if len(addresses) > limit:
            best = numpy.argpartition(-similar, limit - 1)[:limit].tolist()
        ordered = sorted(best, key=lambda row: (-float(similar[row]), addresses[row]))
        return [Near(addresses[row], float(similar[row])) for row in ordered]


class Vectors(Rows):
    """The vectors of the seam, by namespace."""

    async def prepare_vectors(self, namespace: str, dimensions: int) -> None:
        if importlib.util.find_spec("numpy") is None:
            raise ConfigurationError("vectors in memory need numpy: pip install 'frontdesk[embeddings]'")
        with self._held():
            self._space(namespace, dimensions)

    async def put_vectors(self, namespace: str, dimensions: int, given: Sequence[NewVector]) -> int:
        with self._held():
            space = self._made_space(namespace, dimensions)
            kept = [new for new in given if self._is_there(new)]
            for new in kept:
                space.put(new.address, new.vector)
            return len(kept)

    async def vector_state(self, namespace: str) -> VectorRow | None:
        with self._held():
            space = self._vectors.get(namespace)
            return None if space is None else VectorRow(space.dimensions, space.state)

    async def mark_vectors(
        self, namespace: str, dimensions: int, replaces: IndexState | None, state: IndexState
    ) -> bool:
        with self._held():
            space = self._made_space(namespace, dimensions)
            if space.state != replaces:
                return False
            space.state = state
            return True

    async def without_vectors(self, namespace: str, addresses: Sequence[Address]) -> list[Address]:
        with self._held():
            space = self._vectors.get(namespace, ())
            return [address for address in addresses if address not in space]

    async def count_vectors(self, namespace: str) -> int:
        with self._held():
            return len(self._vectors.get(namespace, ()))

    async def nearest(
        self, namespace: str, vector: bytes, limit: int, ranges: Sequence[Range] | None = None
    ) -> list[Near]:
        with self._held():
            space = self._vectors.get(namespace)
            return [] if space is None else space.nearest(vector, limit, ranges)

    async def drop_vectors(self, namespace: str) -> None:
        with self._held():
            self._vectors.pop(namespace, None)

    def _space(self, namespace: str, dimensions: int) -> VectorSpace | None:
        space: VectorSpace | None = self._vectors.get(namespace)
        check_dimensions(namespace, None if space is None else space.dimensions, dimensions)
        return space

    def _made_space(self, namespace: str, dimensions: int) -> VectorSpace:
        space = self._space(namespace, dimensions)
        if space is None:
            space = self._vectors[namespace] = VectorSpace(dimensions)
        return space

    def _is_there(self, new: NewVector) -> bool:
        kind, number, position = new.address
        if kind == "message":
            row = self._rows.get(number, {}).get(position)
            return row is not None and new.content in (None, row.message.raw)
        rows: dict[str, dict[int, Any]] = {"edit": self._edits, "overlay": self._overlays, "session": self._sessions}
        return number in rows[kind]

    def _forget_vectors(self, namespace: str, plan: Plan) -> None:
        """Remove the vectors of what a plan removes or changes."""
        space: VectorSpace | None = self._vectors.get(namespace)
        if space is not None:
            for first, last in leaving(plan):
                space.remove(first, last)
