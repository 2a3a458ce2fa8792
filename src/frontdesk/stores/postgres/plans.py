"""Applies plans: every kind of change that was decided in `tree`, in one transaction."""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from frontdesk.errors import SessionExistsError
from frontdesk.store import NewChange, NewFork, Place, Plan, SessionRow
from frontdesk.stores.postgres import append, documents, index, leases, log, prompts, sessions, vectors
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.rows import (
    SESSION,
    columns_of,
    json_text,
    namespace_of,
    session_row,
    tag_digests,
)
from frontdesk.tree import guards
from frontdesk.tree.sessions import fork_row, metadata_digests, new_row
from frontdesk.tree.texts import removed_texts

NO_LIMIT = 86_400.0
"""seconds that removing very many rows may take"""

_LOCK = (
    f"SELECT {SESSION} FROM {{schema}}.sessions s"
    " WHERE s.ns = $1 AND s.number = ANY($2::bigint[]) ORDER BY s.number FOR UPDATE"
)
_REPLACE_ROWS = """
WITH r AS (
    SELECT * FROM unnest($2::bigint[], $3::integer[], $4::bigint[], $5::text[], $6::text[], $7::bigint[], $8::bigint[],
        $9::text[], $10::text[]) r(segment, position, change, id, role, tokens, created_at, raw, derived)
), sums AS (
    UPDATE {schema}.segments t SET tokens = t.tokens + c.change
    FROM (SELECT segment, sum(change) AS change FROM r GROUP BY segment) c
    WHERE t.ns = $1 AND t.number = c.segment AND c.change <> 0
)
UPDATE {schema}.messages m SET id = r.id, role = r.role, tokens = r.tokens, created_at = r.created_at,
    raw = r.raw, derived = r.derived, running = m.running + r.change
FROM r WHERE m.ns = $1 AND m.segment = r.segment AND m.position = r.position"""
_DELETE_ROWS = """
DELETE FROM {schema}.messages m USING unnest($2::bigint[], $3::bigint[], $4::bigint[]) d(segment, first, last)
WHERE m.ns = $1 AND m.segment = d.segment AND m.position BETWEEN d.first AND d.last"""
_ADD_OVERLAYS = """
INSERT INTO {schema}.overlays SELECT $1, {schema}.new_number($1), o.*
FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::integer[], $8::bigint[],
    $9::integer[], $10::bigint[], $11::bigint[], $12::boolean[], $13::text[], $14::text[]) o RETURNING number"""
_ADD_EDITS = """
INSERT INTO {schema}.edits SELECT $1, {schema}.new_number($1), e.*
FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::integer[], $7::integer[], $8::bigint[],
    $9::bigint[], $10::text[]) e RETURNING number"""
_SET_SEGMENTS = (
    "UPDATE {schema}.segments t SET %s FROM unnest($2::bigint[], $3::integer[]) n(segment, position)"
    " WHERE t.ns = $1 AND t.number = n.segment"
)
_SET_VIEW = (
    "INSERT INTO {schema}.views VALUES ($1, $2, $3) ON CONFLICT (ns, session) DO UPDATE SET items = excluded.items"
)
_DELETE_STATES = (
    "DELETE FROM {schema}.states t USING {schema}.sessions s WHERE s.ns = $1 AND s.number = ANY($2::bigint[])"
    " AND t.ns = s.ns AND t.id = s.id AND t.id <> ''"
)
_OF_SESSIONS = (
    *("views", "session_tags", "session_metadata", "usage_entries", "documents", "prompts"),
    *("leases", "lease_waiters", "queued_messages"),
)


async def apply(connection: Connection, plan: Plan) -> bool:
    """Do all that a plan says, or nothing if a guard does not hold; `SessionExistsError` for a fork's taken id. Needs a
    transaction."""
    ns = namespace_of(plan.guards[0][0])
    session = await _guarded(connection, ns, plan)
    if session is None:
        return False
    removed = removed_texts(plan)
    if removed:
        await index.lock(connection, ns, shared=True)
    await _change_messages(connection, ns, plan)
    overlays = await _change_overlays(connection, ns, session, plan)
    edits = await _change_edits(connection, ns, session, plan)
    await _change_session(connection, ns, session, plan)
    await log.write(connection, ns, session.number, plan.now, _numbered(plan.log, overlays, edits))
    if plan.fork is not None:
        await _fork(connection, ns, session, plan.fork)
    if plan.create is not None:
        made = await _insert(connection, new_row(plan.create, 0))
        if plan.hand_over is not None:
            await leases.hand_over(connection, ns, session.number, made.number)
            await documents.copy_labels(connection, ns, session.number, made.number, plan.hand_over)
    if plan.drop_prompt:
        await prompts.drop(connection, ns, session.number)
    await _delete_sessions(connection, ns, plan.delete_sessions)
    await index.remove(connection, ns, removed)
    await vectors.remove(connection, ns, removed)
    if plan.append is not None:
        await append.append_locked(connection, plan.append, random.getrandbits(63))
    return True


async def _guarded(connection: Connection, ns: int, plan: Plan) -> SessionRow | None:
    """Lock the guarded sessions, and return the first if all are as the plan wants them."""
    rows = await connection.fetch(_LOCK, ns, [number for number, _ in plan.guards])
    found = {session.number: session for session in (session_row("", row) for row in rows)}
    first = plan.guards[0][0]
    turn = await leases.turn_of(connection, first) if plan.fence is not None and first in found else None
    return guards.check(plan, [found.get(number) for number, _ in plan.guards], turn)


async def _run(
    connection: Connection, statement: str, ns: int, *columns: Sequence[Any], limit: float | None = None
) -> None:
    """One statement over columns of values as $2, $3, ...; nothing if they are empty."""
    if columns[0]:
        await connection.execute(statement, ns, *columns, limit=limit)


async def _numbers(connection: Connection, statement: str, ns: int, rows: Sequence[Sequence[Any]]) -> list[int]:
    """Insert rows, and return their numbers, which grow in the order of rows."""
    if not rows:
        return []
    made = await connection.fetch(statement, ns, *columns_of(rows, len(rows[0])))
    return sorted(number for (number,) in made)


async def _change_messages(connection: Connection, ns: int, plan: Plan) -> None:
    replaced = [
        (*place, change, new.id, new.role, new.tokens, new.created_at, new.raw, new.derived)
        for place, new, change in plan.replace_rows
    ]
    await _run(connection, _REPLACE_ROWS, ns, *columns_of(replaced, 9))
    deleted = columns_of([(span.segment, span.first, span.last) for span in plan.delete_rows], 3)
    await _run(connection, _DELETE_ROWS, ns, *deleted, limit=NO_LIMIT)
    await _set_segments(connection, ns, "last = n.position", plan.set_last)
    await _set_segments(connection, ns, "shared = n.position", plan.set_shared)
    delete_all = "DELETE FROM {schema}.messages WHERE ns = $1 AND segment = ANY($2::bigint[])"
    await _run(connection, delete_all, ns, plan.delete_segments, limit=NO_LIMIT)
    await _delete(connection, "segments", "number", ns, plan.delete_segments)


async def _set_segments(connection: Connection, ns: int, change: str, places: Sequence[Place]) -> None:
    await _run(connection, _SET_SEGMENTS % change, ns, *columns_of(places, 2))


async def _delete(connection: Connection, table: str, column: str, ns: int, numbers: Sequence[int]) -> None:
    # Numbers are above 0: some indexes want it said.
    statement = f"DELETE FROM {{schema}}.{table} WHERE ns = $1 AND {column} = ANY($2::bigint[]) AND {column} > 0"
    await _run(connection, statement, ns, numbers)


async def _change_overlays(connection: Connection, ns: int, session: SessionRow, plan: Plan) -> list[int]:
    """Returns the numbers of those that were added."""
    added = [
        (
            *(session.tree, session.revision + 1, new.id, new.kind, *new.start, *new.end),
            *(new.tokens, new.created_at, new.stale, new.summary, new.details),
        )
        for new in plan.add_overlays
    ]
    numbers = await _numbers(connection, _ADD_OVERLAYS, ns, added)
    mark = "UPDATE {schema}.overlays SET stale = true WHERE ns = $1 AND number = ANY($2::bigint[])"
    await _run(connection, mark, ns, plan.mark_overlays)
    cut = (
        "UPDATE {schema}.overlays SET kind = 'truncate', stale = true, tokens = 0, summary = NULL"
        " WHERE ns = $1 AND number = ANY($2::bigint[])"
    )
    await _run(connection, cut, ns, plan.cut_overlays)
    await _delete(connection, "overlays", "number", ns, plan.delete_overlays)
    return numbers


async def _change_edits(connection: Connection, ns: int, session: SessionRow, plan: Plan) -> list[int]:
    """Returns the numbers of those that were added."""
    added = [
        (
            *(session.tree, session.revision + 1, new.kind, new.segment, new.first, new.last, new.tokens, new.overlay),
            None if new.message is None else json_text(new.message),
        )
        for new in plan.add_edits
    ]
    numbers = await _numbers(connection, _ADD_EDITS, ns, added)
    await _delete(connection, "edits", "number", ns, plan.delete_edits)
    await _delete(connection, "lineage", "tree", ns, plan.delete_lineage)
    return numbers


# sessions


async def _change_session(connection: Connection, ns: int, session: SessionRow, plan: Plan) -> None:
    values: dict[str, Any] = {"revision": session.revision + 1}
    columns: dict[str, Any] = {**plan.set}
    for name, value in columns.items():
        if name in ("head", "base"):
            values[f"{name}_segment"], values[f"{name}_position"] = value or (None, None)
        else:
            values[name] = Decimal(value) if name == "cost" else value
    values |= {name: getattr(session, name) + amount for name, amount in plan.add.items()}
    if plan.fresh_tree:
        values["tree"] = await connection.fetch_value("SELECT {schema}.new_number($1)", ns)
    if _moves_end(plan):
        values |= {"head_id": None, "head_next": None, "head_tokens": None}
    changes = ", ".join(f"{name} = ${number}" for number, name in enumerate(values, 3))
    statement = f"UPDATE {{schema}}.sessions SET {changes} WHERE ns = $1 AND number = $2"
    await connection.execute(statement, ns, session.number, *values.values())
    if plan.take_key:
        await sessions.take_key(connection, session.number)
    if plan.view is not None:
        await connection.execute(_SET_VIEW, ns, session.number, json_text(plan.view))
    if "tags" in plan.set:
        await _set_digests(connection, "session_tags", ns, session.number, tag_digests(plan.set["tags"]))
    if "metadata" in plan.set:
        digests = metadata_digests(plan.set["metadata"])
        await _set_digests(connection, "session_metadata", ns, session.number, digests)


async def _set_digests(connection: Connection, table: str, ns: int, session: int, digests: Sequence[bytes]) -> None:
    """Replace the values by which a session is looked up."""
    await _delete(connection, table, "session", ns, (session,))
    add = f"INSERT INTO {{schema}}.{table} SELECT $1, d.digest, $2 FROM unnest($3::bytea[]) d(digest)"
    await connection.execute(add, ns, session, digests)


def _moves_end(plan: Plan) -> bool:
    """Whether the head of the plan's session, or the end of the segment that it is in, may become another one. A plan
    changes no end but that of its own session: what is beyond it belongs to that session alone."""
    return bool("head" in plan.set or plan.fresh_tree or plan.delete_rows or plan.replace_rows or plan.set_last)


async def _fork(connection: Connection, ns: int, source: SessionRow, fork: NewFork) -> None:
    new = await _insert(connection, fork_row(fork, source, 0), fork)
    lineage = "INSERT INTO {schema}.lineage VALUES ($1, $2, $3, $4)"
    await connection.execute(lineage, ns, new.tree, source.tree, source.revision + 1)
    await _set_segments(connection, ns, "shared = greatest(t.shared, n.position)", fork.share)
    await documents.copy(connection, ns, source, new.number, fork.documents)


async def _insert(connection: Connection, row: SessionRow, fork: NewFork | None = None) -> SessionRow:
    made = await sessions.insert(connection, row, None if fork is None else fork.view)
    if made is None:
        raise SessionExistsError(row.id, row.namespace)
    return made


async def _delete_sessions(connection: Connection, ns: int, numbers: Sequence[int]) -> None:
    await _run(connection, _DELETE_STATES, ns, numbers)
    for table in _OF_SESSIONS:
        await _delete(connection, table, "session", ns, numbers)
    await _delete(connection, "sessions", "number", ns, numbers)
    await log.forget(connection, ns, numbers)


def _numbered(entries: Sequence[NewChange], overlays: Sequence[int], edits: Sequence[int]) -> list[NewChange]:
    """The log entries of a plan with the numbers of the rows that were added for it."""
    return [
        replace(entry, number=(overlays if entry.kind == "compaction.added" else edits)[entry.adds])
        if entry.adds is not None
        else entry
        for entry in entries
    ]
