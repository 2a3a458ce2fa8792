"""Reads views, the pieces of items, and the shape of a tree, inside one read transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import starmap
from typing import Any

from frontdesk.errors import DamagedRecordError
from frontdesk.messages.stored import StoredMessage
from frontdesk.store import (
    SEGMENT_SIZE,
    EditItem,
    FoundMessage,
    Item,
    Lineage,
    OverlayItem,
    Piece,
    Place,
    SegmentRow,
    SessionRow,
    Span,
    TreeRows,
    ViewRead,
    ViewRow,
)
from frontdesk.stores.sqlite import sessions
from frontdesk.stores.sqlite.connections import SQLiteConnection
from frontdesk.stores.sqlite.damage import find_damaged
from frontdesk.stores.sqlite.rows import (
    EDIT,
    MESSAGE,
    OVERLAY,
    POSITION_BITS,
    SEGMENT,
    SESSION,
    decode_view,
    edit_message,
    edit_row,
    json_text,
    overlay_row,
    segment_row,
    session_row,
    unpack,
)
from frontdesk.tree.tree import stored_items
from frontdesk.tree.visibility import Visibility

_EVER = 1 << 62
_NO_VIEW = ViewRow()
_RUN = f"SELECT {MESSAGE} FROM messages WHERE place BETWEEN ? AND ? ORDER BY place"
_ID = "SELECT id FROM messages WHERE place = ?"
_SEGMENT = f"SELECT {SEGMENT} FROM segments WHERE number = ?"
# UNION, not UNION ALL: where two ways up meet, they continue as one, and the way ends if damage has made it a circle.
_ON_THE_WAY = (
    f"WITH RECURSIVE way ({SEGMENT}) AS (SELECT {SEGMENT} FROM segments WHERE number = ? UNION"
    " SELECT s.number, s.tree, s.parent_segment, s.parent_position, s.last, s.next, s.shared, s.tokens"
    " FROM way JOIN segments s ON s.number = way.parent_segment)"
    f" SELECT {SEGMENT} FROM way"
)
_EDITS_IN = (
    f"SELECT {EDIT} FROM edits WHERE segment = ? AND kind IN ('removed', 'replaced')"
    " AND +tree IN (SELECT value FROM json_each(?))"
)
_TALLY = (
    "SELECT CASE WHEN role = 'user' AND derived IS NOT NULL AND json_extract(derived, '$.results') IS NOT NULL"
    " THEN 'tool' ELSE role END AS kind, count(*), sum(tokens) FROM messages WHERE place BETWEEN ? AND ? GROUP BY kind"
)
_UP = " SELECT l.tree, l.ancestor, l.until FROM up JOIN lineage l ON l.tree = up.ancestor) SELECT * FROM up"
_LINEAGE = (
    "WITH RECURSIVE up (tree, ancestor, until) AS (SELECT tree, ancestor, until FROM lineage WHERE tree = ? UNION" + _UP
)
_LINEAGE_OF_ALL = (
    "WITH RECURSIVE up (tree, ancestor, until) AS (SELECT l.tree, l.ancestor, l.until"
    " FROM sessions s JOIN lineage l ON l.tree = s.tree WHERE s.family = ? UNION" + _UP
)


def view(connection: SQLiteConnection, namespace: str, session_id: str, last: int | None = None) -> ViewRead | None:
    session = sessions.get(connection, namespace, session_id)
    if session is None:
        return None
    stored = _view_of(connection, session)
    items = tuple(stored_items(session, stored, last))
    return ViewRead(session, stored, items, read(connection, items))


def _view_of(connection: SQLiteConnection, session: SessionRow) -> ViewRow:
    if session.view != "stored":
        return _NO_VIEW
    row = connection.execute("SELECT items FROM views WHERE session = ?", (session.number,)).fetchone()
    return _NO_VIEW if row is None else decode_view(row[0])


def read(connection: SQLiteConnection, items: Sequence[Item]) -> tuple[Piece, ...]:
    return tuple([_piece(connection, item) for item in items])


def _piece(connection: SQLiteConnection, item: Item) -> Piece:
    before_id = None
    if item.before is not None:
        segment, position = item.before
        row = connection.execute(_ID, (segment << POSITION_BITS | position,)).fetchone()
        before_id = None if row is None else row[0]
    if isinstance(item, Span):
        segment = item.segment << POSITION_BITS
        last = min(item.last, SEGMENT_SIZE - 1)
        try:
            rows = connection.execute(_RUN, (segment | item.first, segment | last)).fetchall()
        except UnicodeDecodeError:
            raise find_damaged(connection, segment | item.first, segment | last) from None
        return Piece(before_id, tuple(starmap(StoredMessage, rows)))
    if isinstance(item, EditItem):
        row = connection.execute("SELECT message FROM edits WHERE number = ?", (item.number,)).fetchone()
        message = None if row is None else edit_message(row[0])
        return Piece(before_id, () if message is None else (message,))
    assert isinstance(item, OverlayItem)
    row = connection.execute(f"SELECT {OVERLAY}, summary FROM overlays WHERE number = ?", (item.number,)).fetchone()
    return Piece(before_id, overlay=None if row is None else overlay_row(row))


def sums(connection: SQLiteConnection, places: Sequence[Place]) -> list[tuple[int, int]]:
    found = []
    for segment, position in places:
        statement = "SELECT tokens, running FROM messages WHERE place = ?"
        row = connection.execute(statement, (segment << POSITION_BITS | position,)).fetchone()
        if row is not None and not (isinstance(row[0], int) and isinstance(row[1], int)):
            raise DamagedRecordError("message", None, segment << POSITION_BITS | position)
        found.append((0, 0) if row is None else (row[0], row[1]))
    return found


def tally(connection: SQLiteConnection, spans: Sequence[Span]) -> list[tuple[str, int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for span in spans:
        segment = span.segment << POSITION_BITS
        last = min(span.last, SEGMENT_SIZE - 1)
        for role, number, tokens in connection.execute(_TALLY, (segment | span.first, segment | last)):
            before = found.get(role, (0, 0))
            found[role] = (before[0] + number, before[1] + tokens)
    return [(role, *counts) for role, counts in sorted(found.items())]


def trees(
    connection: SQLiteConnection,
    namespace: str,
    session_ids: Sequence[str],
    *,
    find: Sequence[str] = (),
    family: bool = False,
) -> list[TreeRows]:
    found = (sessions.get(connection, namespace, session_id) for session_id in session_ids)
    return [_tree(connection, session, find, family) for session in found if session is not None]


def _tree(connection: SQLiteConnection, session: SessionRow, find: Sequence[str], family: bool) -> TreeRows:
    relatives: tuple[SessionRow, ...] = ()
    if family:
        rows = connection.execute(f"SELECT {SESSION} FROM sessions WHERE family = ? ORDER BY number", (session.family,))
        relatives = tuple(session_row(row) for row in rows)
        lineage = [Lineage(*row) for row in connection.execute(_LINEAGE_OF_ALL, (session.family,))]
        untils = dict.fromkeys((*(row.tree for row in relatives), *(link.ancestor for link in lineage)), _EVER)
    else:
        lineage = [Lineage(*row) for row in connection.execute(_LINEAGE, (session.tree,))]
        untils = {session.tree: _EVER, **{link.ancestor: link.until for link in lineage}}
    segments = _segments(connection, session, untils if family else (session.tree,))
    (forked,) = connection.execute("SELECT max(until) FROM lineage WHERE ancestor = ?", (session.tree,)).fetchall()
    return TreeRows(
        session=session,
        view=_view_of(connection, session),
        segments=segments,
        overlays=tuple(overlay_row(row) for row in _of_trees(connection, "overlays", OVERLAY, untils)),
        edits=tuple(edit_row(row) for row in _of_trees(connection, "edits", EDIT, untils)),
        lineage=tuple(lineage),
        forked_until=-1 if forked[0] is None else forked[0],
        found=tuple(find_all(connection, session, find)),
        sessions=relatives,
    )


def segments(connection: SQLiteConnection, namespace: str, numbers: Sequence[int]) -> list[SegmentRow]:
    return [segment_row(row) for number in numbers for row in connection.execute(_SEGMENT, (number,))]


def _segments(connection: SQLiteConnection, session: SessionRow, trees: Iterable[int]) -> tuple[SegmentRow, ...]:
    """The segments that these trees own, and those on the way to where the session was forked."""
    owned = f"SELECT {SEGMENT} FROM segments WHERE tree = ?"
    rows = {row[0]: row for tree in trees for row in connection.execute(owned, (tree,))}
    if session.base is not None:
        rows |= {row[0]: row for row in connection.execute(_ON_THE_WAY, (session.base.segment,))}
    return tuple(segment_row(rows[number]) for number in sorted(rows))


def visibility(connection: SQLiteConnection, session: SessionRow, places: Iterable[Place]) -> Visibility:
    """What a session sees of the segments of some places, and of those on the way from them to the root."""
    segments: dict[int, SegmentRow] = {}
    for place in (session.base, *places):
        while place is not None and place.segment not in segments:
            row = connection.execute(_SEGMENT, (place.segment,)).fetchone()
            if row is None:
                raise DamagedRecordError("segment", None, place.segment)
            segment = segments[place.segment] = segment_row(row)
            place = segment.parent
    lineage: list[Lineage] = []
    if session.base is not None:
        lineage = [Lineage(*row) for row in connection.execute(_LINEAGE, (session.tree,))]
    trees = json_text([session.tree, *(link.ancestor for link in lineage)])
    edits = [edit_row(row) for number in segments for row in connection.execute(_EDITS_IN, (number, trees))]
    return Visibility(session, segments.values(), edits, lineage)


def _of_trees(connection: SQLiteConnection, table: str, columns: str, untils: Mapping[int, int]) -> list[Sequence[Any]]:
    """Rows of these trees up to the revision that is seen of each, in the order they were made."""
    statement = f"SELECT {columns} FROM {table} WHERE tree = ? AND revision <= ?"
    rows = [row for link in untils.items() for row in connection.execute(statement, link)]
    return sorted(rows, key=lambda row: row[0])


def find_all(connection: SQLiteConnection, session: SessionRow, ids: Sequence[str]) -> list[FoundMessage]:
    """Where in the session's family these ids are, seen by the session or not."""
    statement = "SELECT place, tokens FROM messages WHERE family = ? AND id = ?"
    return [
        FoundMessage(message_id, unpack(place), tokens)
        for message_id in ids
        for place, tokens in connection.execute(statement, (session.family, message_id))
    ]
