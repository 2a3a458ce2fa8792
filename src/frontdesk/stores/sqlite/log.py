"""The change log. The position of an entry follows the last one of its namespace, and is taken in the transaction of
the change. There is one writer at a time, so positions are in the order of commits.

A file that was copied or restored is the same as it was before. So every connection that writes begins an epoch before
its first entry: a position has the number of its epoch in the bits above the lower 40. What was written after a backup
by one process, and after the restore by another, has different positions."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import partial
from itertools import takewhile
from typing import Any
from weakref import WeakSet, ref

from frontdesk.errors import ChangesRewoundError, ChangesTrimmedError
from frontdesk.store import BEGINNING, ChangeRow, NewChange, Position
from frontdesk.stores.sqlite.connections import SQLiteConnection

_COLUMNS = "namespace, position, at, kind, session, segment, first, last, number, detail"
_NEXT = (
    "(SELECT max(coalesce(max(c.position), 0) + 1, (SELECT max(number) FROM log_epochs) << 40)"
    " FROM changes c WHERE c.namespace = ?1)"
)
# The newest position of all namespaces, by one look-up for each of them.
_NEWEST = (
    "WITH RECURSIVE n(name) AS (SELECT min(namespace) FROM changes UNION ALL"
    " SELECT (SELECT min(namespace) FROM changes WHERE namespace > n.name) FROM n WHERE n.name IS NOT NULL)"
    " SELECT max((SELECT max(position) FROM changes c WHERE c.namespace = n.name)) FROM n WHERE n.name IS NOT NULL"
)
_BEGIN = (
    f"INSERT INTO log_epochs (number, id, ended) SELECT coalesce(max(number), 0) + 1, ?, ({_NEWEST}) FROM log_epochs"
)
_begun: WeakSet[Any] = WeakSet()
"""the connections that have begun an epoch"""
_WRITE = f"INSERT INTO changes ({_COLUMNS}) VALUES (?1, {_NEXT}, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
_READ = (
    "SELECT c.position, (SELECT e.id FROM log_epochs e WHERE e.number = c.position >> 40), c.at, c.kind, c.session,"
    " s.id, c.segment, c.first, c.last, c.number, c.detail, s.agent, s.channel, s.peer, s.thread"
    " FROM changes c LEFT JOIN sessions s ON s.number = c.session WHERE c.namespace = ? AND c.position >= ?"
    " AND (s.number IS NOT NULL OR c.session = 0 OR c.kind = 'session.deleted') ORDER BY c.position LIMIT ?"
)


def write(
    connection: SQLiteConnection, namespace: str, session: int, at: int, change: NewChange, number: int | None = None
) -> None:
    """Add an entry, with `number` in place of its own if given."""
    if connection not in _begun:
        _begin_epoch(connection)
    where = change.segment, change.first, change.last
    values = (*where, change.number if number is None else number, change.detail)
    connection.execute(_WRITE, (namespace, at, change.kind, session, *values))


def _begin_epoch(connection: SQLiteConnection) -> None:
    """Begin an epoch in this transaction. If that is rolled back, the next entry begins one."""
    connection.execute(_BEGIN, (secrets.randbits(48) | 1,))
    connection.set_rollback_hook(partial(_forget, ref(connection)))
    _begun.add(connection)


def _forget(connection: ref[SQLiteConnection]) -> None:
    if (rolled_back := connection()) is not None:
        _begun.discard(rolled_back)


def add(connection: SQLiteConnection, namespace: str, session_id: str, at: int, change: NewChange) -> bool:
    session = connection.execute(
        "SELECT number FROM sessions WHERE ns = ? AND id = ?", (namespace, session_id)
    ).fetchone()
    if session is None:
        return False
    write(connection, namespace, session[0], at, change)
    return True


def forget(connection: SQLiteConnection, sessions: Sequence[int]) -> None:
    """Remove the content of entries about deleted sessions, except that they were deleted."""
    connection.executemany(
        "DELETE FROM changes WHERE session = ? AND detail <> '' AND kind <> 'session.deleted'",
        [(number,) for number in sessions],
    )


def read(
    connection: SQLiteConnection, namespace: str, after: Position | None, limit: int, *, settled: bool = True
) -> list[ChangeRow]:
    """All entries are settled: nothing is committed between two that are there."""
    if after is not None:
        _check(connection, namespace, after)
    # Nothing but (position, 0) can come after (position, -1).
    first = 0 if after is None else after.major + (after.minor >= 0)
    rows = connection.execute(_READ, (namespace, first, limit))
    return [ChangeRow(Position(position, 0, epoch), *rest) for position, epoch, *rest in rows]


def _check(connection: SQLiteConnection, namespace: str, after: Position) -> None:
    """Raises `ChangesRewoundError` if the log does not contain a position any more, and `ChangesTrimmedError`."""
    if after.epoch:
        # `ended` of the next epoch is the last position of this one, in all namespaces.
        found = connection.execute(
            "SELECT (SELECT n.ended FROM log_epochs n WHERE n.number = e.number + 1) FROM log_epochs e WHERE e.id = ?",
            (after.epoch,),
        ).fetchone()
        if found is None:
            raise ChangesRewoundError(namespace, BEGINNING)
        if found[0] is not None and after.major > found[0]:
            raise ChangesRewoundError(namespace, Position(found[0], 0, after.epoch))
    trimmed = connection.execute("SELECT position FROM changes_trimmed WHERE namespace = ?", (namespace,)).fetchone()
    if trimmed is not None and after.major < trimmed[0]:
        raise ChangesTrimmedError(namespace)


def last(connection: SQLiteConnection, namespace: str) -> Position:
    row = connection.execute(
        "SELECT c.position, (SELECT e.id FROM log_epochs e WHERE e.number = c.position >> 40) FROM changes c"
        " WHERE c.namespace = ? ORDER BY c.position DESC LIMIT 1",
        (namespace,),
    ).fetchone()
    return BEGINNING if row is None else Position(row[0], 0, row[1])


def trim(
    connection: SQLiteConnection, namespace: str, before_at: int, limit: int, *, until: Position | None = None
) -> int:
    oldest = connection.execute(
        "SELECT position, at FROM changes WHERE namespace = ? ORDER BY position LIMIT ?", (namespace, limit)
    ).fetchall()
    newest = last(connection, namespace)
    end = newest if until is None else until
    older = takewhile(lambda row: row[1] < before_at and row[0] < newest.major and row[0] <= end.major, oldest)
    old = [position for position, _ in older]
    if old:
        connection.execute("DELETE FROM changes WHERE namespace = ? AND position <= ?", (namespace, old[-1]))
        connection.execute("INSERT OR REPLACE INTO changes_trimmed VALUES (?, ?)", (namespace, old[-1]))
    return len(old)
