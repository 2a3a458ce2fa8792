"""Frozen prompts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from frontdesk.store import DocumentName, PromptRow
from frontdesk.stores.sqlite import leases, sessions
from frontdesk.stores.sqlite.connections import Connection
from frontdesk.tree import guards

_PARTS = ("agent", "channel", "peer", "thread")
_COLUMNS = ", ".join(PromptRow.__struct_fields__)
_SHOWS = (
    "EXISTS (SELECT 1 FROM prompts p, json_each(p.blocks) b WHERE p.session = s.number AND b.key = ?"
    " AND json_extract(b.value, '$[0]') IN (SELECT value FROM json_each(?)))"
)


def get(connection: Connection, namespace: str, session_id: str) -> PromptRow | None:
    row = connection.execute(
        f"SELECT {', '.join(f'p.{name}' for name in PromptRow.__struct_fields__)} FROM sessions s"
        " JOIN prompts p ON p.session = s.number WHERE s.namespace = ? AND s.id = ?",
        (namespace, session_id),
    ).fetchone()
    return None if row is None else PromptRow(**dict(zip(PromptRow.__struct_fields__, row, strict=True)))


def put(
    connection: Connection,
    namespace: str,
    session_id: str,
    prompt: PromptRow,
    replaces: int | None,
    *,
    fence: int | None = None,
) -> PromptRow:
    session = sessions.get(connection, namespace, session_id)
    if fence is not None:
        guards.check_fence(session_id, fence, None if session is None else leases.turn_of(connection, session))
    session = session or sessions.get_known(connection, namespace, session_id)
    present = get(connection, namespace, session_id)
    if present is not None and present.number != replaces:
        return present
    prompt = msgspec.structs.replace(prompt, number=(replaces or 0) + 1)
    connection.execute(
        "INSERT OR REPLACE INTO prompts VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (session.number, *msgspec.structs.astuple(prompt)),
    )
    _note_tokens(connection, session.number, prompt.tokens)
    return prompt


def drop(connection: Connection, session: int) -> None:
    """Drop a session's frozen prompt: what was rendered before cannot be stored any more."""
    connection.execute(
        "INSERT INTO prompts VALUES (?, 1, '', 0, '', '{}', 0, 0) ON CONFLICT (session)"
        " DO UPDATE SET number = number + 1, text = '', tokens = 0, fingerprint = '', blocks = '{}'",
        (session,),
    )
    _note_tokens(connection, session, 0)


def hide(connection: Connection, namespace: str, name: DocumentName, versions: Sequence[int]) -> None:
    """Drop the prompts that show one of these versions of a block, of all sessions that read it."""
    owner = name.owner
    parts = {"id": owner.session_id} | {part: getattr(owner, part) for part in _PARTS}
    given = {part: value for part, value in parts.items() if value is not None}
    readers = "".join(f" AND s.{part} = ?" for part in given)
    if owner.scope == "key" and owner.thread is None:
        readers += " AND s.thread IS NULL"
    found = connection.execute(
        f"SELECT s.number FROM sessions s WHERE s.namespace = ?{readers} AND {_SHOWS}",
        (namespace, *given.values(), name.label, msgspec.json.encode(versions).decode()),
    ).fetchall()
    for (number,) in found:
        drop(connection, number)


def copy(connection: Connection, source: int, fork: int) -> None:
    """Give a fork the frozen prompt of its source."""
    connection.execute(
        f"INSERT INTO prompts (session, {_COLUMNS}) SELECT ?, {_COLUMNS} FROM prompts WHERE session = ?",
        (fork, source),
    )


def _note_tokens(connection: Connection, session: int, tokens: int) -> None:
    connection.execute("UPDATE sessions SET prompt_tokens = ? WHERE number = ?", (tokens, session))
