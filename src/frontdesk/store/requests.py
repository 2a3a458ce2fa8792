"""What is asked of a store: messages to append, a page to read, and the one plan that every other change comes as."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypedDict

import msgspec

from frontdesk.messages.stored import StoredMessage
from frontdesk.store.changes import NewChange
from frontdesk.store.rows import NEVER, EditKind, Item, Place, SessionRow, Span, StoredStatus, ViewRow, ViewState

Choose = Callable[[SessionRow, ViewRow], Sequence[Item]]


class FollowHead:
    """The parent of an append that was not given one."""


FOLLOW_HEAD = FollowHead()


class NewSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session to be created; the store gives it its numbers."""

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
    """Messages to be chained after `parent` (an id, None for a new root, FOLLOW_HEAD), in one transaction.

    `fresh` says which ids were made for this call and so cannot be there already; `reopen` that a session which was
    suspended, or ended for another reason than `timeout`, is to become active again."""

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
    """the session is not made if it is not there: `SessionNotFoundError`"""


class AppendedRow(msgspec.Struct, frozen=True):
    """What became of one message; `existing` is the stored one where it was there already."""

    inserted: bool
    parent_id: str | None
    existing: StoredMessage | None = None


class AppendResult(NamedTuple):
    """What became of the messages, the session afterwards, and whether it was made for them."""

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
    """A fork of the plan's session: one row, one of lineage, `shared` raised on the segments that it is the first to
    share, and copies of the current documents and the prompt. It may take over the key that the same plan takes from
    the session."""

    session: NewSession
    base: Place | None
    view: ViewRow | None
    """what is ahead of the fork's (empty) tail; None: stale, or (without a base) empty"""
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
    """One change, computed from a tree and applied whole, or not at all if a guarded session has changed since.

    `guards` are (session number, revision). The first one is the session that the plan is for: its revision is raised
    by one, and what the plan adds carries the raised figure (a fork's lineage, too: it inherits all up to it).
    """

    guards: tuple[tuple[int, int], ...]
    now: int
    fence: int | None = None
    """as in `Append`; looked at ahead of the guards"""
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
    """with their view rows, tags and ledger lines"""
    fork: NewFork | None = None
    create: NewSession | None = None
    """a session that has nothing in common with the plan's but, perhaps, the key that the same plan takes from that"""
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
    """drop the frozen prompt, so that it is rendered anew"""
    add_edits: tuple[NewEdit, ...] = ()
    delete_edits: tuple[int, ...] = ()
    delete_lineage: tuple[int, ...] = ()
    """trees that nobody inherits from or through any more"""
    log: tuple[NewChange, ...] = ()
    """what is told of it; the store itself adds "session.created" for a fork"""


class LeaseWanted(msgspec.Struct, frozen=True, kw_only=True):
    """A lease of a session, to be had in the order of asking; times in microseconds. Asking again as the same `holder`
    keeps the place in the line, and gives the lease again to whom has it.

    The place is lost after `patience` without asking (0: no place is wanted). `force` takes the lease from whoever
    holds it, ahead of all others. `message` is queued for the holder, be it this one or another with an open intake."""

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

    `idle` chooses by whether a session was last active longer ago than its `idle_after`, or the one given here, `now`;
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
    """the id of the session that they were forked from, or begun under"""


class DueQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions whose time has come, longest overdue first: active ones to be archived, counted from their last
    activity, or archived ones to be deleted, counted from their end.

    `threshold` is for those that have none of their own; None asks for those that have. `after` is (moment, number) of
    the last one seen; the moment is that from which is counted, or with thresholds of their own, the one it was due."""

    namespace: str
    what: Literal["archive", "delete"]
    now: int
    limit: int
    threshold: int | None
    after: tuple[int, int] | None = None


class StatsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of a namespace. Active sessions count as "compacting" while the lease `leased` is held, as "idle" as in
    `SessionQuery`; days before `since` are left out."""

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
