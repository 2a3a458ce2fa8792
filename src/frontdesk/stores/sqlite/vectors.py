"""Vectors of texts, compared by the functions of sqlite-vec, which a connection loads when it first compares.

Reading and comparing 100,000 vectors of 384 numbers takes 140 ms, comparing their signs 17 ms. So the signs choose the
vectors that are compared in full."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from typing import Any, cast

import apsw
import msgspec

from frontdesk.errors import ConfigurationError
from frontdesk.store import Address, IndexState, Near, NewVector, Range, SessionSelection, VectorRow
from frontdesk.store.vectors import check_dimensions, compared_in_full, sign_bits
from frontdesk.stores.sqlite import index
from frontdesk.stores.sqlite.connections import SQLiteConnection
from frontdesk.stores.sqlite.rows import json_text, pack, text_address, text_key

_decode_state = msgspec.json.Decoder(IndexState).decode
_EXISTS = {
    "message": "SELECT 1 FROM messages WHERE place = ? AND raw = coalesce(?, raw)",
    "edit": "SELECT 1 FROM edits WHERE number = ?",
    "overlay": "SELECT 1 FROM overlays WHERE number = ? AND kind = 'summary'",
    "session": "SELECT 1 FROM sessions WHERE number = ?",
}

_NEAREST = """
WITH chosen AS MATERIALIZED (
    SELECT c.address FROM {source} ORDER BY vec_distance_hamming(vec_bit(c.code), vec_bit(?2)) LIMIT ?3
)
SELECT DISTINCT v.address, vec_distance_cosine(v.vector, ?1) AS distance
FROM chosen CROSS JOIN vectors v ON v.address = chosen.address ORDER BY distance, v.address LIMIT ?4"""
_ALL = "vector_codes c WHERE c.space = ?5"
_IN_RANGES = """json_each(?6) AS r CROSS JOIN vector_codes c
    WHERE c.space = ?5 AND c.address BETWEEN (r.value ->> 0) AND (r.value ->> 1)"""
_OF_SESSIONS = "vector_codes c CROSS JOIN search_texts t ON t.key = c.address WHERE c.space = ?5"


def prepare(connection: SQLiteConnection, namespace: str, dimensions: int) -> None:
    if importlib.util.find_spec("sqlite_vec") is None:
        raise ConfigurationError("vectors in SQLite need sqlite-vec: pip install 'frontdesk[embeddings]'")
    space = _space(connection, namespace)
    check_dimensions(namespace, None if space is None else space[1], dimensions)


def put(connection: SQLiteConnection, namespace: str, dimensions: int, given: Sequence[NewVector]) -> int:
    number = _made_space(connection, namespace, dimensions)
    kept = [new for new in given if _is_there(connection, new)]
    connection.executemany(
        "INSERT OR REPLACE INTO vectors (address, space, vector) VALUES (?, ?, ?)",
        [(text_key(new.address), number, new.vector) for new in kept],
    )
    connection.executemany(
        "INSERT OR REPLACE INTO vector_codes (space, address, code) VALUES (?, ?, ?)",
        [(number, text_key(new.address), sign_bits(new.vector)) for new in kept],
    )
    return len(kept)


def state(connection: SQLiteConnection, namespace: str) -> VectorRow | None:
    row = connection.execute("SELECT dimensions, state FROM vector_spaces WHERE namespace = ?", (namespace,)).fetchone()
    return None if row is None else VectorRow(row[0], None if row[1] is None else _decode_state(row[1]))


def mark(
    connection: SQLiteConnection, namespace: str, dimensions: int, replaces: IndexState | None, state: IndexState
) -> bool:
    number = _made_space(connection, namespace, dimensions)
    present = connection.execute("SELECT state FROM vector_spaces WHERE number = ?", (number,)).fetchone()[0]
    if (None if present is None else _decode_state(present)) != replaces:
        return False
    connection.execute("UPDATE vector_spaces SET state = ? WHERE number = ?", (json_text(state), number))
    return True


def without(connection: SQLiteConnection, namespace: str, addresses: Sequence[Address]) -> list[Address]:
    rows = connection.execute(
        "SELECT address FROM vectors WHERE address IN (SELECT value FROM json_each(?))",
        (json_text([text_key(address) for address in addresses]),),
    ).fetchall()
    there = {text_address(packed) for (packed,) in rows}
    return [address for address in addresses if address not in there]


def count(connection: SQLiteConnection, namespace: str) -> int:
    space = _space(connection, namespace)
    if space is None:
        return 0
    [(number,)] = connection.execute("SELECT count(*) FROM vector_codes WHERE space = ?", (space[0],)).fetchall()
    return cast(int, number)


def nearest(
    connection: SQLiteConnection,
    namespace: str,
    vector: bytes,
    limit: int,
    ranges: Sequence[Range] | None = None,
    sessions: SessionSelection | None = None,
) -> list[Near]:
    space = _space(connection, namespace)
    if space is None:
        return []
    _load(connection)
    source = _ALL
    values: list[Any] = [vector, sign_bits(vector), compared_in_full(limit), limit, space[0]]
    if sessions is not None:
        owned, more = index.of_sessions(namespace, sessions)
        source = _OF_SESSIONS + owned
        values += more
    elif ranges is not None:
        source = _IN_RANGES
        values.append(json_text([(text_key(first), text_key(last)) for first, last in ranges]))
    rows = connection.execute(_NEAREST.format(source=source), values).fetchall()
    return [Near(text_address(address), 1.0 - distance) for address, distance in rows]


def drop(connection: SQLiteConnection, namespace: str) -> None:
    space = _space(connection, namespace)
    if space is not None:
        connection.execute(
            "DELETE FROM vectors WHERE address IN (SELECT address FROM vector_codes WHERE space = ?)", (space[0],)
        )
        connection.execute("DELETE FROM vector_spaces WHERE number = ?", (space[0],))


def forget(connection: SQLiteConnection, removed: Iterable[Range]) -> None:
    """Remove the vectors of texts."""
    connection.executemany(
        "DELETE FROM vectors WHERE address BETWEEN ? AND ?",
        [(text_key(first), text_key(last)) for first, last in removed],
    )


def _space(connection: SQLiteConnection, namespace: str) -> tuple[int, int] | None:
    """Number and dimensions of a namespace's vectors."""
    row: tuple[int, int] | None = connection.execute(
        "SELECT number, dimensions FROM vector_spaces WHERE namespace = ?", (namespace,)
    ).fetchone()
    return row


def _made_space(connection: SQLiteConnection, namespace: str, dimensions: int) -> int:
    connection.execute(
        "INSERT INTO vector_spaces (namespace, dimensions) VALUES (?, ?) ON CONFLICT DO NOTHING",
        (namespace, dimensions),
    )
    space = _space(connection, namespace)
    assert space is not None
    check_dimensions(namespace, space[1], dimensions)
    return space[0]


def _is_there(connection: SQLiteConnection, new: NewVector) -> bool:
    kind, number, position = new.address
    values: tuple[Any, ...] = (pack(number, position), new.content) if kind == "message" else (number,)
    return connection.execute(_EXISTS[kind], values).fetchone() is not None


def _load(connection: SQLiteConnection) -> None:
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
