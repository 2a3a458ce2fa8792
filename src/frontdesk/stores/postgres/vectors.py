"""Vectors of texts, compared by pgvector."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import asyncpg
import msgspec

from frontdesk.errors import ConfigurationError
from frontdesk.store import TEXT_KINDS, Address, IndexState, Near, NewVector, Plan, Range, VectorRow
from frontdesk.store.vectors import check_dimensions
from frontdesk.stores.postgres.engine import Connection
from frontdesk.stores.postgres.rows import columns_of
from frontdesk.tree.texts import removed_texts

_EXTENSION = (
    "SELECT quote_ident(n.nspname) FROM pg_catalog.pg_extension e"
    " JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'"
)
_decode_state = msgspec.json.Decoder(IndexState).decode
_TABLES = ("messages", "edits", "overlays", "sessions")


class Vectors:
    """Each call through a connection, in one schema; `put`, `mark` and `drop` want a transaction."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._extension: str | None = None
        self._ns = f"(SELECT number FROM {schema}.namespaces WHERE name = $1)"

    async def prepare(self, connection: Connection, namespace: str, dimensions: int) -> None:
        """Have the extension, and raise if the dimensions do not go with those there are."""
        await self._find_extension(connection)
        present = await connection.fetchval(
            f"SELECT dimensions FROM {self._schema}.vector_spaces WHERE ns = {self._ns}", namespace
        )
        check_dimensions(namespace, present, dimensions)

    async def _find_extension(self, connection: Connection) -> str:
        """The schema that the extension is in; it is created if it can be. Raises `ConfigurationError`."""
        if self._extension is None:
            self._extension = await connection.fetchval(_EXTENSION)
        if self._extension is None:
            try:
                await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            except (asyncpg.UniqueViolationError, asyncpg.DuplicateObjectError):
                pass  # another worker was creating it at the same moment
            except asyncpg.PostgresError as error:
                raise ConfigurationError(
                    "vectors in PostgreSQL need the extension `vector` (pgvector), which is not there and cannot be"
                    f" created ({error.sqlstate}): install it on the server, or have its owner create it"
                ) from None
            self._extension = await connection.fetchval(_EXTENSION)
        assert self._extension is not None
        return self._extension

    async def put(self, connection: Connection, namespace: str, dimensions: int, given: Sequence[NewVector]) -> int:
        ns, _ = await self._made_space(connection, namespace, dimensions)
        kept = 0
        for kind in range(len(TEXT_KINDS)):
            rows = {new.address: new for new in given if new.address.kind == TEXT_KINDS[kind]}
            there = await self._there(connection, ns, kind, list(rows.values()))
            kept += len(there)
            await connection.executemany(
                f"INSERT INTO {self._schema}.vectors (ns, kind, number, position, vector) VALUES ($1, $2, $3, $4, $5)"
                " ON CONFLICT (ns, kind, number, position) DO UPDATE SET vector = excluded.vector",
                [(ns, kind, *key, _numbers(rows[Address(TEXT_KINDS[kind], *key)].vector)) for key in there],
            )
        return kept

    async def _made_space(
        self, connection: Connection, namespace: str, dimensions: int
    ) -> tuple[int, IndexState | None]:
        """The number of a namespace, and how far its vectors are; locked."""
        ns = await connection.fetchval(f"SELECT {self._schema}.namespace($1)", namespace)
        present, state = await connection.fetchrow(
            f"INSERT INTO {self._schema}.vector_spaces AS s (ns, dimensions) VALUES ($1, $2)"
            " ON CONFLICT (ns) DO UPDATE SET dimensions = s.dimensions RETURNING dimensions, state",
            ns,
            dimensions,
        )
        check_dimensions(namespace, present, dimensions)
        return ns, None if state is None else _decode_state(state)

    async def state(self, connection: Connection, namespace: str) -> VectorRow | None:
        row = await connection.fetchrow(
            f"SELECT dimensions, state FROM {self._schema}.vector_spaces WHERE ns = {self._ns}", namespace
        )
        return None if row is None else VectorRow(row[0], None if row[1] is None else _decode_state(row[1]))

    async def mark(
        self,
        connection: Connection,
        namespace: str,
        dimensions: int,
        replaces: IndexState | None,
        reached: IndexState,
    ) -> bool:
        ns, present = await self._made_space(connection, namespace, dimensions)
        if present != replaces:
            return False
        text = msgspec.json.encode(reached).decode()
        await connection.execute(f"UPDATE {self._schema}.vector_spaces SET state = $2 WHERE ns = $1", ns, text)
        return True

    async def without(self, connection: Connection, namespace: str, addresses: Sequence[Address]) -> list[Address]:
        rows = await connection.fetch(
            f"SELECT v.kind, v.number, v.position FROM unnest($2::smallint[], $3::bigint[], $4::integer[])"
            f" a(kind, number, position) JOIN {self._schema}.vectors v ON v.ns = {self._ns} AND v.kind = a.kind"
            " AND v.number = a.number AND v.position = a.position",
            namespace,
            *columns_of([_bounds(address, address)[:3] for address in addresses], 3),
        )
        there = {Address(TEXT_KINDS[kind], number, position) for kind, number, position in rows}
        return [address for address in addresses if address not in there]

    async def count(self, connection: Connection, namespace: str) -> int:
        number: int = await connection.fetchval(
            f"SELECT count(*) FROM {self._schema}.vectors WHERE ns = {self._ns}", namespace
        )
        return number

    async def _there(
        self, connection: Connection, ns: int, kind: int, rows: Sequence[NewVector]
    ) -> list[tuple[int, int]]:
        """(number, position) of those that are still there, locked so that they stay until the end."""
        if not rows:
            return []
        at = "t.segment = n.number AND t.position = n.position AND t.raw = coalesce(n.content, t.raw)"
        found = await connection.fetch(
            f"SELECT n.number, n.position FROM unnest($2::bigint[], $3::integer[], $4::text[]) n(number, position,"
            f" content) JOIN {self._schema}.{_TABLES[kind]} t ON t.ns = $1 AND"
            f" {at if kind == 0 else 't.number = n.number'} ORDER BY n.number, n.position FOR SHARE OF t",
            ns,
            *columns_of([(new.address.number, new.address.position, new.content) for new in rows], 3),
        )
        return [tuple(row) for row in found]

    async def nearest(
        self, connection: Connection, namespace: str, vector: bytes, limit: int, ranges: Sequence[Range] | None
    ) -> list[Near]:
        extension = await self._find_extension(connection)
        among = (
            ""
            if ranges is None
            else f" JOIN (SELECT DISTINCT v.kind, v.number, v.position FROM {self._schema}.vectors v JOIN"
            " unnest($4::smallint[], $5::bigint[], $6::integer[], $7::integer[]) r(kind, number, first, last) ON"
            f" v.ns = {self._ns} AND v.kind = r.kind AND v.number = r.number AND v.position BETWEEN r.first AND r.last)"
            " wanted USING (kind, number, position)"
        )
        rows = await connection.fetch(
            f"SELECT kind, number, position, v.vector::{extension}.vector OPERATOR({extension}.<=>)"
            f" $2::real[]::{extension}.vector AS distance FROM {self._schema}.vectors v{among}"
            f" WHERE v.ns = {self._ns} ORDER BY distance, kind, number, position LIMIT $3",
            namespace,
            _numbers(vector),
            limit,
            *(() if ranges is None else columns_of([_bounds(*one) for one in ranges], 4)),
        )
        return [Near(Address(TEXT_KINDS[kind], number, position), 1.0 - far) for kind, number, position, far in rows]

    async def drop(self, connection: Connection, namespace: str) -> None:
        for table in ("vectors", "vector_spaces"):
            await connection.execute(f"DELETE FROM {self._schema}.{table} WHERE ns = {self._ns}", namespace)

    async def forget(self, connection: Connection, ns: int, plan: Plan) -> None:
        """Remove the vectors of what a plan removes or changes."""
        ranges = [_bounds(*one) for one in removed_texts(plan)]
        if ranges:
            await connection.execute(
                f"DELETE FROM {self._schema}.vectors v USING unnest($2::smallint[], $3::bigint[], $4::integer[],"
                " $5::integer[]) r(kind, number, first, last) WHERE v.ns = $1 AND v.kind = r.kind"
                " AND v.number = r.number AND v.position BETWEEN r.first AND r.last",
                ns,
                *columns_of(ranges, 4),
            )


def _numbers(vector: bytes) -> list[float]:
    return array("f", vector).tolist()


def _bounds(first: Address, last: Address) -> tuple[int, int, int, int]:
    return TEXT_KINDS.index(first.kind), first.number, first.position, last.position
