"""The `Store` protocol, and the smaller protocols that it consists of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar, runtime_checkable

from frontdesk.messages.stored import StoredMessage
from frontdesk.store.changes import ChangeRow, NewChange, Position
from frontdesk.store.index import IndexStore
from frontdesk.store.requests import (
    Append,
    AppendResult,
    DueQuery,
    Fence,
    LeaseWanted,
    NewSession,
    OwnerQuery,
    Plan,
    SessionQuery,
    StatsQuery,
    UsageQuery,
)
from frontdesk.store.rows import (
    DocumentName,
    DocumentRow,
    HeldLease,
    Item,
    LeaseAnswer,
    LeaseRow,
    Owner,
    Piece,
    Place,
    PromptRow,
    RowCounts,
    SessionRow,
    Span,
    StatsRow,
    TreeRows,
    UsageRow,
    ViewRead,
)

T = TypeVar("T")


class DocumentStore(Protocol):
    """Versioned texts and frozen prompts. A document belongs to a session, or to what sessions share by their keys (see
    `Owner`). Documents of a session are deleted with it."""

    async def get_documents(self, namespace: str, names: Sequence[DocumentName]) -> list[DocumentRow | None]:
        """The current versions of these documents in the given order; None for those that do not exist."""

    async def list_documents(self, namespace: str, owner: Owner, label: str) -> list[DocumentRow]:
        """The current versions of all documents of an owner under a label, in the order of their keys."""

    async def document_versions(self, namespace: str, name: DocumentName) -> list[DocumentRow]:
        """Every version of a document, newest first."""

    async def put_document(
        self,
        namespace: str,
        owner: Owner,
        document: DocumentRow,
        *,
        keep_history: bool = True,
        drop_prompt: bool = False,
        note: DocumentRow | None = None,
        fence: Fence | None = None,
    ) -> bool:
        """Add a version if its number follows the newest one. Otherwise returns False, and changes nothing.

        In the same transaction, earlier versions are deleted unless `keep_history`, and with `drop_prompt` the frozen
        prompt of the session that owns the document is dropped. `note` is another document of the same owner, without
        earlier versions: both are written, or (if the number of one of them does not follow) none. Raises
        `SessionNotFoundError`, and `TurnLostError` if the fence does not hold."""

    async def rewrite_document(
        self,
        namespace: str,
        name: DocumentName,
        versions: Sequence[DocumentRow],
        newest: int,
        *,
        hide: Sequence[int] = (),
        note: DocumentRow | None = None,
        fence: Fence | None = None,
    ) -> bool:
        """Replace all versions of a document, or with none delete it, if its newest version is still `newest` (0: there
        is none). Otherwise returns False, and changes nothing. `note` is that of `put_document`.

        In the same transaction, the frozen prompts of the owner's sessions that show one of the versions in `hide` are
        dropped. Raises `SessionNotFoundError` for versions of a session that does not exist, and `TurnLostError` if the
        fence does not hold."""

    async def delete_documents(self, query: OwnerQuery) -> int:
        """Delete all documents of these owners, with the owners. Returns how many versions of blocks there were:
        documents under reserved labels do not count."""

    async def get_prompt(self, namespace: str, session_id: str) -> PromptRow | None: ...

    async def put_prompt(
        self, namespace: str, session_id: str, prompt: PromptRow, replaces: int | None, *, fence: int | None = None
    ) -> PromptRow:
        """Store a prompt if the current one has the number `replaces` (None: there is none). Returns the prompt that is
        stored afterwards, with the number that the store assigned to it. Raises `SessionNotFoundError`, and
        `TurnLostError` if the fence does not hold."""


class LeaseStore(Protocol):
    """Leases by name, of a session or (if `session_id` is None) of the namespace. Times are those of the store's clock;
    `ttl` is in microseconds. The rules are in `tree.leases`.

    The leases of a session are deleted with it. The row of a lease is kept after its end, so that its number keeps
    growing."""

    async def get_lease(self, namespace: str, session_id: str | None, name: str) -> LeaseRow | None:
        """The lease, if it is held now."""

    async def acquire_lease(
        self, namespace: str, session_id: str | None, name: str, holder: str, ttl: int
    ) -> LeaseRow | None:
        """Take a lease that is free, under the next number. None if another holder has it.

        Raises `SessionNotFoundError`."""

    async def renew_lease(self, namespace: str, session_id: str | None, name: str, number: int, ttl: int) -> bool:
        """Set the end of a lease to `ttl` from now (0 releases it). False if it is no longer held under this number."""

    async def held_leases(self, namespace: str, name: str | None = None) -> list[HeldLease]:
        """The leases with this name (default: any name) that are held now."""

    async def queue_lease(self, wanted: LeaseWanted) -> LeaseAnswer:
        """Take a lease, queue a message for its holder, or join the queue. Raises `SessionNotFoundError`."""

    async def leave_lease(self, namespace: str, session_id: str, name: str, holder: str) -> None:
        """Leave the queue, and release the lease if this holder has it."""

    async def lease_queue(self, namespace: str, session_id: str, name: str) -> list[str]:
        """The callers that wait for a lease now, in the order of their tickets."""

    async def next_queued(self, namespace: str, session_id: str, name: str, number: int) -> StoredMessage | None:
        """The oldest message that is queued for the holder of a lease. It stays in the queue until an `Append` with
        `dequeue` removes it.

        If there is none, the holder's intake is closed in the same step. Raises `TurnLostError` if the lease is no
        longer held under this number."""

    async def queued_messages(self, namespace: str, session_id: str, name: str) -> list[StoredMessage]:
        """All messages that are queued for the holder of a lease, oldest first."""

    async def remove_queued(self, namespace: str, session_id: str, name: str, ids: Sequence[str]) -> None:
        """Take the messages with these ids out of the queue. Those that are not in it are ignored."""


class ChangeStore(Protocol):
    """The change log, one for each namespace. Every change writes its entries in its own transaction.

    The entries of one session are in the order of its changes. No position is used again."""

    async def changes(
        self, namespace: str, after: Position | None, limit: int, *, settled: bool = True
    ) -> list[ChangeRow]:
        """The next entries after a position, or (None) from the oldest one that is left.

        An entry is settled when no entry can appear before it any more. So a reader of settled entries that continues
        after the last one misses nothing. With `settled=False`, all committed entries are returned. Of deleted
        sessions, only "session.deleted" is returned. Raises `ChangesTrimmedError` if entries after the position were
        removed, and `ChangesRewoundError` with the position to continue from if the log does not have the epoch of the
        position, or ended that epoch before it."""

    async def last_change(self, namespace: str) -> Position:
        """The position of the newest settled entry; `BEGINNING` if there is none."""

    async def log_change(self, namespace: str, session_id: str, at: int, change: NewChange) -> bool:
        """Add an entry about a session that changes nothing else, not even its revision. False if there is no such
        session."""

    async def wait_for_change(self, seconds: float, since: int | None = None) -> int:
        """Wait until there may be a new entry, for at most this many seconds. Returns a number that says what has been
        noticed so far. Given as `since`, it makes the next call return at once if more was noticed in between, so that
        a caller that reads between two calls misses nothing. A store that is not notified of the writes of other
        processes looks for them itself, or returns early."""

    async def trim_changes(self, namespace: str, before_at: int, limit: int, *, until: Position | None = None) -> int:
        """Remove the oldest entries, up to the first one that is not older than `before_at` or comes after `until`, and
        at most `limit`. The newest entry is never removed. Returns how many were removed."""


class ErasureStore(Protocol):
    """What an erasure needs besides plans."""

    async def count_rows(self, session: int, spans: Sequence[Span]) -> RowCounts:
        """How many messages there are in these spans, and how many other rows a session has."""

    async def add_state_store(self, namespace: str, url: str) -> None:
        """Record that a namespace keeps states in another store, by the URL that identifies it. Idempotent."""

    async def state_stores(self, namespace: str) -> list[str]:
        """The other stores that a namespace keeps states in, as they were recorded."""

    async def forget_state_store(self, namespace: str, url: str) -> bool:
        """Remove the record of a store of states. False if there was none."""

    async def scrub(self, namespace: str) -> None:
        """Remove what deletions leave behind: log entries of deleted sessions, and bytes that the engine would only
        overwrite later. Works in steps, so that other changes can continue. Can be repeated if interrupted."""


@runtime_checkable
class Store(DocumentStore, IndexStore, LeaseStore, ChangeStore, ErasureStore, Protocol):
    """Where everything is stored. All methods may be called from several event loops and tasks at once. They open the
    store if it has never been opened. Engine failures are raised as `StoreError`s. After `close`, every method except
    `open` raises `StoreClosedError`."""

    async def open(self) -> None:
        """Connect, and upgrade the schema under a lock. A store that was closed is opened again. Raises
        `SchemaVersionError` if the schema is newer or unreleased."""

    async def close(self) -> None:
        """Finish running operations and release all resources. Idempotent."""

    async def create(self, new: NewSession) -> tuple[SessionRow, bool]:
        """The new session and True; or False and the session that already has this id, or is current under this key."""

    async def get(self, namespace: str, session_id: str) -> SessionRow | None: ...

    async def get_current(self, namespace: str, key: tuple[str, str, str, str | None]) -> SessionRow | None:
        """The current session under a key."""

    async def page(self, query: SessionQuery) -> list[SessionRow]: ...

    async def due(self, query: DueQuery) -> list[SessionRow]: ...

    async def append(self, request: Append) -> AppendResult:
        """Insert the messages that the session does not see yet and move its head, in one transaction. Creates the
        session if needed. When this returns, the messages are durable.

        `tree.append` decides whether to raise `TurnLostError`, `SessionNotFoundError`, `SessionEndedError`,
        `HeadMovedError` or `MessageNotFoundError`, and in which order these are checked."""

    async def view(self, namespace: str, session_id: str, last: int | None = None) -> ViewRead | None:
        """A session and its view as of one moment, with the rows of all items of the view, or of its `last` messages
        (0: none). `tree.tree.stored_items` says which items that are."""

    async def trees(
        self, namespace: str, session_ids: Sequence[str], *, find: Sequence[str] = (), family: bool = False
    ) -> list[TreeRows]:
        """The shapes of the messages of these sessions as of one moment, in the given order, with the places in their
        families of the message ids in `find`. Sessions that do not exist are left out."""

    async def read(self, items: Sequence[Item]) -> tuple[Piece, ...]:
        """The rows of these items as of one moment. Rows that were deleted since the items were computed are left
        out."""

    async def sums(self, places: Sequence[Place]) -> list[tuple[int, int]]:
        """(tokens, running sum) of the row at each place; (0, 0) where there is none."""

    async def tally(self, spans: Sequence[Span]) -> list[tuple[str, int, int]]:
        """(role, messages, tokens) of the rows in these spans; "tool" for a user's message that has
        the results of tools. No text is read, unless it says which of the two a message is."""

    async def apply(self, plan: Plan) -> bool:
        """Apply a plan in one transaction. If a guard no longer holds, returns False and changes nothing.

        Raises `TurnLostError` if the plan's `fence` does not hold, and `SessionExistsError` if the id or the key of a
        session that it creates is taken. `tree.guards` makes these decisions."""

    async def add_usage(self, namespace: str, session_id: str, entry: UsageRow) -> bool:
        """Add a usage entry, and its amounts to the totals. False if the session already has an entry with this id."""

    async def usage(self, query: UsageQuery) -> list[UsageRow]:
        """Totals by group, also of sessions that were deleted since. Raises `SessionNotFoundError` for a `session_id`
        that does not exist."""

    async def recent_usage(
        self, namespace: str, session_id: str, limit: int, before: tuple[int, str] | None = None
    ) -> list[UsageRow]:
        """The newest entries of a session, or the newest before (`at`, `id`); none of a session that does not exist."""

    async def stats(self, query: StatsQuery) -> StatsRow: ...


@runtime_checkable
class LockingStore(Protocol):
    """For a store whose writers hold locks: it can keep other writers from a session while a change is made.
    Optional. Without it, a change that other writers overtake every time raises `ConcurrentChangeError`."""

    async def hold(self, namespace: str, session_id: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do some work while nobody else changes the session or its family. What the work asks of this store, in the
        task that called, is one transaction. Nothing of it has happened if the work raises; it may be done again."""
