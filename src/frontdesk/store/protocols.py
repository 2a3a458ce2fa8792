"""What a store must do: the `Store` protocol, and the parts that it consists of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from frontdesk.messages.stored import StoredMessage
from frontdesk.store.changes import ChangeRow, Position
from frontdesk.store.index import IndexStore
from frontdesk.store.requests import (
    Append,
    AppendResult,
    DueQuery,
    LeaseWanted,
    NewSession,
    Plan,
    SessionQuery,
    StatsQuery,
    UsageQuery,
)
from frontdesk.store.rows import (
    DocumentRow,
    HeldLease,
    Item,
    LeaseAnswer,
    LeaseRow,
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
        """Store a prompt if the present one has the number `replaces` (None: there is none). Returns the prompt that is
        then stored, with the number that the store gave it. Raises `SessionNotFoundError`."""


class LeaseStore(Protocol):
    """Leases by name, of a session or (`session_id` None) of the namespace. Time is the store's; `ttl` is in
    microseconds. The rules are in `tree.leases`.

    The leases of a session are deleted with it. The row of a lease stays after its end, so that its numbers grow."""

    async def get_lease(self, namespace: str, session_id: str | None, name: str) -> LeaseRow | None:
        """The lease, if somebody holds it now."""

    async def acquire_lease(
        self, namespace: str, session_id: str | None, name: str, holder: str, ttl: int
    ) -> LeaseRow | None:
        """Take a lease that nobody holds, under the next number; None if somebody holds it.

        Raises `SessionNotFoundError`."""

    async def renew_lease(self, namespace: str, session_id: str | None, name: str, number: int, ttl: int) -> bool:
        """Let a lease end `ttl` from now (0: release it); False if it is not held under this number any more."""

    async def held_leases(self, namespace: str, name: str | None = None) -> list[HeldLease]:
        """The leases with this name (any, if not given) that somebody holds now."""

    async def queue_lease(self, wanted: LeaseWanted) -> LeaseAnswer:
        """Take a lease, leave a message for its holder, or wait in the queue. Raises `SessionNotFoundError`."""

    async def leave_lease(self, namespace: str, session_id: str, name: str, holder: str) -> None:
        """Leave the queue, and release the lease if this holder has it."""

    async def next_queued(self, namespace: str, session_id: str, name: str, number: int) -> StoredMessage | None:
        """The message that was queued first for the holder of a lease; it stays until an `Append` takes it out.

        If there is none, the holder's intake is closed in the same step. Raises `TurnLostError` if the lease is not
        held under this number any more."""


class ChangeStore(Protocol):
    """The change log, one for each namespace: every change writes its entries in its own transaction.

    The entries of one session are in the order in which its changes were made; no position is used again."""

    async def changes(
        self, namespace: str, after: Position | None, limit: int, *, settled: bool = True
    ) -> list[ChangeRow]:
        """The next entries after a position, or from the oldest that is left.

        An entry is settled when none can appear before it any more: a reader of settled entries that goes on after the
        last one misses nothing. With `settled=False` all that is committed. Entries of deleted sessions are left out,
        but for "session.deleted". Raises `ChangesTrimmedError` if entries after the position were removed."""

    async def last_change(self, namespace: str) -> Position:
        """The position of the newest settled entry, `BEGINNING` if there is none."""

    async def wait_for_change(self, seconds: float) -> None:
        """Wait until something may have been logged, at most so many seconds."""

    async def trim_changes(self, namespace: str, before_at: int, limit: int, *, until: Position | None = None) -> int:
        """Remove the oldest entries, up to the first that is not older than `before_at` or comes after `until`, and
        never the newest; at most `limit` at a time. Returns how many were removed."""


class ErasureStore(Protocol):
    """What an erasure needs besides plans."""

    async def count_rows(self, session: int, spans: Sequence[Span]) -> RowCounts:
        """How many messages there are in these spans, and how much else is kept for a session."""

    async def scrub(self, namespace: str) -> None:
        """Leave nothing behind of what was deleted: neither log entries of deleted sessions, nor bytes that the engine
        would only overwrite some day. Works in steps, while other changes go on; can be repeated if interrupted."""


@runtime_checkable
class Store(DocumentStore, IndexStore, LeaseStore, ChangeStore, ErasureStore, Protocol):
    """Where everything is stored. All methods may be called from several event loops and tasks at once, and open the
    store if it is not open yet. Engine failures are raised as `StoreError`s; after `close`, `StoreClosedError`."""

    async def open(self) -> None:
        """Connect, and bring the schema up to date under a lock. `SchemaVersionError` if it is newer or unreleased."""

    async def close(self) -> None:
        """Finish what is in flight and release everything. Idempotent."""

    async def create(self, new: NewSession) -> tuple[SessionRow, bool]:
        """The new session and True, or the one that has its id (or its key, as the current one) already, and False."""

    async def get(self, namespace: str, session_id: str) -> SessionRow | None: ...

    async def get_current(self, namespace: str, key: tuple[str, str, str, str | None]) -> SessionRow | None:
        """The current session under a key."""

    async def page(self, query: SessionQuery) -> list[SessionRow]: ...

    async def due(self, query: DueQuery) -> list[SessionRow]: ...

    async def append(self, request: Append) -> AppendResult:
        """Insert the messages that the session does not see yet and move its head, all or nothing. The session is
        created if needed.

        `tree.append` decides, and says in which order an append is refused: with `TurnLostError`,
        `SessionNotFoundError`, `SessionEndedError`, `HeadMovedError` or `MessageNotFoundError`. When this returns, the
        messages are durable."""

    async def view(self, namespace: str, session_id: str, last: int | None = None) -> ViewRead | None:
        """Session and view as of one moment, and the rows of its items, or of its `last` messages (0: none), as
        `tree.tree.stored_items` says."""

    async def trees(
        self, namespace: str, session_ids: Sequence[str], *, find: Sequence[str] = (), family: bool = False
    ) -> list[TreeRows]:
        """The shapes of some sessions' messages as of one moment, of those that exist, in their order; and the places
        of the ids in `find` in their families."""

    async def read(self, items: Sequence[Item]) -> tuple[Piece, ...]:
        """The rows of these items, as of one moment; rows deleted since the items were computed are left out."""

    async def sums(self, places: Sequence[Place]) -> list[tuple[int, int]]:
        """(tokens, running sum) of the row at each place; (0, 0) where there is none."""

    async def apply(self, plan: Plan) -> bool:
        """Apply a plan in one transaction; False, and nothing changed, if a guard does not hold any more.

        Raises `TurnLostError` if the plan's `fence` does not hold, and `SessionExistsError` if the id or the key of a
        session that it makes is taken. `tree.guards` decides all this."""

    async def add_usage(self, namespace: str, session_id: str, entry: UsageRow) -> bool:
        """Add a usage entry and its amounts to the totals; False if the session has one with this id already."""

    async def usage(self, query: UsageQuery) -> list[UsageRow]: ...

    async def stats(self, query: StatsQuery) -> StatsRow: ...
