"""Session rows as the append and the reads of this store use them, on a connection."""

from __future__ import annotations

from frontdesk.store import SessionRow
from frontdesk.stores.sql import sessions
from frontdesk.stores.sql.database import run
from frontdesk.stores.sqlite.connections import SQLiteConnection
from frontdesk.stores.sqlite.database import SQLiteDatabase, shared

get = shared(sessions.get)
get_current = shared(sessions.get_current)


def insert(connection: SQLiteConnection, row: SessionRow) -> SessionRow:
    """Add a session that was made just now."""
    return run(sessions.insert(SQLiteDatabase(connection), row.namespace, row))


def may_take_key(connection: SQLiteConnection, session: SessionRow) -> bool:
    """Whether a session has a key, and no other is current under it."""
    if session.agent is None:
        return False
    key = (session.agent, session.channel or "", session.peer or "", session.thread)
    current = get_current(connection, session.namespace, key)
    return current is None or current.number == session.number
