"""Leases. The time is that of the machine, which all processes that share a file have in common."""

from __future__ import annotations

import time

from frontdesk.errors import SessionNotFoundError
from frontdesk.store import HeldLease, LeaseRow
from frontdesk.stores.sqlite.connections import Connection
from frontdesk.stores.sqlite.documents import owner_of

_OF = "session = ? AND namespace = ? AND name = ?"


def get(connection: Connection, namespace: str, session_id: str | None, name: str) -> LeaseRow | None:
    lease = _row(connection, namespace, session_id, name)
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
    last = _row(connection, namespace, session_id, name)
    if last is not None and last.expires_at > _now():
        return None
    lease = LeaseRow(name, 1 if last is None else last.number + 1, holder, _now() + ttl)
    connection.execute(
        "INSERT OR REPLACE INTO leases (session, namespace, name, number, holder, expires_at)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (owner, namespace, name, lease.number, holder, lease.expires_at),
    )
    return lease


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


def _row(connection: Connection, namespace: str, session_id: str | None, name: str) -> LeaseRow | None:
    row = connection.execute(
        f"SELECT name, number, holder, expires_at FROM leases WHERE {_OF}",
        (owner_of(connection, namespace, session_id), namespace, name),
    ).fetchone()
    return None if row is None else LeaseRow(*row)


def _now() -> int:
    return time.time_ns() // 1000
