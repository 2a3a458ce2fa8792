"""What one session sees, asked of the database: only for ids that an append may have met before.

Everything else that depends on what is seen is computed above the store from a loaded tree.
"""

from __future__ import annotations

from collections.abc import Sequence

from frontdesk.messages import StoredMessage
from frontdesk.store import Place, SessionRow
from frontdesk.stores.sqlite.connections import Connection
from frontdesk.stores.sqlite.rows import MESSAGE, edit_message, json_text, pack, unpack

_BY_ID = "SELECT place, id FROM messages WHERE family = ? AND id = ?"
_BY_IDS = "SELECT place, id FROM messages WHERE family = ? AND id IN (SELECT value FROM json_each(?))"
# The way up is gone only if there is an edit to ask about, and once: nothing in it depends on the edit.
_INHERITED = (
    "(tree = :tree OR revision <= ("
    "WITH RECURSIVE up (tree, until) AS ("
    "SELECT ancestor, until FROM lineage WHERE tree = :tree UNION ALL"
    " SELECT ancestor, lineage.until FROM up JOIN lineage USING (tree))"
    " SELECT until FROM up WHERE up.tree = edits.tree))"
)
_REMOVED = (
    "SELECT min(first) FROM edits WHERE segment = :segment AND kind = 'removed' AND first <= :position"
    f" AND last >= :position AND {_INHERITED}"
)
_REPLACED = (
    "SELECT message FROM edits WHERE segment = :segment AND kind = 'replaced' AND first = :position"
    f" AND {_INHERITED} ORDER BY tree DESC, revision DESC LIMIT 1"
)
_REACHED = (
    "WITH RECURSIVE path (segment, position) AS (VALUES (?, ?) UNION ALL"
    " SELECT parent_segment, parent_position FROM path JOIN segments ON number = segment"
    " WHERE parent_segment IS NOT NULL)"
    " SELECT position FROM path WHERE segment = ?"
)


def find(connection: Connection, session: SessionRow, message_id: str) -> Place | None:
    """Where a session sees a message."""
    return find_all(connection, session, [message_id]).get(message_id)


def find_all(connection: Connection, session: SessionRow, ids: Sequence[str]) -> dict[str, Place]:
    """Where a session sees which of these messages."""
    if len(ids) == 1:
        rows = connection.execute(_BY_ID, (session.family, ids[0])).fetchall()
    else:
        rows = connection.execute(_BY_IDS, (session.family, json_text(ids))).fetchall()
    found: dict[str, Place] = {}
    for packed, message_id in rows:
        place = unpack(packed)
        if message_id not in found and _sees(connection, session, place):
            found[message_id] = place
    return found


def _sees(connection: Connection, session: SessionRow, place: Place) -> bool:
    return _reaches(connection, session, place) and _removed_from(connection, session, place) is None


def _reaches(connection: Connection, session: SessionRow, place: Place) -> bool:
    """Whether a place is in a segment of the session's own, or on the way to where it was forked."""
    owned = "SELECT 1 FROM segments WHERE number = ? AND tree = ?"
    if connection.execute(owned, (place.segment, session.tree)).fetchone() is not None:
        return True
    if session.base is None:
        return False
    reached = connection.execute(_REACHED, (*session.base, place.segment)).fetchone()
    return reached is not None and place.position <= reached[0]


def _removed_from(connection: Connection, session: SessionRow, place: Place) -> int | None:
    """The first position of a run of removed messages that a place is in."""
    values = {"tree": session.tree, "segment": place.segment, "position": place.position}
    row = connection.execute(_REMOVED, values).fetchone()
    first: int | None = None if row is None else row[0]
    return first


def before(connection: Connection, session: SessionRow, place: Place) -> Place | None:
    """The nearest message that the session sees ahead of one it sees."""
    segment, position = place.segment, place.position - 1
    while True:
        if position < 0:
            (parent,) = connection.execute(
                "SELECT parent_segment, parent_position FROM segments WHERE number = ?", (segment,)
            ).fetchall()
            if parent[0] is None:
                return None
            segment, position = parent
        first = _removed_from(connection, session, Place(segment, position))
        if first is None:
            return Place(segment, position)
        position = first - 1


def message_at(connection: Connection, session: SessionRow, place: Place) -> StoredMessage:
    """A message as the session sees it."""
    values = {"tree": session.tree, "segment": place.segment, "position": place.position}
    row = connection.execute(_REPLACED, values).fetchone()
    replaced = None if row is None else edit_message(row[0])
    if replaced is not None:
        return replaced
    statement = f"SELECT {MESSAGE} FROM messages WHERE place = ?"
    (stored,) = connection.execute(statement, (pack(*place),)).fetchall()
    return StoredMessage(*stored)
