"""The append: what is decided against the head in one transaction, in as few statements as it can be.

Messages are written in runs: all of them at once, or those between two that turn out to be there already.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple, replace

from frontdesk.errors import HeadMovedError, MessageNotFoundError, SessionEndedError, SessionNotFoundError
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
from frontdesk.stores.sqlite import leases, log, sessions
from frontdesk.stores.sqlite.connections import Connection
from frontdesk.stores.sqlite.rows import MESSAGE, POSITION_BITS, SESSION_COLUMNS, SESSION_WIDTH, session_row
from frontdesk.stores.sqlite.seeing import before, find, find_all, message_at

_QUALIFIED = ", ".join(f"s.{name}" for name in SESSION_COLUMNS)
# Ids mostly grow: then a look at the range that they span says that all of them are new.
_LOAD = (
    f"SELECT {_QUALIFIED}, (SELECT 1 FROM messages d WHERE d.family = s.family AND d.id BETWEEN ? AND ? LIMIT 1),"
    " m.id, g.number, g.tree, g.last, g.next, g.tokens FROM sessions s"
    " LEFT JOIN segments g ON g.number = s.head_segment"
    f" LEFT JOIN messages m ON m.place = (s.head_segment << {POSITION_BITS} | s.head_position)"
    " WHERE s.namespace = ? AND s.id = ?"
)
_INSERT = f"INSERT INTO messages (place, family, {MESSAGE}, running) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
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
    given = [message.id for message, fresh in zip(request.messages, request.fresh, strict=True) if not fresh]
    first, last = (min(given), max(given)) if given else (None, None)
    loaded = connection.execute(_LOAD, (first, last, request.namespace, request.session_id)).fetchone()
    session: SessionRow | None = None
    known: dict[str, Place] = {}
    any_known, head_id, segment = None, None, []
    if loaded is not None:
        session = session_row(loaded)
        any_known, head_id, *segment = loaded[SESSION_WIDTH:]
    if request.fence is not None:
        leases.check_fence(connection, session, request.session_id, request.fence)
    if session is None and request.existing:
        raise SessionNotFoundError(request.session_id, request.namespace)
    if session is not None and any_known:
        known = find_all(connection, session, given)
    parent = None
    wakes = False
    if any(message.id not in known for message in request.messages):
        if session is not None and session.status != "active":
            wakes = _may_wake(session, request)
        if request.expected_head is not None and request.expected_head != head_id:
            raise HeadMovedError(request.expected_head, head_id, request.session_id)
        parent = _parent(connection, session, request)
    created = session is None
    if session is None:
        new = NewSession(namespace=request.namespace, id=request.session_id, now=request.now)
        session = sessions.insert(connection, new)
    elif wakes:
        session = sessions.wake(connection, session, request.now)
    chain = _Chain(connection, session)
    if session.head is not None:
        chain.take(*segment)
    parent_id = head_id
    if parent != session.head:
        parent_id = None if parent is None else message_at(connection, session, parent).id
    rows = chain.put(request.messages, known, parent, parent_id)
    if request.dequeue:
        leases.dequeue(connection, session.number, [message.id for message in request.messages])
    return AppendResult(tuple(rows), chain.finish(request.now), created)


def _may_wake(session: SessionRow, request: Append) -> bool:
    if session.end_reason != "timeout" and not request.reopen:
        raise SessionEndedError(session.id, session.status, session.end_reason)
    return True


def _parent(connection: Connection, session: SessionRow | None, request: Append) -> Place | None:
    if request.parent is FOLLOW_HEAD or request.parent is None:
        return session.head if session is not None and request.parent is FOLLOW_HEAD else None
    assert isinstance(request.parent, str)
    place = None if session is None else find(connection, session, request.parent)
    if place is None:
        raise MessageNotFoundError(request.parent, request.session_id)
    return place


def _existing(connection: Connection, session: SessionRow, place: Place | None) -> AppendedRow:
    assert place is not None
    ahead = before(connection, session, place)
    parent_id = None if ahead is None else message_at(connection, session, ahead).id
    return AppendedRow(False, parent_id, message_at(connection, session, place))


class _Chain:
    """A session's row as it will be, and the one of its segments that messages are put into."""

    def __init__(self, connection: Connection, session: SessionRow) -> None:
        self._connection = connection
        self._session = session
        self._segment = self._owner = self._last = self._next = self._tokens = 0
        self._added = 0
        self._runs: list[tuple[int, int, int]] = []
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

    def put(
        self, messages: Sequence[StoredMessage], known: dict[str, Place], parent: Place | None, parent_id: str | None
    ) -> list[AppendedRow]:
        """Chain messages after `parent`; one that is there already is left where it is, and the next one follows it."""
        rows: list[AppendedRow] = []
        run: list[StoredMessage] = []
        added: set[str] = set()
        for message in messages:
            message_id = message.id
            if message_id in known or message_id in added:
                self._add(parent, run)
                run = []
                parent = known.get(message_id) or find(self._connection, self._session, message_id)
                rows.append(_existing(self._connection, self._session, parent))
            else:
                run.append(message)
                added.add(message_id)
                rows.append(AppendedRow(True, parent_id))
            parent_id = message_id
        self._add(parent, run)
        return rows

    def _add(self, parent: Place | None, run: Sequence[StoredMessage]) -> None:
        """Put messages after `parent`, one after the other; the last one becomes the head."""
        if not run:
            return
        if parent is None or not self._extends(parent):
            self._open(parent)
        elif parent != self._head:
            self._view = "stale"
            self._revision += 1
        room = SEGMENT_SIZE - self._next
        self._write(run[:room])
        self._add(self._head, run[room:])

    def _extends(self, parent: Place) -> bool:
        if parent.segment != self._segment:
            (stored,) = self._connection.execute(_SEGMENT, (parent.segment,)).fetchall()
            self.take(*stored)
        return self._owner == self._session.tree and self._last == parent.position and self._next < SEGMENT_SIZE

    def _open(self, parent: Place | None) -> None:
        """Open a segment. A new root is all of the view, a fork's first message begins its empty tail, anything else
        leaves the view to be computed. It raises the revision, so that no plan overlooks the segment."""
        segment, position = (None, None) if parent is None else parent
        ((number,),) = self._connection.execute(_OPEN_SEGMENT, (self._session.tree, segment, position)).fetchall()
        self.take(number, self._session.tree, -1, 0, 0)
        self._revision += 1
        if parent is None:
            self._view, self._tail = "plain", 0
            self._view_tokens = self._view_messages = 0
        elif parent == self._head and self._view == "stored" and self._tail > parent.position:
            self._tail = 0
        else:
            self._view = "stale"

    def _write(self, run: Sequence[StoredMessage]) -> None:
        key = self._segment << POSITION_BITS | self._next
        family, tokens = self._session.family, self._tokens
        rows = []
        for message in run:
            tokens += message.tokens
            rows.append((key, family, *astuple(message), tokens))
            key += 1
        self._connection.executemany(_INSERT, rows)
        self._view_tokens += tokens - self._tokens
        self._view_messages += len(run)
        self._added += len(run)
        self._tokens = tokens
        self._runs.append((self._segment, self._next, self._next + len(run) - 1))
        self._next += len(run)
        self._last = self._next - 1
        self._head = Place(self._segment, self._last)
        self._connection.execute(_SAVE_SEGMENT, (self._last, self._next, tokens, self._segment))

    def finish(self, now: int) -> SessionRow:
        """Write the session's row; the session as it is now."""
        before = self._session
        if not self._added or self._head is None:
            return before
        count = before.message_count + self._added
        active, updated = max(now, before.last_active_at), max(now, before.updated_at)
        self._connection.execute(
            _SAVE_SESSION,
            (
                *self._head,
                self._tail,
                self._view,
                self._view_tokens,
                self._view_messages,
                self._revision,
                count,
                active,
                updated,
                before.number,
            ),
        )
        log.write_appended(self._connection, before.namespace, before.number, now, self._runs)
        return replace(
            before,
            head=self._head,
            tail=self._tail,
            view=self._view,
            view_tokens=self._view_tokens,
            view_messages=self._view_messages,
            revision=self._revision,
            message_count=count,
            last_active_at=active,
            updated_at=updated,
        )
