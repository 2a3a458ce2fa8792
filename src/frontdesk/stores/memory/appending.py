"""Appending to the memory store: the reference for what an append decides, and in which order."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from frontdesk.errors import HeadMovedError, MessageNotFoundError, SessionEndedError, SessionNotFoundError
from frontdesk.messages import StoredMessage
from frontdesk.store import (
    FOLLOW_HEAD,
    SEGMENT_SIZE,
    TURN,
    Append,
    AppendedRow,
    AppendResult,
    NewChange,
    NewSession,
    Place,
    SegmentRow,
    SessionRow,
)
from frontdesk.store.changes import session_woken
from frontdesk.stores.memory.leases import Leases
from frontdesk.stores.memory.reading import Reading
from frontdesk.stores.memory.rows import MessageRow, key_of


class Appending(Reading, Leases):
    """`append`, as one step."""

    async def append(self, request: Append) -> AppendResult:
        with self._held():
            return self._append(request)

    def _append(self, request: Append) -> AppendResult:
        session = self._get(request.namespace, request.session_id)
        if request.fence is not None:
            self._check_fence(session, request.session_id, request.fence)
        if session is None and request.existing:
            raise SessionNotFoundError(request.session_id, request.namespace)
        known = [
            None if session is None or fresh else self._find(session, message.id)
            for message, fresh in zip(request.messages, request.fresh, strict=True)
        ]
        wakes = session is not None and session.status != "active" and None in known
        if session is not None and wakes:
            session = self._awake(session, request)
        head_id = None if session is None or session.head is None else self._message(session, session.head).id
        if request.expected_head is not None and request.expected_head != head_id and None in known:
            raise HeadMovedError(request.expected_head, head_id, request.session_id)
        parent = self._parent(session, request) if None in known else None
        created = session is None
        if session is None:
            new = NewSession(namespace=request.namespace, id=request.session_id, now=request.now)
            session = self._insert(new)
        result: list[AppendedRow] = []
        added: set[str] = set()
        runs: list[tuple[int, int, int]] = []
        for message, place in zip(request.messages, known, strict=True):
            if place is None and message.id in added:
                place = self._find(session, message.id)
            if place is not None:
                before = self._before(session, place)
                parent_id = None if before is None else self._message(session, before).id
                result.append(AppendedRow(False, parent_id, self._message(session, place)))
            else:
                parent_id = None if parent is None else self._message(session, parent).id
                session, place = self._add(session, parent, message, request.now)
                added.add(message.id)
                follows = bool(runs) and runs[-1][::2] == (place.segment, place.position - 1)
                first = runs.pop()[1] if follows else place.position
                runs.append((place.segment, first, place.position))
                result.append(AppendedRow(True, parent_id))
            parent = place
        if wakes:
            self._write_log(request.namespace, session.number, request.now, session_woken())
        for segment, first, last in runs:
            line = NewChange(kind="message.appended", segment=segment, first=first, last=last)
            self._write_log(request.namespace, session.number, request.now, line)
        if request.dequeue:
            queued = self._queued.get((session.namespace, session.number, TURN), {})
            for message in request.messages:
                queued.pop(message.id, None)
        return AppendResult(tuple(result), session, created)

    def _awake(self, session: SessionRow, request: Append) -> SessionRow:
        """The session as it is once a message has come: stored with that, not before."""
        if session.end_reason != "timeout" and not request.reopen:
            raise SessionEndedError(session.id, session.status, session.end_reason)
        return replace(
            session,
            status="active",
            end_reason=None,
            ended_at=None,
            key_current=session.agent is not None
            and self._by_key.get(key_of(session), session.number) == session.number,
            revision=session.revision + 1,
        )

    def _parent(self, session: SessionRow | None, request: Append) -> Place | None:
        if request.parent is FOLLOW_HEAD or request.parent is None:
            return session.head if session is not None and request.parent is FOLLOW_HEAD else None
        assert isinstance(request.parent, str)
        place = None if session is None else self._find(session, request.parent)
        if place is None:
            raise MessageNotFoundError(request.parent, request.session_id)
        return place

    def _add(
        self, session: SessionRow, parent: Place | None, message: StoredMessage, now: int
    ) -> tuple[SessionRow, Place]:
        segment = None if parent is None else self._segments[parent.segment]
        extends = (
            segment is not None
            and parent is not None
            and segment.tree == session.tree
            and segment.last == parent.position
            and segment.next < SEGMENT_SIZE
        )
        at_head = parent == session.head
        changes: dict[str, Any] = {}
        if segment is None or not extends:
            segment = SegmentRow(next(self._numbers), session.tree, parent, -1, 0, -1, 0)
            self._owned[session.tree].append(segment.number)
            changes = _view_after_new_segment(session, parent, at_head, message.tokens)
        elif not at_head:
            changes = {"view": "stale", "revision": session.revision + 1}
        place = Place(segment.number, segment.next)
        running = segment.tokens + message.tokens
        self._segments[segment.number] = replace(segment, last=place.position, next=place.position + 1, tokens=running)
        self._rows[segment.number][place.position] = MessageRow(message, running, session.family)
        self._ids.setdefault((session.family, message.id), []).append(place)
        counters = {
            "head": place,
            "message_count": session.message_count + 1,
            "view_tokens": session.view_tokens + message.tokens,
            "view_messages": session.view_messages + 1,
            "last_active_at": max(now, session.last_active_at),
            "updated_at": max(now, session.updated_at),
        }
        session = replace(session, **{**counters, **changes})
        self._sessions[session.number] = session
        if session.key_current:
            self._by_key[key_of(session)] = session.number
        return session, place


def _view_after_new_segment(session: SessionRow, parent: Place | None, at_head: bool, tokens: int) -> dict[str, Any]:
    """What opening a segment does to a view: a new root is all of it, a fork's first message begins an empty tail,
    anything else must be computed. It raises the revision, so that no plan overlooks the segment."""
    revision = session.revision + 1
    if parent is None:
        return {"view": "plain", "tail": 0, "view_tokens": tokens, "view_messages": 1, "revision": revision}
    if at_head and session.view == "stored" and session.tail > parent.position:
        return {"tail": 0, "revision": revision}
    return {"view": "stale", "revision": revision}
