"""Leases, the queues for them, and the messages that are queued for their holders. Times are those of the server's
clock.

`tree.leases` decides. A call first reads its facts without a lock. Most calls of waiting callers change nothing. A
lease that is free and has no queue changes only in its own row, which is replaced if it is still the one that was read.
For everything else, the facts are read again under a lock of the lease's row, in a short transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import astuple

from frontdesk.errors import SessionNotFoundError
from frontdesk.messages.stored import StoredMessage
from frontdesk.store import TURN, HeldLease, LeaseAnswer, LeaseRow, LeaseWanted
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.rows import HERE, MESSAGE_COLUMNS, NOW, OWNER, json_rows, namespace_of
from frontdesk.tree import leases as rules
from frontdesk.tree.leases import QueueWrites, Waiter

_LEASE = "l.name, l.number, l.holder, l.expires_at, l.taken_at, l.intake"
_OF = "ns = $1 AND session = $2 AND name = $3"
_HELD = (
    f"SELECT s.id, {_LEASE} FROM {{schema}}.leases l LEFT JOIN {{schema}}.sessions s"
    f" ON s.ns = l.ns AND s.number = l.session WHERE l.ns = {HERE} AND l.expires_at > {NOW}"
    " AND l.holder <> '' AND ($2::text IS NULL OR l.name = $2)"
)
_READ = (
    f"SELECT o.ns, o.session, {NOW}, (SELECT json_agg(json_build_array(w.holder, w.ticket, w.expires_at)"
    " ORDER BY w.ticket) FROM {schema}.lease_waiters w WHERE w.ns = o.ns AND w.session = o.session AND w.name = $3),"
    " coalesce((SELECT s.key_current FROM {schema}.sessions s WHERE s.ns = o.ns AND s.number = o.session), false),"
    f" {_LEASE} FROM ({OWNER}) o LEFT JOIN {{schema}}.leases l"
    " ON l.ns = o.ns AND l.session = o.session AND l.name = $3"
)
_LOCK = (
    f"SELECT FROM ({OWNER}) o JOIN {{schema}}.leases l ON l.ns = o.ns AND l.session = o.session AND l.name = $3"
    " FOR UPDATE OF l"
)
# A lease of a session is made only while that exists, and keeps it from being deleted until the transaction has ended.
# One that is wanted by key is made only while the session is current ($9).
_INSERT = (
    "INSERT INTO {schema}.leases (ns, session, name, number, holder, expires_at, taken_at, intake)"
    " SELECT $1::integer, $2::bigint, $3::text, $4, $5, $6, $7, $8 WHERE $2 = 0"
    " OR EXISTS (SELECT FROM {schema}.sessions s WHERE s.ns = $1 AND s.number = $2"
    " AND (s.key_current OR NOT $9::boolean) FOR KEY SHARE)"
    " ON CONFLICT DO NOTHING"
)
_UPDATE = (
    "UPDATE {schema}.leases SET number = $4, holder = $5, expires_at = $6, taken_at = $7, intake = $8"
    f" WHERE {_OF} AND number = $9 AND expires_at = $10"
)
_END_AT = (
    f"UPDATE {{schema}}.leases l SET expires_at = {NOW} + $5 FROM ({OWNER}) o WHERE l.ns = o.ns"
    f" AND l.session = o.session AND l.name = $3 AND l.number = $4 AND l.expires_at > {NOW}"
)
_LEAVE = (
    f"WITH o AS ({OWNER}), w AS (DELETE FROM {{schema}}.lease_waiters w USING o WHERE w.ns = o.ns"
    " AND w.session = o.session AND w.name = $3 AND w.holder = $4)"
    f" UPDATE {{schema}}.leases l SET expires_at = {NOW} FROM o WHERE l.ns = o.ns"
    f" AND l.session = o.session AND l.name = $3 AND l.holder = $4 AND l.expires_at > {NOW}"
)
_WAIT = (
    "INSERT INTO {schema}.lease_waiters (ns, session, name, holder, ticket, expires_at)"
    " VALUES ($1, $2, $3, $4, $5, $6)"
    " ON CONFLICT (ns, session, name, ticket) DO UPDATE SET expires_at = excluded.expires_at"
)
_QUEUE_MESSAGE = (
    f"INSERT INTO {{schema}}.queued_messages (ns, session, name, ticket, {', '.join(MESSAGE_COLUMNS)})"
    " SELECT $1::integer, $2::bigint, $3::text, {schema}.new_number($1), $4::text, $5, $6, $7, $8, $9"
    f" WHERE NOT EXISTS (SELECT FROM {{schema}}.queued_messages WHERE {_OF} AND id = $4)"
)
_FIRST_MESSAGE = (
    f"SELECT {', '.join(MESSAGE_COLUMNS)} FROM {{schema}}.queued_messages WHERE {_OF} ORDER BY ticket LIMIT 1"
)


class _Read(NamedTuple):
    """A lease and its queue as they were at a moment. `last` is its row, also that of one that has ended."""

    ns: int
    session: int
    now: int
    waiters: list[Waiter]
    is_current: bool
    last: LeaseRow | None


async def _read(connection: Connection, namespace: str, session_id: str | None, name: str) -> _Read | None:
    """None if the session, or the namespace, does not exist."""
    row = await connection.fetch_row(_READ, namespace, session_id, name)
    if row is None:
        return None
    ns, session, now, waiters, is_current, *lease = row
    last = None if lease[0] is None else LeaseRow(*lease)
    return _Read(ns, session, now, [Waiter(*waiter) for waiter in json_rows(waiters)], is_current, last)


async def _put(connection: Connection, read: _Read, lease: LeaseRow, *, by_key: bool = False) -> bool:
    """Store the new row of a lease; False if the one that was read has been replaced."""
    values = (read.ns, read.session, *astuple(lease))
    if read.last is None:
        return await connection.execute(_INSERT, *values, by_key) == 1
    return await connection.execute(_UPDATE, *values, read.last.number, read.last.expires_at) == 1


async def get(connection: Connection, namespace: str, session_id: str | None, name: str) -> LeaseRow | None:
    read = await _read(connection, namespace, session_id, name)
    return None if read is None else rules.held(read.last, read.now)


async def held(connection: Connection, namespace: str, name: str | None = None) -> list[HeldLease]:
    rows = await connection.fetch(_HELD, namespace, name)
    return [HeldLease(row[0], LeaseRow(*row[1:])) for row in rows]


async def acquire(
    connection: Connection, namespace: str, session_id: str | None, name: str, holder: str, ttl: int
) -> LeaseRow | None:
    while True:
        read = await _read(connection, namespace, session_id, name)
        if read is None:
            if session_id is not None:
                raise SessionNotFoundError(session_id, namespace)
            await connection.execute("SELECT {schema}.namespace($1)", namespace)
            continue
        lease = rules.acquire(read.last, name, holder, ttl, read.now)
        if lease is None or await _put(connection, read, lease):
            return lease


async def renew(
    connection: Connection, namespace: str, session_id: str | None, name: str, number: int, ttl: int
) -> bool:
    return await connection.execute(_END_AT, namespace, session_id, name, number, ttl) == 1


async def leave(connection: Connection, namespace: str, session_id: str, name: str, holder: str) -> None:
    await connection.execute(_LEAVE, namespace, session_id, name, holder)


# the queue


async def queue(connection: Connection, wanted: LeaseWanted) -> LeaseAnswer:
    read, writes = await _decide(connection, wanted)
    # A lease that is free and has no queue: any other that takes it, or is to wait for it, has replaced its row.
    if not (writes.leave or writes.place or writes.queues_message) and (
        writes.lease is None or await _put(connection, read, writes.lease, by_key=wanted.by_key)
    ):
        return writes.answer
    async with connection.transaction():
        while True:
            await connection.execute(_LOCK, wanted.namespace, wanted.session_id, wanted.name)
            read, writes = await _decide(connection, wanted)
            if writes.lease is None or await _put(connection, read, writes.lease, by_key=wanted.by_key):
                break  # otherwise the row was not there to be locked, and another transaction has made it
        await _write(connection, read, wanted, writes)
    return writes.answer


async def _decide(connection: Connection, wanted: LeaseWanted) -> tuple[_Read, QueueWrites]:
    read = await _read(connection, wanted.namespace, wanted.session_id, wanted.name)
    if read is None:
        raise SessionNotFoundError(wanted.session_id, wanted.namespace)
    return read, rules.queue(read.last, read.waiters, wanted, read.now, is_current=read.is_current)


async def _write(connection: Connection, read: _Read, wanted: LeaseWanted, writes: QueueWrites) -> None:
    """The queue's rows, under the lock of the lease's."""
    of = (read.ns, read.session, wanted.name)
    if writes.leave:
        leave = f"DELETE FROM {{schema}}.lease_waiters WHERE {_OF} AND holder = ANY($4::text[])"
        await connection.execute(leave, *of, writes.leave)
    if writes.place is not None:
        await connection.execute(_WAIT, *of, *astuple(writes.place))
    if writes.queues_message and wanted.message is not None:
        await connection.execute(_QUEUE_MESSAGE, *of, *astuple(wanted.message))


async def next_queued(
    connection: Connection, namespace: str, session_id: str, name: str, number: int
) -> StoredMessage | None:
    async with connection.transaction():
        await connection.execute(_LOCK, namespace, session_id, name)
        read = await _read(connection, namespace, session_id, name)
        row = None if read is None else await connection.fetch_row(_FIRST_MESSAGE, read.ns, read.session, name)
        last, now = (None, 0) if read is None else (read.last, read.now)
        closed = rules.close_intake(last, session_id, number, now, is_empty=row is None)
        if read is not None and closed is not None:
            await _put(connection, read, closed)
    return None if row is None else StoredMessage(*row)


# appends and plans


async def hand_over(connection: Connection, ns: int, source: int, to: int) -> None:
    """Give the turn of a session, and what is queued for its holder, to another one. The lease comes first: a message
    is queued under a lock of its row, so that none can be queued for the old session afterwards."""
    for table in ("leases", "queued_messages"):
        await connection.execute(f"UPDATE {{schema}}.{table} SET session = $4 WHERE {_OF}", ns, source, TURN, to)


async def turn_of(connection: Connection, session: int) -> int | None:
    """The number under which a session's turn is held now. A takeover then waits until this transaction has ended."""
    number: int | None = await connection.fetch_value(
        f"SELECT number FROM {{schema}}.leases WHERE {_OF} AND expires_at > {NOW} FOR SHARE",
        namespace_of(session),
        session,
        TURN,
    )
    return number


async def dequeue(connection: Connection, session: int, message_ids: Sequence[str]) -> None:
    """Take messages out of the queue for a session's turn."""
    statement = f"DELETE FROM {{schema}}.queued_messages WHERE {_OF} AND id = ANY($4::text[])"
    await connection.execute(statement, namespace_of(session), session, TURN, message_ids)
