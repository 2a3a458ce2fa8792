"""Reads rows for an export, and writes rows of an import as they are. Messages are read and written by each store,
which has its own columns for a place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import asdict

from frontdesk.errors import SessionExistsError
from frontdesk.store import (
    DocumentRow,
    NumberKind,
    Owner,
    Restore,
    RestoredSession,
    SessionRow,
    StateKey,
    StateOwner,
    StateRow,
    UsageRow,
)
from frontdesk.stores.sql import documents, sessions, shelves, unfinished
from frontdesk.stores.sql.database import Database
from frontdesk.stores.sql.digests import group_digest, key_digest, tag_digests
from frontdesk.stores.sql.rows import (
    EDIT_COLUMNS,
    OVERLAY_COLUMNS,
    SEGMENT_COLUMNS,
    SESSION_COLUMNS,
    json_text,
    session_values,
)
from frontdesk.tree.sessions import metadata_digests

_NO_PLACE = (None, None)
_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_ENTRY = ("id", "day", "model", "at", *_COUNTS, "cost")
_DAY = ("day", "model", "agent", "channel", *_COUNTS, "cost")
_STATE = ("value", "mark", "version", "ttl", "created_at", "accessed_at", "type_version")
_OWNER = ("agent", "channel", "peer", "thread")
_LINEAGE = ("tree", "ancestor", "until")
_PROMPT = ("number", "text", "tokens", "fingerprint", "blocks", "created_at", "deployed_at")
_ENTRIES = (
    f"SELECT {', '.join(f'u.{name}' for name in _ENTRY)} FROM {{schema}}.sessions s JOIN {{schema}}.usage_entries u"
    " ON {same u s} u.session = s.number WHERE s.ns = {here} AND s.id = :session_id AND s.id <> '' AND u.id > :after"
    " ORDER BY u.id LIMIT :limit"
)
_STATES = (
    f"SELECT s.name, s.id, {', '.join(f's.{name}' for name in (*_STATE, *_OWNER))} FROM {{schema}}.states s"
    " WHERE s.ns = {here} AND (s.name, s.id) > (:name, :id) AND (s.ttl IS NULL OR {now} < s.accessed_at + s.ttl)"
    " ORDER BY s.name, s.id LIMIT :limit"
)


# reading


async def document_owners(db: Database, namespace: str) -> list[Owner]:
    statement = f"SELECT scope, {', '.join(_OWNER)} FROM {{schema}}.document_owners WHERE ns = {{here}}"
    return [Owner(scope, None, *parts) for scope, *parts in await db.fetch(statement, namespace=namespace)]


async def documents_of(db: Database, namespace: str, owner: Owner) -> list[DocumentRow]:
    return await documents.all_of(db, namespace, owner)


async def usage_entries(db: Database, namespace: str, session_id: str, after: str, limit: int) -> list[UsageRow]:
    rows = await db.fetch(_ENTRIES, namespace=namespace, session_id=session_id, after=after, limit=limit)
    return [UsageRow(**dict(zip(_ENTRY, row, strict=True))) for row in rows]


async def usage_days(db: Database, namespace: str) -> list[UsageRow]:
    statement = f"SELECT {', '.join(_DAY)} FROM {{schema}}.usage_days WHERE ns = {{here}}"
    return [UsageRow(**dict(zip(_DAY, row, strict=True))) for row in await db.fetch(statement, namespace=namespace)]


async def states_after(db: Database, namespace: str, name: str, id: str, limit: int) -> list[tuple[StateKey, StateRow]]:
    rows = await db.fetch(_STATES, namespace=namespace, name=name, id=id, limit=limit)
    return [(StateKey(namespace, found, of), _state(values)) for of, found, *values in rows]


def _state(values: Sequence[Any]) -> StateRow:
    *written, agent, channel, peer, thread = values
    owner = None if peer is None else StateOwner(agent, channel, peer, thread)
    return StateRow(*(*written, owner))


# writing


async def draw_numbers(db: Database, namespace: str, kind: NumberKind, count: int) -> list[int]:
    return await db.draw(await db.namespace(namespace), kind, count)


async def restore(db: Database, rows: Restore) -> None:
    """Write all rows except the messages. Needs a transaction."""
    ns = await db.namespace(rows.namespace)
    if rows.is_noted:
        await unfinished.check(db, rows.namespace, rows.family, finished=bool(rows.sessions))
    await _restore_tree(db, ns, rows)
    for session in rows.sessions:
        await _restore_session(db, ns, session)
    prompts = [{"ns": ns, "session": number, **asdict(prompt)} for number, prompt in rows.prompts]
    await _put(db, "prompts", "session", _PROMPT, prompts)
    for owner, document in rows.documents:
        await documents.restore(db, rows.namespace, owner, document)
    entries = [{"ns": ns, "session": number, **_values(_ENTRY, entry)} for number, entry in rows.usage]
    await _put(db, "usage_entries", "session, id", [name for name in _ENTRY if name != "id"], entries)
    days = [
        {"ns": ns, "digest": group_digest(day.model, day.agent, day.channel), **_values(_DAY, day)} for day in rows.days
    ]
    await _put(db, "usage_days", "ns, day, digest", _DAY[1:], days)
    states = [
        {
            "ns": ns,
            "id": key.id,
            "name": key.name,
            "due": row.expires_at,
            **_values(_STATE, row),
            **dict(zip(_OWNER, row.owner or (None, None, None, None), strict=True)),
        }
        for key, row in rows.states
    ]
    await _put(db, "states", "ns, name, id", ("due", *_STATE, *_OWNER), states)
    for shelf, blobs in rows.shelves:
        await shelves.restore(db, shelf, blobs)
    for session_number, at, change in rows.log:
        await db.log(ns, session_number, at, [change])


async def _restore_tree(db: Database, ns: Any, rows: Restore) -> None:
    segments = [{"ns": ns, **asdict(row), **_place("parent", *(row.parent or _NO_PLACE))} for row in rows.segments]
    await _put(db, "segments", "number", SEGMENT_COLUMNS[1:], segments)
    overlays = [
        {"ns": ns, **asdict(row), **_place("start", *row.start), **_place("end", *row.end)} for row in rows.overlays
    ]
    await _put(db, "overlays", "number", (*OVERLAY_COLUMNS[1:], "summary"), overlays)
    edits = [
        {"ns": ns, **asdict(row), "message": None if row.message is None else json_text(row.message)}
        for row in rows.edits
    ]
    await _put(db, "edits", "number", EDIT_COLUMNS[1:], edits)
    await _put(db, "lineage", "tree", _LINEAGE[1:], [{"ns": ns, **asdict(row)} for row in rows.lineage])


async def _restore_session(db: Database, ns: Any, session: RestoredSession) -> None:
    row = session.row
    await _check_free(db, row)
    for table in ("session_tags", "session_metadata", "views"):
        await db.execute(
            f"DELETE FROM {{schema}}.{table} WHERE {{ns}} session = :session AND session > 0",
            ns=ns,
            session=row.number,
        )
    key = key_digest(row.agent, row.channel, row.peer, row.thread)
    columns = ("ns", "key_digest", *(name for name in SESSION_COLUMNS if name not in ("ns", "number")))
    statement = (
        f"INSERT INTO {{schema}}.sessions (number, {', '.join(columns)})"
        f" VALUES (:number, {', '.join(f':{name}' for name in columns)})"
        f" {{replace {{ns,}} number: {', '.join(columns[1:])}}}"
    )
    await db.execute(statement, key_digest=key, **session_values(ns, row))
    await sessions.set_digests(db, ns, row.number, "session_tags", tag_digests(row.tags))
    await sessions.set_digests(db, ns, row.number, "session_metadata", metadata_digests(row.metadata))
    if session.view is not None:
        await sessions.set_view(db, ns, row.number, session.view)


async def _check_free(db: Database, row: SessionRow) -> None:
    """Raises `SessionExistsError` if another session has the id, or is current under the key."""
    found = [await sessions.get(db, row.namespace, row.id)]
    if row.key_current and row.agent is not None:
        key = (row.agent, row.channel or "", row.peer or "", row.thread)
        found.append(await sessions.get_current(db, row.namespace, key))
    if any(other is not None and other.number != row.number for other in found):
        raise SessionExistsError(row.id, row.namespace)


async def _put(db: Database, table: str, key: str, columns: Sequence[str], rows: Iterable[dict[str, Any]]) -> None:
    """Insert rows, in place of those with the same key. A key that does not begin with `ns` has it where all have."""
    names = [*key.split(", "), *columns]
    if not key.startswith("ns"):
        named, valued, conflict = "{ns,} ", "{:ns,} ", f"{{ns,}} {key}"
    else:
        named, valued, conflict = "", "", key
    statement = (
        f"INSERT INTO {{schema}}.{table} ({named}{', '.join(names)})"
        f" VALUES ({valued}{', '.join(f':{name}' for name in names)})"
        f" {{replace {conflict}: {', '.join(columns)}}}"
    )
    await db.execute_many(statement, [*rows])


def _place(name: str, segment: int | None, position: int | None) -> dict[str, Any]:
    return {f"{name}_segment": segment, f"{name}_position": position}


def _values(names: Sequence[str], row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}
