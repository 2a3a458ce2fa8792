"""Pure: what an append does, decided once for all stores. A store gathers the `Facts`, calls `decide`, and writes the
rows that it returns, in one transaction.

The order in which an append can be refused, and what then happens to each message:

1. `fence`: the turn must be held under this number, else `TurnLostError`. A request that this very call has written
   already, and whose answer was lost, is answered first.
2. With `existing`, the session must exist, else `SessionNotFoundError`.
3. Messages that the session sees already are found. If all of them are known, nothing below is checked: sending the
   same messages again is answered as the first time.
4. A session that is not active wakes if it ended by `timeout` or with `reopen`, else `SessionEndedError`.
5. `expected_head` must be the head (None: there must be no head), else `HeadMovedError`.
6. A `parent` must be a message that the session sees, else `MessageNotFoundError`.
7. With a `parent`, the messages are a path: a known one must follow the one before it already, else
   `InvalidRangeError`. This is also checked if all of them are known. A single known message stays where it is, unless
   the request says that it is a path.

Then the new messages are written as one run, known ones are left out. Without a `parent` the run follows the head.
With one, it follows the known messages that the path begins with, or the parent itself: it extends the segment of the
message that it follows, or opens a new one. Without new messages, the head stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from frontdesk.errors import (
    HeadMovedError,
    InvalidRangeError,
    MessageNotFoundError,
    SessionEndedError,
    SessionNotFoundError,
    TurnLostError,
)
from frontdesk.messages.stored import StoredMessage
from frontdesk.store import (
    FOLLOW_HEAD,
    SEGMENT_SIZE,
    AnyHead,
    Append,
    AppendedRow,
    AppendResult,
    FollowHead,
    NewChange,
    NewSession,
    Place,
    SegmentRow,
    SessionRow,
)
from frontdesk.store.changes import session_woken
from frontdesk.tree.duplicates import KnownMessage
from frontdesk.tree.sessions import new_row

Draw = Callable[[Literal["session", "segment"]], int]
"""returns a number for a new session or segment that none ever had; called only once nothing can be refused any more"""


class Facts(msgspec.Struct, frozen=True):
    """What a store knows at the moment of an append."""

    session: SessionRow | None
    head_id: str | None = None
    """the id of the message at the session's head"""
    segments: Mapping[int, SegmentRow] = {}
    """the segments of the head, of the parent and of the known messages"""
    turn: int | None = None
    """the number under which the session's lease `TURN` is held now; wanted only with a `fence`"""
    known: Mapping[str, KnownMessage] = {}
    """those of the request's ids that the session sees"""
    parent: Place | None = None
    """where the session sees the request's `parent`, if that is an id"""
    key_is_free: bool = False
    """whether no other session is current under the session's key; wanted only of one that is not active"""


class Run(msgspec.Struct, frozen=True):
    """Messages to insert one after the other: at `first` of a segment and on, each with its running sum of tokens."""

    segment: int
    first: int
    messages: Sequence[StoredMessage]
    running: Sequence[int]


class Writes(msgspec.Struct, frozen=True):
    """The rows to write, and the answer. With no `runs`, nothing is written except a session that was `created`."""

    result: AppendResult
    """its `session` is the row to store: a new row if `created`"""
    runs: Sequence[Run] = ()
    opened: Sequence[SegmentRow] = ()
    """segments to insert, as they are once the messages are in"""
    grown: Sequence[SegmentRow] = ()
    """segments that were there, with their new `last`, `next` and `tokens`"""
    woken: bool = False
    """the session's status, end and key have changed, too"""
    log: Sequence[NewChange] = ()
    """after the "session.created" of a session that was made"""


def decide(request: Append, facts: Facts, draw: Draw) -> Writes:
    """What an append writes and answers. Raises what it is refused for."""
    is_repeated = bool(facts.known) and any(known.is_own for known in facts.known.values())
    if request.fence is not None and request.fence != facts.turn and not is_repeated:
        raise TurnLostError(request.session_id, request.fence)
    session, known = facts.session, facts.known
    if session is None and request.existing:
        raise SessionNotFoundError(request.session_id, request.namespace)
    woken = False
    adds = any(message.id not in known for message in request.messages) if known else bool(request.messages)
    if adds:
        if session is not None and session.status != "active":
            session, woken = _awake(session, request, facts), True
        _check_place(request, facts)
    follows_head = request.parent is FOLLOW_HEAD
    if not follows_head:
        _check_path(request, facts, adds=adds)
    created = session is None
    if session is None:
        new = NewSession(namespace=request.namespace, id=request.session_id, now=request.now)
        session = new_row(new, draw("session"))
    elif not (known or woken) and _continues_head(request, session, facts):
        return _append_to_head(request, session, facts)
    if follows_head:
        parent, parent_id = session.head, facts.head_id
    else:
        parent, parent_id = _end_of_known(request, facts)
    rows, run = _split_known(request.messages, known, parent_id)
    chain = _Chain(session, facts.segments, draw)
    if run:
        chain.add(parent, run)
    return chain.finish(rows, request.now, created=created, woken=woken)


def check_writable(session: SessionRow, *, reopen: bool) -> None:
    """Raises `SessionEndedError` unless a session is active, or a message may make it active again."""
    if session.status != "active" and session.end_reason != "timeout" and not reopen:
        raise SessionEndedError(session.id, session.status, session.end_reason)


def _awake(session: SessionRow, request: Append, facts: Facts) -> SessionRow:
    """The row of a session that a message makes active again; raises `SessionEndedError` if it may not."""
    check_writable(session, reopen=request.reopen)
    return replace(
        session,
        status="active",
        end_reason=None,
        ended_at=None,
        key_current=session.agent is not None and facts.key_is_free,
        revision=session.revision + 1,
    )


def _check_place(request: Append, facts: Facts) -> None:
    """Raises unless the head is the expected one, and the given parent is seen."""
    check_head(request.expected_head, facts.head_id, request.session_id)
    if isinstance(request.parent, str) and facts.parent is None:
        raise MessageNotFoundError(request.parent, request.session_id)


def check_head(expected: str | AnyHead | None, head_id: str | None, session_id: str) -> None:
    """Raises `HeadMovedError` unless the head is the expected one."""
    if not isinstance(expected, AnyHead) and expected != head_id:
        raise HeadMovedError(expected, head_id, session_id)


def _check_path(request: Append, facts: Facts, *, adds: bool) -> None:
    """Raises unless each known message follows the one before it.

    Example: the session has m1 m2 m3. After m1, the list m2 x is fine. m3 x is not, because m3 follows m2. Nor are x m3
    and x x. If nothing is new, the first message is not compared with a parent that is gone, so that sending the same
    messages again is not refused; nor where it is the only one and `is_path` is not set."""
    before = request.parent
    is_gone = isinstance(before, str) and facts.parent is None
    any_parent = not adds and (is_gone or (len(request.messages) == 1 and not request.is_path))
    seen: set[str] = set()
    for index, message in enumerate(request.messages):
        there = facts.known.get(message.id)
        follows = there is None or there.parent_id == before or (index == 0 and any_parent)
        if message.id in seen or not follows:
            raise InvalidRangeError(
                f"message {message.id!r} of session {request.session_id!r} does not follow {before!r}: with `parent`,"
                " the messages are a path; leave `parent` out to skip those that are stored already",
                session_id=request.session_id,
                message_id=message.id,
            )
        seen.add(message.id)
        before = message.id


def _continues_head(request: Append, session: SessionRow, facts: Facts) -> bool:
    """Whether all messages are new and extend the head's segment, as in nearly every append."""
    head, messages = session.head, request.messages
    if head is None or not messages or request.parent is not FOLLOW_HEAD:
        return False
    segment = facts.segments[head.segment]
    return (
        segment.tree == session.tree
        and segment.last == head.position
        and segment.next + len(messages) <= SEGMENT_SIZE
        and (len(messages) == 1 or len({message.id for message in messages}) == len(messages))
    )


def _append_to_head(request: Append, session: SessionRow, facts: Facts) -> Writes:
    """The short form of `_Chain` for messages that extend the head's segment: view, tail and revision do not change."""
    assert session.head is not None
    messages = request.messages
    before = facts.segments[session.head.segment]
    segment, run = _extended(before, messages)
    rows, parent_id = [], facts.head_id
    for message in messages:
        rows.append(AppendedRow(True, parent_id))
        parent_id = message.id
    now, last = request.now, segment.last
    session = replace(
        session,
        head=Place(segment.number, last),
        view_tokens=session.view_tokens + segment.tokens - before.tokens,
        view_messages=session.view_messages + len(messages),
        message_count=session.message_count + len(messages),
        last_active_at=max(session.last_active_at, now),
        updated_at=max(session.updated_at, now),
    )
    entry = NewChange(kind="message.appended", segment=segment.number, first=run.first, last=last)
    return Writes(AppendResult(tuple(rows), session, False), (run,), (), (segment,), False, (entry,))


def _extended(segment: SegmentRow, messages: Sequence[StoredMessage]) -> tuple[SegmentRow, Run]:
    """A segment with messages added at its end."""
    tokens, running = segment.tokens, []
    for message in messages:
        tokens += message.tokens
        running.append(tokens)
    end = segment.next + len(messages)
    row = SegmentRow(segment.number, segment.tree, segment.parent, end - 1, end, segment.shared, tokens)
    return row, Run(segment.number, segment.next, messages, running)


def _end_of_known(request: Append, facts: Facts) -> tuple[Place | None, str | None]:
    """The place and the id that new messages follow on a path: its last known message, or the parent."""
    place, message_id = facts.parent, request.parent
    for message in request.messages:
        if (there := facts.known.get(message.id)) is None:
            break
        place, message_id = there.place, message.id
    assert not isinstance(message_id, FollowHead)
    return place, message_id


def _split_known(
    messages: Sequence[StoredMessage], known: Mapping[str, KnownMessage], parent_id: str | None
) -> tuple[list[AppendedRow], list[StoredMessage]]:
    """The answers for all messages, and those to write, the first of them after `parent_id`."""
    rows: list[AppendedRow] = []
    run: list[StoredMessage] = []
    answered: dict[str, tuple[StoredMessage, str | None]] = {}
    for message in messages:
        there = known.get(message.id)
        if message.id in answered:  # the same id twice in one call
            stored, before = answered[message.id]
            rows.append(AppendedRow(False, before, stored))
        elif there is not None:
            answered[message.id] = there.message, there.parent_id
            rows.append(AppendedRow(there.is_own, there.parent_id, None if there.is_own else there.message))
        else:
            answered[message.id] = message, parent_id
            rows.append(AppendedRow(True, parent_id))
            run.append(message)
            parent_id = message.id
    return rows, run


class _Chain:
    """The columns of a session's row that an append changes, and its segments, as they will be."""

    __slots__ = (
        "changed",
        "draw",
        "head",
        "opened",
        "revision",
        "runs",
        "segments",
        "session",
        "tail",
        "view",
        "view_messages",
        "view_tokens",
    )

    def __init__(self, session: SessionRow, segments: Mapping[int, SegmentRow], draw: Draw) -> None:
        self.session = session
        self.segments = segments
        self.changed: dict[int, SegmentRow] = {}
        self.opened: list[int] = []
        self.runs: list[Run] = []
        self.draw = draw
        self.head = session.head
        self.tail = session.tail
        self.view = session.view
        self.view_tokens = session.view_tokens
        self.view_messages = session.view_messages
        self.revision = session.revision

    def add(self, parent: Place | None, run: Sequence[StoredMessage]) -> None:
        """Put messages after a parent, one after the other; the last one becomes the head."""
        segment = None
        if parent is not None:
            segment = self.changed.get(parent.segment) or self.segments[parent.segment]
        if (
            segment is None
            or parent is None
            or segment.tree != self.session.tree
            or segment.last != parent.position
            or segment.next >= SEGMENT_SIZE
        ):
            segment = self._open(parent)
        elif parent != self.head:
            # A branch grows at its end, and becomes the one that is seen.
            self.view = "stale"
            self.revision += 1
        room = SEGMENT_SIZE - segment.next
        if len(run) <= room:
            self._write(segment, run)
        else:
            self._write(segment, run[:room])
            self.add(self.head, run[room:])

    def _open(self, parent: Place | None) -> SegmentRow:
        """A new segment. It raises the revision, so that no plan overlooks it.

        What becomes of the view: after no parent the segment is all of it. The first message after a fork begins its
        tail, which was empty. Anything else (a branch, a full segment) leaves it to be computed."""
        segment = SegmentRow(self.draw("segment"), self.session.tree, parent, -1, 0, -1, 0)
        self.opened.append(segment.number)
        self.revision += 1
        if parent is None:
            self.view, self.tail = "plain", 0
            self.view_tokens = self.view_messages = 0
        elif parent == self.head and self.view == "stored" and self.tail > parent.position:
            self.tail = 0
        else:
            self.view = "stale"
        return segment

    def _write(self, segment: SegmentRow, messages: Sequence[StoredMessage]) -> None:
        row, run = _extended(segment, messages)
        self.changed[row.number] = row
        self.view_tokens += row.tokens - segment.tokens
        self.view_messages += len(messages)
        self.head = Place(row.number, row.last)
        self.runs.append(run)

    def finish(self, rows: Sequence[AppendedRow], now: int, *, created: bool, woken: bool) -> Writes:
        before, runs = self.session, self.runs
        if not runs:
            return Writes(AppendResult(tuple(rows), before, created))
        session = replace(
            before,
            head=self.head,
            tail=self.tail,
            view=self.view,
            view_tokens=self.view_tokens,
            view_messages=self.view_messages,
            revision=self.revision,
            message_count=before.message_count + sum([len(run.messages) for run in runs]),
            last_active_at=max(now, before.last_active_at),
            updated_at=max(now, before.updated_at),
        )
        log = [session_woken()] if woken else []
        for run in runs:
            last = run.first + len(run.messages) - 1
            log.append(NewChange(kind="message.appended", segment=run.segment, first=run.first, last=last))
        opened, changed = self.opened, self.changed
        return Writes(
            AppendResult(tuple(rows), session, created),
            runs,
            [changed[number] for number in opened],
            [row for number, row in changed.items() if number not in opened],
            woken,
            log,
        )
