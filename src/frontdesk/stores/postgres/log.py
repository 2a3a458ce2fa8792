"""The change log, read and trimmed; it is written by the statements that it tells of."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from frontdesk.errors import ChangesTrimmedError
from frontdesk.store import BEGINNING, ChangeRow, NewChange, Position
from frontdesk.stores.postgres.engine import Connection

_SETTLED = "c.xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint"


class Log:
    """Works through a connection, in one schema. `write`, `forget` and `trim` want a transaction."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._here = f"(SELECT number FROM {schema}.namespaces WHERE name = $1)"

    async def write(self, connection: Connection, ns: int, session: int, at: int, changes: Sequence[NewChange]) -> None:
        """Add lines of a session whose row is locked, or (0) of the namespace."""
        if changes:
            await connection.execute(
                f"SELECT {self._schema}.log_changes($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                ns,
                session,
                at,
                [change.kind for change in changes],
                [change.segment for change in changes],
                [change.first for change in changes],
                [change.last for change in changes],
                [change.number for change in changes],
                [change.detail for change in changes],
            )

    async def forget(self, connection: Connection, ns: int, sessions: Sequence[int]) -> None:
        """Remove what a line can say of sessions that are gone, but for that they are."""
        if sessions:
            await connection.execute(
                f"DELETE FROM {self._schema}.changes WHERE ns = $1 AND session = ANY($2::bigint[]) AND detail <> ''"
                " AND kind <> 'session.deleted'",
                ns,
                sessions,
            )

    async def read(
        self, connection: Connection, namespace: str, after: Position | None, limit: int, settled: bool
    ) -> list[ChangeRow]:
        # Trimming leaves the newest line, so that a position which is too old always meets a line to tell it.
        trimmed = f"FROM {self._schema}.changes_trimmed t WHERE t.ns = {self._here}"
        rows = await connection.fetch(
            f"SELECT (SELECT t.xid {trimmed}), (SELECT t.position {trimmed}), c.xid, c.position, c.at, c.kind,"
            f" c.session, s.id, c.segment, c.first, c.last, c.number, c.detail FROM {self._schema}.changes c"
            f" LEFT JOIN {self._schema}.sessions s ON s.ns = c.ns AND s.number = c.session"
            f" WHERE c.ns = {self._here} AND (c.xid, c.position) > ($2, $3) AND ({_SETTLED} OR NOT $5)"
            " AND (s.number IS NOT NULL OR c.session = 0 OR c.kind = 'session.deleted')"
            " ORDER BY c.xid, c.position LIMIT $4",
            namespace,
            *(after or BEGINNING),
            limit,
            settled,
        )
        if after is not None and rows and rows[0][0] is not None and after < (rows[0][0], rows[0][1]):
            raise ChangesTrimmedError(namespace)
        return [ChangeRow((xid, position), *rest) for _, _, xid, position, *rest in rows]

    async def last(self, connection: Connection, namespace: str) -> Position:
        row = await connection.fetchrow(
            f"SELECT c.xid, c.position FROM {self._schema}.changes c WHERE c.ns = {self._here} AND {_SETTLED}"
            " ORDER BY c.xid DESC, c.position DESC LIMIT 1",
            namespace,
        )
        return BEGINNING if row is None else (row[0], row[1])

    async def trim(
        self, connection: Connection, namespace: str, before_at: int, limit: int, until: Position | None
    ) -> int:
        newest = await self.last(connection, namespace)
        oldest = await connection.fetch(
            f"SELECT c.xid, c.position, c.at FROM {self._schema}.changes c WHERE c.ns = {self._here} AND {_SETTLED}"
            " ORDER BY c.xid, c.position LIMIT $2",
            namespace,
            limit,
        )
        end = newest if until is None else until
        old = [*takewhile(lambda row: row[2] < before_at and row[:2] < newest and row[:2] <= end, oldest)]
        if not old:
            return 0
        edge = old[-1][:2]
        removed: int = await connection.fetchval(
            f"WITH gone AS (DELETE FROM {self._schema}.changes WHERE ns = {self._here}"
            " AND (xid, position) <= ($2::bigint, $3::bigint) RETURNING ns),"
            f" edge AS (INSERT INTO {self._schema}.changes_trimmed AS t SELECT {self._here}, $2::bigint, $3::bigint"
            " ON CONFLICT (ns) DO UPDATE SET xid = excluded.xid, position = excluded.position"
            " WHERE (t.xid, t.position) < (excluded.xid, excluded.position))"
            " SELECT count(*) FROM gone",
            namespace,
            *edge,
        )
        return removed
