"""Leases. The time is the server's."""

from __future__ import annotations

from frontdesk.errors import SessionNotFoundError
from frontdesk.store import HeldLease, LeaseRow
from frontdesk.stores.postgres.documents import owner
from frontdesk.stores.postgres.engine import Connection

_AFTER = "clock_timestamp() + $%d::bigint * interval '1 microsecond'"
_LEASE = "l.name, l.number, l.holder, (extract(epoch FROM l.expires_at) * 1000000)::bigint"


class Leases:
    """Each call is one statement, through a connection, in one schema."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._owner = owner(schema)

    async def get(self, connection: Connection, namespace: str, session_id: str | None, name: str) -> LeaseRow | None:
        row = await connection.fetchrow(
            f"SELECT {_LEASE} FROM {self._schema}.leases l, ({self._owner}) o WHERE l.ns = o.ns"
            " AND l.session = o.session AND l.name = $3 AND l.expires_at > clock_timestamp()",
            namespace,
            session_id,
            name,
        )
        return None if row is None else LeaseRow(*row)

    async def held(self, connection: Connection, namespace: str, name: str | None) -> list[HeldLease]:
        rows = await connection.fetch(
            f"SELECT s.id, {_LEASE} FROM {self._schema}.leases l LEFT JOIN {self._schema}.sessions s"
            f" ON s.ns = l.ns AND s.number = l.session WHERE l.ns = (SELECT number FROM {self._schema}.namespaces"
            " WHERE name = $1) AND l.expires_at > now() AND ($2::text IS NULL OR l.name = $2)",
            namespace,
            name,
        )
        return [HeldLease(row[0], LeaseRow(*row[1:])) for row in rows]

    async def acquire(
        self, connection: Connection, namespace: str, session_id: str | None, name: str, holder: str, ttl: int
    ) -> LeaseRow | None:
        if session_id is None:
            await connection.execute(f"SELECT {self._schema}.namespace($1)", namespace)
        found, *row = await connection.fetchrow(
            f"WITH o AS ({self._owner}), l AS (INSERT INTO {self._schema}.leases AS l"
            f" SELECT o.ns, o.session, $3, 1, $4, {_AFTER % 5} FROM o"
            " ON CONFLICT (ns, session, name) DO UPDATE SET number = l.number + 1, holder = excluded.holder,"
            f" expires_at = {_AFTER % 5} WHERE l.expires_at <= clock_timestamp() RETURNING l.*)"
            f" SELECT (SELECT count(*) FROM o), {_LEASE} FROM (SELECT 1) x LEFT JOIN l ON true",
            namespace,
            session_id,
            name,
            holder,
            ttl,
        )
        if not found:
            raise SessionNotFoundError(session_id or "", namespace)
        return None if row[0] is None else LeaseRow(*row)

    async def end_at(
        self, connection: Connection, namespace: str, session_id: str | None, name: str, number: int, ttl: int
    ) -> bool:
        """Let a lease that is held under this number expire after `ttl`; False if it is not."""
        done = await connection.execute(
            f"UPDATE {self._schema}.leases l SET expires_at = {_AFTER % 5} FROM ({self._owner}) o WHERE l.ns = o.ns"
            " AND l.session = o.session AND l.name = $3 AND l.number = $4 AND l.expires_at > clock_timestamp()",
            namespace,
            session_id,
            name,
            number,
            ttl,
        )
        return str(done) == "UPDATE 1"
