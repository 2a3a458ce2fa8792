"""Leases, the queues for them, and the messages that are queued for their holders. Times are those of the store's
clock.

`tree.leases` decides. A call first reads its facts without a lock. Most calls of waiting callers change nothing. A
lease that is free and has no queue changes only in its own row, which is replaced if it is still the one that was read.
For everything else, the facts are read again under a lock of the lease's row, in a short transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec.structs import asdict

from frontdesk.errors import SessionNotFoundError
from frontdesk.messages.stored import StoredMessage
from frontdesk.store import TURN, HeldLease, LeaseAnswer, LeaseRow, LeaseWanted
from frontdesk.stores.sql.database import SHARED, Database, Row
from frontdesk.tree import leases as rules
from frontdesk.tree.leases import QueueWrites, Waiter

_NAMES = LeaseRow.__struct_fields__
_LEASE = ", ".join(f"l.{name}" for name in _NAMES)
_WIDTH = len(_NAMES)
_MESSAGE = ", ".join(StoredMessage.__struct_fields__)
_OF = "ns = :ns AND session = :session AND name = :name"
_IN_QUEUE = "{ns} session = :session AND name = :name"
_SESSION = "(SELECT s.number FROM {schema}.sessions s WHERE s.ns = {here} AND s.id = :session_id AND s.id <> '')"
_OF_SESSION = f"ns = {{here}} AND session = {_SESSION} AND name = :name"
_OF_SHARED = f"ns = {{here}} AND session = {SHARED} AND name = :name"
_HELD = (
    f"SELECT s.id, {_LEASE} FROM {{schema}}.leases l LEFT JOIN {{schema}}.sessions s ON {{same s l}}"
    " s.number = l.session WHERE l.ns = {here} AND l.expires_at > {now} AND l.holder <> ''"
)
LEASED = (
    "SELECT l.session FROM {schema}.leases l WHERE l.ns = {here} AND l.name = :leased"
    " AND l.expires_at > {now} AND l.holder <> ''"
)
"""the numbers of the sessions for which somebody holds the lease :leased"""
_READ = (
    f"SELECT s.ns, s.number, {{now}}, s.key_current, w.holder, w.ticket, w.expires_at, {_LEASE}"
    " FROM {schema}.sessions s"
    " LEFT JOIN {schema}.leases l ON l.ns = s.ns AND l.session = s.number AND l.name = :name"
    " LEFT JOIN {schema}.lease_waiters w ON {same w s} w.session = s.number AND w.name = :name"
    " WHERE s.ns = {here} AND s.id = :session_id AND s.id <> '' ORDER BY w.ticket"
)
_READ_SHARED = (
    f"SELECT o.ns, {SHARED}, {{now}}, false, NULL, NULL, NULL, {_LEASE} FROM (SELECT {{here}} AS ns) o"
    f" LEFT JOIN {{schema}}.leases l ON l.ns = o.ns AND l.session = {SHARED} AND l.name = :name WHERE o.ns IS NOT NULL"
)
_LOCK = f"SELECT number FROM {{schema}}.leases WHERE {_OF_SESSION} {{lock}}"
# A lease of a session is made only while that exists, and keeps it from being deleted until the transaction has ended.
_INSERT = (
    f"INSERT INTO {{schema}}.leases (ns, session, {', '.join(_NAMES)})"
    f" SELECT s.ns, s.number, {', '.join(f':{name}' for name in _NAMES)} FROM {{schema}}.sessions s"
    " WHERE {ns s} s.number = :session"
)
_INSERT_SHARED = (
    f"INSERT INTO {{schema}}.leases (ns, session, {', '.join(_NAMES)})"
    f" VALUES (:ns, {SHARED}, {', '.join(f':{name}' for name in _NAMES)}) {{keep}}"
)
_UPDATE = (
    "UPDATE {schema}.leases SET number = :number, holder = :holder, expires_at = :expires_at, taken_at = :taken_at,"
    f" intake = :intake WHERE {_OF} AND number = :last_number AND expires_at = :last_expires_at"
)
_END_AT = "UPDATE {schema}.leases SET expires_at = {now} + :ttl WHERE %s AND number = :number AND expires_at > {now}"
_LEAVE_QUEUE = (
    f"DELETE FROM {{schema}}.lease_waiters WHERE {{in_here}} session = {_SESSION} AND name = :name AND holder = :holder"
)
_RELEASE = (
    f"UPDATE {{schema}}.leases SET expires_at = {{now}} WHERE {_OF_SESSION}"
    " AND holder = :holder AND expires_at > {now}"
)
_WAIT = (
    "INSERT INTO {schema}.lease_waiters ({ns,} session, name, holder, ticket, expires_at)"
    " VALUES ({:ns,} :session, :name, :holder, :ticket, :expires_at) {replace {ns,} session, name, ticket: expires_at}"
)
_QUEUE_MESSAGE = (
    f"INSERT INTO {{schema}}.queued_messages ({{ns,}} session, name, ticket, {_MESSAGE})"
    " SELECT {:ns,} CAST(:session AS bigint), CAST(:name AS text), coalesce(max(ticket), 0) + 1,"
    f" CAST(:id AS text), {', '.join(f':{name}' for name in StoredMessage.__struct_fields__[1:])}"
    f" FROM {{schema}}.queued_messages WHERE {_IN_QUEUE} HAVING count(CASE WHEN id = :id THEN 1 END) = 0"
)
_QUEUED = f"{{schema}}.queued_messages WHERE {{in_here}} session = {_SESSION} AND name = :name"
_ALL_MESSAGES = f"SELECT {_MESSAGE} FROM {_QUEUED} ORDER BY ticket"
_REMOVE_MESSAGE = f"DELETE FROM {_QUEUED} AND id = :id"
_FIRST_MESSAGE = f"SELECT {_MESSAGE} FROM {{schema}}.queued_messages WHERE {_IN_QUEUE} ORDER BY ticket LIMIT 1"


class _Read(NamedTuple):
    """A lease and its queue as they were at a moment. `last` is its row, even if it has ended."""

    ns: Any
    session: int
    now: int
    is_current: bool
    waiters: list[Waiter]
    last: LeaseRow | None


def lease_row(row: Row) -> LeaseRow:
    name, number, holder, expires_at, taken_at, intake = row
    return LeaseRow(name, number, holder, expires_at, taken_at, bool(intake))


async def _read(db: Database, namespace: str, session_id: str | None, name: str) -> _Read | None:
    """None if the session, or the namespace, does not exist."""
    statement = _READ_SHARED if session_id is None else _READ
    rows = await db.fetch(statement, namespace=namespace, session_id=session_id, name=name)
    if not rows:
        return None
    ns, session, now, is_current, *_ = rows[0]
    lease = rows[0][-_WIDTH:]
    waiters = [Waiter(*row[4:7]) for row in rows if row[4] is not None]
    return _Read(ns, session, now, bool(is_current), waiters, None if lease[0] is None else lease_row(lease))


async def _put(db: Database, read: _Read, lease: LeaseRow, *, by_key: bool = False) -> bool:
    """Store the new row of a lease; False if the one that was read has been replaced. One that is wanted by key is made
    only while the session is current."""
    values = {"ns": read.ns, "session": read.session, **asdict(lease)}
    if read.last is not None:
        last = {"last_number": read.last.number, "last_expires_at": read.last.expires_at}
        return await db.execute(_UPDATE, **values, **last) == 1
    if read.session == SHARED:
        return await db.execute(_INSERT_SHARED, **values) == 1
    condition = " AND s.key_current" if by_key else ""
    return await db.execute(f"{_INSERT}{condition} {{share_key}} {{keep}}", **values) == 1


async def get(db: Database, namespace: str, session_id: str | None, name: str) -> LeaseRow | None:
    read = await _read(db, namespace, session_id, name)
    return None if read is None else rules.held(read.last, read.now)


async def held(db: Database, namespace: str, name: str | None = None) -> list[HeldLease]:
    statement = _HELD if name is None else f"{_HELD} AND l.name = :name"
    rows = await db.fetch(statement, namespace=namespace, name=name)
    return [HeldLease(row[0], lease_row(row[1:])) for row in rows]


async def waiting(db: Database, namespace: str, session_id: str, name: str) -> list[str]:
    read = await _read(db, namespace, session_id, name)
    return [] if read is None else [waiter.holder for waiter in read.waiters if waiter.expires_at > read.now]


async def acquire(
    db: Database, namespace: str, session_id: str | None, name: str, holder: str, ttl: int
) -> LeaseRow | None:
    while True:
        read = await _read(db, namespace, session_id, name)
        if read is None:
            if session_id is not None:
                raise SessionNotFoundError(session_id, namespace)
            await db.namespace(namespace)
            continue
        lease = rules.acquire(read.last, name, holder, ttl, read.now)
        if lease is None or await _put(db, read, lease):
            return lease


async def renew(db: Database, namespace: str, session_id: str | None, name: str, number: int, ttl: int) -> bool:
    of = {"namespace": namespace, "session_id": session_id, "name": name}
    statement = _END_AT % (_OF_SHARED if session_id is None else _OF_SESSION)
    return await db.execute(statement, **of, number=number, ttl=ttl) == 1


async def leave(db: Database, namespace: str, session_id: str, name: str, holder: str) -> None:
    of = {"namespace": namespace, "session_id": session_id, "name": name, "holder": holder}
    await db.execute(_LEAVE_QUEUE, **of)
    await db.execute(_RELEASE, **of)


# the queue


async def queue(db: Database, wanted: LeaseWanted) -> LeaseAnswer:
    read, writes = await _decide(db, wanted)
    # A lease that is free and has no queue: another caller that took it, or has to wait for it, has replaced its row.
    if not (writes.leave or writes.place or writes.queues_message) and (
        writes.lease is None or await _put(db, read, writes.lease, by_key=wanted.by_key)
    ):
        return writes.answer
    async with db.transaction():
        while True:
            is_locked = await _lock(db, wanted.namespace, wanted.session_id, wanted.name)
            read, writes = await _decide(db, wanted)
            if read.last is not None and not is_locked:
                continue  # another transaction has inserted the row after the attempt to lock it
            if writes.lease is None or await _put(db, read, writes.lease, by_key=wanted.by_key):
                break  # otherwise another transaction has inserted the row after it was read
        await _write(db, read, wanted, writes)
    return writes.answer


async def _lock(db: Database, namespace: str, session_id: str, name: str) -> bool:
    """False if there is no row to lock."""
    return bool(await db.fetch(_LOCK, namespace=namespace, session_id=session_id, name=name))


async def _decide(db: Database, wanted: LeaseWanted) -> tuple[_Read, QueueWrites]:
    read = await _read(db, wanted.namespace, wanted.session_id, wanted.name)
    if read is None:
        raise SessionNotFoundError(wanted.session_id, wanted.namespace)
    return read, rules.queue(read.last, read.waiters, wanted, read.now, is_current=read.is_current)


async def _write(db: Database, read: _Read, wanted: LeaseWanted, writes: QueueWrites) -> None:
    """The queue's rows, under the lock of the lease's."""
    of = {"ns": read.ns, "session": read.session, "name": wanted.name}
    if writes.leave:
        leave = f"DELETE FROM {{schema}}.lease_waiters WHERE {_IN_QUEUE} AND holder = :holder"
        await db.execute_many(leave, [{**of, "holder": holder} for holder in writes.leave])
    if writes.place is not None:
        await db.execute(_WAIT, **of, **asdict(writes.place))
    if writes.queues_message and wanted.message is not None:
        await db.execute(_QUEUE_MESSAGE, **of, **asdict(wanted.message))


async def next_queued(db: Database, namespace: str, session_id: str, name: str, number: int) -> StoredMessage | None:
    async with db.transaction():
        await _lock(db, namespace, session_id, name)
        read = await _read(db, namespace, session_id, name)
        row = None
        if read is not None:
            row = await db.fetch_row(_FIRST_MESSAGE, ns=read.ns, session=read.session, name=name)
        last, now = (None, 0) if read is None else (read.last, read.now)
        closed = rules.close_intake(last, session_id, number, now, is_empty=row is None)
        if read is not None and closed is not None:
            await _put(db, read, closed)
    return None if row is None else StoredMessage(*row)


async def queued(db: Database, namespace: str, session_id: str, name: str) -> list[StoredMessage]:
    rows = await db.fetch(_ALL_MESSAGES, namespace=namespace, session_id=session_id, name=name)
    return [StoredMessage(*row) for row in rows]


async def remove_queued(db: Database, namespace: str, session_id: str, name: str, ids: Sequence[str]) -> None:
    of = {"namespace": namespace, "session_id": session_id, "name": name}
    async with db.transaction():
        await db.execute_many(_REMOVE_MESSAGE, [{**of, "id": each} for each in ids])


# appends and plans


async def hand_over(db: Database, ns: Any, source: int, to: int) -> None:
    """Give the turn of a session, and what is queued for its holder, to another one. The lease comes first: a message
    is queued under a lock of its row, so that none can be queued for the old session afterwards."""
    for table in ("leases", "queued_messages"):
        statement = f"UPDATE {{schema}}.{table} SET session = :to WHERE {_IN_QUEUE}"
        await db.execute(statement, ns=ns, session=source, name=TURN, to=to)


async def turn_of(db: Database, ns: Any, session: int) -> int | None:
    """The number under which a session's turn is held now. A takeover then waits until this transaction has ended."""
    statement = f"SELECT number FROM {{schema}}.leases WHERE {_OF} AND expires_at > {{now}} {{share}}"
    number: int | None = await db.fetch_value(statement, ns=ns, session=session, name=TURN)
    return number


async def dequeue(db: Database, ns: Any, session: int, message_ids: Sequence[str]) -> None:
    """Take messages out of the queue for a session's turn."""
    statement = f"DELETE FROM {{schema}}.queued_messages WHERE {_IN_QUEUE} AND id = :id"
    await db.execute_many(statement, [{"ns": ns, "session": session, "name": TURN, "id": each} for each in message_ids])
