"""The rows that pass through the seam: what a store keeps and returns."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from frontdesk.messages.stored import StoredMessage
from frontdesk.store.damage import parse_stored

MAX_NAMESPACE = 200
SEGMENT_SIZE = 1 << 24
TURN = "turn"
"""the name of the lease whose number is the fence of writes"""
NEVER = 1 << 62
"""a threshold, in microseconds, that is never reached"""
_decode_tags = msgspec.json.Decoder(list[str]).decode
_decode_metadata = msgspec.json.Decoder(dict[str, Any]).decode


class Place(NamedTuple):
    """Where a message is stored."""

    segment: int
    position: int


StoredStatus = Literal["active", "suspended", "archived"]
ViewState = Literal["plain", "stored", "stale"]


class SessionRow(msgspec.Struct, frozen=True):
    """A session as stored. Times are microseconds since the epoch, UTC; `cost` is a decimal text.

    `view` says what is known of the view at the head: "plain" (just the tail), "stored" (items are in the view row),
    "stale" (to be computed; `view_tokens` and `view_messages` mean nothing). The tail, the open end of the view, is
    `head.segment` from position `tail` to the head.

    `status` is "active", "suspended" or "archived". `idle_after`, `archive_after` and `delete_after` are the session's
    own thresholds in microseconds (`NEVER`: it is never reached). With None, those of the manager apply.
    """

    number: int
    namespace: str
    id: str
    tree: int
    family: int
    created_at: int
    updated_at: int
    last_active_at: int
    agent: str | None = None
    channel: str | None = None
    peer: str | None = None
    thread: str | None = None
    name: str = ""
    status: StoredStatus = "active"
    end_reason: str | None = None
    parent_session_id: str | None = None
    model: str | None = None
    source: str | None = None
    tags: str = "[]"
    metadata: str = "{}"
    summary: str | None = None
    max_tokens: int | None = None
    tail: int = 0
    view: ViewState = "plain"
    view_tokens: int = 0
    view_messages: int = 0
    revision: int = 0
    message_count: int = 0
    compaction_count: int = 0
    prompt_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: str = "0"
    compacted_at: int | None = None
    ended_at: int | None = None
    idle_after: int | None = None
    archive_after: int | None = None
    delete_after: int | None = None
    key_current: bool = False
    base: Place | None = None
    head: Place | None = None
    is_leased: bool = False
    """whether the lease is held that a `SessionQuery` named; of no other row"""

    @property
    def used_tokens(self) -> int:
        """How much of the model's window the view and the frozen prompt take: what decides on a compaction."""
        return self.view_tokens + self.prompt_tokens


def tags_of(row: SessionRow) -> list[str]:
    """Raises `DamagedRecordError`."""
    return [] if row.tags == "[]" else parse_stored(_decode_tags, row.tags, "session", row.id)


def metadata_of(row: SessionRow) -> dict[str, Any]:
    """Raises `DamagedRecordError`."""
    return {} if row.metadata == "{}" else parse_stored(_decode_metadata, row.metadata, "session", row.id)


class SegmentRow(msgspec.Struct, frozen=True):
    """A run of messages. `last` is the last position that its owner still sees (-1: none), `next` the first one never
    used, `shared` the last one that another session sees too (-1: none), `tokens` the running sum at `next - 1`."""

    number: int
    tree: int
    parent: Place | None
    last: int
    next: int
    shared: int
    tokens: int


class OverlayRow(msgspec.Struct, frozen=True, kw_only=True):
    """An overlay. `revision` is that of its owner when it was made: a fork sees the overlays made before it.

    `stale`: a message in the range of a summary was changed since. A summary from whose range messages were deleted is
    *cut*: it has become a "truncate" that is stale, and has no text. `summary` is also left out (None) where only the
    shape of a tree is loaded."""

    number: int
    tree: int
    revision: int
    id: str
    kind: Literal["summary", "truncate", "reset"]
    start: Place
    end: Place
    tokens: int
    created_at: int
    stale: bool = False
    summary: str | None = None
    details: str = "{}"

    @property
    def is_cut(self) -> bool:
        """Whether it was a summary, and messages were deleted from its range."""
        return self.stale and self.kind == "truncate"

    def cut(self) -> OverlayRow:
        """The same overlay once messages were deleted from its range."""
        if self.kind != "summary":
            return self
        return msgspec.structs.replace(self, kind="truncate", stale=True, tokens=0, summary=None)


EditKind = Literal["removed", "replaced", "adjusted", "overlay-gone", "overlay-stale", "overlay-cut"]


class EditRow(msgspec.Struct, frozen=True, kw_only=True):
    """A change of what one tree (and those forked from it later) sees; running sums are never rewritten.

    - "removed": this tree does not see the messages `first..last`; their rows are deleted, too, unless others see them.
    - "replaced": this tree sees `message` in place of the row at `first`, which others still see as it was.
    - "adjusted": the row at `first` was changed in place and `tokens` is what to add to the running sums from there on.
    - "overlay-gone", "overlay-stale", "overlay-cut": about overlay `overlay`, whose row others still see as it was. Of
      one that is cut, messages were deleted: it may have a new end at (`segment`, `first`). Segment numbers start at 1,
      so 0 means none.

    For "replaced", too, `tokens` is the difference from the row.
    """

    number: int
    tree: int
    revision: int
    kind: EditKind
    segment: int = 0
    first: int = 0
    last: int = 0
    tokens: int = 0
    overlay: int | None = None
    message: StoredMessage | None = None


class Lineage(msgspec.Struct, frozen=True):
    """`tree` was forked from `ancestor` when that was at revision `until`. A tree that is not a fork has no such row.

    What a tree inherits from earlier ancestors is found by going from row to row. So a row outlives its tree as long as
    another tree needs it to reach its ancestors. An ancestor always has the lower number."""

    tree: int
    ancestor: int
    until: int


class Span(msgspec.Struct, frozen=True, array_like=True, tag="r"):
    """Messages `first..last` of a segment, all of them stored; `before` is the place of the message before them."""

    segment: int
    first: int
    last: int
    before: Place | None


class OverlayItem(msgspec.Struct, frozen=True, array_like=True, tag="o"):
    """The overlay with this number; `before` is the place of the last real message before it."""

    number: int
    tokens: int
    before: Place | None


class EditItem(msgspec.Struct, frozen=True, array_like=True, tag="e"):
    """The message of the edit with this number, which replaces the row at `place`."""

    number: int
    tokens: int
    place: Place
    before: Place | None


Item = Span | OverlayItem | EditItem


class ViewRow(msgspec.Struct, frozen=True, array_like=True):
    """The stored part of a view: all that comes before the tail.

    The rest is what a fork at the head must know about the path, and what appends at the head do not change: `own` are
    the session's own segments on it when the view was stored, each with its last position there; `messages_aside` and
    `overlays_aside` count the session's messages and overlays that are not on it.
    """

    items: tuple[Item, ...] = ()
    before: Place | None = None
    own: tuple[Place, ...] = ()
    messages_aside: int = 0
    overlays_aside: int = 0


class FoundMessage(NamedTuple):
    """A message with a requested id somewhere in the family. The session does not necessarily see it."""

    id: str
    place: Place
    tokens: int


class TreeRows(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of one session's messages, without their content: what `tree` reasons about.

    `segments` are those the session owns and those on the way to its base; `lineage` is its own row and those on the
    way up from it; overlays and edits are those of all these trees, as far as they are inherited.
    With `family=True` all of the family, and then `sessions` holds every living session of it. `forked_until` is the
    highest revision that a living fork inherited (-1: there is none).
    """

    session: SessionRow
    view: ViewRow
    segments: tuple[SegmentRow, ...]
    overlays: tuple[OverlayRow, ...]
    edits: tuple[EditRow, ...]
    lineage: tuple[Lineage, ...]
    forked_until: int
    found: tuple[FoundMessage, ...] = ()
    sessions: tuple[SessionRow, ...] = ()


class Piece(msgspec.Struct, frozen=True):
    """What was read for one item: its messages in order, or its overlay, and the id of the message before them."""

    before_id: str | None
    messages: tuple[StoredMessage, ...] = ()
    overlay: OverlayRow | None = None


class ViewRead(NamedTuple):
    """A session, its view as stored, and the items of the view that were read, with their pieces."""

    session: SessionRow
    view: ViewRow
    items: tuple[Item, ...]
    pieces: tuple[Piece, ...]


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """A usage entry, or (without an id) a total of a group. `cost` is a decimal text. The session and the parts of its
    key are set in totals only."""

    id: str = ""
    model: str | None = None
    at: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost: str = "0"
    day: str = ""
    """ISO date in UTC"""
    session_id: str | None = None
    agent: str | None = None
    channel: str | None = None
    peer: str | None = None


class StatsRow(msgspec.Struct, frozen=True, kw_only=True):
    """Totals over a namespace. `sessions` are counted by status. `days` has (sessions created, their messages) by ISO
    date in UTC. `context_tokens` is the sum of the views whose totals are known, and `stale` are the ids of the other
    sessions. `log_lag` is how many microseconds ago the oldest log entry that is not settled was written, and
    `log_holder` describes the transaction that it waits for."""

    sessions: dict[str, int]
    days: dict[str, tuple[int, int]]
    messages: int
    input_tokens: int
    output_tokens: int
    cost: str
    context_tokens: int
    stale: tuple[str, ...]
    store_bytes: int
    log_lag: int = 0
    log_holder: str | None = None


class RowCounts(NamedTuple):
    """How many rows a session has: messages, versions of its blocks, usage entries, and messages queued for a turn.
    Documents under reserved labels do not count."""

    messages: int
    documents: int
    usage_entries: int
    queued: int


Scope = Literal["session", "key", "guest", "agent", "namespace"]
"""what a context block belongs to"""


class Owner(msgspec.Struct, frozen=True):
    """What a document belongs to: a session by its id, or a key, a guest, an agent or the namespace.

    The parts of the key that the scope does not distinguish are None: a guest has no thread, an agent only itself."""

    scope: Scope
    session_id: str | None = None
    agent: str | None = None
    channel: str | None = None
    peer: str | None = None
    thread: str | None = None

    @property
    def parts(self) -> tuple[Scope, str | None, str | None, str | None, str | None]:
        """What distinguishes owners that are not a session."""
        return self.scope, self.agent, self.channel, self.peer, self.thread


class DocumentName(NamedTuple):
    """The name of a document. `key` distinguishes the entries of one label."""

    owner: Owner
    label: str
    key: str = ""


class DocumentRow(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a text. Versions start at 1."""

    label: str
    key: str = ""
    version: int
    content: str
    description: str | None = None
    author: str | None = None
    created_at: int


class PromptRow(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen system prompt. `fingerprint` is a hash of what it was rendered from, `deployed_at` is when the manager
    that rendered it was made, and `blocks` is JSON about the content of each block at that time. `number` grows with
    every freeze and every drop. A dropped prompt has an empty fingerprint. `tokens` are also in the session's row, so
    that an append knows them."""

    number: int
    text: str
    tokens: int
    fingerprint: str
    blocks: str
    created_at: int
    deployed_at: int = 0


class LeaseRow(msgspec.Struct, frozen=True):
    """The right to do something for a while. `number` grows with every holder, so that a late holder is recognised,
    even one of a deleted session that had the same id. `intake` says whether messages may be queued for the holder."""

    name: str
    number: int
    holder: str
    expires_at: int
    taken_at: int = 0
    intake: bool = True


class LeaseAnswer(msgspec.Struct, frozen=True):
    """The answer to a `LeaseWanted`. `lease` is the lease if it is held, by this caller or another; None means that a
    waiting caller is about to take it. `ticket` is the ticket of this caller (0: none), and `ahead` counts the callers
    before it. `queued` says whether the message was queued for the holder, and `moved` that the session is not current
    under its key any more: then nothing was written, and a ticket was removed."""

    lease: LeaseRow | None
    ticket: int = 0
    ahead: int = 0
    queued: bool = False
    moved: bool = False


class HeldLease(NamedTuple):
    """A lease that is held, and the session that it belongs to (None: the namespace)."""

    session_id: str | None
    lease: LeaseRow
