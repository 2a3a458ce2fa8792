"""Session rows: creating them, and finding them by id, key or number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontdesk.store import NewSession, SessionRow, ViewRow
from frontdesk.store.changes import session_created
from frontdesk.stores.sql.database import Database, Row
from frontdesk.stores.sql.digests import key_digest, tag_digests
from frontdesk.stores.sql.rows import SESSION, SESSION_COLUMNS, json_text, session_row, session_values
from frontdesk.tree.sessions import metadata_digests, new_row

_HERE = f"SELECT {SESSION} FROM {{schema}}.sessions s WHERE s.ns = {{here}}"
_BY_ID = f"{_HERE} AND s.id = :id AND s.id <> ''"
_BY_KEY = f"{_HERE} AND s.key_digest = :key AND s.key_current"
# CROSS JOIN: SQLite must begin with the numbers. PostgreSQL sees no difference.
_OF_NUMBERS = f"SELECT {SESSION} FROM {{numbers}} i CROSS JOIN {{schema}}.sessions s WHERE s.ns = {{here}}"
_BY_NUMBER = f"{_OF_NUMBERS} AND s.number = i.number ORDER BY i.place"
# The first session of a family has its number, and most are the only one of theirs.
_RELATIVES = (
    f"{_OF_NUMBERS} AND s.number = i.number AND s.family = s.number"
    f" UNION ALL {_OF_NUMBERS} AND s.family = i.number AND s.family <> s.number"
)
_RELATED = _RELATIVES.replace(SESSION, "s.number, s.family, s.last_active_at")
_LATEST = (
    f"SELECT {SESSION} FROM (SELECT r.number, r.family, row_number() OVER"
    " (PARTITION BY r.family ORDER BY r.last_active_at DESC, r.number DESC) AS rank"
    f" FROM ({_RELATED}) r) l JOIN {{schema}}.sessions s ON s.ns = {{here}} AND s.number = l.number"
    " WHERE l.rank <= :latest ORDER BY l.family, l.rank"
)
_OWNERS = (
    f"{_HERE} AND s.number = :family AND s.family = s.number AND s.tree IN (SELECT i.number FROM {{numbers}} i)"
    f" UNION ALL {_HERE} AND s.family = :family AND s.family <> s.number"
    " AND s.tree IN (SELECT i.number FROM {numbers} i)"
)
_FAMILIES = (
    "SELECT DISTINCT s.family FROM {schema}.sessions s WHERE s.ns = {here} AND s.family > :after"
    " ORDER BY s.family LIMIT :limit"
)
_INSERT = (
    f"INSERT INTO {{schema}}.sessions (key_digest, {', '.join(SESSION_COLUMNS)})"
    f" VALUES (:key_digest, {', '.join(f':{name}' for name in SESSION_COLUMNS)})"
)


async def get(db: Database, namespace: str, session_id: str) -> SessionRow | None:
    return _found(namespace, await db.fetch_row(_BY_ID, namespace=namespace, id=session_id))


async def get_current(db: Database, namespace: str, key: tuple[str, str, str, str | None]) -> SessionRow | None:
    return _found(namespace, await db.fetch_row(_BY_KEY, namespace=namespace, key=key_digest(*key)))


async def get_numbered(db: Database, namespace: str, numbers: Sequence[int]) -> list[SessionRow]:
    rows = await db.fetch(_BY_NUMBER, namespace=namespace, numbers=list(dict.fromkeys(numbers)))
    return [session_row(namespace, row) for row in rows]


async def relatives(
    db: Database,
    namespace: str,
    families: Sequence[int],
    *,
    trees: Sequence[int] | None = None,
    latest: int | None = None,
) -> list[SessionRow]:
    wanted = list(dict.fromkeys(families))
    if trees is not None:
        owned = [{"namespace": namespace, "family": family, "numbers": list(trees)} for family in wanted]
        rows = await db.fetch_many(_OWNERS, owned)
    elif latest is not None:
        rows = await db.fetch(_LATEST, namespace=namespace, numbers=wanted, latest=latest)
    else:
        rows = await db.fetch(_RELATIVES, namespace=namespace, numbers=wanted)
    return [session_row(namespace, row) for row in rows]


async def families(db: Database, namespace: str, after: int, limit: int) -> list[int]:
    return [row[0] for row in await db.fetch(_FAMILIES, namespace=namespace, after=after, limit=limit)]


def _found(namespace: str, row: Row | None) -> SessionRow | None:
    return None if row is None else session_row(namespace, row)


# making them


async def taken(db: Database, new: NewSession | SessionRow) -> SessionRow | None:
    """The session that has a new one's id already, or its key as the current one."""
    found = await get(db, new.namespace, new.id)
    if found is not None or new.agent is None:
        return found
    return await get_current(db, new.namespace, (new.agent, new.channel or "", new.peer or "", new.thread))


async def create(db: Database, new: NewSession) -> tuple[SessionRow, bool]:
    """The new session, or the one that has its id or key. Needs a transaction with which no other makes sessions."""
    existing = await taken(db, new)
    if existing is not None:
        return existing, False
    ns = await db.namespace(new.namespace)
    (number,) = await db.draw(ns, "session", 1)
    return await insert(db, ns, new_row(new, number)), True


async def insert(db: Database, ns: Any, row: SessionRow, view: ViewRow | None = None) -> SessionRow:
    """Add a session whose id and key are free."""
    key = key_digest(row.agent, row.channel, row.peer, row.thread)
    await db.execute(_INSERT, key_digest=key, **session_values(ns, row))
    await set_digests(db, ns, row.number, "session_tags", tag_digests(row.tags))
    await set_digests(db, ns, row.number, "session_metadata", metadata_digests(row.metadata))
    if view is not None:
        await set_view(db, ns, row.number, view)
    await db.log(ns, row.number, row.created_at, [session_created(row.parent_session_id)])
    return row


async def set_digests(db: Database, ns: Any, session: int, table: str, digests: Sequence[bytes]) -> None:
    """Add values by which a session is looked up."""
    statement = f"INSERT INTO {{schema}}.{table} (ns, digest, session) VALUES (:ns, :digest, :session) {{keep}}"
    await db.execute_many(statement, [{"ns": ns, "digest": each, "session": session} for each in digests])


async def set_view(db: Database, ns: Any, session: int, view: ViewRow) -> None:
    statement = (
        "INSERT INTO {schema}.views ({ns,} session, items) VALUES ({:ns,} :session, :items)"
        " {replace {ns,} session: items}"
    )
    await db.execute(statement, ns=ns, session=session, items=json_text(view))
