"""Applies plans: every kind of change that was decided in `tree`, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from frontdesk.store import SEGMENT_SIZE, NewFork, Plan, SessionRow
from frontdesk.stores.sqlite import append, documents, index, leases, log, prompts, sessions, states, vectors
from frontdesk.stores.sqlite.connections import Connection
from frontdesk.stores.sqlite.rows import SESSION, json_text, pack, session_row
from frontdesk.tree import guards
from frontdesk.tree.sessions import fork_row, new_row
from frontdesk.tree.texts import removed_texts


def apply(connection: Connection, plan: Plan) -> bool:
    rows = [_session(connection, number) for number, _ in plan.guards]
    turn = None if plan.fence is None or rows[0] is None else leases.turn_of(connection, rows[0])
    session = guards.check(plan, rows, turn)
    if session is None:
        return False
    for new in guards.made_by(plan):
        taken = sessions.taken(connection, new)
        guards.check_free(plan, session, new, None if taken is None else taken.number)
    revision = session.revision + 1
    _change_messages(connection, plan)
    overlays = _change_overlays(connection, session, plan, revision)
    edits = _change_edits(connection, session, plan, revision)
    _each(connection, "DELETE FROM lineage WHERE tree = ?", plan.delete_lineage)
    _change_session(connection, session, plan, revision)
    for entry in plan.log:
        added = overlays if entry.kind == "compaction.added" else edits
        number = None if entry.adds is None else added[entry.adds]
        log.write(connection, session.namespace, session.number, plan.now, entry, number)
    if plan.fork is not None:
        _fork(connection, session, plan.fork, revision)
    if plan.create is not None:
        made = sessions.insert(connection, new_row(plan.create, sessions.draw(connection, "session")))
        if plan.hand_over is not None:
            leases.hand_over(connection, session.number, made.number)
            documents.copy_labels(connection, session.number, made.number, plan.hand_over)
    if plan.view is not None:
        _set_view(connection, session.number, json_text(plan.view))
    if plan.drop_prompt:
        prompts.drop(connection, session.number)
    states.delete_of_sessions(connection, plan.delete_sessions)
    for table, column in (
        ("sessions", "number"),
        ("views", "session"),
        ("session_tags", "session"),
        ("session_metadata", "session"),
        ("usage_entries", "session"),
        ("documents", "session"),
        ("prompts", "session"),
        ("leases", "session"),
        ("lease_waiters", "session"),
        ("queued_messages", "session"),
    ):
        _each(connection, f"DELETE FROM {table} WHERE {column} = ?", plan.delete_sessions)
    log.forget(connection, plan.delete_sessions)
    removed = removed_texts(plan)
    index.forget(connection, removed)
    vectors.forget(connection, removed)
    if plan.append is not None:
        append.append(connection, plan.append)
    return True


def _session(connection: Connection, number: int) -> SessionRow | None:
    row = connection.execute(f"SELECT {SESSION} FROM sessions WHERE number = ?", (number,)).fetchone()
    return None if row is None else session_row(row)


def _each(connection: Connection, statement: str, numbers: Iterable[int]) -> None:
    connection.executemany(statement, [(number,) for number in numbers])


def _change_messages(connection: Connection, plan: Plan) -> None:
    for place, message, change in plan.replace_rows:
        connection.execute(
            "UPDATE messages SET role = ?, tokens = ?, created_at = ?, raw = ?, derived = ?, running = running + ?"
            " WHERE place = ?",
            (
                message.role,
                message.tokens,
                message.created_at,
                message.raw,
                message.derived,
                change,
                pack(*place),
            ),
        )
        if change:
            connection.execute("UPDATE segments SET tokens = tokens + ? WHERE number = ?", (change, place.segment))
    for span in plan.delete_rows:
        _delete_messages(connection, span.segment, span.first, span.last)
    for number, last in plan.set_last:
        connection.execute("UPDATE segments SET last = ? WHERE number = ?", (last, number))
    for number, shared in plan.set_shared:
        connection.execute("UPDATE segments SET shared = ? WHERE number = ?", (shared, number))
    for number in plan.delete_segments:
        _delete_messages(connection, number, 0, SEGMENT_SIZE)
    _each(connection, "DELETE FROM segments WHERE number = ?", plan.delete_segments)


def _delete_messages(connection: Connection, segment: int, first: int, last: int) -> None:
    # A last position beyond the end of a segment would reach into the next one.
    last = min(last, SEGMENT_SIZE - 1)
    bounds = pack(segment, first), pack(segment, last)
    connection.execute("DELETE FROM messages WHERE place BETWEEN ? AND ?", bounds)


def _change_overlays(connection: Connection, session: SessionRow, plan: Plan, revision: int) -> list[int]:
    """Returns the numbers of those that were added."""
    added = []
    for overlay in plan.add_overlays:
        made = connection.execute(
            "INSERT INTO overlays (tree, revision, id, kind, start_segment, start_position, end_segment,"
            " end_position, tokens, created_at, stale, details, summary)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING number",
            (
                session.tree,
                revision,
                overlay.id,
                overlay.kind,
                *overlay.start,
                *overlay.end,
                overlay.tokens,
                overlay.created_at,
                int(overlay.stale),
                overlay.details,
                overlay.summary,
            ),
        )
        added += [number for (number,) in made]
    _each(connection, "UPDATE overlays SET stale = 1 WHERE number = ?", plan.mark_overlays)
    cut = "UPDATE overlays SET kind = 'truncate', stale = 1, tokens = 0, summary = NULL WHERE number = ?"
    _each(connection, cut, plan.cut_overlays)
    _each(connection, "DELETE FROM overlays WHERE number = ?", plan.delete_overlays)
    return added


def _change_edits(connection: Connection, session: SessionRow, plan: Plan, revision: int) -> list[int]:
    """Returns the numbers of those that were added."""
    added = []
    for edit in plan.add_edits:
        made = connection.execute(
            "INSERT INTO edits (tree, revision, kind, segment, first, last, tokens, overlay, message)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING number",
            (
                session.tree,
                revision,
                edit.kind,
                edit.segment,
                edit.first,
                edit.last,
                edit.tokens,
                edit.overlay,
                None if edit.message is None else json_text(edit.message),
            ),
        )
        added += [number for (number,) in made]
    _each(connection, "DELETE FROM edits WHERE number = ?", plan.delete_edits)
    return added


def _fork(connection: Connection, source: SessionRow, fork: NewFork, revision: int) -> None:
    made = sessions.insert(connection, fork_row(fork, source, sessions.draw(connection, "session")))
    if fork.view is not None:
        _set_view(connection, made.number, json_text(fork.view))
    connection.execute(
        "INSERT INTO lineage (tree, ancestor, until) VALUES (?, ?, ?)", (made.tree, source.tree, revision)
    )
    connection.executemany(
        "UPDATE segments SET shared = max(shared, ?) WHERE number = ?",
        [(position, number) for number, position in fork.share],
    )
    documents.copy(connection, source, made.number, fork.documents)


def _change_session(connection: Connection, session: SessionRow, plan: Plan, revision: int) -> None:
    columns: dict[str, Any] = {"revision": revision}
    for name, value in guards.new_values(plan, session).items():
        if name in ("head", "base"):
            columns[f"{name}_segment"], columns[f"{name}_position"] = value or (None, None)
        else:
            columns[name] = int(value) if isinstance(value, bool) else value
    if plan.take_key:
        columns["key_current"] = int(sessions.may_take_key(connection, session))
    if plan.fresh_tree:
        columns["tree"] = sessions.draw(connection, "session")
    assigned = ", ".join(f"{name} = ?" for name in columns)
    connection.execute(f"UPDATE sessions SET {assigned} WHERE number = ?", (*columns.values(), session.number))
    if "tags" in plan.set:
        connection.execute("DELETE FROM session_tags WHERE session = ?", (session.number,))
        sessions.set_tags(connection, session.number, session.namespace, plan.set["tags"])
    if "metadata" in plan.set:
        connection.execute("DELETE FROM session_metadata WHERE session = ?", (session.number,))
        sessions.set_metadata(connection, session.number, session.namespace, plan.set["metadata"])


def _set_view(connection: Connection, session: int, text: str) -> None:
    connection.execute("INSERT OR REPLACE INTO views (session, row) VALUES (?, ?)", (session, text))
