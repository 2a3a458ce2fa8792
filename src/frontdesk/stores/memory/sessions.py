"""Session rows of the memory store, one at a time: creating, finding and storing them."""

from __future__ import annotations

from frontdesk.errors import SessionNotFoundError
from frontdesk.store import NewSession, SessionRow
from frontdesk.store.changes import session_created
from frontdesk.stores.memory import log
from frontdesk.stores.memory.rows import Rows, key_of
from frontdesk.tree.sessions import new_row


def get(rows: Rows, namespace: str, session_id: str) -> SessionRow | None:
    return rows.get(namespace, session_id)


def get_current(rows: Rows, namespace: str, key: tuple[str, str, str, str | None]) -> SessionRow | None:
    number = rows.by_key.get((namespace, *key))
    return None if number is None else rows.sessions[number]


def get_known(rows: Rows, namespace: str, session_id: str) -> SessionRow:
    session = rows.get(namespace, session_id)
    if session is None:
        raise SessionNotFoundError(session_id, namespace)
    return session


def taken(rows: Rows, new: NewSession) -> int | None:
    """The number of the session that has a new one's id already, or its key as the current one."""
    by_id = rows.by_id.get((new.namespace, new.id))
    return by_id if by_id is not None or new.agent is None else rows.by_key.get(key_of(new))


def may_take_key(rows: Rows, session: SessionRow) -> bool:
    """Whether a session has a key, and no other is current under it."""
    return session.agent is not None and rows.by_key.get(key_of(session), session.number) == session.number


def create(rows: Rows, new: NewSession) -> tuple[SessionRow, bool]:
    existing = taken(rows, new)
    if existing is not None:
        return rows.sessions[existing], False
    return insert(rows, new_row(new, next(rows.numbers))), True


def insert(rows: Rows, row: SessionRow) -> SessionRow:
    """Add a session that was made just now."""
    rows.by_family[row.family].add(row.number)
    rows.by_id[row.namespace, row.id] = row.number
    put(rows, row)
    log.write(rows, row.namespace, row.number, row.created_at, session_created(row.parent_session_id))
    return row


def put(rows: Rows, row: SessionRow) -> None:
    """Store a session's row, new or changed, and keep its key."""
    before = rows.sessions.get(row.number)
    rows.sessions[row.number] = row
    if row.key_current:
        rows.by_key[key_of(row)] = row.number
    elif before is not None and before.key_current:
        del rows.by_key[key_of(before)]
