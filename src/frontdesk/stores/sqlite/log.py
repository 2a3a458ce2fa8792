"""The change log. The position of an entry follows the last one of its namespace, and is taken in the transaction of
the change. There is one writer at a time, so positions are in the order of commits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from frontdesk.errors import ChangesTrimmedError
from frontdesk.store import BEGINNING, ChangeRow, NewChange, Position
from frontdesk.stores.sqlite.connections import Connection

_COLUMNS = "namespace, position, at, kind, session, segment, first, last, number, detail"
_NEXT = "(SELECT coalesce(max(position), 0) + 1 FROM changes WHERE namespace = ?1)"
_WRITE = f"INSERT INTO changes ({_COLUMNS}) VALUES (?1, {_NEXT}, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
_READ = (
    "SELECT c.position, c.at, c.kind, c.session, s.id, c.segment, c.first, c.last, c.number, c.detail,"
    " s.agent, s.channel, s.peer, s.thread"
    " FROM changes c LEFT JOIN sessions s ON s.number = c.session WHERE c.namespace = ? AND c.position >= ?"
    " AND (s.number IS NOT NULL OR c.session = 0 OR c.kind = 'session.deleted') ORDER BY c.position LIMIT ?"
)


def write(
    connection: Connection, namespace: str, session: int, at: int, change: NewChange, number: int | None = None
) -> None:
    """Add an entry, with `number` in place of its own if given."""
    where = change.segment, change.first, change.last
    values = (*where, change.number if number is None else number, change.detail)
    connection.execute(_WRITE, (namespace, at, change.kind, session, *values))


def add(connection: Connection, namespace: str, session_id: str, at: int, change: NewChange) -> bool:
    session = connection.execute(
        "SELECT number FROM sessions WHERE namespace = ? AND id = ?", (namespace, session_id)
    ).fetchone()
    if session is None:
        return False
    write(connection, namespace, session[0], at, change)
    return True


def forget(connection: Connection, sessions: Sequence[int]) -> None:
    """Remove the content of entries about deleted sessions, except that they were deleted."""
    connection.executemany(
        "DELETE FROM changes WHERE session = ? AND detail <> '' AND kind <> 'session.deleted'",
        [(number,) for number in sessions],
    )


def read(
    connection: Connection, namespace: str, after: Position | None, limit: int, *, settled: bool = True
) -> list[ChangeRow]:
    """All entries are settled: nothing is committed between two that are there."""
    if after is not None:
        trimmed = connection.execute(
            "SELECT position FROM changes_trimmed WHERE namespace = ?", (namespace,)
        ).fetchone()
        if trimmed is not None and after[0] < trimmed[0]:
            raise ChangesTrimmedError(namespace)
    # Nothing but (position, 0) can come after (position, -1).
    first = 0 if after is None else after[0] + (after[1] >= 0)
    rows = connection.execute(_READ, (namespace, first, limit))
    return [ChangeRow((position, 0), *rest) for position, *rest in rows]


def last(connection: Connection, namespace: str) -> Position:
    row = connection.execute("SELECT max(position) FROM changes WHERE namespace = ?", (namespace,)).fetchone()
    return BEGINNING if row[0] is None else (row[0], 0)


def trim(connection: Connection, namespace: str, before_at: int, limit: int, *, until: Position | None = None) -> int:
    oldest = connection.execute(
        "SELECT position, at FROM changes WHERE namespace = ? ORDER BY position LIMIT ?", (namespace, limit)
    ).fetchall()
    newest = last(connection, namespace)
    end = newest if until is None else until
    older = takewhile(lambda row: row[1] < before_at and (row[0], 0) < newest and (row[0], 0) <= end, oldest)
    old = [position for position, _ in older]
    if old:
        connection.execute("DELETE FROM changes WHERE namespace = ? AND position <= ?", (namespace, old[-1]))
        connection.execute("INSERT OR REPLACE INTO changes_trimmed VALUES (?, ?)", (namespace, old[-1]))
    return len(old)
