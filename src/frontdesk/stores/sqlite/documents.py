"""Versioned texts and frozen prompts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from frontdesk.store import DocumentName, DocumentRow, Fence, ForkedDocuments, Owner, OwnerQuery, SessionRow
from frontdesk.store.changes import RESERVED_PREFIX, block_changed
from frontdesk.stores.sqlite import leases, log, prompts, sessions
from frontdesk.stores.sqlite.connections import Connection
from frontdesk.tree import guards

_COLUMNS = "label, key, version, content, description, author, created_at"
_OF = "session = ? AND namespace = ? AND label = ?"
_CURRENT = f"SELECT {_COLUMNS} FROM documents WHERE {_OF} AND key = ? ORDER BY version DESC LIMIT 1"
_INSERT = f"INSERT INTO documents (session, namespace, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_OWNER = (  # as in the index
    "namespace = ?1 AND scope = ?2 AND coalesce(agent, '') = coalesce(?3, '')"
    " AND coalesce(channel, '') = coalesce(?4, '') AND coalesce(peer, '') = coalesce(?5, '')"
    " AND coalesce('=' || thread, '') = coalesce('=' || ?6, '')"
)
_COPY = (
    f"INSERT INTO documents (session, namespace, {_COLUMNS}) SELECT ?1, namespace, {_COLUMNS} FROM ("
    f" SELECT namespace, {_COLUMNS}, max(version) FROM documents WHERE session = ?2 AND %s"
    " GROUP BY namespace, label, key)"
)


def get(connection: Connection, namespace: str, names: Sequence[DocumentName]) -> list[DocumentRow | None]:
    numbers = {owner: _number(connection, namespace, owner) for owner in dict.fromkeys(name.owner for name in names)}
    return [_current(connection, namespace, numbers[name.owner], name.label, name.key) for name in names]


def list_label(connection: Connection, namespace: str, owner: Owner, label: str) -> list[DocumentRow]:
    rows = connection.execute(
        f"SELECT {_COLUMNS}, max(version) FROM documents WHERE {_OF} GROUP BY key ORDER BY key",
        (_number(connection, namespace, owner), namespace, label),
    )
    return [_document(row) for row in rows]


def versions(connection: Connection, namespace: str, name: DocumentName) -> list[DocumentRow]:
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM documents WHERE {_OF} AND key = ? ORDER BY version DESC",
        (_number(connection, namespace, name.owner), namespace, name.label, name.key),
    )
    return [_document(row) for row in rows]


def put(
    connection: Connection,
    namespace: str,
    owner: Owner,
    document: DocumentRow,
    *,
    keep_history: bool = True,
    drop_prompt: bool = False,
    fence: Fence | None = None,
) -> bool:
    check_fence(connection, namespace, fence)
    number = _known_number(connection, namespace, owner)
    current = _current(connection, namespace, number, document.label, document.key)
    if document.version != (1 if current is None else current.version + 1):
        return False
    connection.execute(_INSERT, (number, namespace, *msgspec.structs.astuple(document)))
    if not keep_history:
        connection.execute(
            f"DELETE FROM documents WHERE {_OF} AND key = ? AND version < ?",
            (number, namespace, document.label, document.key, document.version),
        )
    if drop_prompt:
        prompts.drop(connection, number)
    _log(connection, namespace, number, owner, document)
    return True


def _log(connection: Connection, namespace: str, number: int, owner: Owner, document: DocumentRow) -> None:
    for change in block_changed(document.label, owner.scope):
        log.write(connection, namespace, max(number, sessions.SHARED), document.created_at, change)


def rewrite(
    connection: Connection,
    namespace: str,
    name: DocumentName,
    versions: Sequence[DocumentRow],
    newest: int,
    *,
    hide: Sequence[int] = (),
    fence: Fence | None = None,
) -> bool:
    check_fence(connection, namespace, fence)
    number = _number(connection, namespace, name.owner)
    current = _current(connection, namespace, number, name.label, name.key)
    if newest != (0 if current is None else current.version):
        return False
    if number is None and versions:
        number = _known_number(connection, namespace, name.owner)
    if number is not None:
        connection.execute(f"DELETE FROM documents WHERE {_OF} AND key = ?", (number, namespace, name.label, name.key))
        connection.executemany(_INSERT, [(number, namespace, *msgspec.structs.astuple(row)) for row in versions])
        for row in versions:
            if row.version > newest:
                _log(connection, namespace, number, name.owner, row)
    if hide:
        prompts.hide(connection, namespace, name, hide)
    return True


def delete_owned(connection: Connection, query: OwnerQuery) -> int:
    parts = {"agent": query.agent, "channel": query.channel, "peer": query.peer, "thread": query.thread}
    given = {part: value for part, value in parts.items() if value is not None}
    condition = "".join(f" AND {part} = ?" for part in given)
    statement = f"DELETE FROM document_owners WHERE namespace = ? AND scope <> 'namespace'{condition} RETURNING number"
    found = connection.execute(statement, (query.namespace, *given.values())).fetchall()
    removed = 0
    for (number,) in found:
        gone = connection.execute("DELETE FROM documents WHERE session = ? RETURNING label", (-number,)).fetchall()
        removed += sum(not label.startswith(RESERVED_PREFIX) for (label,) in gone)
    return removed


def copy(connection: Connection, source: SessionRow, fork: int, wanted: ForkedDocuments) -> None:
    """Give a fork the current texts of its source, and its frozen prompt, as far as they are wanted."""
    left = msgspec.json.encode(wanted.leave).decode()
    kept = "label NOT IN (SELECT value FROM json_each(?3))"
    connection.execute(_COPY % kept, (fork, source.number, left))
    for owner, label in wanted.copy:
        number = _number(connection, source.namespace, owner)
        connection.execute(_COPY % "label = ?3", (fork, number, label))
    rows = [(fork, source.namespace, *msgspec.structs.astuple(row)) for row in wanted.add]
    connection.executemany(_INSERT, rows)
    if wanted.prompt:
        prompts.copy(connection, source.number, fork)


def copy_labels(connection: Connection, source: int, new: int, labels: Sequence[str]) -> None:
    """Give a session the current texts of another one with these labels."""
    connection.executemany(_COPY % "label = ?3", [(new, source, label) for label in labels])


def check_fence(connection: Connection, namespace: str, fence: Fence | None) -> None:
    """Raises `TurnLostError` if the turn is not held under this number."""
    if fence is not None:
        session = sessions.get(connection, namespace, fence.session_id)
        turn = None if session is None else leases.turn_of(connection, session)
        guards.check_fence(fence.session_id, fence.number, turn)


def _number(connection: Connection, namespace: str, owner: Owner) -> int | None:
    """The number of a session, or minus that of another owner; None if there is none."""
    if owner.scope == "session":
        return sessions.owner_of(connection, namespace, owner.session_id)
    statement = f"SELECT -number FROM document_owners WHERE {_OWNER}"
    row = connection.execute(statement, (namespace, *owner.parts)).fetchone()
    return None if row is None else int(row[0])


def _known_number(connection: Connection, namespace: str, owner: Owner) -> int:
    """The same for a write, which makes what is not a session."""
    if owner.scope == "session":
        return sessions.get_known(connection, namespace, owner.session_id or "").number
    number = _number(connection, namespace, owner)
    if number is not None:
        return number
    made = connection.execute(
        "INSERT INTO document_owners (namespace, scope, agent, channel, peer, thread) VALUES (?, ?, ?, ?, ?, ?)"
        " RETURNING -number",
        (namespace, *owner.parts),
    ).fetchall()
    return int(made[0][0])


def _current(connection: Connection, namespace: str, number: int | None, label: str, key: str) -> DocumentRow | None:
    row = connection.execute(_CURRENT, (number, namespace, label, key)).fetchone()
    return None if row is None else _document(row)


def _document(row: Sequence[object]) -> DocumentRow:
    return DocumentRow(**dict(zip(DocumentRow.__struct_fields__, row, strict=False)))  # type: ignore[arg-type]
