"""Leases, the lines before them, and what is queued for their holders. The time is the server's."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import astuple

from frontdesk.errors import SessionNotFoundError, TurnLostError
from frontdesk.messages.stored import StoredMessage
from frontdesk.store import HeldLease, LeaseAnswer, LeaseRow, LeaseWanted
from frontdesk.stores.postgres.documents import owner
from frontdesk.stores.postgres.engine import Connection

_AFTER = "clock_timestamp() + $%d::bigint * interval '1 microsecond'"
_FIRST = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"


def _lease_of(row: str) -> str:
    times = ", ".join(f"(extract(epoch FROM {row}.{name}) * 1000000)::bigint" for name in ("expires_at", "taken_at"))
    return f"{row}.name, {row}.number, {row}.holder, {times}, {row}.intake"


_LEASE = _lease_of("l")


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
            f" SELECT o.ns, o.session, $3, {_FIRST}, $4, {_AFTER % 5} FROM o"
            " ON CONFLICT (ns, session, name) DO UPDATE SET number = l.number + 1, holder = excluded.holder,"
            f" expires_at = {_AFTER % 5}, taken_at = clock_timestamp(), intake = true"
            " WHERE l.expires_at <= clock_timestamp() RETURNING l.*)"
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

    async def queue(self, connection: Connection, wanted: LeaseWanted) -> LeaseAnswer:
        known, ticket, ahead, queued, *lease = await connection.fetchrow(
            f"SELECT q.known, q.ticket, q.ahead, q.queued, {_lease_of('(q.lease)')} FROM {self._schema}.queue_lease("
            "$1, $2, $3, $4, $5::interval, $6::interval, $7, $8, $9, $10, $11, $12, $13) q",
            wanted.namespace,
            wanted.session_id,
            wanted.name,
            wanted.holder,
            timedelta(microseconds=wanted.ttl),
            timedelta(microseconds=wanted.patience),
            wanted.force,
            *((None,) * 6 if wanted.message is None else astuple(wanted.message)),
        )
        if not known:
            raise SessionNotFoundError(wanted.session_id, wanted.namespace)
        return LeaseAnswer(None if lease[0] is None else LeaseRow(*lease), ticket or 0, ahead, queued)

    async def leave(self, connection: Connection, namespace: str, session_id: str, name: str, holder: str) -> None:
        await connection.execute(
            f"WITH o AS ({self._owner}), w AS (DELETE FROM {self._schema}.lease_waiters w USING o WHERE w.ns = o.ns"
            " AND w.session = o.session AND w.name = $3 AND w.holder = $4)"
            f" UPDATE {self._schema}.leases l SET expires_at = clock_timestamp() FROM o WHERE l.ns = o.ns"
            " AND l.session = o.session AND l.name = $3 AND l.holder = $4 AND l.expires_at > clock_timestamp()",
            namespace,
            session_id,
            name,
            holder,
        )

    async def next_queued(
        self, connection: Connection, namespace: str, session_id: str, name: str, number: int
    ) -> StoredMessage | None:
        columns = ", ".join(f"(q.message).{column}" for column in StoredMessage.__struct_fields__)
        held, *message = await connection.fetchrow(
            f"SELECT q.held, {columns} FROM {self._schema}.next_queued($1, $2, $3, $4) q",
            namespace,
            session_id,
            name,
            number,
        )
        if not held:
            raise TurnLostError(session_id, number)
        return None if message[0] is None else StoredMessage(*message)
