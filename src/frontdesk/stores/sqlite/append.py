"""The append: gathers the facts for `tree.append`, and writes the rows that it returns, in few statements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from frontdesk.errors import DamagedRecordError
from frontdesk.messages.stored import StoredMessage
from frontdesk.store import Append, AppendResult, Place, SegmentRow, SessionRow
from frontdesk.stores.sql import leases
from frontdesk.stores.sqlite import log, reading, sessions
from frontdesk.stores.sqlite.connections import SQLiteConnection
from frontdesk.stores.sqlite.database import draw, shared
from frontdesk.stores.sqlite.rows import (
    MESSAGE,
    POSITION_BITS,
    SESSION_COLUMNS,
    SESSION_WIDTH,
    pack,
    segment_row,
    session_row,
)
from frontdesk.tree.append import Facts, Run, Writes, decide
from frontdesk.tree.duplicates import KnownMessage, find_places, known_messages, places_to_read

_QUALIFIED = ", ".join(f"s.{name}" for name in SESSION_COLUMNS)
# Ids mostly grow: then a look at the range that they span says that all of them are new.
_LOAD = (
    f"SELECT {_QUALIFIED}, (SELECT 1 FROM messages d WHERE d.family = s.family AND d.id BETWEEN ? AND ? LIMIT 1),"
    " m.id, g.number, g.tree, g.parent_segment, g.parent_position, g.last, g.next, g.shared, g.tokens FROM sessions s"
    " LEFT JOIN segments g ON g.number = s.head_segment"
    f" LEFT JOIN messages m ON m.place = (s.head_segment << {POSITION_BITS} | s.head_position)"
    " WHERE s.ns = ? AND s.id = ?"
)
_NO_IDS = (None, None)
_turn_of = shared(leases.turn_of)
_dequeue = shared(leases.dequeue)
_INSERT = f"INSERT INTO messages (place, family, {MESSAGE}, running) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_OPEN_SEGMENT = (
    "INSERT INTO segments (number, tree, parent_segment, parent_position, last, next, shared, tokens)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_SAVE_SEGMENT = "UPDATE segments SET last = ?, next = ?, tokens = ? WHERE number = ?"
_SAVE_SESSION = (
    "UPDATE sessions SET head_segment = ?, head_position = ?, tail = ?, view = ?, view_tokens = ?, view_messages = ?,"
    " revision = ?, message_count = ?, last_active_at = ?, updated_at = ? WHERE number = ?"
)
_WAKE = "UPDATE sessions SET status = ?, end_reason = ?, ended_at = ?, key_current = ? WHERE number = ?"


def append(connection: SQLiteConnection, request: Append) -> AppendResult:
    facts = _facts(connection, request)
    writes = decide(request, facts, partial(draw, connection))
    _write(connection, request, writes)
    return writes.result


# facts


def _facts(connection: SQLiteConnection, request: Append) -> Facts:
    given: list[str] = []
    if not all(request.fresh):
        given = [message.id for message, fresh in zip(request.messages, request.fresh, strict=True) if not fresh]
    bounds = (min(given), max(given)) if given else _NO_IDS
    loaded = connection.execute(_LOAD, (*bounds, request.namespace, request.session_id)).fetchone()
    if loaded is None:
        return Facts(None)
    session = session_row(loaded)
    any_known, head_id = loaded[SESSION_WIDTH], loaded[SESSION_WIDTH + 1]
    segments: dict[int, SegmentRow] = {}
    if session.head is not None:
        if loaded[SESSION_WIDTH + 2] is None:
            raise DamagedRecordError("segment", None, session.head.segment)
        segments[session.head.segment] = segment_row(loaded[SESSION_WIDTH + 2 :])
    turn = None if request.fence is None else _turn_of(connection, session.namespace, session.number)
    if not any_known and session.status == "active" and not isinstance(request.parent, str):
        return Facts(session, head_id, segments, turn)
    known, parent = _look_up(connection, session, request, given if any_known else [], segments)
    key_is_free = session.status != "active" and sessions.may_take_key(connection, session)
    return Facts(session, head_id, segments, turn, known, parent, key_is_free)


def _look_up(
    connection: SQLiteConnection,
    session: SessionRow,
    request: Append,
    given: Sequence[str],
    segments: dict[int, SegmentRow],
) -> tuple[dict[str, KnownMessage], Place | None]:
    """The messages that the session sees already, and the place of the given parent; adds their segments."""
    parent_id = request.parent if isinstance(request.parent, str) else None
    found = reading.find_all(connection, session, [*given, *([] if parent_id is None else [parent_id])])
    if not found:
        return {}, None
    visible = reading.visibility(connection, session, [row.place for row in found])
    places = find_places(visible, ((row.id, row.place) for row in found))
    segments |= {place.segment: visible.segments[place.segment] for place in places.values()}
    known = {message_id: places[message_id] for message_id in given if message_id in places}
    rows = {place: _message(connection, place) for place in places_to_read(visible, known.values())}
    return known_messages(visible, known, rows), None if parent_id is None else places.get(parent_id)


def _message(connection: SQLiteConnection, place: Place) -> StoredMessage:
    statement = f"SELECT {MESSAGE} FROM messages WHERE place = ?"
    row = connection.execute(statement, (pack(*place),)).fetchone()
    if row is None:
        raise DamagedRecordError("message", None, pack(*place))
    return StoredMessage(*row)


# writes


def _write(connection: SQLiteConnection, request: Append, writes: Writes) -> None:
    session = writes.result.session
    if writes.result.created:
        sessions.insert(connection, session)
    elif writes.runs:
        _save(connection, session, woken=writes.woken)
    for row in writes.opened:
        where = (None, None) if row.parent is None else row.parent
        connection.execute(_OPEN_SEGMENT, (row.number, row.tree, *where, row.last, row.next, row.shared, row.tokens))
    for row in writes.grown:
        connection.execute(_SAVE_SEGMENT, (row.last, row.next, row.tokens, row.number))
    for run in writes.runs:
        _insert_messages(connection, run, session.family)
    for entry in writes.log:
        log.write(connection, session.namespace, session.number, request.now, entry)
    if request.dequeue:
        _dequeue(connection, session.namespace, session.number, [message.id for message in request.messages])


def _save(connection: SQLiteConnection, session: SessionRow, *, woken: bool) -> None:
    assert session.head is not None
    connection.execute(
        _SAVE_SESSION,
        (
            *session.head,
            session.tail,
            session.view,
            session.view_tokens,
            session.view_messages,
            session.revision,
            session.message_count,
            session.last_active_at,
            session.updated_at,
            session.number,
        ),
    )
    if woken:
        status = (session.status, session.end_reason, session.ended_at, int(session.key_current))
        connection.execute(_WAKE, (*status, session.number))


def _insert_messages(connection: SQLiteConnection, run: Run, family: int) -> None:
    key = pack(run.segment, run.first)
    rows = [
        (key + index, family, one.id, one.role, one.tokens, one.created_at, one.raw, one.derived, run.running[index])
        for index, one in enumerate(run.messages)
    ]
    if len(rows) == 1:
        connection.execute(_INSERT, rows[0])
    else:
        connection.executemany(_INSERT, rows)
