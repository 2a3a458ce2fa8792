"""States. Times are those of the machine's clock, which all processes that share a file have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from frontdesk.moments import now
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
from frontdesk.stores.sqlite.connections import Connection

_FACTS = "mark, version, ttl, created_at, accessed_at, type_version, agent, channel, peer, thread"
_ROW = f"value, {_FACTS}"
_OF = "namespace = ? AND id = ? AND name = ?"
_NUMBERS = "SELECT number FROM states WHERE namespace = ?"
_LIVE = "(ttl IS NULL OR ? < accessed_at + ttl)"


def peek(connection: Connection, key: StateKey) -> StateRow | None:
    return _fetch(connection, f"SELECT {_ROW} FROM states WHERE {_OF} AND {_LIVE}", (*key, now()))


def slide(connection: Connection, key: StateKey) -> StateRow | None:
    at = now()
    return _fetch(
        connection, f"UPDATE states SET accessed_at = ? WHERE {_OF} AND {_LIVE} RETURNING {_ROW}", (at, *key, at)
    )


def touch(connection: Connection, key: StateKey) -> bool:
    at = now()
    statement = f"UPDATE states SET accessed_at = ? WHERE {_OF} AND {_LIVE} RETURNING number"
    return bool(connection.execute(statement, (at, *key, at)).fetchall())


def create(connection: Connection, key: StateKey, write: StateWrite) -> StateRow | None:
    present = peek(connection, key)
    if present is not None:
        return present if present.mark == write.mark else None
    connection.execute(f"DELETE FROM states WHERE {_OF}", key)
    at = now()
    row = StateRow(write.value, write.mark, 1, write.ttl, at, at, write.type_version, write.owner)
    connection.execute(
        f"INSERT INTO states (namespace, id, name, due, {_ROW}) VALUES ({', '.join('?' * 15)})",
        (*key, row.expires_at, row.value, row.mark, 1, row.ttl, at, at, row.type_version, *_columns(row.owner)),
    )
    return row


def replace(connection: Connection, key: StateKey, write: StateWrite, seen: str) -> StateRow | None:
    present = peek(connection, key)
    if present is None or present.mark not in (seen, write.mark):
        return None
    if present.mark == write.mark:
        return present
    at = now()
    written = (write.value, write.mark, write.ttl, at, write.type_version, *_columns(write.owner))
    updated = _fetch(
        connection,
        "UPDATE states SET value = ?, mark = ?, ttl = ?, accessed_at = ?, type_version = ?, agent = ?, channel = ?,"
        f" peer = ?, thread = ?, version = version + 1 WHERE {_OF} RETURNING {_ROW}",
        (*written, *key),
    )
    if write.ttl != present.ttl:
        connection.execute(f"UPDATE states SET due = accessed_at + ttl WHERE {_OF}", key)
    return updated


def page(connection: Connection, query: StateQuery) -> list[ListedState]:
    end, ends = ("", ()) if query.end is None else (" AND id < ?", (query.end,))
    rows = connection.execute(
        f"SELECT id, '', {_FACTS} FROM states WHERE namespace = ? AND name = ? AND id >= ? AND id > ?{end} AND {_LIVE}"
        " ORDER BY id LIMIT ?",
        (query.namespace, query.name, query.first, query.after, *ends, now(), query.limit),
    )
    return [ListedState(id, _state(row)) for id, *row in rows]


def count(connection: Connection, namespace: str, name: str) -> int:
    statement = f"SELECT count(*) FROM states WHERE namespace = ? AND name = ? AND {_LIVE}"
    return int(connection.execute(statement, (namespace, name, now())).fetchone()[0])


def delete(connection: Connection, key: StateKey) -> bool:
    was_there = peek(connection, key) is not None
    connection.execute(f"DELETE FROM states WHERE {_OF}", key)
    return was_there


def delete_all(connection: Connection, namespace: str, id: str) -> int:
    return _delete(connection, "namespace = ? AND id = ?", (namespace, id))[0]


def clear(connection: Connection, namespace: str, name: str, limit: int) -> Swept:
    removed, rows = _delete(connection, f"number IN ({_NUMBERS} AND name = ? LIMIT ?)", (namespace, name, limit))
    return Swept(removed, rows == limit)


def delete_owned(connection: Connection, namespace: str, owners: OwnerFilter, limit: int) -> Swept:
    given = {part: wanted for part, wanted in owners._asdict().items() if wanted is not None}
    wanted = "".join(f" AND {part} = ?" for part in given)
    removed, rows = _delete(
        connection,
        f"number IN ({_NUMBERS} AND peer IS NOT NULL{wanted} LIMIT ?)",
        (namespace, *given.values(), limit),
    )
    return Swept(removed, rows == limit)


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


def add_store(connection: Connection, namespace: str, url: str) -> None:
    connection.execute("INSERT OR IGNORE INTO state_stores (namespace, url) VALUES (?, ?)", (namespace, url))


def stores(connection: Connection, namespace: str) -> list[str]:
    rows = connection.execute("SELECT url FROM state_stores WHERE namespace = ? ORDER BY url", (namespace,))
    return [url for (url,) in rows]


def forget_store(connection: Connection, namespace: str, url: str) -> bool:
    statement = "DELETE FROM state_stores WHERE namespace = ? AND url = ? RETURNING 1"
    return bool(connection.execute(statement, (namespace, url)).fetchall())


def _delete(connection: Connection, condition: str, values: tuple[object, ...]) -> tuple[int, int]:
    """Delete rows; how many of them were live, and how many there were."""
    rows = connection.execute(f"DELETE FROM states WHERE {condition} RETURNING {_LIVE}", (*values, now())).fetchall()
    return sum(int(was_live) for (was_live,) in rows), len(rows)


def _fetch(connection: Connection, statement: str, values: tuple[object, ...]) -> StateRow | None:
    found = connection.execute(statement, values).fetchall()
    return _state(found[0]) if found else None


def _state(row: Any) -> StateRow:
    *written, agent, channel, peer, thread = row
    owner = None if peer is None else StateOwner(agent, channel, peer, thread)
    return StateRow(*(*written, owner))


def _columns(owner: StateOwner | None) -> tuple[str | None, ...]:
    return (None, None, None, None) if owner is None else owner
