"""THE SEAM: what a store must do, and the rows that pass through it.

A store keeps rows and makes changes atomic. It knows segments, positions and revisions, but no rule of the product:
paths, overlays, windows and budgets are computed above, in `tree`, and come down as a `Selection` to read or a `Plan`
to apply. Only what must be decided against the head in one step (append) is a primitive of its own.

Vocabulary: a *segment* is a run of messages with consecutive positions, owned by one *tree* (one session's messages).
A message lives at `(segment, position)`; positions are never used again. Trees that share messages through forks form
a *family*. `revision` counts the changes of a session other than appending at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from frontdesk.messages import StoredMessage

MAX_NAMESPACE = 200
SEGMENT_SIZE = 1 << 24


class Place(NamedTuple):
    """Where a message stands."""

    segment: int
    position: int


class SessionRow(msgspec.Struct, frozen=True):
    """A session as stored. Times are microseconds since the epoch, UTC; `cost` is a decimal text.

    `view` says what is known of the view at the head: "plain" (just the tail), "stored" (items are in the view row),
    "stale" (to be computed; `view_tokens` and `view_messages` mean nothing). The tail, the open end of the view, is
    `head.segment` from position `tail` to the head.
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
    status: str = "active"
    end_reason: str | None = None
    parent_session_id: str | None = None
    model: str | None = None
    source: str | None = None
    tags: str = "[]"
    metadata: str = "{}"
    summary: str | None = None
    max_tokens: int | None = None
    tail: int = 0
    view: Literal["plain", "stored", "stale"] = "plain"
    view_tokens: int = 0
    view_messages: int = 0
    revision: int = 0
    message_count: int = 0
    compaction_count: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: str = "0"
    compacted_at: int | None = None
    ended_at: int | None = None
    key_current: bool = False
    base: Place | None = None
    head: Place | None = None


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
    """A compaction. `revision` is the owner's when it was made, so that forks see those made before them.

    `summary` is left out (None) where only the shape of a tree is loaded."""

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


EditKind = Literal["removed", "replaced", "adjusted", "overlay-gone", "overlay-stale"]


class EditRow(msgspec.Struct, frozen=True, kw_only=True):
    """A change of what one tree (and those forked from it later) sees; running sums are never rewritten.

    - "removed": the messages `first..last` are gone for this tree; their rows are, too, unless others see them.
    - "replaced": this tree sees `message` in place of the row at `first`, which others still see as it was.
    - "adjusted": the row at `first` was changed in place and `tokens` is what to add to the running sums from there on.
    - "overlay-gone", "overlay-stale": said of overlay `overlay`, whose row others still see as it was; a stale one may
      have got a new end at (`segment`, `first`). Segment numbers begin at 1, so that 0 says nothing.
    For "replaced", too, `tokens` is the change against the row.
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
    """`tree` was forked (perhaps through others) from `ancestor` when that was at revision `until`."""

    tree: int
    ancestor: int
    until: int


class Span(msgspec.Struct, frozen=True, array_like=True, tag="r"):
    """Messages `first..last` of a segment, all of them stored; `before` is the place of the message ahead of them."""

    segment: int
    first: int
    last: int
    before: Place | None


class OverlayItem(msgspec.Struct, frozen=True, array_like=True, tag="o"):
    """The overlay with this number stands here; `before` is the place of the last real message ahead of it."""

    number: int
    tokens: int
    before: Place | None


class EditItem(msgspec.Struct, frozen=True, array_like=True, tag="e"):
    """The message of this replacing edit stands here."""

    number: int
    tokens: int
    place: Place
    before: Place | None


Item = Span | OverlayItem | EditItem


class ViewRow(msgspec.Struct, frozen=True, array_like=True):
    """The stored part of a view: all that comes ahead of the tail."""

    items: tuple[Item, ...] = ()
    before: Place | None = None


class Found(NamedTuple):
    """A message with a wanted id somewhere in the family: not yet known to be seen by the session."""

    id: str
    place: Place
    tokens: int


class TreeRows(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of one session's messages, without their content: what `tree` reasons about.

    `segments` are those the session owns and those it inherits, `lineage` its own; overlays and edits those of both.
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
    found: tuple[Found, ...] = ()
    sessions: tuple[SessionRow, ...] = ()


class Piece(msgspec.Struct, frozen=True):
    """What was read for one item: messages in order (or one overlay), and the id of the message ahead of them."""

    before_id: str | None
    messages: tuple[StoredMessage, ...] = ()
    overlay: OverlayRow | None = None


class ViewRead(NamedTuple):
    """A session, and the pieces of the items that were chosen."""

    session: SessionRow
    items: tuple[Item, ...]
    pieces: tuple[Piece, ...]


Choose = Callable[[SessionRow, ViewRow], Sequence[Item]]


class FollowHead:
    """The parent of an append that was not given one."""


FOLLOW_HEAD = FollowHead()


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """Messages to be chained after `parent` (an id, None for a new root, FOLLOW_HEAD), in one transaction.

    `fresh` says which ids were made for this call and so cannot be there already."""

    namespace: str
    session_id: str
    messages: tuple[StoredMessage, ...]
    fresh: tuple[bool, ...]
    now: int
    parent: str | FollowHead | None = FOLLOW_HEAD
    expected_head: str | None = None


class AppendedRow(msgspec.Struct, frozen=True):
    """What became of one message; `existing` is the stored one where it was there already."""

    inserted: bool
    parent_id: str | None
    existing: StoredMessage | None = None


class AppendResult(NamedTuple):
    rows: tuple[AppendedRow, ...]
    session: SessionRow


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
    """A fork of the plan's session: one row, its lineage, `shared` raised on the segments it sees, and copies of its
    current documents and its prompt. It may take over the key that the same plan takes from the session."""

    session: NewSession
    base: Place | None
    view: ViewRow | None
    """what is ahead of the fork's (empty) tail; None: stale, or (without a base) empty"""
    view_tokens: int
    view_messages: int
    message_count: int
    compaction_count: int
    share: tuple[Place, ...]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One change, computed from a tree and applied whole, or not at all if a guarded session has changed since.

    `guards` are (session number, revision). The first one is the session that the plan is for: its revision is raised
    by one, and what the plan adds carries the raised figure (a fork's lineage, too: it inherits all up to it).
    """

    guards: tuple[tuple[int, int], ...]
    now: int
    head: Place | None = None
    """if given, must still be the head"""
    set: dict[str, Any] = {}
    """columns of the session's row and their new values; `head` and `base` take a `Place` or None"""
    add: dict[str, int] = {}
    """columns and what to add to them"""
    view: ViewRow | None = None
    """the new view row, if given (the row's `view`, `tail` and figures go through `set` and `add`)"""
    fresh_tree: bool = False
    """give the session a new, empty tree and family"""
    delete_sessions: tuple[int, ...] = ()
    """with their view rows, tags and ledger lines"""
    fork: NewFork | None = None
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
    """trees that inherit no more"""


class SessionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A page of sessions, newest activity first; `after` is (last_active_at, number) of the last one seen."""

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


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the ledger, or (without ids) a total. `cost` is a decimal text."""

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


class UsageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Totals per (day, model) of a namespace, or of one session of it."""

    namespace: str
    session_id: str | None = None
    first_day: str | None = None
    last_day: str | None = None


class StatsRow(msgspec.Struct, frozen=True, kw_only=True):
    """Totals over a namespace."""

    sessions: dict[str, int]
    messages: int
    input_tokens: int
    output_tokens: int
    cost: str
    store_bytes: int


class DocumentRow(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a text kept for a session, or for a whole namespace. Version 0 does not exist: nothing written."""

    label: str
    key: str = ""
    version: int
    content: str
    description: str | None = None
    author: str | None = None
    created_at: int


class PromptRow(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen system prompt. `fingerprint` is of the declarations it was rendered from, `blocks` JSON of what each
    block held then. `number` grows with every freeze and every drop; a dropped prompt has no fingerprint."""

    number: int
    text: str
    fingerprint: str
    blocks: str
    created_at: int


class DocumentStore(Protocol):
    """Versioned texts and frozen prompts. `session_id` None means the namespace: shared by all of its sessions."""

    async def get_documents(
        self, namespace: str, session_id: str | None, names: Sequence[tuple[str, str]]
    ) -> list[DocumentRow]:
        """The current versions of the documents with these (label, key), of those that exist."""

    async def list_documents(self, namespace: str, session_id: str | None, label: str) -> list[DocumentRow]:
        """The current versions of all documents under a label, by key."""

    async def document_versions(
        self, namespace: str, session_id: str | None, label: str, key: str
    ) -> list[DocumentRow]:
        """Every version of a document, newest first."""

    async def put_document(
        self,
        namespace: str,
        session_id: str | None,
        document: DocumentRow,
        *,
        keep_history: bool = True,
        drop_prompt: bool = False,
    ) -> bool:
        """Add a version if it is the one after the newest; False, and nothing changed, if it is not.

        In the same transaction earlier versions go unless `keep_history`, and with `drop_prompt` the session's frozen
        prompt is dropped. Raises `SessionNotFoundError`."""

    async def get_prompt(self, namespace: str, session_id: str) -> PromptRow | None: ...

    async def put_prompt(self, namespace: str, session_id: str, prompt: PromptRow, replaces: int | None) -> PromptRow:
        """Store a prompt if the one there has the number `replaces` (None: there is none); gives the one there is then.

        The store gives the number. Raises `SessionNotFoundError`."""


class LeaseRow(msgspec.Struct, frozen=True):
    """The right to do something for a while. `number` grows with every holder and tells late ones from the present."""

    name: str
    number: int
    holder: str
    expires_at: int


class LeaseStore(Protocol):
    """Leases by name, of a session or (None) of the namespace. Time is the store's; `ttl` is in microseconds.

    Those of a session go with it. A lease that nobody holds may still be there, expired."""

    async def get_lease(self, namespace: str, session_id: str | None, name: str) -> LeaseRow | None:
        """The lease, if somebody holds it now."""

    async def acquire_lease(
        self, namespace: str, session_id: str | None, name: str, holder: str, ttl: int
    ) -> LeaseRow | None:
        """Take a lease that nobody holds, under the next number; None if somebody does. `SessionNotFoundError`."""

    async def renew_lease(self, namespace: str, session_id: str | None, name: str, number: int, ttl: int) -> bool:
        """Hold on to a lease; False if it expired or is another's."""

    async def release_lease(self, namespace: str, session_id: str | None, name: str, number: int) -> bool:
        """Let go of a lease; False if it expired or is another's."""


@runtime_checkable
class Store(DocumentStore, LeaseStore, Protocol):
    """Where everything lives. All methods may be called from several event loops and tasks at once, and open the store
    when it is not open yet. Engine failures are raised as `StoreError`s; after `close` as `StoreClosedError`."""

    async def open(self) -> None:
        """Connect, and bring the schema up to date under a lock. `SchemaVersionError` if it is newer than the code."""

    async def close(self) -> None:
        """Finish what is in flight and let go of everything. Idempotent."""

    async def create(self, new: NewSession) -> tuple[SessionRow, bool]:
        """The new session and True, or the one that has its id (or its key, as the current one) already, and False."""

    async def get(self, namespace: str, session_id: str) -> SessionRow | None: ...

    async def get_current(self, namespace: str, key: tuple[str, str, str, str | None]) -> SessionRow | None:
        """The current session under a key."""

    async def page(self, query: SessionQuery) -> list[SessionRow]: ...

    async def append(self, request: Append) -> AppendResult:
        """Insert the messages that are not there yet and move the head, all or nothing; the session is made if needed.

        In this order: a duplicate id is skipped, and the next message follows it; `expected_head` that is not the head
        raises `HeadMovedError`, an unknown parent `MessageNotFoundError`, unless every message is a duplicate.
        When it returns, it is durable.
        """

    async def view(self, namespace: str, session_id: str, choose: Choose) -> ViewRead | None:
        """Session and view as of one moment, and the rows of the items that `choose` picks from them."""

    async def tree(
        self, namespace: str, session_id: str, *, find: Sequence[str] = (), family: bool = False
    ) -> TreeRows | None:
        """The shape of a session's messages as of one moment, and where in the family the ids in `find` stand."""

    async def read(self, items: Sequence[Item]) -> tuple[Piece, ...]:
        """The rows of these items, as of one moment; rows deleted since the items were computed are left out."""

    async def sums(self, places: Sequence[Place]) -> list[tuple[int, int]]:
        """(tokens, running sum) of the row at each place; (0, 0) where there is none."""

    async def apply(self, plan: Plan) -> bool:
        """Apply a plan in one transaction; False, and nothing changed, if a guard does not hold any more.

        A fork's id that is taken raises `SessionExistsError`."""

    async def add_usage(self, namespace: str, session_id: str, line: UsageRow) -> bool:
        """Enter a line and move the totals; False if the session has a line with this id already."""

    async def usage(self, query: UsageQuery) -> list[UsageRow]: ...

    async def stats(self, namespace: str) -> StatsRow: ...
