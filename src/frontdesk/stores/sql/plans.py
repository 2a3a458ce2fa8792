"""Applies plans: every kind of change that was decided in `tree`, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from msgspec.structs import asdict, replace

from frontdesk.store import (
    SEGMENT_SIZE,
    Append,
    NewChange,
    NewFork,
    Place,
    Plan,
    Range,
    SessionRow,
    Span,
    ViewRow,
)
from frontdesk.stores.sql import documents, leases, prompts, sessions
from frontdesk.stores.sql.database import Database, Row
from frontdesk.stores.sql.digests import tag_digests
from frontdesk.stores.sql.rows import EDIT_COLUMNS, OVERLAY_COLUMNS, SESSION, json_text, session_row, span_values
from frontdesk.tree import guards
from frontdesk.tree.sessions import fork_row, metadata_digests, new_row
from frontdesk.tree.texts import removed_texts

_LOCK = f"SELECT {SESSION} FROM {{schema}}.sessions s WHERE {{ns s}} s.number = :number {{lock}}"
_ADD_OVERLAY = (
    f"INSERT INTO {{schema}}.overlays ({{ns,}} {', '.join(OVERLAY_COLUMNS)}, summary)"
    f" VALUES ({{:ns,}} {', '.join(f':{name}' for name in OVERLAY_COLUMNS)}, :summary)"
)
_ADD_EDIT = (
    f"INSERT INTO {{schema}}.edits ({{ns,}} {', '.join(EDIT_COLUMNS)})"
    f" VALUES ({{:ns,}} {', '.join(f':{name}' for name in EDIT_COLUMNS)})"
)
_REPLACE_MESSAGE = (
    "UPDATE {schema}.messages SET role = :role, tokens = :tokens, created_at = :created_at, raw = :raw,"
    " derived = :derived, running = running + :change WHERE {of_message}"
)
_ADD_TOKENS = "UPDATE {schema}.segments SET tokens = tokens + :change WHERE {ns} number = :segment"
_MARK = "UPDATE {schema}.overlays SET stale = true WHERE {ns} number = :number"
_CUT = (
    "UPDATE {schema}.overlays SET kind = 'truncate', stale = true, tokens = 0, summary = NULL"
    " WHERE {ns} number = :number"
)
_SHARE = (
    "UPDATE {schema}.segments SET shared = CASE WHEN shared < :position THEN :position ELSE shared END"
    " WHERE {ns} number = :number"
)
_DELETE_STATES = (
    "DELETE FROM {schema}.states WHERE ns = :ns AND id <> '' AND id ="
    " (SELECT s.id FROM {schema}.sessions s WHERE {ns s} s.number = :number)"
)
_OF_SESSIONS = (
    *("views", "session_tags", "session_metadata", "usage_entries", "documents", "prompts"),
    *("leases", "lease_waiters", "queued_messages"),
)


class PlanDatabase(Database, Protocol):
    """What plans need of a store besides statements."""

    async def add_session(self, ns: Any, row: SessionRow, view: ViewRow | None) -> SessionRow:
        """Add a session. Numbers that are 0 are drawn. Raises `SessionExistsError` if its id or its key is taken."""

    async def take_key(self, ns: Any, session: SessionRow) -> None:
        """Make a session current under its key, if it has one, unless another is."""

    async def append(self, request: Append) -> object:
        """Append as a part of the plan."""

    def columns_of_end(self, plan: Plan) -> dict[str, Any]:
        """Further columns of the session that change with its head, or the end of the segment that it is in."""

    async def lock_index(self, ns: Any) -> None:
        """Wait until nothing is indexed that this transaction is about to remove."""

    async def forget_texts(self, ns: Any, removed: Sequence[Range]) -> None:
        """Leave no trace of texts in the search index, and of their vectors."""

    async def forget_changes(self, ns: Any, numbers: Sequence[int]) -> None:
        """Remove what log entries say of deleted sessions, except for their deletion."""


async def apply(db: PlanDatabase, plan: Plan) -> bool:
    """Do all that a plan says, or nothing if a guard does not hold; `SessionExistsError` if the id or the key of a
    session that it makes is taken. Needs a transaction."""
    found = await _guarded(db, plan)
    if found is None:
        return False
    ns, session = found
    removed = removed_texts(plan)
    if removed:
        await db.lock_index(ns)
    await _change_messages(db, ns, plan)
    overlays = await _change_overlays(db, ns, session, plan)
    edits = await _change_edits(db, ns, session, plan)
    await _change_session(db, ns, session, plan)
    await db.log(ns, session.number, plan.now, _numbered(plan.log, overlays, edits))
    made = None
    if plan.fork is not None:
        made = await _fork(db, ns, session, plan.fork)
    if plan.create is not None:
        made = await db.add_session(ns, new_row(plan.create, 0), None)
    if plan.hand_over is not None and made is not None:
        await leases.hand_over(db, ns, session.number, made.number)
        await documents.copy_labels(db, ns, session.number, made.number, plan.hand_over)
    if plan.drop_prompt:
        await prompts.drop(db, ns, session.number)
    await _delete_sessions(db, ns, plan.delete_sessions)
    if removed:
        await db.forget_texts(ns, removed)
    if plan.append is not None:
        await db.append(plan.append)
    return True


async def _guarded(db: PlanDatabase, plan: Plan) -> tuple[Any, SessionRow] | None:
    """Lock the guarded sessions, in one order, and return the first with its namespace if all are as the plan wants."""
    found = {row[0]: row for row in await lock(db, (number for number, _ in plan.guards))}
    first = found.get(plan.guards[0][0])
    turn = None
    if plan.fence is not None and first is not None:
        turn = await leases.turn_of(db, first[1], first[0])
    guarded = [session_row("", found[number]) if number in found else None for number, _ in plan.guards]
    session = guards.check(plan, guarded, turn)
    return None if session is None or first is None else (first[1], session)


async def lock(db: Database, numbers: Iterable[int]) -> Sequence[Row]:
    """Lock sessions, in one order; returns their rows."""
    return await db.fetch_many(_LOCK, [{"ns": db.ns_of(number), "number": number} for number in sorted(numbers)])


# messages


async def _each(db: Database, statement: str, ns: Any, numbers: Iterable[int]) -> None:
    await db.execute_many(statement, [{"ns": ns, "number": number} for number in numbers])


async def _delete(db: Database, table: str, column: str, ns: Any, numbers: Iterable[int]) -> None:
    # Numbers are above 0: some indexes want it said.
    await _each(db, f"DELETE FROM {{schema}}.{table} WHERE {{ns}} {column} = :number AND {column} > 0", ns, numbers)


async def _change_messages(db: PlanDatabase, ns: Any, plan: Plan) -> None:
    replaced = [
        {"ns": ns, "segment": place.segment, "position": place.position, "change": change, **asdict(message)}
        for place, message, change in plan.replace_rows
    ]
    await db.execute_many(_REPLACE_MESSAGE, replaced)
    await db.execute_many(_ADD_TOKENS, [row for row in replaced if row["change"]])
    whole = [Span(number, 0, SEGMENT_SIZE, None) for number in plan.delete_segments]
    deleted = span_values(ns, [*plan.delete_rows, *whole])
    await db.execute_many("DELETE FROM {schema}.messages WHERE {in_span}", deleted, unlimited=True)
    for name, places in (("last", plan.set_last), ("shared", plan.set_shared)):
        change = f"UPDATE {{schema}}.segments SET {name} = :position WHERE {{ns}} number = :number"
        await db.execute_many(change, _positions(ns, places))
    await _delete(db, "segments", "number", ns, plan.delete_segments)


def _positions(ns: Any, places: Iterable[Place]) -> list[dict[str, Any]]:
    return [{"ns": ns, "number": segment, "position": position} for segment, position in places]


async def _change_overlays(db: Database, ns: Any, session: SessionRow, plan: Plan) -> list[int]:
    """Returns the numbers of those that were added."""
    numbers = await db.draw(ns, "overlay", len(plan.add_overlays)) if plan.add_overlays else []
    added = [
        {
            "ns": ns,
            "number": number,
            "tree": session.tree,
            "revision": session.revision + 1,
            "id": new.id,
            "kind": new.kind,
            "tokens": new.tokens,
            "created_at": new.created_at,
            "start_segment": new.start.segment,
            "start_position": new.start.position,
            "end_segment": new.end.segment,
            "end_position": new.end.position,
            "stale": new.stale,
            "details": new.details,
            "summary": new.summary,
        }
        for number, new in zip(numbers, plan.add_overlays, strict=True)
    ]
    await db.execute_many(_ADD_OVERLAY, added)
    await _each(db, _MARK, ns, plan.mark_overlays)
    await _each(db, _CUT, ns, plan.cut_overlays)
    await _delete(db, "overlays", "number", ns, plan.delete_overlays)
    return numbers


async def _change_edits(db: Database, ns: Any, session: SessionRow, plan: Plan) -> list[int]:
    """Returns the numbers of those that were added."""
    numbers = await db.draw(ns, "edit", len(plan.add_edits)) if plan.add_edits else []
    added = [
        {
            "ns": ns,
            "number": number,
            "tree": session.tree,
            "revision": session.revision + 1,
            "kind": new.kind,
            "segment": new.segment,
            "first": new.first,
            "last": new.last,
            "tokens": new.tokens,
            "overlay": new.overlay,
            "message": None if new.message is None else json_text(new.message),
        }
        for number, new in zip(numbers, plan.add_edits, strict=True)
    ]
    await db.execute_many(_ADD_EDIT, added)
    await _delete(db, "edits", "number", ns, plan.delete_edits)
    await _delete(db, "lineage", "tree", ns, plan.delete_lineage)
    return numbers


# sessions


async def _change_session(db: PlanDatabase, ns: Any, session: SessionRow, plan: Plan) -> None:
    values: dict[str, Any] = {"revision": session.revision + 1}
    for name, value in guards.new_values(plan, session).items():
        if name in ("head", "base"):
            values[f"{name}_segment"], values[f"{name}_position"] = value or (None, None)
        else:
            values[name] = value
    if plan.fresh_tree:
        (values["tree"],) = await db.draw(ns, "session", 1)
    values |= db.columns_of_end(plan)
    changes = ", ".join(f"{name} = :{name}" for name in values)
    statement = f"UPDATE {{schema}}.sessions SET {changes} WHERE {{ns}} number = :session"
    await db.execute(statement, ns=ns, session=session.number, **values)
    if plan.take_key:
        await db.take_key(ns, session)
    if plan.view is not None:
        await sessions.set_view(db, ns, session.number, plan.view)
    if "tags" in plan.set:
        await _delete(db, "session_tags", "session", ns, [session.number])
        await sessions.set_digests(db, ns, session.number, "session_tags", tag_digests(plan.set["tags"]))
    if "metadata" in plan.set:
        await _delete(db, "session_metadata", "session", ns, [session.number])
        digests = metadata_digests(plan.set["metadata"])
        await sessions.set_digests(db, ns, session.number, "session_metadata", digests)


async def _fork(db: PlanDatabase, ns: Any, source: SessionRow, fork: NewFork) -> SessionRow:
    new = await db.add_session(ns, fork_row(fork, source, 0), fork.view)
    lineage = "INSERT INTO {schema}.lineage ({ns,} tree, ancestor, until) VALUES ({:ns,} :tree, :ancestor, :until)"
    await db.execute(lineage, ns=ns, tree=new.tree, ancestor=source.tree, until=source.revision + 1)
    await db.execute_many(_SHARE, _positions(ns, fork.share))
    await documents.copy(db, ns, source, new.number, fork.documents)
    return new


async def _delete_sessions(db: PlanDatabase, ns: Any, numbers: Sequence[int]) -> None:
    if numbers:
        await _each(db, _DELETE_STATES, ns, numbers)
        for table in _OF_SESSIONS:
            await _delete(db, table, "session", ns, numbers)
        await _delete(db, "sessions", "number", ns, numbers)
        await db.forget_changes(ns, numbers)


def _numbered(entries: Sequence[NewChange], overlays: Sequence[int], edits: Sequence[int]) -> list[NewChange]:
    """The log entries of a plan with the numbers of the rows that were added for it."""
    return [
        replace(entry, number=(overlays if entry.kind == "compaction.added" else edits)[entry.adds])
        if entry.adds is not None
        else entry
        for entry in entries
    ]
