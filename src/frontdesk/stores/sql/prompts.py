"""Frozen prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict, replace

from frontdesk.errors import SessionNotFoundError
from frontdesk.store import DocumentName, PromptRow
from frontdesk.stores.sql import leases
from frontdesk.stores.sql.database import Database
from frontdesk.tree import guards

_NAMES = PromptRow.__struct_fields__
_COLUMNS = ", ".join(_NAMES)
_GET = (
    f"SELECT {', '.join(f'p.{name}' for name in _NAMES)} FROM {{schema}}.sessions s"
    " JOIN {schema}.prompts p ON {same p s} p.session = s.number"
    " WHERE s.ns = {here} AND s.id = :session_id AND s.id <> ''"
)
_LOCK = "SELECT ns, number FROM {schema}.sessions WHERE ns = {here} AND id = :session_id AND id <> '' {lock}"
_PUT = (
    f"INSERT INTO {{schema}}.prompts ({{ns,}} session, {_COLUMNS})"
    f" VALUES ({{:ns,}} :session, {', '.join(f':{name}' for name in _NAMES)}) {{replace {{ns,}} session: {_COLUMNS}}}"
)
_NUMBER = "SELECT number FROM {schema}.prompts WHERE {ns} session = :session"
_COPY = (
    f"INSERT INTO {{schema}}.prompts ({{ns,}} session, {_COLUMNS})"
    f" SELECT {{ns,}} CAST(:fork AS bigint), {_COLUMNS} FROM {{schema}}.prompts WHERE {{ns}} session = :session"
)
_SHOWING = (
    "SELECT s.number FROM {schema}.sessions s JOIN {schema}.prompts p ON {same p s} p.session = s.number"
    " WHERE s.ns = :ns AND {block_version} = :version"
)
_EMPTY = PromptRow(number=1, text="", tokens=0, fingerprint="", blocks="{}", created_at=0)


async def get(db: Database, namespace: str, session_id: str) -> PromptRow | None:
    row = await db.fetch_row(_GET, namespace=namespace, session_id=session_id)
    return None if row is None else PromptRow(**dict(zip(_NAMES, row, strict=True)))


async def put(
    db: Database, namespace: str, session_id: str, prompt: PromptRow, replaces: int | None, *, fence: int | None = None
) -> PromptRow:
    """Needs a transaction."""
    session = await db.fetch_row(_LOCK, namespace=namespace, session_id=session_id)
    if fence is not None:
        guards.check_fence(session_id, fence, None if session is None else await leases.turn_of(db, *session))
    if session is None:
        raise SessionNotFoundError(session_id, namespace)
    present = await get(db, namespace, session_id)
    if present is not None and present.number != replaces:
        return present
    prompt = replace(prompt, number=(replaces or 0) + 1)
    await _put(db, session[0], session[1], prompt)
    return prompt


async def drop(db: Database, ns: Any, session: int) -> None:
    """Drop a session's frozen prompt: what was rendered before cannot be stored any more."""
    number = await db.fetch_value(_NUMBER, ns=ns, session=session) or 0
    await _put(db, ns, session, replace(_EMPTY, number=number + 1))


async def hide(db: Database, ns: Any, name: DocumentName, versions: Sequence[int]) -> None:
    """Drop the prompts that show one of these versions of a block, of all sessions that read it."""
    owner = name.owner
    parts = {"id": owner.session_id, "agent": owner.agent, "channel": owner.channel, "peer": owner.peer}
    given = {part: value for part, value in (parts | {"thread": owner.thread}).items() if value is not None}
    readers = "".join(f" AND s.{part} = :{part}" for part in given)
    if owner.scope == "key" and owner.thread is None:
        readers += " AND s.thread IS NULL"
    wanted = [{"ns": ns, "label": name.label, "version": version, **given} for version in versions]
    found = await db.fetch_many(f"{_SHOWING}{readers} ORDER BY s.number {{lock}}", wanted)
    for (session,) in found:
        await drop(db, ns, session)


async def copy(db: Database, ns: Any, source: int, fork: int) -> None:
    """Copy the frozen prompt of a session to its fork."""
    await db.execute(_COPY, ns=ns, session=source, fork=fork)


async def _put(db: Database, ns: Any, session: int, prompt: PromptRow) -> None:
    await db.execute(_PUT, ns=ns, session=session, **asdict(prompt))
    tokens = "UPDATE {schema}.sessions SET prompt_tokens = :tokens WHERE {ns} number = :session"
    await db.execute(tokens, ns=ns, session=session, tokens=prompt.tokens)
