"""States. Times are those of the machine's clock, which all processes that share a file have in common."""

from __future__ import annotations

from collections.abc import Iterable

from frontdesk.moments import now
from frontdesk.store import StateKey, StateRow, Swept
from frontdesk.stores.sqlite.connections import Connection

_ROW = "value, mark, version, ttl, created_at, accessed_at"
_OF = "namespace = ? AND id = ? AND name = ?"
_LIVE = "(ttl IS NULL OR ? < accessed_at + ttl)"


def peek(connection: Connection, key: StateKey) -> StateRow | None:
    return _row(connection, f"SELECT {_ROW} FROM states WHERE {_OF} AND {_LIVE}", (*key, now()))


def slide(connection: Connection, key: StateKey) -> StateRow | None:
    at = now()
    return _row(
        connection, f"UPDATE states SET accessed_at = ? WHERE {_OF} AND {_LIVE} RETURNING {_ROW}", (at, *key, at)
    )


def touch(connection: Connection, key: StateKey) -> bool:
    at = now()
    statement = f"UPDATE states SET accessed_at = ? WHERE {_OF} AND {_LIVE} RETURNING number"
    return bool(connection.execute(statement, (at, *key, at)).fetchall())


def create(connection: Connection, key: StateKey, value: str, ttl: int | None, mark: str) -> StateRow | None:
    present = peek(connection, key)
    if present is not None:
        return present if present.mark == mark else None
    connection.execute(f"DELETE FROM states WHERE {_OF}", key)
    at = now()
    row = StateRow(value, mark, 1, ttl, at, at)
    connection.execute(
        f"INSERT INTO states (namespace, id, name, due, {_ROW}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*key, row.expires_at, value, mark, 1, ttl, at, at),
    )
    return row


def replace(connection: Connection, key: StateKey, value: str, mark: str, seen: str) -> StateRow | None:
    present = peek(connection, key)
    if present is None or present.mark not in (seen, mark):
        return None
    if present.mark == mark:
        return present
    return _row(
        connection,
        f"UPDATE states SET value = ?, mark = ?, version = version + 1, accessed_at = ? WHERE {_OF} RETURNING {_ROW}",
        (value, mark, now(), *key),
    )


def delete(connection: Connection, key: StateKey) -> bool:
    was_there = peek(connection, key) is not None
    connection.execute(f"DELETE FROM states WHERE {_OF}", key)
    return was_there


def delete_all(connection: Connection, namespace: str, id: str) -> int:
    rows = connection.execute(
        f"DELETE FROM states WHERE namespace = ? AND id = ? RETURNING {_LIVE}", (namespace, id, now())
    ).fetchall()
    return sum(int(was_live) for (was_live,) in rows)


def delete_of_sessions(connection: Connection, numbers: Iterable[int]) -> None:
    """Remove the states of sessions that are about to be deleted."""
    found = "SELECT namespace, id FROM sessions WHERE number = ?"
    for number in numbers:
        connection.execute(f"DELETE FROM states WHERE (namespace, id) = ({found})", (number,))


def sweep(connection: Connection, limit: int) -> Swept:
    at = now()
    rows = connection.execute(
        "SELECT number, accessed_at + ttl FROM states WHERE due <= ? ORDER BY due LIMIT ?", (at, limit)
    ).fetchall()
    expired = [(number,) for number, expires_at in rows if expires_at <= at]
    later = [(expires_at, number) for number, expires_at in rows if expires_at > at]
    connection.executemany("DELETE FROM states WHERE number = ?", expired)
    connection.executemany("UPDATE states SET due = ? WHERE number = ?", later)
    return Swept(len(expired), len(rows) == limit)


def _row(connection: Connection, statement: str, values: tuple[object, ...]) -> StateRow | None:
    found = connection.execute(statement, values).fetchall()
    return StateRow(*found[0]) if found else None
