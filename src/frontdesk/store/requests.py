"""Requests to a store: messages to append, a page to read, and the `Plan` that every other change is."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypedDict

import msgspec

from frontdesk.messages.stored import StoredMessage
from frontdesk.store.changes import NewChange
from frontdesk.store.rows import NEVER, EditKind, Place, SessionRow, Span, StoredStatus, ViewRow, ViewState


class FollowHead:
    """The parent of an append that was not given one."""


FOLLOW_HEAD = FollowHead()


class NewSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session to create; the store numbers it."""

    namespace: str
    id: str
    now: int
    agent: str | None = None
    channel: str | None = None
    peer: str | None = None
    thread: str | None = None
    name: str = ""
    parent_session_id: str | None = None
    model: str | None = None
    source: str | None = None
    tags: str = "[]"
    metadata: str = "{}"
    summary: str | None = None
    max_tokens: int | None = None
    idle_after: int | None = None
    archive_after: int | None = None
    delete_after: int | None = None


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """Messages to chain after `parent` (an id, None for a new root, FOLLOW_HEAD), in one transaction.

    `fresh` says which ids were made for this call, so that they cannot be there already. `reopen` makes a session
    active again that was suspended, or ended for another reason than `timeout`."""

    namespace: str
    session_id: str
    messages: tuple[StoredMessage, ...]
    fresh: tuple[bool, ...]
    now: int
    parent: str | FollowHead | None = FOLLOW_HEAD
    expected_head: str | None = None
    fence: int | None = None
    """if given, the number under which the session's lease `TURN` must be held at this moment"""
    dequeue: bool = False
    """take the messages out of the queue of the lease `TURN`, in the same transaction"""
    reopen: bool = False
    existing: bool = False
    """do not create the session: `SessionNotFoundError` if it is not there"""


class AppendedRow(msgspec.Struct, frozen=True):
    """The answer for one message; `existing` is the stored one if the session saw it already."""

    inserted: bool
    parent_id: str | None
    existing: StoredMessage | None = None


class AppendResult(NamedTuple):
    """The answers for the messages, the session as it is now, and whether it was created for them."""

    rows: tuple[AppendedRow, ...]
    session: SessionRow
    created: bool = False


class NewOverlay(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    kind: Literal["summary", "truncate", "reset"]
    start: Place
    end: Place
    summary: str | None
    tokens: int
    created_at: int
    stale: bool = False
    details: str = "{}"


class NewEdit(msgspec.Struct, frozen=True, kw_only=True):
    kind: EditKind
    segment: int = 0
    first: int = 0
    last: int = 0
    tokens: int = 0
    overlay: int | None = None
    message: StoredMessage | None = None


class NewFork(msgspec.Struct, frozen=True, kw_only=True):
    """A fork of the plan's session: its row (`tree.sessions.fork_row`), one of lineage, `shared` raised on the segments
    that it is the first to share, and copies of the current documents and the prompt. It may take over the key that the
    same plan takes from the session."""

    session: NewSession
    base: Place | None
    view: ViewRow | None
    """what is before the fork's (empty) tail; None: stale, or (without a base) empty"""
    view_tokens: int
    view_messages: int
    message_count: int
    compaction_count: int
    share: tuple[Place, ...]


class Columns(TypedDict, total=False):
    """The columns of a session's row that a plan may set."""

    name: str
    status: StoredStatus
    end_reason: str | None
    parent_session_id: str | None
    model: str | None
    source: str | None
    tags: str
    metadata: str
    summary: str | None
    max_tokens: int | None
    tail: int
    view: ViewState
    view_tokens: int
    view_messages: int
    message_count: int
    compaction_count: int
    updated_at: int
    last_active_at: int
    compacted_at: int | None
    ended_at: int | None
    idle_after: int | None
    archive_after: int | None
    delete_after: int | None
    key_current: bool
    base: Place | None
    head: Place | None


class Counts(TypedDict, total=False):
    """The columns of a session's row that a plan may add to."""

    view_tokens: int
    message_count: int
    compaction_count: int


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One change, decided in `tree` and applied whole, or not at all if a guarded session has changed since.

    `guards` are (session number, revision). The first one is the session that the plan is for: its revision is raised
    by one, and what the plan adds carries the raised figure (a fork's lineage, too: it inherits all up to it).
    """

    guards: tuple[tuple[int, int], ...]
    now: int
    fence: int | None = None
    """as in `Append`; checked before the guards"""
    head: Place | None = None
    """if given, must still be the head"""
    set: Columns = {}
    """columns of the session's row and their new values"""
    add: Counts = {}
    """columns of the session's row and what to add to them"""
    take_key: bool = False
    """make the session current under its key again, if no other is"""
    view: ViewRow | None = None
    """the new view row, if given (the row's `view`, `tail` and figures go through `set` and `add`)"""
    fresh_tree: bool = False
    """give the session a new, empty tree in the same family: other sessions may still see what it wrote before"""
    delete_sessions: tuple[int, ...] = ()
    """with all that is kept for them: view rows, tags, usage entries, documents, leases, states"""
    fork: NewFork | None = None
    create: NewSession | None = None
    """a new session that is no fork; it may take over the key that the same plan takes from the session"""
    delete_rows: tuple[Span, ...] = ()
    replace_rows: tuple[tuple[Place, StoredMessage, int], ...] = ()
    """(place, message, change of the running sum in the row and its segment: not 0 only for the last row)"""
    set_last: tuple[Place, ...] = ()
    """segments and the `last` they have now"""
    set_shared: tuple[Place, ...] = ()
    """segments and the `shared` they have now"""
    delete_segments: tuple[int, ...] = ()
    """with all their messages"""
    add_overlays: tuple[NewOverlay, ...] = ()
    mark_overlays: tuple[int, ...] = ()
    """overlays to be marked stale in their own row"""
    delete_overlays: tuple[int, ...] = ()
    drop_prompt: bool = False
    """drop the frozen prompt, so that it is rendered again"""
    add_edits: tuple[NewEdit, ...] = ()
    delete_edits: tuple[int, ...] = ()
    delete_lineage: tuple[int, ...] = ()
    """trees that no session inherits from or through any more"""
    log: tuple[NewChange, ...] = ()
    """entries for the change log; the store itself adds "session.created" for each session that the plan makes"""


class LeaseWanted(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a lease of a session, granted in the order of asking; times in microseconds. A `holder` that asks
    again keeps its place in the queue, or the lease if it has it.

    The place is lost after `patience` without asking (0: no place is wanted). `force` takes the lease at once, even
    if another one holds it or waits. `message` is queued for the holder: this one, or one with an open intake."""

    namespace: str
    session_id: str
    name: str
    holder: str
    ttl: int
    patience: int = 0
    force: bool = False
    message: StoredMessage | None = None


class SessionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A page of sessions, newest activity first; `after` is (last_active_at, number) of the last one seen.

    `idle` selects by whether a session was idle at `now` (`tree.sessions.is_idle`, with the `idle_after` given here),
    `leased` (a name) those for which somebody holds that lease, `unleased` those for which nobody does."""

    namespace: str
    limit: int
    agent: str | None = None
    channel: str | None = None
    peer: str | None = None
    thread: str | None = None
    status: str | None = None
    tag: str | None = None
    created_after: int | None = None
    created_before: int | None = None
    after: tuple[int, int] | None = None
    idle: bool | None = None
    now: int = 0
    idle_after: int = NEVER
    leased: str | None = None
    unleased: str | None = None
    parent: str | None = None
    """the id of the session that they were forked from, or created under"""


class DueQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions that are due, longest overdue first: active ones to archive, counted from their last activity, or
    archived ones to delete, counted from their end.

    `threshold` is for sessions without one of their own; None asks for those that have one. `after` is (moment, number)
    of the last one seen: the moment from which is counted, or, with thresholds of their own, at which it was due."""

    namespace: str
    what: Literal["archive", "delete"]
    now: int
    limit: int
    threshold: int | None
    after: tuple[int, int] | None = None


class StatsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of a namespace. Sessions are counted by `tree.sessions.status_of`: as "compacting" while their lease
    `leased` is held, as "idle" by `now` and `idle_after`. Days before `since` are left out."""

    namespace: str
    now: int = 0
    idle_after: int = NEVER
    leased: str = ""
    since: int = 0


class UsageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Totals per (day, model) of a namespace, or of one session of it."""

    namespace: str
    session_id: str | None = None
    first_day: str | None = None
    last_day: str | None = None
