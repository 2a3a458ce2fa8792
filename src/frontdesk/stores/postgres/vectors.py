"""Vectors of texts, compared by pgvector.

Reading and comparing 100,000 vectors of 384 numbers takes 230 ms, comparing their signs 18 ms. So the signs choose the
vectors that are compared in full. (An HNSW index is faster still, but it has to be built for each namespace while it is
in use, makes every insert slower, and cannot be combined with a choice of sessions.)"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import asyncpg
import msgspec

from frontdesk.errors import ConfigurationError
from frontdesk.store import (
    TEXT_KINDS,
    Address,
    IndexState,
    Near,
    NewVector,
    Range,
    SessionSelection,
    TextKind,
    VectorRow,
)
from frontdesk.store.vectors import check_dimensions, compared_in_full, sign_bits
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.index import of_sessions
from frontdesk.stores.postgres.rows import HERE, TEXT_CODES, columns_of, json_text

_TABLES: dict[TextKind, str] = {"message": "messages", "edit": "edits", "overlay": "overlays", "session": "sessions"}
_KEPT = ("vectors", "vector_codes")
_decode_state = msgspec.json.Decoder(IndexState).decode

_EXTENSION = (
    "SELECT quote_ident(n.nspname) FROM pg_catalog.pg_extension e"
    " JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'"
)
_SPACE = f"SELECT dimensions, state FROM {{schema}}.vector_spaces WHERE ns = {HERE}"
_LOCKED_SPACE = (
    "INSERT INTO {schema}.vector_spaces AS s (ns, dimensions) VALUES ($1, $2)"
    " ON CONFLICT (ns) DO UPDATE SET dimensions = s.dimensions RETURNING dimensions, state"
)
_PUT = (
    "INSERT INTO {schema}.vectors (ns, kind, number, position, vector) VALUES ($1, $2, $3, $4, $5)"
    " ON CONFLICT (ns, kind, number, position) DO UPDATE SET vector = excluded.vector"
)
_PUT_CODE = (
    "INSERT INTO {schema}.vector_codes (ns, kind, number, position, code) VALUES ($1, $2, $3, $4, $5)"
    " ON CONFLICT (ns, kind, number, position) DO UPDATE SET code = excluded.code"
)
_PRESENT = (
    "SELECT v.kind, v.number, v.position FROM unnest($2::smallint[], $3::bigint[], $4::integer[])"
    f" a(kind, number, position) JOIN {{schema}}.vectors v ON v.ns = {HERE} AND v.kind = a.kind"
    " AND v.number = a.number AND v.position = a.position"
)
_NEAREST = (
    "WITH chosen AS MATERIALIZED (SELECT v.kind, v.number, v.position FROM {codes}"
    f" WHERE v.ns = {HERE} ORDER BY v.code OPERATOR({{extension}}.<~>) $4::varbit LIMIT $5)"
    " SELECT DISTINCT v.kind, v.number, v.position, v.vector::{extension}.vector OPERATOR({extension}.<=>)"
    " $2::real[]::{extension}.vector AS distance FROM chosen JOIN {schema}.vectors v USING (kind, number, position)"
    f" WHERE v.ns = {HERE} ORDER BY distance, v.kind DESC, v.number, v.position LIMIT $3"
)
_ALL = "{schema}.vector_codes v"
# Each range is looked for in the key. In a join, a planner may compare it with every vector of its segment.
_AMONG = (
    "unnest($6::smallint[], $7::bigint[], $8::integer[], $9::integer[]) r(kind, number, first, last), LATERAL ("
    f"SELECT * FROM {{schema}}.vector_codes x WHERE x.ns = {HERE} AND x.kind = r.kind AND x.number = r.number"
    " AND x.position BETWEEN r.first AND r.last OFFSET 0) v"
)
_OWNED = (
    f"{_ALL} JOIN {{schema}}.search_texts t ON t.ns = {HERE} AND t.kind = v.kind AND t.number = v.number"
    " AND t.position = v.position AND t.part = 0 AND {owned}"
)
_REMOVE = (
    "DELETE FROM {schema}.{table} v WHERE v.ns = $1 AND v.ctid = ANY(ARRAY(SELECT f.ctid FROM"
    " unnest($2::smallint[], $3::bigint[], $4::integer[], $5::integer[]) r(kind, number, first, last), LATERAL ("
    "SELECT x.ctid FROM {schema}.{table} x WHERE x.ns = $1 AND x.kind = r.kind AND x.number = r.number"
    " AND x.position BETWEEN r.first AND r.last OFFSET 0) f))"
)


class Extension:
    """The extension `vector`: found, or created, once for a store."""

    def __init__(self) -> None:
        self._schema: str | None = None

    async def schema(self, connection: Connection) -> str:
        """The schema that the extension is in; it is created if it can be. Raises `ConfigurationError`."""
        if self._schema is None:
            self._schema = await connection.fetch_value(_EXTENSION)
        if self._schema is None:
            await self._create(connection)
            self._schema = await connection.fetch_value(_EXTENSION)
        assert self._schema is not None
        return self._schema

    async def _create(self, connection: Connection) -> None:
        try:
            await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except (asyncpg.UniqueViolationError, asyncpg.DuplicateObjectError):
            pass  # another worker was creating it at the same moment
        except asyncpg.PostgresError as error:
            raise ConfigurationError(
                "vectors in PostgreSQL need the extension `vector` (pgvector), which is not there and cannot be"
                f" created ({error.sqlstate}): install it on the server, or have its owner create it"
            ) from None

    async def prepare(self, connection: Connection, namespace: str, dimensions: int) -> None:
        """Have the extension, and raise if the dimensions do not go with those there are."""
        await self.schema(connection)
        present = await state(connection, namespace)
        check_dimensions(namespace, None if present is None else present.dimensions, dimensions)

    async def nearest(
        self,
        connection: Connection,
        namespace: str,
        vector: bytes,
        limit: int,
        ranges: Sequence[Range] | None = None,
        sessions: SessionSelection | None = None,
    ) -> list[Near]:
        values: list[Any] = [namespace, _floats(vector), limit, _bits(vector), compared_in_full(limit)]

        def mark(value: Any) -> str:
            values.append(value)
            return f"${len(values)}"

        codes = _ALL
        if sessions is not None:
            codes = _OWNED.replace("{owned}", of_sessions(HERE, sessions, mark))
        elif ranges is not None:
            codes = _AMONG
            values += _columns(ranges)
        statement = _NEAREST.replace("{extension}", await self.schema(connection)).replace("{codes}", codes)
        rows = await connection.fetch(statement, *values)
        return [Near(Address(TEXT_KINDS[kind], number, position), 1.0 - far) for kind, number, position, far in rows]


async def put(connection: Connection, namespace: str, dimensions: int, given: Sequence[NewVector]) -> int:
    """Needs a transaction."""
    ns, _ = await _locked_space(connection, namespace, dimensions)
    kept = 0
    for kind in _TABLES:
        rows = {new.address: new for new in given if new.address.kind == kind}
        there = await _existing(connection, ns, kind, list(rows.values()))
        kept += len(there)
        keys = [(ns, TEXT_CODES[kind], number, position) for number, position in there]
        vectors = [rows[Address(kind, number, position)].vector for number, position in there]
        for statement, write in ((_PUT, _floats), (_PUT_CODE, _bits)):
            values = [(*key, write(vector)) for key, vector in zip(keys, vectors, strict=True)]
            await connection.execute_many(statement, values)
    return kept


async def _locked_space(connection: Connection, namespace: str, dimensions: int) -> tuple[int, IndexState | None]:
    """The number of a namespace, and how far its vectors are; locked."""
    ns = await connection.fetch_value("SELECT {schema}.namespace($1)", namespace)
    present, reached = await connection.fetch_one(_LOCKED_SPACE, ns, dimensions)
    check_dimensions(namespace, present, dimensions)
    return ns, None if reached is None else _decode_state(reached)


async def _existing(
    connection: Connection, ns: int, kind: TextKind, rows: Sequence[NewVector]
) -> list[tuple[int, int]]:
    """(number, position) of the texts that still exist, locked so that they stay until the end."""
    if not rows:
        return []
    at = "t.number = n.number"
    if kind == "message":
        at = "t.segment = n.number AND t.position = n.position AND t.raw = coalesce(n.content, t.raw)"
    elif kind == "overlay":
        at += " AND t.kind = 'summary'"
    found = await connection.fetch(
        "SELECT n.number, n.position FROM unnest($2::bigint[], $3::integer[], $4::text[]) n(number, position,"
        f" content) JOIN {{schema}}.{_TABLES[kind]} t ON t.ns = $1 AND {at}"
        " ORDER BY n.number, n.position FOR SHARE OF t",
        ns,
        *columns_of([(new.address.number, new.address.position, new.content) for new in rows], 3),
    )
    return [(number, position) for number, position in found]


async def state(connection: Connection, namespace: str) -> VectorRow | None:
    row = await connection.fetch_row(_SPACE, namespace)
    return None if row is None else VectorRow(row[0], None if row[1] is None else _decode_state(row[1]))


async def mark(
    connection: Connection, namespace: str, dimensions: int, replaces: IndexState | None, state: IndexState
) -> bool:
    """Needs a transaction."""
    ns, present = await _locked_space(connection, namespace, dimensions)
    if present != replaces:
        return False
    await connection.execute("UPDATE {schema}.vector_spaces SET state = $2 WHERE ns = $1", ns, json_text(state))
    return True


async def without(connection: Connection, namespace: str, addresses: Sequence[Address]) -> list[Address]:
    kinds, numbers, positions, _ = _columns([(address, address) for address in addresses])
    rows = await connection.fetch(_PRESENT, namespace, kinds, numbers, positions)
    present = {Address(TEXT_KINDS[kind], number, position) for kind, number, position in rows}
    return [address for address in addresses if address not in present]


async def count(connection: Connection, namespace: str) -> int:
    counted = f"SELECT count(*) FROM {{schema}}.vector_codes WHERE ns = {HERE}"
    return int(await connection.fetch_value(counted, namespace))


async def drop(connection: Connection, namespace: str) -> None:
    """Needs a transaction."""
    for table in (*_KEPT, "vector_spaces"):
        await connection.execute(f"DELETE FROM {{schema}}.{table} WHERE ns = {HERE}", namespace)


async def remove(connection: Connection, ns: int, ranges: Sequence[Range]) -> None:
    """Remove the vectors of all texts from one address to another of the same kind and number."""
    if ranges:
        for table in _KEPT:
            await connection.execute(_REMOVE.replace("{table}", table), ns, *_columns(ranges))


def _floats(vector: bytes) -> list[float]:
    return array("f", vector).tolist()


def _bits(vector: bytes) -> asyncpg.BitString:
    return asyncpg.BitString.frombytes(sign_bits(vector))


def _columns(ranges: Sequence[Range]) -> list[list[int]]:
    rows = [(TEXT_CODES[kind], number, first, last.position) for (kind, number, first), last in ranges]
    return columns_of(rows, 4)
