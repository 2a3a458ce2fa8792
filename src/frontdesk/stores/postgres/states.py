"""States. Times are those of the server's clock. Each call is one statement, and writes can be repeated safely."""

from __future__ import annotations

from typing import Any

from frontdesk.store import (
    ListedState,
    OwnerFilter,
    StateKey,
    StateOwner,
    StateQuery,
    StateRow,
    StateWrite,
    Swept,
)
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.rows import HERE, NOW

_FACTS = "s.mark, s.version, s.ttl, s.created_at, s.accessed_at, s.type_version, s.agent, s.channel, s.peer, s.thread"
_ROW = f"s.value, {_FACTS}"
_LIVE = f"(s.ttl IS NULL OR {NOW} < s.accessed_at + s.ttl)"
_NS = f"s.ns = {HERE}"
_OF = f"{_NS} AND s.id = $2 AND s.name = $3"
_PEEK = f"SELECT {_ROW} FROM {{schema}}.states s WHERE {_OF} AND {_LIVE}"
_TOUCH = f"UPDATE {{schema}}.states s SET accessed_at = {NOW} WHERE {_OF} AND {_LIVE}"
_GET = f"{_TOUCH} RETURNING {_ROW}"
_CREATE = (
    "INSERT INTO {schema}.states AS s (ns, id, name, value, mark, ttl, type_version, agent, channel, peer, thread,"
    " version, created_at, accessed_at, due)"
    " SELECT {schema}.namespace($1), $2, $3, $4, $5, $6::bigint, $7, $8, $9, $10, $11, 1, t.now, t.now, t.now + $6"
    f" FROM (SELECT {NOW} AS now OFFSET 0) t"
    " ON CONFLICT (ns, name, id) DO UPDATE SET value = excluded.value, mark = excluded.mark, ttl = excluded.ttl,"
    " type_version = excluded.type_version, agent = excluded.agent, channel = excluded.channel, peer = excluded.peer,"
    " thread = excluded.thread, version = 1, created_at = excluded.created_at, accessed_at = excluded.accessed_at,"
    f" due = excluded.due WHERE NOT {_LIVE} OR s.mark = excluded.mark RETURNING {_ROW}"
)
_REPLACE = (
    "UPDATE {schema}.states s SET value = $4, mark = $5, ttl = $6, type_version = $7, agent = $8, channel = $9,"
    f" peer = $10, thread = $11, version = s.version + (s.mark <> $5)::int, accessed_at = {NOW},"
    f" due = CASE WHEN s.ttl IS NOT DISTINCT FROM $6 THEN s.due ELSE {NOW} + $6 END"
    f" WHERE {_OF} AND s.mark IN ($5, $12) AND {_LIVE} RETURNING {_ROW}"
)
_PAGE = (
    f"SELECT s.id, '', {_FACTS} FROM {{schema}}.states s WHERE {_NS} AND s.name = $2 AND s.id >= $3 AND s.id > $4"
    f" AND {_LIVE}"
)
_COUNT = f"SELECT count(*) FROM {{schema}}.states s WHERE {_NS} AND s.name = $2 AND {_LIVE}"
_DELETE = f"DELETE FROM {{schema}}.states s WHERE {_OF} RETURNING {_LIVE}"
_DELETE_ALL = f"DELETE FROM {{schema}}.states s WHERE {_NS} AND s.id = $2 AND s.id <> '' RETURNING {_LIVE}"
_SAME = "s.ns = d.ns AND s.id = d.id AND s.name = d.name"
# Rows are locked in one order, so that two removals do not wait for each other.
_DELETE_SOME = (
    "WITH d AS MATERIALIZED (SELECT s.ns, s.name, s.id FROM {schema}.states s WHERE %s ORDER BY s.ns, s.name, s.id"
    f" LIMIT $2 FOR UPDATE) DELETE FROM {{schema}}.states s USING d WHERE {_SAME} RETURNING {_LIVE}"
)
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
    return _found(await connection.fetch_row(_GET, *key))


async def peek(connection: Connection, key: StateKey) -> StateRow | None:
    return _found(await connection.fetch_row(_PEEK, *key))


async def touch(connection: Connection, key: StateKey) -> bool:
    return await connection.execute(_TOUCH, *key) == 1


async def create(connection: Connection, key: StateKey, write: StateWrite) -> StateRow | None:
    return _found(await connection.fetch_row(_CREATE, *key, *_values(write)))


async def replace(connection: Connection, key: StateKey, write: StateWrite, seen: str) -> StateRow | None:
    return _found(await connection.fetch_row(_REPLACE, *key, *_values(write), seen))


async def page(connection: Connection, query: StateQuery) -> list[ListedState]:
    bounds: list[object] = [query.namespace, query.name, query.first, query.after, query.limit]
    statement = f"{_PAGE} ORDER BY s.id LIMIT $5"
    if query.end is not None:
        bounds.append(query.end)
        statement = f"{_PAGE} AND s.id < $6 ORDER BY s.id LIMIT $5"
    return [ListedState(id, _state(row)) for id, *row in await connection.fetch(statement, *bounds)]


async def count(connection: Connection, namespace: str, name: str) -> int:
    return int(await connection.fetch_value(_COUNT, namespace, name))


async def delete(connection: Connection, key: StateKey) -> bool:
    return bool(await connection.fetch_value(_DELETE, *key))


async def delete_all(connection: Connection, namespace: str, id: str) -> int:
    return sum(was_live for (was_live,) in await connection.fetch(_DELETE_ALL, namespace, id))


async def clear(connection: Connection, namespace: str, name: str, limit: int) -> Swept:
    return await _delete_some(connection, f"{_NS} AND s.name = $3", namespace, limit, name)


async def delete_owned(connection: Connection, namespace: str, owners: OwnerFilter, limit: int) -> Swept:
    given = {part: wanted for part, wanted in owners._asdict().items() if wanted is not None}
    wanted = "".join(f" AND s.{part} = ${number}" for number, part in enumerate(given, 3))
    return await _delete_some(connection, f"{_NS} AND s.peer IS NOT NULL{wanted}", namespace, limit, *given.values())


async def sweep(connection: Connection, limit: int) -> Swept:
    removed, checked = await connection.fetch_one(_SWEEP, limit)
    return Swept(removed, checked == limit)


async def add_store(connection: Connection, namespace: str, url: str) -> None:
    statement = "INSERT INTO {schema}.state_stores SELECT {schema}.namespace($1), $2 ON CONFLICT DO NOTHING"
    await connection.execute(statement, namespace, url)


async def stores(connection: Connection, namespace: str) -> list[str]:
    statement = f"SELECT url FROM {{schema}}.state_stores WHERE ns = {HERE} ORDER BY url"
    return [url for (url,) in await connection.fetch(statement, namespace)]


async def forget_store(connection: Connection, namespace: str, url: str) -> bool:
    statement = f"DELETE FROM {{schema}}.state_stores WHERE ns = {HERE} AND url = $2"
    return await connection.execute(statement, namespace, url) == 1


async def _delete_some(connection: Connection, condition: str, namespace: str, limit: int, *values: object) -> Swept:
    deleted = await connection.fetch(_DELETE_SOME % condition, namespace, limit, *values)
    return Swept(sum(was_live for (was_live,) in deleted), len(deleted) == limit)


def _values(write: StateWrite) -> tuple[object, ...]:
    owner = write.owner or (None, None, None, None)
    return write.value, write.mark, write.ttl, write.type_version, *owner


def _found(row: Any) -> StateRow | None:
    return None if row is None else _state(row)


def _state(row: Any) -> StateRow:
    *written, agent, channel, peer, thread = row
    owner = None if peer is None else StateOwner(agent, channel, peer, thread)
    return StateRow(*(*written, owner))
