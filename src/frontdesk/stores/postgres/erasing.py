"""What an erasure needs besides plans: figures, and that nothing stays behind of what was deleted."""

from __future__ import annotations

from collections.abc import Sequence

from frontdesk.store import Position, RowCounts, Span
from frontdesk.stores.postgres.engine import Connection
from frontdesk.stores.postgres.rows import columns_of, namespace_of

_LINES = 2_000
TABLES = (
    "sessions",
    "session_tags",
    "views",
    "segments",
    "messages",
    "overlays",
    "edits",
    "lineage",
    "usage_lines",
    "documents",
    "prompts",
    "leases",
    "lease_waiters",
    "queued_messages",
    "states",
    "changes",
    "search_texts",
    "vectors",
)
"""all that hold something of a session"""


class Erasing:
    """Works through a connection, in one schema. `clear_log` wants a transaction, `vacuum` none."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._here = f"(SELECT number FROM {schema}.namespaces WHERE name = $1)"
        line = "c.ns = $1 AND (c.xid, c.position) > ($2, $3) AND (c.xid, c.position) <= ($4, $5)"
        session = f"SELECT FROM {schema}.sessions s WHERE s.ns = c.ns AND s.number = c.session"
        self._gone = (
            f"DELETE FROM {schema}.changes c WHERE {line} AND c.session <> 0 AND c.kind <> 'session.deleted'"
            f" AND NOT EXISTS ({session})"
        )
        self._parted = (
            f"UPDATE {schema}.changes c SET detail = '' WHERE {line} AND c.kind = 'session.created'"
            f" AND c.detail <> '' AND EXISTS ({session} AND s.parent_session_id IS NULL)"
        )

    async def count(self, connection: Connection, session: int, spans: Sequence[Span]) -> RowCounts:
        ns = namespace_of(session)
        kept = ", ".join(
            f"(SELECT count(*) FROM {self._schema}.{table} WHERE ns = $1 AND session = $2)"
            for table in ("documents", "usage_lines", "queued_messages")
        )
        row = await connection.fetchrow(
            f"SELECT (SELECT count(*) FROM unnest($3::bigint[], $4::bigint[], $5::bigint[]) d(segment, first, last)"
            f" JOIN {self._schema}.messages m ON m.ns = $1 AND m.segment = d.segment"
            f" AND m.position BETWEEN d.first AND d.last), {kept}",
            ns,
            session,
            *columns_of([(span.segment, span.first, span.last) for span in spans], 3),
        )
        assert row is not None
        return RowCounts(*row)

    async def clear_log(self, connection: Connection, namespace: str, after: Position) -> Position | None:
        """Remove lines of sessions that are gone, and the names of parents that were taken from their children, from
        the next stretch of the log. Gives where it ends; None at the end of all."""
        lines = await connection.fetch(
            f"SELECT c.xid, c.position, c.ns FROM {self._schema}.changes c WHERE c.ns = {self._here}"
            " AND (c.xid, c.position) > ($2, $3) ORDER BY c.xid, c.position LIMIT $4",
            namespace,
            *after,
            _LINES,
        )
        if not lines:
            return None
        xid, position, ns = lines[-1]
        for statement in (self._gone, self._parted):
            await connection.execute(statement, ns, *after, xid, position)
        return xid, position

    async def vacuum(self, connection: Connection, table: str) -> None:
        """Clear dead rows, and what the planner remembers of them. Without the right to do so it is left undone."""
        await connection.execute(f"VACUUM (ANALYZE) {self._schema}.{table}", timeout=24 * 3_600.0)
