"""Versioned texts and frozen prompts."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple, replace

from frontdesk.errors import SessionNotFoundError
from frontdesk.store import DocumentRow, PromptRow
from frontdesk.store.changes import block_changed
from frontdesk.stores.postgres import log
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.rows import digest

SHARED = 0
"""the session number of what belongs to a whole namespace"""
OWNER = (
    f"SELECT n.number AS ns, CASE WHEN $2::text IS NULL THEN {SHARED} ELSE s.number END AS session"
    " FROM {schema}.namespaces n LEFT JOIN {schema}.sessions s ON s.ns = n.number AND s.id = $2"
    " WHERE n.name = $1 AND ($2::text IS NULL OR s.number IS NOT NULL)"
)
"""a query for (ns, session) of the namespace $1 and the session $2 (NULL: what is shared)"""

_COLUMNS = ", ".join(DocumentRow.__struct_fields__)
_PROMPT = ", ".join(PromptRow.__struct_fields__)
_GET = (
    f"SELECT d.* FROM ({OWNER}) o, unnest($3::bytea[], $4::bytea[]) w(label, key), LATERAL ("
    f" SELECT {_COLUMNS} FROM {{schema}}.documents x WHERE x.ns = o.ns AND x.session = o.session"
    " AND x.label_digest = w.label AND x.key_digest = w.key ORDER BY x.version DESC LIMIT 1) d"
)
_ENTRIES = (
    f"SELECT {_COLUMNS} FROM (SELECT DISTINCT ON (x.key_digest) x.* FROM {{schema}}.documents x,"
    f" ({OWNER}) o WHERE x.ns = o.ns AND x.session = o.session AND x.label_digest = $3"
    ' ORDER BY x.key_digest, x.version DESC) newest ORDER BY key COLLATE "C"'
)
_VERSIONS = (
    f"SELECT {_COLUMNS} FROM {{schema}}.documents x, ({OWNER}) o WHERE x.ns = o.ns"
    " AND x.session = o.session AND x.label_digest = $3 AND x.key_digest = $4 ORDER BY x.version DESC"
)
_PUT = (
    f"INSERT INTO {{schema}}.documents (ns, session, label_digest, key_digest, {_COLUMNS})"
    " SELECT $1, $2, $3, $4, $5, $6, $7::bigint, $8, $9, $10, $11"
    " WHERE $7 = 1 + (SELECT coalesce(max(version), 0) FROM {schema}.documents"
    " WHERE ns = $1 AND session = $2 AND label_digest = $3 AND key_digest = $4) ON CONFLICT DO NOTHING"
)
_PUT_PROMPT = (
    "INSERT INTO {schema}.prompts AS p VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
    " ON CONFLICT (ns, session) DO UPDATE SET number = excluded.number, text = excluded.text,"
    " tokens = excluded.tokens, fingerprint = excluded.fingerprint,"
    " blocks = excluded.blocks, created_at = excluded.created_at"
    f" WHERE p.number = $9 RETURNING {_PROMPT}"
)


async def get(
    connection: Connection, namespace: str, session_id: str | None, names: Sequence[tuple[str, str]]
) -> list[DocumentRow]:
    digests = [digest(label) for label, _ in names], [digest(key) for _, key in names]
    return [DocumentRow(**row) for row in await connection.fetch(_GET, namespace, session_id, *digests)]


async def entries(connection: Connection, namespace: str, session_id: str | None, label: str) -> list[DocumentRow]:
    return [DocumentRow(**row) for row in await connection.fetch(_ENTRIES, namespace, session_id, digest(label))]


async def versions(
    connection: Connection, namespace: str, session_id: str | None, label: str, key: str
) -> list[DocumentRow]:
    rows = await connection.fetch(_VERSIONS, namespace, session_id, digest(label), digest(key))
    return [DocumentRow(**row) for row in rows]


async def put(
    connection: Connection,
    namespace: str,
    session_id: str | None,
    document: DocumentRow,
    *,
    keep_history: bool = True,
    drop_prompt: bool = False,
) -> bool:
    """Needs a transaction."""
    ns, session = await _locked(connection, namespace, session_id)
    name = (ns, session, digest(document.label), digest(document.key))
    if not await connection.execute(_PUT, *name, *astuple(document)):
        return False
    if not keep_history:
        await connection.execute(
            "DELETE FROM {schema}.documents WHERE ns = $1 AND session = $2 AND label_digest = $3"
            " AND key_digest = $4 AND version < $5",
            *name,
            document.version,
        )
    if drop_prompt:
        await drop(connection, ns, session)
    await log.write(connection, ns, session, document.created_at, block_changed(document.label))
    return True


async def copy(connection: Connection, ns: int, source: int, fork: int) -> None:
    """Copy the current texts of a session and its frozen prompt to its fork."""
    await connection.execute(
        "INSERT INTO {schema}.documents SELECT DISTINCT ON (label_digest, key_digest) ns, $3::bigint,"
        " label_digest, key_digest, version, label, key, content, description, author, created_at"
        " FROM {schema}.documents WHERE ns = $1 AND session = $2"
        " ORDER BY label_digest, key_digest, version DESC",
        ns,
        source,
        fork,
    )
    await connection.execute(
        f"INSERT INTO {{schema}}.prompts SELECT ns, $3::bigint, {_PROMPT} FROM {{schema}}.prompts"
        " WHERE ns = $1 AND session = $2",
        ns,
        source,
        fork,
    )


# prompts


async def get_prompt(connection: Connection, namespace: str, session_id: str) -> PromptRow | None:
    row = await connection.fetch_row(
        f"SELECT {_PROMPT} FROM {{schema}}.prompts p, ({OWNER}) o WHERE p.ns = o.ns AND p.session = o.session",
        namespace,
        session_id,
    )
    return None if row is None else PromptRow(**row)


async def put_prompt(
    connection: Connection, namespace: str, session_id: str, prompt: PromptRow, replaces: int | None
) -> PromptRow:
    """Needs a transaction."""
    ns, session = await _locked(connection, namespace, session_id)
    values = astuple(replace(prompt, number=(replaces or 0) + 1))
    row = await connection.fetch_row(_PUT_PROMPT, ns, session, *values, replaces)
    if row is None:
        present = await get_prompt(connection, namespace, session_id)
        assert present is not None, "the session is locked, so the prompt that was in the way is still there"
        return present
    await _note_tokens(connection, ns, session, prompt.tokens)
    return PromptRow(**row)


async def drop(connection: Connection, ns: int, session: int) -> None:
    """Drop a session's frozen prompt: what was rendered before cannot be stored any more."""
    await connection.execute(
        "INSERT INTO {schema}.prompts AS p VALUES ($1, $2, 1, '', 0, '', '{}', 0)"
        " ON CONFLICT (ns, session) DO UPDATE SET number = p.number + 1, text = '', tokens = 0,"
        " fingerprint = '', blocks = '{}'",
        ns,
        session,
    )
    await _note_tokens(connection, ns, session, 0)


async def _note_tokens(connection: Connection, ns: int, session: int, tokens: int) -> None:
    statement = "UPDATE {schema}.sessions SET prompt_tokens = $3 WHERE ns = $1 AND number = $2"
    await connection.execute(statement, ns, session, tokens)


async def _locked(connection: Connection, namespace: str, session_id: str | None) -> tuple[int, int]:
    """Namespace and session by number, the session's row locked. Raises `SessionNotFoundError`."""
    ns = await connection.fetch_value("SELECT {schema}.namespace($1)", namespace)
    if session_id is None:
        return ns, SHARED
    number = await connection.fetch_value(
        "SELECT number FROM {schema}.sessions WHERE ns = $1 AND id = $2 FOR UPDATE", ns, session_id
    )
    if number is None:
        raise SessionNotFoundError(session_id, namespace)
    return ns, number
