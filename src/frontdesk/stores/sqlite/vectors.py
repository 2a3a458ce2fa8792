"""Vectors of texts, compared by the functions of sqlite-vec, which a connection loads when it first compares."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any, cast

import apsw
import msgspec

from frontdesk.errors import ConfigurationError
from frontdesk.store import TEXT_KINDS, Address, IndexState, Near, NewVector, Plan, Range, VectorRow
from frontdesk.store.vectors import check_dimensions, leaving
from frontdesk.stores.sqlite.connections import Connection
from frontdesk.stores.sqlite.rows import json_text, pack

_POSITIONS = (1 << 24) - 1
_decode_state = msgspec.json.Decoder(IndexState).decode
_EXISTS = {
    "message": "SELECT 1 FROM messages WHERE place = ? AND raw = coalesce(?, raw)",
    "edit": "SELECT 1 FROM edits WHERE number = ?",
    "overlay": "SELECT 1 FROM overlays WHERE number = ?",
    "session": "SELECT 1 FROM sessions WHERE number = ?",
}

_DISTANCE = "address, vec_distance_cosine(vector, ?1) AS distance FROM vectors"
_AMONG = (
    "json_each(?4) AS r WHERE address BETWEEN (r.value ->> 0) AND (r.value ->> 1) AND address & 3 = (r.value ->> 2)"
    " AND +space = ?2"
)
_FIRST = "ORDER BY distance, address LIMIT ?3"


def check_engine() -> None:
    """Raises `ConfigurationError` if sqlite-vec is not installed."""
    if importlib.util.find_spec("sqlite_vec") is None:
        raise ConfigurationError("vectors in SQLite need sqlite-vec: pip install 'frontdesk[embeddings]'")


def prepare(connection: Connection, namespace: str, dimensions: int) -> None:
    space = _space(connection, namespace)
    check_dimensions(namespace, None if space is None else space[1], dimensions)


def put(connection: Connection, namespace: str, dimensions: int, vectors: Sequence[NewVector]) -> int:
    number = _made_space(connection, namespace, dimensions)
    kept = [new for new in vectors if _is_there(connection, new)]
    connection.executemany(
        "INSERT OR REPLACE INTO vectors (address, space, vector) VALUES (?, ?, ?)",
        [(_packed(new.address), number, new.vector) for new in kept],
    )
    return len(kept)


def state(connection: Connection, namespace: str) -> VectorRow | None:
    row = connection.execute("SELECT dimensions, state FROM vector_spaces WHERE namespace = ?", (namespace,)).fetchone()
    return None if row is None else VectorRow(row[0], None if row[1] is None else _decode_state(row[1]))


def mark(
    connection: Connection, namespace: str, dimensions: int, replaces: IndexState | None, reached: IndexState
) -> bool:
    number = _made_space(connection, namespace, dimensions)
    present = state(connection, namespace)
    if present is None or present.state != replaces:
        return False
    connection.execute("UPDATE vector_spaces SET state = ? WHERE number = ?", (json_text(reached), number))
    return True


def without(connection: Connection, addresses: Sequence[Address]) -> list[Address]:
    rows = connection.execute(
        "SELECT address FROM vectors WHERE address IN (SELECT value FROM json_each(?))",
        (json_text([_packed(address) for address in addresses]),),
    ).fetchall()
    there = {_unpacked(packed) for (packed,) in rows}
    return [address for address in addresses if address not in there]


def count(connection: Connection, namespace: str) -> int:
    space = _space(connection, namespace)
    if space is None:
        return 0
    [(number,)] = connection.execute("SELECT count(*) FROM vectors WHERE space = ?", (space[0],)).fetchall()
    return cast(int, number)


def nearest(
    connection: Connection, namespace: str, vector: bytes, limit: int, ranges: Sequence[Range] | None
) -> list[Near]:
    space = _space(connection, namespace)
    if space is None:
        return []
    _load(connection)
    if ranges is None:
        rows = connection.execute(f"SELECT {_DISTANCE} WHERE space = ?2 {_FIRST}", (vector, space[0], limit)).fetchall()
    else:
        bounds = json_text([_bounds(*one) for one in ranges])
        rows = connection.execute(
            f"SELECT DISTINCT {_DISTANCE}, {_AMONG} {_FIRST}", (vector, space[0], limit, bounds)
        ).fetchall()
    return [Near(_unpacked(address), 1.0 - distance) for address, distance in rows]


def drop(connection: Connection, namespace: str) -> None:
    space = _space(connection, namespace)
    if space is not None:
        connection.execute("DELETE FROM vectors WHERE space = ?", (space[0],))
        connection.execute("DELETE FROM vector_spaces WHERE number = ?", (space[0],))


def forget(connection: Connection, plan: Plan) -> None:
    """Remove the vectors of what a plan removes or changes."""
    connection.executemany(
        "DELETE FROM vectors WHERE address BETWEEN ? AND ? AND address & 3 = ?",
        [_bounds(*one) for one in leaving(plan)],
    )


def _space(connection: Connection, namespace: str) -> tuple[int, int] | None:
    """Number and dimensions of a namespace's vectors."""
    row: tuple[int, int] | None = connection.execute(
        "SELECT number, dimensions FROM vector_spaces WHERE namespace = ?", (namespace,)
    ).fetchone()
    return row


def _made_space(connection: Connection, namespace: str, dimensions: int) -> int:
    connection.execute(
        "INSERT INTO vector_spaces (namespace, dimensions) VALUES (?, ?) ON CONFLICT DO NOTHING",
        (namespace, dimensions),
    )
    space = _space(connection, namespace)
    assert space is not None
    check_dimensions(namespace, space[1], dimensions)
    return space[0]


def _is_there(connection: Connection, new: NewVector) -> bool:
    kind, number, position = new.address
    values: tuple[Any, ...] = (pack(number, position), new.content) if kind == "message" else (number,)
    return connection.execute(_EXISTS[kind], values).fetchone() is not None


def _load(connection: Connection) -> None:
    opened = cast(apsw.Connection, connection)
    try:
        opened.execute("SELECT vec_version()").fetchall()
    except apsw.SQLError:
        import sqlite_vec

        opened.enable_load_extension(True)
        try:
            opened.load_extension(sqlite_vec.loadable_path())
        finally:
            opened.enable_load_extension(False)


def _packed(address: Address) -> int:
    kind, number, position = address
    return (pack(number, position) if kind == "message" else number) << 2 | TEXT_KINDS.index(kind)


def _unpacked(packed: int) -> Address:
    kind, number = TEXT_KINDS[packed & 3], packed >> 2
    return Address(kind, number >> 24, number & _POSITIONS) if kind == "message" else Address(kind, number)


def _bounds(first: Address, last: Address) -> tuple[int, int, int]:
    return _packed(first), _packed(last), TEXT_KINDS.index(first.kind)
