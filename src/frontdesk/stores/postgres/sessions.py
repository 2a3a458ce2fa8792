"""Creating a session, and making it current under its key: each is one statement, and indexes decide."""

from __future__ import annotations

import asyncpg
from msgspec.structs import replace

from frontdesk.store import NewSession, SessionRow, ViewRow
from frontdesk.store.changes import session_created
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.rows import namespace_of
from frontdesk.stores.sql.digests import key_digest, tag_digests
from frontdesk.stores.sql.rows import SESSION_COLUMNS, json_text, session_values
from frontdesk.tree.sessions import metadata_digests, new_row

_COLUMNS = tuple(name for name in SESSION_COLUMNS if name != "ns")
_INSERT = (
    "WITH x AS MATERIALIZED (SELECT ns, {schema}.new_number(ns) AS number FROM {schema}.namespace($1) ns),"
    f" new AS (INSERT INTO {{schema}}.sessions (ns, changed_in, key_digest, {', '.join(_COLUMNS)})"
    " SELECT x.ns, {schema}.this_xid(), $6, "
    + ", ".join(
        f"coalesce(nullif(${index}::bigint, 0), x.number)" if name in ("number", "tree", "family") else f"${index}"
        for index, name in enumerate(_COLUMNS, 7)
    )
    + " FROM x ON CONFLICT DO NOTHING RETURNING ns, number, changed_in, created_at),"
    " tagged AS (INSERT INTO {schema}.session_tags SELECT new.ns, t.digest, new.number"
    " FROM new, unnest($2::bytea[]) t(digest)),"
    " described AS (INSERT INTO {schema}.session_metadata SELECT new.ns, m.digest, new.number"
    " FROM new, unnest($3::bytea[]) m(digest)),"
    " logged AS (INSERT INTO {schema}.changes (ns, xid, position, at, session, kind, detail)"
    " SELECT new.ns, new.changed_in, nextval('{schema}.change_positions'), new.created_at, new.number,"
    f" '{session_created(None).kind}', $4::text FROM new),"
    " viewed AS (INSERT INTO {schema}.views SELECT new.ns, new.number, $5::text FROM new WHERE $5::text IS NOT NULL)"
    " SELECT number FROM new"
)


async def insert(connection: Connection, row: SessionRow, view: ViewRow | None = None) -> SessionRow | None:
    """Insert a session. Numbers that are 0 are drawn. None if its id or its key is taken."""
    values = session_values(None, row)
    number = await connection.fetch_value(
        _INSERT,
        row.namespace,
        tag_digests(row.tags),
        metadata_digests(row.metadata),
        session_created(row.parent_session_id).detail,
        None if view is None else json_text(view),
        key_digest(row.agent, row.channel, row.peer, row.thread),
        *[values[name] for name in _COLUMNS],
    )
    if number is None:
        return None
    return replace(row, number=number, tree=row.tree or number, family=row.family or number)


async def create(connection: Connection, new: NewSession) -> SessionRow | None:
    """The new session, or None if its id or key is taken."""
    return await insert(connection, new_row(new, 0))


async def take_key(connection: Connection, session: int) -> bool:
    """Make a session current under its key, unless another is: of two that try at once the index lets one."""
    statement = "UPDATE {schema}.sessions SET key_current = true WHERE ns = $1 AND number = $2 AND agent IS NOT NULL"
    try:
        async with connection.transaction():
            return await connection.execute(statement, namespace_of(session), session) == 1
    except asyncpg.UniqueViolationError:
        return False
