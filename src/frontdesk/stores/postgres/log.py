"""The change log: reading and trimming it. Its entries are written by the statements that make the changes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from frontdesk.errors import ChangesTrimmedError
from frontdesk.store import BEGINNING, ChangeRow, NewChange, Position
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.rows import HERE, columns_of

_SETTLED = "c.xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
_WRITE = (
    "WITH s AS (UPDATE {schema}.sessions SET changed_in = greatest(changed_in, {schema}.this_xid())"
    " WHERE ns = $1 AND number = $2 RETURNING changed_in)"
    " INSERT INTO {schema}.changes (ns, xid, position, at, session, kind, segment, first, last, number, detail)"
    " SELECT $1, coalesce((SELECT changed_in FROM s), {schema}.this_xid()), nextval('{schema}.change_positions'), $3,"
    " $2, c.* FROM unnest($4::text[], $5::bigint[], $6::integer[], $7::integer[], $8::bigint[], $9::text[]) c"
)
_ADD = (
    "WITH s AS (UPDATE {schema}.sessions SET changed_in = greatest(changed_in, {schema}.this_xid())"
    f" WHERE ns = {HERE} AND id = $2 AND id <> '' RETURNING ns, number, changed_in)"
    " INSERT INTO {schema}.changes (ns, xid, position, at, session, kind, detail)"
    " SELECT ns, changed_in, nextval('{schema}.change_positions'), $3, number, $4, $5 FROM s"
)
_TRIMMED = f"FROM {{schema}}.changes_trimmed t WHERE t.ns = {HERE}"
_READ = (
    f"SELECT (SELECT t.xid {_TRIMMED}), (SELECT t.position {_TRIMMED}), c.xid, c.position, c.at, c.kind,"
    " c.session, s.id, c.segment, c.first, c.last, c.number, c.detail, s.agent, s.channel, s.peer, s.thread"
    " FROM {schema}.changes c"
    " LEFT JOIN {schema}.sessions s ON s.ns = c.ns AND s.number = c.session"
    f" WHERE c.ns = {HERE} AND (c.xid, c.position) > ($2, $3) AND ({_SETTLED} OR NOT $5)"
    " AND (s.number IS NOT NULL OR c.session = 0 OR c.kind = 'session.deleted')"
    " ORDER BY c.xid, c.position LIMIT $4"
)
_TRIM = (
    f"WITH gone AS (DELETE FROM {{schema}}.changes WHERE ns = {HERE}"
    " AND (xid, position) <= ($2::bigint, $3::bigint) RETURNING ns),"
    f" edge AS (INSERT INTO {{schema}}.changes_trimmed AS t SELECT {HERE}, $2::bigint, $3::bigint"
    " ON CONFLICT (ns) DO UPDATE SET xid = excluded.xid, position = excluded.position"
    " WHERE (t.xid, t.position) < (excluded.xid, excluded.position))"
    " SELECT count(*) FROM gone"
)


def entry_columns(changes: Sequence[NewChange]) -> list[list[object]]:
    """Log entries as columns: kind, segment, first, last, number, detail."""
    rows = [(one.kind, one.segment, one.first, one.last, one.number, one.detail) for one in changes]
    return columns_of(rows, 6)


async def write(connection: Connection, ns: int, session: int, at: int, changes: Sequence[NewChange]) -> None:
    """Add entries of a session whose row is locked, or (0) of the namespace. Needs a transaction."""
    if changes:
        await connection.execute(_WRITE, ns, session, at, *entry_columns(changes))


async def add(connection: Connection, namespace: str, session_id: str, at: int, change: NewChange) -> bool:
    return bool(await connection.execute(_ADD, namespace, session_id, at, change.kind, change.detail))


async def forget(connection: Connection, ns: int, sessions: Sequence[int]) -> None:
    """Remove what the entries of deleted sessions say of them, but for their deletion."""
    if sessions:
        await connection.execute(
            "DELETE FROM {schema}.changes WHERE ns = $1 AND session = ANY($2::bigint[]) AND detail <> ''"
            " AND kind <> 'session.deleted'",
            ns,
            sessions,
        )


async def read(
    connection: Connection, namespace: str, after: Position | None, limit: int, *, settled: bool = True
) -> list[ChangeRow]:
    # Trimming leaves the newest entry, so that a position which is too old always finds an entry to learn it from.
    rows = await connection.fetch(_READ, namespace, *(after or BEGINNING), limit, settled)
    if after is not None and rows and rows[0][0] is not None and after < (rows[0][0], rows[0][1]):
        raise ChangesTrimmedError(namespace)
    return [ChangeRow((xid, position), *rest) for _, _, xid, position, *rest in rows]


async def last(connection: Connection, namespace: str) -> Position:
    row = await connection.fetch_row(
        f"SELECT c.xid, c.position FROM {{schema}}.changes c WHERE c.ns = {HERE} AND {_SETTLED}"
        " ORDER BY c.xid DESC, c.position DESC LIMIT 1",
        namespace,
    )
    return BEGINNING if row is None else (row[0], row[1])


async def trim(
    connection: Connection, namespace: str, before_at: int, limit: int, *, until: Position | None = None
) -> int:
    newest = await last(connection, namespace)
    oldest = await connection.fetch(
        f"SELECT c.xid, c.position, c.at FROM {{schema}}.changes c WHERE c.ns = {HERE} AND {_SETTLED}"
        " ORDER BY c.xid, c.position LIMIT $2",
        namespace,
        limit,
    )
    end = newest if until is None else until
    old = [*takewhile(lambda row: row[2] < before_at and row[:2] < newest and row[:2] <= end, oldest)]
    if not old:
        return 0
    return int(await connection.fetch_value(_TRIM, namespace, *old[-1][:2]))
