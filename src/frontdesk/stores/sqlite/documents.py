"""Versioned texts and frozen prompts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from frontdesk.store import DocumentRow, PromptRow
from frontdesk.store.changes import block_changed
from frontdesk.stores.sqlite import log, sessions
from frontdesk.stores.sqlite.connections import Connection

SHARED = 0
"""the session number of what belongs to a whole namespace"""

_COLUMNS = "label, key, version, content, description, author, created_at"
_OF = "session = ? AND namespace = ? AND label = ?"
_CURRENT = f"SELECT {_COLUMNS} FROM documents WHERE {_OF} AND key = ? ORDER BY version DESC LIMIT 1"


def get(
    connection: Connection, namespace: str, session_id: str | None, names: Sequence[tuple[str, str]]
) -> list[DocumentRow]:
    owner = owner_of(connection, namespace, session_id)
    if owner is None:
        return []
    rows = (connection.execute(_CURRENT, (owner, namespace, label, key)).fetchone() for label, key in names)
    return [_document(row) for row in rows if row is not None]


def list_label(connection: Connection, namespace: str, session_id: str | None, label: str) -> list[DocumentRow]:
    owner = owner_of(connection, namespace, session_id)
    if owner is None:
        return []
    rows = connection.execute(
        f"SELECT {_COLUMNS}, max(version) FROM documents WHERE {_OF} GROUP BY key ORDER BY key",
        (owner, namespace, label),
    )
    return [_document(row) for row in rows]


def versions(connection: Connection, namespace: str, session_id: str | None, label: str, key: str) -> list[DocumentRow]:
    owner = owner_of(connection, namespace, session_id)
    if owner is None:
        return []
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM documents WHERE {_OF} AND key = ? ORDER BY version DESC",
        (owner, namespace, label, key),
    )
    return [_document(row) for row in rows]


def put(
    connection: Connection,
    namespace: str,
    session_id: str | None,
    document: DocumentRow,
    *,
    keep_history: bool = True,
    drop_prompt: bool = False,
) -> bool:
    owner = SHARED if session_id is None else sessions.get_known(connection, namespace, session_id).number
    current = connection.execute(_CURRENT, (owner, namespace, document.label, document.key)).fetchone()
    if document.version != (1 if current is None else _document(current).version + 1):
        return False
    connection.execute(
        f"INSERT INTO documents (session, namespace, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (owner, namespace, *msgspec.structs.astuple(document)),
    )
    if not keep_history:
        connection.execute(
            f"DELETE FROM documents WHERE {_OF} AND key = ? AND version < ?",
            (owner, namespace, document.label, document.key, document.version),
        )
    if drop_prompt:
        drop(connection, owner)
    for change in block_changed(document.label):
        log.write(connection, namespace, owner, document.created_at, change)
    return True


def drop(connection: Connection, session: int) -> None:
    """Drop a session's frozen prompt: what was rendered before cannot be stored any more."""
    connection.execute(
        "INSERT INTO prompts VALUES (?, 1, '', 0, '', '{}', 0) ON CONFLICT (session)"
        " DO UPDATE SET number = number + 1, text = '', tokens = 0, fingerprint = '', blocks = '{}'",
        (session,),
    )
    _note_tokens(connection, session, 0)


def _note_tokens(connection: Connection, session: int, tokens: int) -> None:
    connection.execute("UPDATE sessions SET prompt_tokens = ? WHERE number = ?", (tokens, session))


def get_prompt(connection: Connection, namespace: str, session_id: str) -> PromptRow | None:
    row = connection.execute(
        "SELECT p.number, p.text, p.tokens, p.fingerprint, p.blocks, p.created_at FROM sessions s"
        " JOIN prompts p ON p.session = s.number WHERE s.namespace = ? AND s.id = ?",
        (namespace, session_id),
    ).fetchone()
    return None if row is None else PromptRow(**dict(zip(PromptRow.__struct_fields__, row, strict=True)))


def put_prompt(
    connection: Connection, namespace: str, session_id: str, prompt: PromptRow, replaces: int | None
) -> PromptRow:
    session = sessions.get_known(connection, namespace, session_id)
    present = get_prompt(connection, namespace, session_id)
    if present is not None and present.number != replaces:
        return present
    prompt = msgspec.structs.replace(prompt, number=(replaces or 0) + 1)
    connection.execute(
        "INSERT OR REPLACE INTO prompts VALUES (?, ?, ?, ?, ?, ?, ?)",
        (session.number, *msgspec.structs.astuple(prompt)),
    )
    _note_tokens(connection, session.number, prompt.tokens)
    return prompt


def copy(connection: Connection, source: int, fork: int) -> None:
    """Give a fork the current texts of its source, and its frozen prompt."""
    connection.execute(
        f"INSERT INTO documents (session, namespace, {_COLUMNS}) SELECT ?, namespace, {_COLUMNS} FROM ("
        f" SELECT namespace, {_COLUMNS}, max(version) FROM documents WHERE session = ? GROUP BY namespace, label, key)",
        (fork, source),
    )
    connection.execute(
        "INSERT INTO prompts SELECT ?, number, text, tokens, fingerprint, blocks, created_at FROM prompts"
        " WHERE session = ?",
        (fork, source),
    )


def owner_of(connection: Connection, namespace: str, session_id: str | None) -> int | None:
    """The number of a session, or `SHARED` for the namespace; None if the session is not there."""
    if session_id is None:
        return SHARED
    row = connection.execute(
        "SELECT number FROM sessions WHERE namespace = ? AND id = ?", (namespace, session_id)
    ).fetchone()
    return None if row is None else int(row[0])


def _document(row: Sequence[object]) -> DocumentRow:
    return DocumentRow(**dict(zip(DocumentRow.__struct_fields__, row, strict=False)))  # type: ignore[arg-type]
