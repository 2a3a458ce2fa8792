"""Leases, the queues for them, and the messages that are queued for their holders. Times are those of the machine's
clock, which all processes that share a file have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import astuple

from frontdesk.errors import SessionNotFoundError
from frontdesk.messages.stored import StoredMessage
from frontdesk.moments import now
from frontdesk.store import TURN, HeldLease, LeaseAnswer, LeaseRow, LeaseWanted, SessionRow
from frontdesk.stores.sqlite.connections import Connection
from frontdesk.stores.sqlite.rows import MESSAGE
from frontdesk.stores.sqlite.sessions import owner_of
from frontdesk.tree import leases as rules

_SESSION = "SELECT number, key_current FROM sessions WHERE namespace = ? AND id = ?"
_OF = "session = ? AND namespace = ? AND name = ?"
_COLUMNS = "name, number, holder, expires_at, taken_at, intake"


def get(connection: Connection, namespace: str, session_id: str | None, name: str) -> LeaseRow | None:
    return rules.held(_row(connection, owner_of(connection, namespace, session_id), namespace, name), now())


def held(connection: Connection, namespace: str, name: str | None = None) -> list[HeldLease]:
    rows = connection.execute(
        "SELECT s.id, l.name, l.number, l.holder, l.expires_at, l.taken_at, l.intake FROM leases l"
        " LEFT JOIN sessions s ON s.number = l.session"
        f" WHERE l.namespace = ? AND l.expires_at > ?{'' if name is None else ' AND l.name = ?'}",
        (namespace, now(), *(() if name is None else (name,))),
    )
    return [HeldLease(row[0], _lease(row[1:])) for row in rows]


def living(name: str) -> tuple[str, tuple[str, int]]:
    """A query for the numbers of the sessions of a namespace (the first value) for which somebody holds a lease, and
    the other values."""
    return "SELECT session FROM leases WHERE namespace = ? AND name = ? AND expires_at > ?", (name, now())


def acquire(
    connection: Connection, namespace: str, session_id: str | None, name: str, holder: str, ttl: int
) -> LeaseRow | None:
    owner = owner_of(connection, namespace, session_id)
    if owner is None:
        raise SessionNotFoundError(session_id or "", namespace)
    lease = rules.acquire(_row(connection, owner, namespace, name), name, holder, ttl, now())
    return _put(connection, owner, namespace, lease)


def renew(connection: Connection, namespace: str, session_id: str | None, name: str, number: int, ttl: int) -> bool:
    owner = owner_of(connection, namespace, session_id)
    lease = rules.renew(_row(connection, owner, namespace, name), number, ttl, now())
    return _put(connection, owner, namespace, lease) is not None


def queue(connection: Connection, wanted: LeaseWanted) -> LeaseAnswer:
    row = connection.execute(_SESSION, (wanted.namespace, wanted.session_id)).fetchone()
    if row is None:
        raise SessionNotFoundError(wanted.session_id, wanted.namespace)
    owner, is_current = row
    waiters = connection.execute(
        "SELECT holder, ticket, expires_at FROM lease_waiters WHERE session = ? AND name = ? ORDER BY ticket",
        (owner, wanted.name),
    ).fetchall()
    last = _row(connection, owner, wanted.namespace, wanted.name)
    waiting = [rules.Waiter(*each) for each in waiters]
    writes = rules.queue(last, waiting, wanted, now(), is_current=bool(is_current))
    _leave_queue(connection, owner, wanted.name, writes.leave)
    if writes.place is not None:
        connection.execute(
            "INSERT OR REPLACE INTO lease_waiters (session, name, holder, ticket, expires_at) VALUES (?, ?, ?, ?, ?)",
            (owner, wanted.name, *astuple(writes.place)),
        )
    _put(connection, owner, wanted.namespace, writes.lease)
    if writes.queues_message and wanted.message is not None:
        _queue_message(connection, owner, wanted.name, wanted.message)
    return writes.answer


def leave(connection: Connection, namespace: str, session_id: str, name: str, holder: str) -> None:
    owner = owner_of(connection, namespace, session_id)
    if owner is not None:
        _leave_queue(connection, owner, name, (holder,))
        _put(connection, owner, namespace, rules.leave(_row(connection, owner, namespace, name), holder, now()))


def hand_over(connection: Connection, source: int, to: int) -> None:
    """Give the turn of a session, and what is queued for its holder, to another one."""
    for table in ("leases", "queued_messages"):
        connection.execute(f"UPDATE {table} SET session = ? WHERE session = ? AND name = ?", (to, source, TURN))


def next_queued(
    connection: Connection, namespace: str, session_id: str, name: str, number: int
) -> StoredMessage | None:
    owner = owner_of(connection, namespace, session_id)
    row = connection.execute(
        f"SELECT {MESSAGE} FROM queued_messages WHERE session = ? AND name = ? ORDER BY ticket LIMIT 1", (owner, name)
    ).fetchone()
    last = _row(connection, owner, namespace, name)
    closed = rules.close_intake(last, session_id, number, now(), is_empty=row is None)
    _put(connection, owner, namespace, closed)
    return None if row is None else StoredMessage(*row)


def turn_of(connection: Connection, session: SessionRow) -> int | None:
    """The number under which a session's turn is held now."""
    lease = rules.held(_row(connection, session.number, session.namespace, TURN), now())
    return None if lease is None else lease.number


def dequeue(connection: Connection, session: int, message_ids: Sequence[str]) -> None:
    connection.executemany(
        "DELETE FROM queued_messages WHERE session = ? AND name = ? AND id = ?",
        [(session, TURN, message_id) for message_id in message_ids],
    )


def _put(connection: Connection, owner: int | None, namespace: str, lease: LeaseRow | None) -> LeaseRow | None:
    """Store the new row of a lease, if there is one."""
    if lease is not None:
        connection.execute(
            f"INSERT OR REPLACE INTO leases (session, namespace, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (owner, namespace, *astuple(lease)),
        )
    return lease


def _leave_queue(connection: Connection, owner: int, name: str, holders: Sequence[str]) -> None:
    for holder in holders:
        connection.execute(
            "DELETE FROM lease_waiters WHERE session = ? AND name = ? AND holder = ?", (owner, name, holder)
        )


def _queue_message(connection: Connection, owner: int, name: str, message: StoredMessage) -> None:
    """Queue a message, unless one with its id is queued."""
    connection.execute(
        f"INSERT INTO queued_messages (session, name, ticket, {MESSAGE})"
        " SELECT ?1, ?2, coalesce(max(ticket), 0) + 1, ?3, ?4, ?5, ?6, ?7, ?8 FROM queued_messages"
        " WHERE session = ?1 AND name = ?2 HAVING coalesce(max(id = ?3), 0) = 0",
        (owner, name, *astuple(message)),
    )


def _row(connection: Connection, owner: int | None, namespace: str, name: str) -> LeaseRow | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM leases WHERE {_OF}", (owner, namespace, name)).fetchone()
    return None if row is None else _lease(row)


def _lease(row: Sequence[Any]) -> LeaseRow:
    name, number, holder, expires_at, taken_at, intake = row
    return LeaseRow(name, number, holder, expires_at, taken_at, bool(intake))
