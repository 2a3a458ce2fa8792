"""Session rows: creating them, and finding them by id, key or number."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg
from msgspec.structs import replace

from frontdesk.store import NewSession, SessionRow, ViewRow
from frontdesk.store.changes import session_created
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.rows import (
    HERE,
    SESSION,
    SESSION_COLUMNS,
    json_text,
    key_digest,
    namespace_of,
    session_row,
    session_values,
    tag_digests,
)
from frontdesk.tree.sessions import metadata_digests, new_row

_BY_ID = f"SELECT {SESSION} FROM {{schema}}.sessions s WHERE s.ns = {HERE} AND s.id = $2 AND s.id <> ''"
_BY_KEY = f"SELECT {SESSION} FROM {{schema}}.sessions s WHERE s.ns = {HERE} AND s.key_digest = $2 AND s.key_current"
_BY_NUMBER = (
    f"SELECT {SESSION} FROM unnest($1::bigint[]) WITH ORDINALITY i(number, index)"
    " JOIN {schema}.sessions s ON s.ns = (i.number >> 39)::integer AND s.number = i.number ORDER BY i.index"
)
_FAMILY = f"SELECT {SESSION} FROM unnest($1::bigint[]) i(number) JOIN {{schema}}.sessions s"
# The two halves of `sessions_by_family`: most sessions are the first of their family.
_RELATIVES = (
    f"{_FAMILY} ON s.ns = (i.number >> 39)::integer AND s.number = i.number AND s.family = s.number UNION ALL"
    f" {_FAMILY} ON s.ns = (i.number >> 39)::integer AND s.family = i.number AND s.family <> s.number"
)


async def get(connection: Connection, namespace: str, session_id: str) -> SessionRow | None:
    row = await connection.fetch_row(_BY_ID, namespace, session_id)
    return None if row is None else session_row(namespace, row)


async def get_current(
    connection: Connection, namespace: str, key: tuple[str, str, str, str | None]
) -> SessionRow | None:
    row = await connection.fetch_row(_BY_KEY, namespace, key_digest(*key))
    return None if row is None else session_row(namespace, row)


async def get_numbered(connection: Connection, namespace: str, numbers: Sequence[int]) -> list[SessionRow]:
    rows = await connection.fetch(_BY_NUMBER, list(dict.fromkeys(numbers)))
    return [session_row(namespace, row) for row in rows]


async def relatives(connection: Connection, namespace: str, families: Sequence[int]) -> list[SessionRow]:
    rows = await connection.fetch(_RELATIVES, list(dict.fromkeys(families)))
    return [session_row(namespace, row) for row in rows]


async def families(connection: Connection, namespace: str, after: int, limit: int) -> list[int]:
    rows = await connection.fetch(
        f"SELECT DISTINCT s.family FROM {{schema}}.sessions s WHERE s.ns = {HERE} AND s.family > $2"
        " ORDER BY s.family LIMIT $3",
        namespace,
        after,
        limit,
    )
    return [row[0] for row in rows]


# making them

_INSERT = (
    "WITH x AS MATERIALIZED (SELECT ns, {schema}.new_number(ns) AS number FROM {schema}.namespace($1) ns),"
    f" new AS (INSERT INTO {{schema}}.sessions (ns, changed_in, key_digest, {', '.join(SESSION_COLUMNS)})"
    " SELECT x.ns, {schema}.this_xid(), $6, "
    + ", ".join(
        f"coalesce(nullif(${index}::bigint, 0), x.number)"
        if name in ("number", "tree", "family")
        else f"${index}::text::numeric"
        if name == "cost"
        else f"${index}"
        for index, name in enumerate(SESSION_COLUMNS, 7)
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
    number = await connection.fetch_value(
        _INSERT,
        row.namespace,
        tag_digests(row.tags),
        metadata_digests(row.metadata),
        session_created(row.parent_session_id).detail,
        None if view is None else json_text(view),
        key_digest(row.agent, row.channel, row.peer, row.thread),
        *session_values(row),
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
