"""The removal of what deletions leave behind. SQLite overwrites the
bytes of deleted rows (`secure_delete`); this module cleans the write-ahead log and the search index."""

from __future__ import annotations

from frontdesk.stores.sqlite.connections import SQLiteConnection

_ENTRIES = 2_000
_PAGES = 256

_GONE = (
    "DELETE FROM changes WHERE namespace = ?1 AND position BETWEEN ?2 AND ?3 AND kind <> 'session.deleted'"
    " AND session <> 0 AND position < (SELECT max(position) FROM changes WHERE namespace = ?1)"
    " AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.number = changes.session)"
)
_ORPHANED = (
    "UPDATE changes SET detail = '' WHERE namespace = ?1 AND position BETWEEN ?2 AND ?3 AND kind = 'session.created'"
    " AND detail <> ''"
    " AND EXISTS (SELECT 1 FROM sessions s WHERE s.number = changes.session AND s.parent_session_id IS NULL)"
)


def clear_log(connection: SQLiteConnection, namespace: str, after: int) -> int | None:
    """Remove entries of deleted sessions, and the names of parents that were taken from their children, from the next
    part of the log. Returns the position where it ends, None at the end of the log."""
    end = connection.execute(
        "SELECT max(position) FROM (SELECT position FROM changes WHERE namespace = ? AND position > ?"
        " ORDER BY position LIMIT ?)",
        (namespace, after, _ENTRIES),
    ).fetchone()[0]
    if end is None:
        return None
    for statement in (_GONE, _ORPHANED):
        connection.execute(statement, (namespace, after + 1, end))
    return int(end)


def merge_terms(connection: SQLiteConnection, *, begin: bool) -> bool:
    """Rewrite a part of the index without what was deleted, which is only marked until then. False at the end."""
    before = _changes(connection)
    connection.execute(
        "INSERT INTO search_terms (search_terms, rank) VALUES ('merge', ?)", (-_PAGES if begin else _PAGES,)
    )
    return _changes(connection) - before >= 2


def _changes(connection: SQLiteConnection) -> int:
    number: int = connection.execute("SELECT total_changes()").fetchone()[0]
    return number
