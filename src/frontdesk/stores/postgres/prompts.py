"""Frozen prompts."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple, replace

from frontdesk.errors import SessionNotFoundError
from frontdesk.store import DocumentName, PromptRow
from frontdesk.stores.postgres import leases
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.rows import HERE
from frontdesk.tree import guards

_COLUMNS = ", ".join(PromptRow.__struct_fields__)
_GET = (
    f"SELECT {', '.join(f'p.{name}' for name in PromptRow.__struct_fields__)} FROM {{schema}}.sessions s"
    " JOIN {schema}.prompts p ON p.ns = s.ns AND p.session = s.number"
    f" WHERE s.ns = {HERE} AND s.id = $2 AND s.id <> ''"
)
_PUT = (
    "INSERT INTO {schema}.prompts AS p VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
    " ON CONFLICT (ns, session) DO UPDATE SET number = excluded.number, text = excluded.text,"
    " tokens = excluded.tokens, fingerprint = excluded.fingerprint,"
    " blocks = excluded.blocks, created_at = excluded.created_at, deployed_at = excluded.deployed_at"
    f" WHERE p.number = $10 RETURNING {_COLUMNS}"
)
_SHOWING = (
    "SELECT s.number FROM {schema}.sessions s WHERE s.ns = $1 AND %s AND EXISTS (SELECT FROM {schema}.prompts p"
    " WHERE p.ns = s.ns AND p.session = s.number"
    " AND (p.blocks::jsonb -> $2::text ->> 0)::bigint = ANY($3::bigint[])) ORDER BY s.number FOR UPDATE OF s"
)


async def get(connection: Connection, namespace: str, session_id: str) -> PromptRow | None:
    row = await connection.fetch_row(_GET, namespace, session_id)
    return None if row is None else PromptRow(**row)


async def put(
    connection: Connection,
    namespace: str,
    session_id: str,
    prompt: PromptRow,
    replaces: int | None,
    *,
    fence: int | None = None,
) -> PromptRow:
    """Needs a transaction."""
    row = await connection.fetch_row(
        f"SELECT ns, number FROM {{schema}}.sessions WHERE ns = {HERE} AND id = $2 AND id <> '' FOR UPDATE",
        namespace,
        session_id,
    )
    if fence is not None:
        guards.check_fence(session_id, fence, None if row is None else await leases.turn_of(connection, row[1]))
    if row is None:
        raise SessionNotFoundError(session_id, namespace)
    ns, session = row
    values = astuple(replace(prompt, number=(replaces or 0) + 1))
    stored = await connection.fetch_row(_PUT, ns, session, *values, replaces)
    if stored is None:
        present = await get(connection, namespace, session_id)
        assert present is not None, "the session is locked, so the prompt that was in the way is still there"
        return present
    await _note_tokens(connection, ns, session, prompt.tokens)
    return PromptRow(**stored)


async def drop(connection: Connection, ns: int, session: int) -> None:
    """Drop a session's frozen prompt: what was rendered before cannot be stored any more."""
    await connection.execute(
        "INSERT INTO {schema}.prompts AS p VALUES ($1, $2, 1, '', 0, '', '{}', 0, 0)"
        " ON CONFLICT (ns, session) DO UPDATE SET number = p.number + 1, text = '', tokens = 0,"
        " fingerprint = '', blocks = '{}'",
        ns,
        session,
    )
    await _note_tokens(connection, ns, session, 0)


async def hide(connection: Connection, ns: int, name: DocumentName, versions: Sequence[int]) -> None:
    """Drop the prompts that show one of these versions of a block, of all sessions that read it."""
    owner = name.owner
    parts = {"id": owner.session_id, "agent": owner.agent, "channel": owner.channel, "peer": owner.peer}
    given = {part: value for part, value in (parts | {"thread": owner.thread}).items() if value is not None}
    readers = [f"s.{part} = ${number}" for number, part in enumerate(given, 4)]
    if owner.scope == "key" and owner.thread is None:
        readers.append("s.thread IS NULL")
    found = await connection.fetch(
        _SHOWING % (" AND ".join(readers) or "true"), ns, name.label, list(versions), *given.values()
    )
    for (session,) in found:
        await drop(connection, ns, session)


async def copy(connection: Connection, ns: int, source: int, fork: int) -> None:
    """Copy the frozen prompt of a session to its fork."""
    await connection.execute(
        f"INSERT INTO {{schema}}.prompts SELECT ns, $3::bigint, {_COLUMNS} FROM {{schema}}.prompts"
        " WHERE ns = $1 AND session = $2",
        ns,
        source,
        fork,
    )


async def _note_tokens(connection: Connection, ns: int, session: int, tokens: int) -> None:
    statement = "UPDATE {schema}.sessions SET prompt_tokens = $3 WHERE ns = $1 AND number = $2"
    await connection.execute(statement, ns, session, tokens)
