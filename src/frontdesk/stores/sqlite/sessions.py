"""Session rows, one at a time: creating and finding them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from frontdesk.errors import SessionNotFoundError
from frontdesk.store import NewSession, SessionRow
from frontdesk.store.changes import session_created
from frontdesk.stores.sqlite import log
from frontdesk.stores.sqlite.connections import Connection
from frontdesk.stores.sqlite.rows import SESSION, SESSION_WIDTH, session_row, session_values
from frontdesk.tree.sessions import metadata_digests, new_row

SHARED = 0
"""the session number of what belongs to a whole namespace"""

_INSERT = f"INSERT INTO sessions ({SESSION}) VALUES ({', '.join('?' * SESSION_WIDTH)})"
_BY_ID = f"SELECT {SESSION} FROM sessions WHERE namespace = ? AND id = ?"
_BY_KEY = (
    f"SELECT {SESSION} FROM sessions WHERE namespace = ? AND agent = ? AND coalesce(channel, '') = ?"
    " AND coalesce(peer, '') = ? AND coalesce('=' || thread, '') = ? AND key_current"
)


def get(connection: Connection, namespace: str, session_id: str) -> SessionRow | None:
    row = connection.execute(_BY_ID, (namespace, session_id)).fetchone()
    return None if row is None else session_row(row)


def get_current(connection: Connection, namespace: str, key: tuple[str, str, str, str | None]) -> SessionRow | None:
    agent, channel, peer, thread = key
    row = connection.execute(
        _BY_KEY, (namespace, agent, channel, peer, "" if thread is None else f"={thread}")
    ).fetchone()
    return None if row is None else session_row(row)


def owner_of(connection: Connection, namespace: str, session_id: str | None) -> int | None:
    """The number of a session, or `SHARED` for the namespace; None if the session is not there."""
    if session_id is None:
        return SHARED
    row = connection.execute(
        "SELECT number FROM sessions WHERE namespace = ? AND id = ?", (namespace, session_id)
    ).fetchone()
    return None if row is None else int(row[0])


def get_known(connection: Connection, namespace: str, session_id: str) -> SessionRow:
    session = get(connection, namespace, session_id)
    if session is None:
        raise SessionNotFoundError(session_id, namespace)
    return session


def taken(connection: Connection, new: NewSession) -> SessionRow | None:
    """The session that has a new one's id already, or its key as the current one."""
    found = get(connection, new.namespace, new.id)
    if found is not None or new.agent is None:
        return found
    return get_current(connection, new.namespace, (new.agent, new.channel or "", new.peer or "", new.thread))


def create(connection: Connection, new: NewSession) -> tuple[SessionRow, bool]:
    existing = taken(connection, new)
    if existing is not None:
        return existing, False
    return insert(connection, new_row(new, draw(connection, "session"))), True


def insert(connection: Connection, row: SessionRow) -> SessionRow:
    """Add a session that was made just now."""
    connection.execute(_INSERT, session_values(row))
    set_tags(connection, row.number, row.namespace, row.tags)
    set_metadata(connection, row.number, row.namespace, row.metadata)
    log.write(connection, row.namespace, row.number, row.created_at, session_created(row.parent_session_id))
    return row


def draw(connection: Connection, kind: Literal["session", "segment"]) -> int:
    """A number for a session or a tree (which share theirs), or a segment, that none ever had."""
    table = f"{kind}s"
    bump = "UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = ? RETURNING seq"
    found = connection.execute(bump, (table,)).fetchall()
    if not found:
        connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, 0)", (table,))
        found = connection.execute(bump, (table,)).fetchall()
    number: int = found[0][0]
    return number


def set_tags(connection: Connection, number: int, namespace: str, tags: str) -> None:
    """Add the tags of a session to those that are looked up."""
    if tags != "[]":
        rows = [(number, tag, namespace) for tag in msgspec.json.decode(tags, type=list[str])]
        connection.executemany("INSERT OR IGNORE INTO session_tags (session, tag, namespace) VALUES (?, ?, ?)", rows)


def set_metadata(connection: Connection, number: int, namespace: str, metadata: str) -> None:
    """Add the metadata of a session to that which is looked up."""
    rows = [(number, digest, namespace) for digest in metadata_digests(metadata)]
    if rows:
        insert = "INSERT OR IGNORE INTO session_metadata (session, digest, namespace) VALUES (?, ?, ?)"
        connection.executemany(insert, rows)


def may_take_key(connection: Connection, session: SessionRow) -> bool:
    """Whether a session has a key, and no other is current under it."""
    if session.agent is None:
        return False
    key = (session.agent, session.channel or "", session.peer or "", session.thread)
    current = get_current(connection, session.namespace, key)
    return current is None or current.number == session.number


def by_number(connection: Connection, namespace: str, numbers: Sequence[int]) -> list[SessionRow]:
    statement = f"SELECT {SESSION} FROM sessions WHERE number = ?"
    return [session_row(row) for number in dict.fromkeys(numbers) for row in connection.execute(statement, (number,))]


def relatives(connection: Connection, namespace: str, families: Sequence[int]) -> list[SessionRow]:
    statement = f"SELECT {SESSION} FROM sessions WHERE family = ? AND namespace = ? ORDER BY number"
    return [
        session_row(row)
        for family in dict.fromkeys(families)
        for row in connection.execute(statement, (family, namespace))
    ]


def families(connection: Connection, namespace: str, after: int, limit: int) -> list[int]:
    statement = (
        "SELECT DISTINCT family FROM sessions INDEXED BY sessions_by_family WHERE family > ? AND namespace = ?"
        " ORDER BY family LIMIT ?"
    )
    return [family for (family,) in connection.execute(statement, (after, namespace, limit))]
