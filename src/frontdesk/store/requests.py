"""Requests to a store: appends, queries, requests for leases, and `Plan`s, which describe all other changes."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypedDict

import msgspec

from frontdesk.messages.stored import StoredMessage
from frontdesk.store.changes import NewChange
from frontdesk.store.rows import (
    NEVER,
    DocumentRow,
    EditKind,
    Owner,
    Place,
    SessionRow,
    Span,
    StoredStatus,
    ViewRow,
    ViewState,
)


class FollowHead:
    """The type of `FOLLOW_HEAD`, which means: append after the head."""

    def __repr__(self) -> str:
        return "FOLLOW_HEAD"


FOLLOW_HEAD = FollowHead()


class AnyHead:
    """The type of `ANY_HEAD`, which means: whatever the head is."""

    def __repr__(self) -> str:
        return "ANY_HEAD"


ANY_HEAD = AnyHead()


class NewSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session to create. The store assigns its number."""

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
    """Messages to append one after the other: after the head (FOLLOW_HEAD), or as a path after `parent` (an id, or None
    for a new root).

    `fresh` says which ids were generated for this call, so that they cannot exist already. With `reopen`, a session
    that was suspended, or ended for another reason than `timeout`, becomes active again."""

    namespace: str
    session_id: str
    messages: tuple[StoredMessage, ...]
    fresh: tuple[bool, ...]
    now: int
    parent: str | FollowHead | None = FOLLOW_HEAD
    expected_head: str | AnyHead | None = ANY_HEAD
    """the id that the head must have (None: there must be no head)"""
    is_path: bool = False
    """with a `parent`: a message that is known and the only one must follow the parent, as one of several must"""
    fence: int | None = None
    """if given, the session's lease `TURN` must be held under this number"""
    dequeue: bool = False
    """remove the messages from the queue of the lease `TURN`, in the same transaction"""
    reopen: bool = False
    existing: bool = False
    """do not create the session: raise `SessionNotFoundError` if it does not exist"""


class AppendedRow(msgspec.Struct, frozen=True):
    """The result for one message. `existing` is the stored message if the session already had it."""

    inserted: bool
    parent_id: str | None
    existing: StoredMessage | None = None


class AppendResult(NamedTuple):
    """The results for the messages, the session after the append, and whether the append created it."""

    rows: tuple[AppendedRow, ...]
    session: SessionRow
    created: bool = False


class Fence(NamedTuple):
    """The turn that a write belongs to: the session's lease `TURN` must be held under this number."""

    session_id: str
    number: int


class OwnerQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Owners that are not sessions, by the parts of their keys; None means any. An owner that a part does not
    distinguish is not selected by it: an agent has no peer."""

    namespace: str
    agent: str | None = None
    channel: str | None = None
    peer: str | None = None
    thread: str | None = None


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


class ForkedDocuments(msgspec.Struct, frozen=True, kw_only=True):
    """Which documents a fork starts with, besides copies of those of its source."""

    leave: tuple[str, ...] = ()
    """labels of the source that are not copied"""
    copy: tuple[tuple[Owner, str], ...] = ()
    """owners and labels whose current documents are copied as those of the fork"""
    add: tuple[DocumentRow, ...] = ()
    """documents of the fork alone"""
    prompt: bool = True
    """whether the frozen prompt is copied"""


class NewFork(msgspec.Struct, frozen=True, kw_only=True):
    """A fork of the plan's session. It consists of a session row (`tree.sessions.fork_row`), a lineage row, and copies
    of the current documents and the prompt. `share` lists the segments that it is the first to share, with the new
    value of their `shared`. It may take over the key that the same plan takes from the session."""

    session: NewSession
    base: Place | None
    view: ViewRow | None
    """what comes before the fork's tail, which is empty; None: the view is stale, or (without a base) empty"""
    view_tokens: int
    view_messages: int
    message_count: int
    compaction_count: int
    share: tuple[Place, ...]
    documents: ForkedDocuments = ForkedDocuments()


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
    """One change, decided in `tree`. It is applied completely, or not at all if a guarded session has changed since.

    `guards` are (session number, revision). The first one is the session that the plan changes: its revision is raised
    by one, and the rows that the plan adds carry the new revision. So does the lineage of a fork, which inherits
    everything up to that revision.
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
    """sessions to delete, with their view rows, tags, usage entries, documents, leases and states"""
    fork: NewFork | None = None
    create: NewSession | None = None
    """a new session that is not a fork; it may take over the key that the same plan takes from the session"""
    hand_over: tuple[str, ...] | None = None
    """if given, the session that the plan creates or forks takes over the turn, under its number, with the messages
    queued for its holder, and starts with copies of the current documents with these labels"""
    delete_rows: tuple[Span, ...] = ()
    replace_rows: tuple[tuple[Place, StoredMessage, int], ...] = ()
    """(place, message, change of the running sum in the row and its segment: not 0 only for the last row)"""
    set_last: tuple[Place, ...] = ()
    """segments, and their new value of `last`"""
    set_shared: tuple[Place, ...] = ()
    """segments, and their new value of `shared`"""
    delete_segments: tuple[int, ...] = ()
    """segments to delete, with all their messages"""
    add_overlays: tuple[NewOverlay, ...] = ()
    mark_overlays: tuple[int, ...] = ()
    """overlays to mark stale in their own row"""
    cut_overlays: tuple[int, ...] = ()
    """summaries that nobody sees any more, because messages were deleted from their ranges: see `OverlayRow.cut`"""
    delete_overlays: tuple[int, ...] = ()
    drop_prompt: bool = False
    """drop the frozen prompt, so that it is rendered again"""
    add_edits: tuple[NewEdit, ...] = ()
    delete_edits: tuple[int, ...] = ()
    delete_lineage: tuple[int, ...] = ()
    """trees that no session inherits from, or through, any more"""
    append: Append | None = None
    """messages to append after everything else, in the same transaction; nothing is left that could refuse them"""
    log: tuple[NewChange, ...] = ()
    """entries for the change log; the store itself adds "session.created" for each session that the plan creates"""


class LeaseWanted(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a lease of a session. Requests are granted in the order of their arrival. A `holder` that repeats
    its request keeps its ticket in the queue, or the lease if it has it. Times are in microseconds.

    A ticket expires after `patience` without a repeated request; 0 means that no ticket is wanted. `force` takes the
    lease at once, even if another caller holds it or waits. `message` is queued for the holder: for this caller if it
    gets the lease, otherwise for the current holder if its intake is open. With `by_key`, the lease is wanted only if
    the session is current under its key. Without `intake`, no messages can be queued for the caller."""

    namespace: str
    session_id: str
    name: str
    holder: str
    ttl: int
    patience: int = 0
    force: bool = False
    by_key: bool = False
    intake: bool = True
    message: StoredMessage | None = None


class SessionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A page of sessions. `order` is "recent" (most recently active first) or "created" (by number, newest first).
    `after` is (last_active_at, number) of the last session on the previous page. By creation, only its number counts.

    `idle` selects sessions that are, or are not, idle at `now` (`tree.sessions.is_idle`, with this `idle_after`).
    `leased` selects sessions whose lease with this name is held, `unleased` those whose lease is not. `shown_lease`
    names a lease for `SessionRow.is_leased`."""

    namespace: str
    limit: int
    agent: str | None = None
    channel: str | None = None
    peer: str | None = None
    thread: str | None = None
    status: str | None = None
    tag: str | None = None
    metadata: tuple[bytes, ...] = ()
    """values that their metadata must have, all of them, as `tree.sessions.metadata_digest` makes them"""
    id_prefix: str | None = None
    created_after: int | None = None
    created_before: int | None = None
    order: Literal["recent", "created"] = "recent"
    after: tuple[int, int] | None = None
    idle: bool | None = None
    now: int = 0
    idle_after: int = NEVER
    leased: str | None = None
    unleased: str | None = None
    shown_lease: str | None = None
    parent: str | None = None
    """the id of the session that they were forked from, or that they were created with as their parent"""
    model: str | None = None
    exclude: tuple[tuple[str, str], ...] = ()
    """(column, value) that sessions must not have; the column may also be `tag`"""
    fullness: tuple[float, int] | None = None
    """(ratio, window): only sessions whose view and frozen prompt take this share of their own `max_tokens`, or of the
    window if they have none; and those with a stale view, whose tokens are not known"""


class DueQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions that are due, longest overdue first: active sessions to archive, counted from their last activity, or
    archived sessions to delete, counted from their end.

    With a `threshold`, only sessions without one of their own are returned. With None, only those with one of their
    own. `after` is (moment, number) of the last session of the previous batch: the moment from which the threshold
    counts, or for sessions with their own threshold, the moment at which it was due."""

    namespace: str
    what: Literal["archive", "delete"]
    now: int
    limit: int
    threshold: int | None
    after: tuple[int, int] | None = None


class StatsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of a namespace. Sessions are counted by their status (`tree.sessions.status_of`): as "compacting" while
    their lease `leased` is held, as "idle" by `now` and `idle_after`. Days before `since` are left out."""

    namespace: str
    now: int = 0
    idle_after: int = NEVER
    leased: str = ""
    since: int = 0


class UsageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of a namespace, grouped by some of "day", "session_id", "agent", "channel", "peer" and "model", of the
    entries that have all the given values, from the first to the last day. `tree.usage` says how they are added up."""

    namespace: str
    by: tuple[str, ...] = ()
    session_id: str | None = None
    agent: str | None = None
    channel: str | None = None
    peer: str | None = None
    model: str | None = None
    first_day: str | None = None
    last_day: str | None = None
