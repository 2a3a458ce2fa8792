"""The append: what is decided against the head in one transaction, in as few statements as it can be.

Messages are chained in memory and written when the chain is complete, or when a message turns out to be there already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from frontdesk.errors import HeadMovedError, MessageNotFoundError
from frontdesk.messages import StoredMessage
from frontdesk.store import (
    FOLLOW_HEAD,
    SEGMENT_SIZE,
    Append,
    AppendedRow,
    AppendResult,
    NewSession,
    Place,
    SessionRow,
)
from frontdesk.stores.sqlite import sessions
from frontdesk.stores.sqlite.connections import Connection
from frontdesk.stores.sqlite.rows import POSITION_BITS, SESSION_COLUMNS, session_row
from frontdesk.stores.sqlite.seeing import before, find, find_all, message_at

_QUALIFIED = ", ".join(f"s.{name}" for name in SESSION_COLUMNS)
_LOAD = (
    f"SELECT {_QUALIFIED}, m.id, g.number, g.tree, g.last, g.next, g.tokens FROM sessions s"
    " LEFT JOIN segments g ON g.number = s.head_segment"
    f" LEFT JOIN messages m ON m.place = (s.head_segment << {POSITION_BITS} | s.head_position)"
    " WHERE s.namespace = ? AND s.id = ?"
)
_INSERT = (
    "INSERT INTO messages (place, family, id, role, tokens, created_at, raw, derived, running)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_SEGMENT = "SELECT number, tree, last, next, tokens FROM segments WHERE number = ?"
_OPEN_SEGMENT = (
    "INSERT INTO segments (tree, parent_segment, parent_position, last, next, shared, tokens)"
    " VALUES (?, ?, ?, -1, 0, -1, 0) RETURNING number"
)
_SAVE_SEGMENT = "UPDATE segments SET last = ?, next = ?, tokens = ? WHERE number = ?"
_SAVE_SESSION = (
    "UPDATE sessions SET head_segment = ?, head_position = ?, tail = ?, view = ?, view_tokens = ?, view_messages = ?,"
    " revision = ?, message_count = ?, last_active_at = ?, updated_at = ? WHERE number = ?"
)


def append(connection: Connection, request: Append) -> AppendResult:
    loaded = connection.execute(_LOAD, (request.namespace, request.session_id)).fetchone()
    session = None if loaded is None else session_row(loaded)
    known = _known(connection, session, request)
    head_id = None if loaded is None else loaded[len(SESSION_COLUMNS)]
    if request.expected_head is not None and request.expected_head != head_id and None in known:
        raise HeadMovedError(request.expected_head, head_id, request.session_id)
    parent = _parent(connection, session, request) if None in known else None
    if session is None:
        new = NewSession(namespace=request.namespace, id=request.session_id, now=request.now)
        session = sessions.insert(connection, new)
    chain = _Chain(connection, session, request.now)
    if loaded is not None and session.head is not None:
        chain.take(*loaded[len(SESSION_COLUMNS) + 1 :])
    parent_id = head_id
    if parent != session.head:
        parent_id = None if parent is None else message_at(connection, session, parent).id
    rows: list[AppendedRow] = []
    seen: set[str] = set()
    for message, place in zip(request.messages, known, strict=True):
        if place is None and message.id in seen:
            chain.write()
            place = find(connection, session, message.id)
        seen.add(message.id)
        if place is None:
            parent = chain.add(parent, message)
            rows.append(AppendedRow(True, parent_id))
        else:
            chain.write()
            rows.append(_existing(connection, session, place))
            parent = place
        parent_id = message.id
    return AppendResult(tuple(rows), chain.finish())


def _known(connection: Connection, session: SessionRow | None, request: Append) -> Sequence[Place | None]:
    """Where the messages are that the session has already."""
    if session is None or all(request.fresh):
        return [None] * len(request.messages)
    wanted = [message.id for message, fresh in zip(request.messages, request.fresh, strict=True) if not fresh]
    found = find_all(connection, session, wanted)
    return [
        None if fresh else found.get(message.id) for message, fresh in zip(request.messages, request.fresh, strict=True)
    ]


def _parent(connection: Connection, session: SessionRow | None, request: Append) -> Place | None:
    if request.parent is FOLLOW_HEAD or request.parent is None:
        return session.head if session is not None and request.parent is FOLLOW_HEAD else None
    assert isinstance(request.parent, str)
    place = None if session is None else find(connection, session, request.parent)
    if place is None:
        raise MessageNotFoundError(request.parent, request.session_id)
    return place


def _existing(connection: Connection, session: SessionRow, place: Place) -> AppendedRow:
    ahead = before(connection, session, place)
    parent_id = None if ahead is None else message_at(connection, session, ahead).id
    return AppendedRow(False, parent_id, message_at(connection, session, place))


class _Chain:
    """A session's row and one of its segments as they will be, and the messages that are not written yet."""

    def __init__(self, connection: Connection, session: SessionRow, now: int) -> None:
        self._connection = connection
        self._session = session
        self._now = now
        self._segment = 0
        self._owner = self._last = self._next = self._tokens = 0
        self._rows: list[tuple[Any, ...]] = []
        self._added = 0
        self._head = session.head
        self._tail = session.tail
        self._view = session.view
        self._view_tokens = session.view_tokens
        self._view_messages = session.view_messages
        self._revision = session.revision

    def take(self, segment: int, owner: int, last: int, next_position: int, tokens: int) -> None:
        """The segment, as stored, that messages are now put into."""
        self._segment = segment
        self._owner, self._last, self._next, self._tokens = owner, last, next_position, tokens

    def add(self, parent: Place | None, message: StoredMessage) -> Place:
        """Put a message after `parent`; it becomes the head."""
        self._view_tokens += message.tokens
        self._view_messages += 1
        if parent is None or not self._extends(parent):
            self._open(parent, message.tokens)
        elif parent != self._head:
            self._view = "stale"
            self._revision += 1
        position = self._last = self._next
        self._next += 1
        self._tokens += message.tokens
        self._rows.append(
            (
                self._segment << POSITION_BITS | position,
                self._session.family,
                message.id,
                message.role,
                message.tokens,
                message.created_at,
                message.raw,
                message.derived,
                self._tokens,
            )
        )
        self._added += 1
        self._head = Place(self._segment, position)
        return self._head

    def _extends(self, parent: Place) -> bool:
        if parent.segment != self._segment:
            self.write()
            (stored,) = self._connection.execute(_SEGMENT, (parent.segment,)).fetchall()
            self.take(*stored)
        return self._owner == self._session.tree and self._last == parent.position and self._next < SEGMENT_SIZE

    def _open(self, parent: Place | None, tokens: int) -> None:
        """Open a segment. A new root is all of the view, a fork's first message begins its empty tail, anything else
        leaves the view to be computed. It raises the revision, so that no plan overlooks the segment."""
        self.write()
        segment, position = (None, None) if parent is None else parent
        ((number,),) = self._connection.execute(_OPEN_SEGMENT, (self._session.tree, segment, position)).fetchall()
        self.take(number, self._session.tree, -1, 0, 0)
        self._revision += 1
        if parent is None:
            self._view, self._tail = "plain", 0
            self._view_tokens, self._view_messages = tokens, 1
        elif parent == self._head and self._view == "stored" and self._tail > parent.position:
            self._tail = 0
        else:
            self._view = "stale"

    def write(self) -> None:
        """Write the messages so far, so that others can be looked up among them."""
        if not self._rows:
            return
        if len(self._rows) == 1:
            self._connection.execute(_INSERT, self._rows[0])
        else:
            self._connection.executemany(_INSERT, self._rows)
        self._rows = []
        self._connection.execute(_SAVE_SEGMENT, (self._last, self._next, self._tokens, self._segment))

    def finish(self) -> SessionRow:
        """Write everything; the session as it is now."""
        if not self._added or self._head is None:
            return self._session
        self.write()
        session = replace(
            self._session,
            head=self._head,
            tail=self._tail,
            view=self._view,
            view_tokens=self._view_tokens,
            view_messages=self._view_messages,
            revision=self._revision,
            message_count=self._session.message_count + self._added,
            last_active_at=max(self._now, self._session.last_active_at),
            updated_at=max(self._now, self._session.updated_at),
        )
        values = (
            *self._head,
            self._tail,
            self._view,
            self._view_tokens,
            self._view_messages,
            self._revision,
            session.message_count,
            session.last_active_at,
            session.updated_at,
            session.number,
        )
        self._connection.execute(_SAVE_SESSION, values)
        return session
