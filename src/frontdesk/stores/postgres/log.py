"""The change log: reading and trimming it. Its entries are written by the statements that make the changes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import asyncpg

from frontdesk.errors import ChangesRewoundError, ChangesTrimmedError
from frontdesk.store import BEGINNING, ChangeRow, NewChange, Position
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.rows import HERE, NOW, columns_of

# As `this_xid` of the schema, for the statement in which the call of a function would matter.
THIS_XID = (
    "SELECT CASE WHEN e.server = pg_postmaster_start_time() AND e.relation = e.tableoid"
    " THEN (e.number::bigint << 44) + pg_current_xact_id()::text::bigint ELSE {schema}.epoch_is_over() END"
    " FROM {schema}.log_epochs e WHERE e.ended IS NULL"
)
_SETTLED = "c.xid < (SELECT {schema}.settled_xid())"
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
# What must be known before any entry: whether the epoch is the current one, how far the log was trimmed, and where
# the epoch $6 ended, which the given position ($2, $3) belongs to. There is at least this row, also without entries.
_EPOCH = "SELECT e.id FROM {schema}.log_epochs e WHERE e.number = (c.xid >> 44)::integer"
_READ = f"""
SELECT p.*, c.* FROM (
    SELECT (e.server = pg_postmaster_start_time() AND e.relation = e.tableoid) OR pg_is_in_recovery(),
        o.id IS NOT NULL, o.ended, t.xid, t.position
    FROM {{schema}}.log_epochs e LEFT JOIN {{schema}}.log_epochs o ON o.id = $6
    LEFT JOIN {{schema}}.changes_trimmed t ON t.ns = {HERE}
    WHERE e.ended IS NULL
) p LEFT JOIN LATERAL (
    SELECT c.xid, c.position, ({_EPOCH}), c.at, c.kind, c.session, s.id, c.segment, c.first, c.last, c.number, c.detail,
        s.agent, s.channel, s.peer, s.thread
    FROM {{schema}}.changes c LEFT JOIN {{schema}}.sessions s ON s.ns = c.ns AND s.number = c.session
    WHERE c.ns = {HERE} AND (c.xid, c.position) > ($2, $3) AND ({_SETTLED} OR NOT $5)
        AND (s.number IS NOT NULL OR c.session = 0 OR c.kind = 'session.deleted')
    ORDER BY c.xid, c.position LIMIT $4
) c ON true
ORDER BY c.xid, c.position"""
_ALL = (1 << 63) - 1
"""as the second part of a position: after all entries with the same first part"""
_PLACE = 5
"""columns before those of an entry"""
# What the oldest entry that is not settled waits for: a transaction in any database, or one that was prepared. Of those
# of other roles only the process is shown.
_LAG = f"""
SELECT {NOW} - c.at, (
    SELECT format('process %s of database %s%s, %s for %s s', a.pid, a.datname,
        CASE WHEN a.application_name <> '' THEN format(' (%s)', a.application_name) END,
        coalesce(a.state, 'of another role'), coalesce(floor(extract(epoch FROM now() - a.state_change))::text, '?'))
    FROM pg_stat_activity a WHERE a.backend_xid IS NOT NULL AND a.pid <> pg_backend_pid()
    ORDER BY age(a.backend_xid) DESC LIMIT 1
), (
    SELECT format('the prepared transaction %s of database %s', x.gid, x.database)
    FROM pg_prepared_xacts x ORDER BY age(x.transaction) DESC LIMIT 1
)
FROM {{schema}}.changes c WHERE c.ns = {HERE} AND NOT {_SETTLED} ORDER BY c.xid, c.position LIMIT 1"""
BEGIN_EPOCH = "SELECT {schema}.begin_epoch()"
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
    """Remove what the entries of deleted sessions say of them, except for their deletion."""
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
    major, minor, epoch = after or BEGINNING
    values = namespace, major, minor, limit, settled, epoch
    rows = await connection.fetch(_READ, *values)
    if not rows[0][0] and await begin_epoch(connection):
        rows = await connection.fetch(_READ, *values)
    _, is_known, ended, *trimmed = rows[0][:_PLACE]
    if epoch and not is_known:
        raise ChangesRewoundError(namespace, BEGINNING)
    if ended is not None and major > ended:
        raise ChangesRewoundError(namespace, Position(ended, _ALL, epoch))
    if after is not None and trimmed[0] is not None and (major, minor) < (trimmed[0], trimmed[1]):
        raise ChangesTrimmedError(namespace)
    entries = (row[_PLACE:] for row in rows if row[_PLACE] is not None)
    return [ChangeRow(Position(*row[:3]), *row[3:]) for row in entries]


async def begin_epoch(connection: Connection) -> bool:
    """Begin an epoch if the current one is that of another server. False if this server cannot be written to: then
    there is nothing new to read either."""
    try:
        await connection.execute(BEGIN_EPOCH)
    except asyncpg.ReadOnlySQLTransactionError:
        return False
    return True


async def last(connection: Connection, namespace: str) -> Position:
    row = await connection.fetch_row(
        f"SELECT c.xid, c.position, ({_EPOCH}) FROM {{schema}}.changes c WHERE c.ns = {HERE} AND {_SETTLED}"
        " ORDER BY c.xid DESC, c.position DESC LIMIT 1",
        namespace,
    )
    return BEGINNING if row is None else Position(*row)


async def lag(connection: Connection, namespace: str) -> tuple[int, str | None]:
    """How many microseconds ago the oldest entry that is not settled was written, and what it waits for."""
    row = await connection.fetch_row(_LAG, namespace)
    if row is None:
        return 0, None
    age, running, prepared = row
    return max(age, 0), running or prepared or "a transaction that has just ended"


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
    old = [*takewhile(lambda row: row[2] < before_at and row[:2] < newest[:2] and row[:2] <= end[:2], oldest)]
    if not old:
        return 0
    return int(await connection.fetch_value(_TRIM, namespace, *old[-1][:2]))
