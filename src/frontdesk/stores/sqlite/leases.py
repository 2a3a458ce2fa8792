"""Leases, the lines before them, and what is queued for their holders. The time is that of the machine, which all
processes that share a file have in common."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec.structs import astuple

from frontdesk.errors import SessionNotFoundError, TurnLostError
from frontdesk.messages import StoredMessage
from frontdesk.store import TURN, HeldLease, LeaseAnswer, LeaseRow, LeaseWanted, SessionRow
from frontdesk.stores.sqlite.connections import Connection
from frontdesk.stores.sqlite.documents import owner_of
from frontdesk.stores.sqlite.rows import MESSAGE

_OF = "session = ? AND namespace = ? AND name = ?"
_COLUMNS = "name, number, holder, expires_at, taken_at, intake"


def get(connection: Connection, namespace: str, session_id: str | None, name: str) -> LeaseRow | None:
    lease = _row(connection, owner_of(connection, namespace, session_id), namespace, name)
    return lease if lease is not None and lease.expires_at > _now() else None


def held(connection: Connection, namespace: str, name: str | None) -> list[HeldLease]:
    rows = connection.execute(
        "SELECT s.id, l.name, l.number, l.holder, l.expires_at FROM leases l"
        " LEFT JOIN sessions s ON s.number = l.session"
        f" WHERE l.namespace = ? AND l.expires_at > ?{'' if name is None else ' AND l.name = ?'}",
        (namespace, _now(), *(() if name is None else (name,))),
    )
    return [HeldLease(row[0], LeaseRow(*row[1:])) for row in rows]


def living(name: str) -> tuple[str, tuple[str, int]]:
    """A query for the numbers of the sessions of a namespace (the first value) for which somebody holds a lease, and
    the other values."""
    return "SELECT session FROM leases WHERE namespace = ? AND name = ? AND expires_at > ?", (name, _now())


def acquire(
    connection: Connection, namespace: str, session_id: str | None, name: str, holder: str, ttl: int
) -> LeaseRow | None:
    owner = owner_of(connection, namespace, session_id)
    if owner is None:
        raise SessionNotFoundError(session_id or "", namespace)
    last = _row(connection, owner, namespace, name)
    if last is not None and last.expires_at > _now():
        return None
    return _take(connection, owner, namespace, name, last, holder, ttl)


def end_at(connection: Connection, namespace: str, session_id: str | None, name: str, number: int, ttl: int) -> bool:
    """Let a lease that is held under this number expire after `ttl`; False if it is not."""
    lease = get(connection, namespace, session_id, name)
    if lease is None or lease.number != number:
        return False
    connection.execute(
        f"UPDATE leases SET expires_at = ? WHERE {_OF}",
        (_now() + ttl, owner_of(connection, namespace, session_id), namespace, name),
    )
    return True


def queue(connection: Connection, wanted: LeaseWanted) -> LeaseAnswer:
    owner = owner_of(connection, wanted.namespace, wanted.session_id)
    if owner is None:
        raise SessionNotFoundError(wanted.session_id, wanted.namespace)
    last = _row(connection, owner, wanted.namespace, wanted.name)
    lease = last if last is not None and last.expires_at > _now() else None
    if lease is not None and lease.holder == wanted.holder:
        return LeaseAnswer(lease)
    mine, expires_at, ahead = _line(connection, owner, wanted)
    if wanted.force or (lease is None and not ahead):
        _leave_line(connection, owner, wanted.name, wanted.holder)
        _leave_message(connection, owner, wanted)
        return LeaseAnswer(_take(connection, owner, wanted.namespace, wanted.name, last, wanted.holder, wanted.ttl))
    if wanted.message is not None and lease is not None and lease.intake:
        _leave_line(connection, owner, wanted.name, wanted.holder)
        _leave_message(connection, owner, wanted)
        return LeaseAnswer(lease, queued=True)
    if wanted.patience and expires_at < _now() + wanted.patience * 2 // 3:
        mine = _stand(connection, owner, wanted, mine)
    return LeaseAnswer(lease, mine, ahead)


def leave(connection: Connection, namespace: str, session_id: str, name: str, holder: str) -> None:
    owner = owner_of(connection, namespace, session_id)
    if owner is not None:
        _leave_line(connection, owner, name, holder)
        connection.execute(
            f"UPDATE leases SET expires_at = min(expires_at, ?) WHERE {_OF} AND holder = ?",
            (_now(), owner, namespace, name, holder),
        )


def next_queued(
    connection: Connection, namespace: str, session_id: str, name: str, number: int
) -> StoredMessage | None:
    lease = get(connection, namespace, session_id, name)
    if lease is None or lease.number != number:
        raise TurnLostError(session_id, number)
    owner = owner_of(connection, namespace, session_id)
    row = connection.execute(
        f"SELECT {MESSAGE} FROM queued_messages WHERE session = ? AND name = ? ORDER BY ticket LIMIT 1", (owner, name)
    ).fetchone()
    if row is None:
        connection.execute(f"UPDATE leases SET intake = 0 WHERE {_OF}", (owner, namespace, name))
    return None if row is None else StoredMessage(*row)


def check_fence(connection: Connection, session: SessionRow | None, session_id: str, fence: int) -> None:
    """Raises `TurnLostError` unless the session's turn is held under this number."""
    lease = None if session is None else _row(connection, session.number, session.namespace, TURN)
    if lease is None or lease.number != fence or lease.expires_at <= _now():
        raise TurnLostError(session_id, fence)


def dequeue(connection: Connection, session: int, message_ids: Sequence[str]) -> None:
    connection.executemany(
        "DELETE FROM queued_messages WHERE session = ? AND name = ? AND id = ?",
        [(session, TURN, message_id) for message_id in message_ids],
    )


def _take(
    connection: Connection, owner: int, namespace: str, name: str, last: LeaseRow | None, holder: str, ttl: int
) -> LeaseRow:
    now = _now()
    lease = LeaseRow(name, now if last is None else last.number + 1, holder, now + ttl, now)
    connection.execute(
        f"INSERT OR REPLACE INTO leases (session, namespace, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (owner, namespace, *astuple(lease)),
    )
    return lease


def _line(connection: Connection, owner: int, wanted: LeaseWanted) -> tuple[int, int, int]:
    """(ticket, end) of the place that the holder has in the line, 0 if it has none, and how many are ahead of it."""
    line = connection.execute(
        "SELECT holder, ticket, expires_at FROM lease_waiters WHERE session = ? AND name = ? ORDER BY ticket",
        (owner, wanted.name),
    ).fetchall()
    now, ahead = _now(), 0
    for holder, ticket, expires_at in line:
        if holder == wanted.holder:
            return ticket, expires_at, ahead
        if expires_at > now:
            ahead += 1
        else:
            _leave_line(connection, owner, wanted.name, holder)
    return 0, 0, ahead


def _stand(connection: Connection, owner: int, wanted: LeaseWanted, ticket: int) -> int:
    """Give the holder a place in the line, or keep the one it has for longer."""
    ((ticket,),) = connection.execute(
        "INSERT INTO lease_waiters (session, name, ticket, holder, expires_at) SELECT ?1, ?2, iif(?3, ?3,"
        " (SELECT coalesce(max(ticket), 0) + 1 FROM lease_waiters WHERE session = ?1 AND name = ?2)), ?4, ?5 WHERE true"
        " ON CONFLICT DO UPDATE SET expires_at = excluded.expires_at RETURNING ticket",
        (owner, wanted.name, ticket, wanted.holder, _now() + wanted.patience),
    ).fetchall()
    return ticket


def _leave_line(connection: Connection, owner: int, name: str, holder: str) -> None:
    connection.execute("DELETE FROM lease_waiters WHERE session = ? AND name = ? AND holder = ?", (owner, name, holder))


def _leave_message(connection: Connection, owner: int, wanted: LeaseWanted) -> None:
    """Queue the message, unless one with its id is queued."""
    if wanted.message is not None:
        connection.execute(
            f"INSERT INTO queued_messages (session, name, ticket, {MESSAGE})"
            " SELECT ?1, ?2, coalesce(max(ticket), 0) + 1, ?3, ?4, ?5, ?6, ?7, ?8 FROM queued_messages"
            " WHERE session = ?1 AND name = ?2 HAVING coalesce(max(id = ?3), 0) = 0",
            (owner, wanted.name, *astuple(wanted.message)),
        )


def _row(connection: Connection, owner: int | None, namespace: str, name: str) -> LeaseRow | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM leases WHERE {_OF}", (owner, namespace, name)).fetchone()
    if row is None:
        return None
    name, number, holder, expires_at, taken_at, intake = row
    return LeaseRow(name, number, holder, expires_at, taken_at, bool(intake))


def _now() -> int:
    return time.time_ns() // 1000
