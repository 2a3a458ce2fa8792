"""The removal of what deletions leave behind."""

from __future__ import annotations

from frontdesk.store import Position
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.rows import HERE

_ENTRIES = 2_000
TABLES = (
    *("sessions", "session_tags", "session_metadata", "views", "segments", "messages", "overlays", "edits", "lineage"),
    *(
        "usage_entries",
        "unfinished_sessions",
        "document_owners",
        "documents",
        "prompts",
        "leases",
        "lease_waiters",
        "queued_messages",
        "states",
        "shelves",
        "blobs",
        "changes",
        "search_texts",
    ),
    *("vectors", "vector_codes"),
)
"""all that hold something of a session"""

_ENTRY = "c.ns = $1 AND (c.xid, c.position) > ($2, $3) AND (c.xid, c.position) <= ($4, $5)"
_SESSION = "SELECT FROM {schema}.sessions s WHERE s.ns = c.ns AND s.number = c.session"
_OF_DELETED = (
    f"DELETE FROM {{schema}}.changes c WHERE {_ENTRY} AND c.session <> 0 AND c.kind <> 'session.deleted'"
    f" AND NOT EXISTS ({_SESSION})"
)
_OF_PARENTS = (
    f"UPDATE {{schema}}.changes c SET detail = '' WHERE {_ENTRY} AND c.kind = 'session.created'"
    f" AND c.detail <> '' AND EXISTS ({_SESSION} AND s.parent_session_id IS NULL)"
)


async def clear_log(connection: Connection, namespace: str, after: Position) -> Position | None:
    """Remove entries of deleted sessions, and the names of parents that were taken from their children, from the next
    part of the log. Returns where that part ends; None at the end of the log. Needs a transaction."""
    entries = await connection.fetch(
        f"SELECT c.xid, c.position, c.ns FROM {{schema}}.changes c WHERE c.ns = {HERE}"
        " AND (c.xid, c.position) > ($2, $3) ORDER BY c.xid, c.position LIMIT $4",
        namespace,
        *after[:2],
        _ENTRIES,
    )
    if not entries:
        return None
    xid, position, ns = entries[-1]
    for statement in (_OF_DELETED, _OF_PARENTS):
        await connection.execute(statement, ns, *after[:2], xid, position)
    return Position(xid, position)


async def vacuum(connection: Connection, table: str) -> None:
    """Clear dead rows, and what the planner remembers of them. Without the right to do so it is left undone. Must not
    be in a transaction."""
    await connection.execute(f"VACUUM (ANALYZE) {{schema}}.{table}", limit=24 * 3_600.0)
