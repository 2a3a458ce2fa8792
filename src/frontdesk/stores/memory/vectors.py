"""Vectors of texts in the memory store, with one `VectorSpace` for each namespace."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence

from frontdesk.errors import ConfigurationError
from frontdesk.store import Address, IndexState, Near, NewVector, Range, SessionSelection, VectorRow
from frontdesk.store.vectors import check_dimensions
from frontdesk.stores.memory import index
from frontdesk.stores.memory.rows import Rows
from frontdesk.stores.memory.vector_space import VectorSpace


def prepare(rows: Rows, namespace: str, dimensions: int) -> None:
    if importlib.util.find_spec("numpy") is None:
        raise ConfigurationError("vectors in memory need numpy: pip install 'frontdesk[embeddings]'")
    _space(rows, namespace, dimensions)


def put(rows: Rows, namespace: str, dimensions: int, given: Sequence[NewVector]) -> int:
    space = _made_space(rows, namespace, dimensions)
    kept = [new for new in given if _is_there(rows, new)]
    for new in kept:
        space.put(new.address, new.vector)
    return len(kept)


def state(rows: Rows, namespace: str) -> VectorRow | None:
    space = rows.vectors.get(namespace)
    return None if space is None else VectorRow(space.dimensions, space.state)


def mark(rows: Rows, namespace: str, dimensions: int, replaces: IndexState | None, state: IndexState) -> bool:
    space = _made_space(rows, namespace, dimensions)
    if space.state != replaces:
        return False
    space.state = state
    return True


def without(rows: Rows, namespace: str, addresses: Sequence[Address]) -> list[Address]:
    space = rows.vectors.get(namespace)
    return [address for address in addresses if space is None or address not in space]


def count(rows: Rows, namespace: str) -> int:
    space = rows.vectors.get(namespace)
    return 0 if space is None else len(space)


def nearest(
    rows: Rows,
    namespace: str,
    vector: bytes,
    limit: int,
    ranges: Sequence[Range] | None = None,
    sessions: SessionSelection | None = None,
) -> list[Near]:
    space = rows.vectors.get(namespace)
    if space is None:
        return []
    if sessions is not None:
        ranges = index.ranges_of(rows, namespace, sessions)
    return space.nearest(vector, limit, ranges)


def drop(rows: Rows, namespace: str) -> None:
    rows.vectors.pop(namespace, None)


def forget(rows: Rows, namespace: str, removed: Iterable[Range]) -> None:
    """Remove the vectors of texts."""
    space = rows.vectors.get(namespace)
    if space is not None:
        for first, last in removed:
            space.remove(first, last)


def _space(rows: Rows, namespace: str, dimensions: int) -> VectorSpace | None:
    space = rows.vectors.get(namespace)
    check_dimensions(namespace, None if space is None else space.dimensions, dimensions)
    return space


def _made_space(rows: Rows, namespace: str, dimensions: int) -> VectorSpace:
    space = _space(rows, namespace, dimensions)
    if space is None:
        space = rows.vectors[namespace] = VectorSpace(dimensions)
    return space


def _is_there(rows: Rows, new: NewVector) -> bool:
    kind, number, position = new.address
    if kind == "message":
        row = rows.messages.get(number, {}).get(position)
        return row is not None and new.content in (None, row.message.raw)
    if kind == "overlay":
        return number in rows.overlays and rows.overlays[number].kind == "summary"
    return number in (rows.edits if kind == "edit" else rows.sessions)
