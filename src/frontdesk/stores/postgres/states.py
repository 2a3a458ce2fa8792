"""States. Times are those of the server's clock. Each call is one statement, and writes can be repeated safely."""

from __future__ import annotations

from frontdesk.store import StateKey, StateRow, Swept
from frontdesk.stores.postgres.connection import Connection, Row
from frontdesk.stores.postgres.rows import NOW

_ROW = "s.value, s.mark, s.version, s.ttl, s.created_at, s.accessed_at"
_LIVE = f"(s.ttl IS NULL OR {NOW} < s.accessed_at + s.ttl)"
_OF = "n.name = $1 AND s.ns = n.number AND s.id = $2 AND s.name = $3"
_PEEK = f"SELECT {_ROW} FROM {{schema}}.states s, {{schema}}.namespaces n WHERE {_OF} AND {_LIVE}"
_TOUCH = f"UPDATE {{schema}}.states s SET accessed_at = {NOW} FROM {{schema}}.namespaces n WHERE {_OF} AND {_LIVE}"
_GET = f"{_TOUCH} RETURNING {_ROW}"
_CREATE = (
    "INSERT INTO {schema}.states AS s (ns, id, name, value, ttl, mark, version, created_at, accessed_at, due)"
    " SELECT {schema}.namespace($1), $2, $3, $4, $5::bigint, $6, 1, t.now, t.now, t.now + $5"
    f" FROM (SELECT {NOW} AS now OFFSET 0) t"
    " ON CONFLICT (ns, id, name) DO UPDATE SET value = excluded.value, ttl = excluded.ttl,"
    " mark = excluded.mark, version = 1, created_at = excluded.created_at, accessed_at = excluded.accessed_at,"
    f" due = excluded.due WHERE NOT {_LIVE} OR s.mark = excluded.mark RETURNING {_ROW}"
)
_REPLACE = (
    "UPDATE {schema}.states s SET value = $4, mark = $5, version = s.version + (s.mark <> $5)::int,"
    f" accessed_at = {NOW} FROM {{schema}}.namespaces n WHERE {_OF} AND s.mark IN ($5, $6) AND {_LIVE} RETURNING {_ROW}"
)
_DELETE = f"DELETE FROM {{schema}}.states s USING {{schema}}.namespaces n WHERE {_OF} RETURNING {_LIVE}"
_DELETE_ALL = (
    "DELETE FROM {schema}.states s USING {schema}.namespaces n WHERE n.name = $1 AND s.ns = n.number AND s.id = $2"
    f" RETURNING {_LIVE}"
)
_SAME = "s.ns = d.ns AND s.id = d.id AND s.name = d.name"
_SWEEP = (
    f"WITH t AS MATERIALIZED (SELECT {NOW} AS now), d AS MATERIALIZED (SELECT ns, id, name FROM {{schema}}.states"
    " WHERE due <= (SELECT now FROM t) ORDER BY due LIMIT $1 FOR UPDATE SKIP LOCKED),"
    f" gone AS (DELETE FROM {{schema}}.states s USING d, t WHERE {_SAME} AND s.accessed_at + s.ttl <= t.now"
    " RETURNING 1),"
    " later AS (UPDATE {schema}.states s SET due = s.accessed_at + s.ttl FROM d, t"
    f" WHERE {_SAME} AND s.accessed_at + s.ttl > t.now)"
    " SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM d)"
)


async def get(connection: Connection, key: StateKey) -> StateRow | None:
    return _state(await connection.fetch_row(_GET, *key))


async def peek(connection: Connection, key: StateKey) -> StateRow | None:
    return _state(await connection.fetch_row(_PEEK, *key))


async def touch(connection: Connection, key: StateKey) -> bool:
    return await connection.execute(_TOUCH, *key) == 1


async def create(connection: Connection, key: StateKey, value: str, ttl: int | None, mark: str) -> StateRow | None:
    return _state(await connection.fetch_row(_CREATE, *key, value, ttl, mark))


async def replace(connection: Connection, key: StateKey, value: str, mark: str, seen: str) -> StateRow | None:
    return _state(await connection.fetch_row(_REPLACE, *key, value, mark, seen))


async def delete(connection: Connection, key: StateKey) -> bool:
    return bool(await connection.fetch_value(_DELETE, *key))


async def delete_all(connection: Connection, namespace: str, id: str) -> int:
    return sum(was_live for (was_live,) in await connection.fetch(_DELETE_ALL, namespace, id))


async def sweep(connection: Connection, limit: int) -> Swept:
    removed, checked = await connection.fetch_one(_SWEEP, limit)
    return Swept(removed, checked == limit)


def _state(row: Row | None) -> StateRow | None:
    return None if row is None else StateRow(*row)
