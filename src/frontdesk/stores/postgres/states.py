"""States. The time is the server's."""

from __future__ import annotations

from frontdesk.store import StateKey, StateRow, Swept
from frontdesk.stores.postgres.engine import Connection

_ROW = "s.value, s.mark, s.version, s.ttl, s.created_at, s.accessed_at"
_NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_LIVE = f"(s.ttl IS NULL OR {_NOW} < s.accessed_at + s.ttl)"
_OF = "n.name = $1 AND s.ns = n.number AND s.id = $2 AND s.name = $3"


class States:
    """Each call is one statement, through a connection, in one schema; those that write can be done again."""

    def __init__(self, schema: str) -> None:
        states, namespaces = f"{schema}.states", f"{schema}.namespaces"
        slide = f"UPDATE {states} s SET accessed_at = {_NOW} FROM {namespaces} n WHERE {_OF} AND {_LIVE}"
        self._peek = f"SELECT {_ROW} FROM {states} s, {namespaces} n WHERE {_OF} AND {_LIVE}"
        self._slide = f"{slide} RETURNING {_ROW}"
        self._touch = slide
        self._create = (
            f"INSERT INTO {states} AS s (ns, id, name, value, ttl, mark, version, created_at, accessed_at, due)"
            f" SELECT {schema}.namespace($1), $2, $3, $4, $5::bigint, $6, 1, t.now, t.now, t.now + $5"
            f" FROM (SELECT {_NOW} AS now OFFSET 0) t"
            " ON CONFLICT (ns, id, name) DO UPDATE SET value = excluded.value, ttl = excluded.ttl,"
            " mark = excluded.mark, version = 1, created_at = excluded.created_at, accessed_at = excluded.accessed_at,"
            f" due = excluded.due WHERE NOT {_LIVE} OR s.mark = excluded.mark RETURNING {_ROW}"
        )
        self._replace = (
            f"UPDATE {states} s SET value = $4, mark = $5, version = s.version + (s.mark <> $5)::int,"
            f" accessed_at = {_NOW} FROM {namespaces} n WHERE {_OF} AND s.mark IN ($5, $6) AND {_LIVE} RETURNING {_ROW}"
        )
        self._delete = f"DELETE FROM {states} s USING {namespaces} n WHERE {_OF} RETURNING {_LIVE}"
        self._delete_all = (
            f"DELETE FROM {states} s USING {namespaces} n WHERE n.name = $1 AND s.ns = n.number AND s.id = $2"
            f" RETURNING {_LIVE}"
        )
        same = "s.ns = d.ns AND s.id = d.id AND s.name = d.name"
        self._sweep = (
            f"WITH t AS MATERIALIZED (SELECT {_NOW} AS now), d AS MATERIALIZED (SELECT ns, id, name FROM {states}"
            " WHERE due <= (SELECT now FROM t) ORDER BY due LIMIT $1 FOR UPDATE SKIP LOCKED),"
            f" gone AS (DELETE FROM {states} s USING d, t WHERE {same} AND s.accessed_at + s.ttl <= t.now RETURNING 1),"
            f" later AS (UPDATE {states} s SET due = s.accessed_at + s.ttl FROM d, t"
            f" WHERE {same} AND s.accessed_at + s.ttl > t.now)"
            " SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM d)"
        )

    async def peek(self, connection: Connection, key: StateKey) -> StateRow | None:
        return _row(await connection.fetchrow(self._peek, *key))

    async def slide(self, connection: Connection, key: StateKey) -> StateRow | None:
        return _row(await connection.fetchrow(self._slide, *key))

    async def touch(self, connection: Connection, key: StateKey) -> bool:
        return str(await connection.execute(self._touch, *key)) == "UPDATE 1"

    async def create(
        self, connection: Connection, key: StateKey, value: str, ttl: int | None, mark: str
    ) -> StateRow | None:
        return _row(await connection.fetchrow(self._create, *key, value, ttl, mark))

    async def replace(self, connection: Connection, key: StateKey, value: str, mark: str, seen: str) -> StateRow | None:
        return _row(await connection.fetchrow(self._replace, *key, value, mark, seen))

    async def delete(self, connection: Connection, key: StateKey) -> bool:
        return bool(await connection.fetchval(self._delete, *key))

    async def delete_all(self, connection: Connection, namespace: str, id: str) -> int:
        return sum(was_live for (was_live,) in await connection.fetch(self._delete_all, namespace, id))

    async def sweep(self, connection: Connection, limit: int) -> Swept:
        removed, looks = await connection.fetchrow(self._sweep, limit)
        return Swept(removed, looks == limit)


def _row(row: tuple[object, ...] | None) -> StateRow | None:
    return None if row is None else StateRow(*row)  # type: ignore[arg-type]
