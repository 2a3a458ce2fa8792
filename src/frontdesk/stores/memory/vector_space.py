"""`VectorSpace`: the vectors of one namespace in the memory store, as one matrix that is compared as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from frontdesk.store import Address, IndexState, Near, Range

_FIRST_ROWS = 256


class VectorSpace:
    """The vectors of a namespace, without gaps: the last one takes the place of one that is removed."""

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
