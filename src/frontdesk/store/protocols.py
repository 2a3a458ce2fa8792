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
    Choose,
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
        """Store a prompt if the one there has the number `replaces` (None: there is none); gives the one there is then.

        The store gives the number. Raises `SessionNotFoundError`."""


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

    async def held_leases(self, namespace: str, name: str | None = None) -> list[HeldLease]:
        """The leases with this name (any, if not given) that somebody holds now."""

    async def release_lease(self, namespace: str, session_id: str | None, name: str, number: int) -> bool:
        """Let go of a lease; False if it expired or is another's."""

    async def queue_lease(self, wanted: LeaseWanted) -> LeaseAnswer:
        """Take a lease that nobody holds and nobody ahead waits for, or stand in line. `SessionNotFoundError`."""

    async def leave_lease(self, namespace: str, session_id: str, name: str, holder: str) -> None:
        """Leave the line, and let go of the lease if this holder has it."""

    async def next_queued(self, namespace: str, session_id: str, name: str, number: int) -> StoredMessage | None:
        """The message that was queued first for whoever holds the lease; it stays until an `Append` takes it out.

        If there is none, the intake of this holder is closed in the same step. `TurnLostError` if it expired or is
        another's."""


class ChangeStore(Protocol):
    """The log of changes, one for each namespace: every change writes its lines in its own transaction.

    The lines of one session stand in the order in which its changes were made; no position is used again."""

    async def changes(
        self, namespace: str, after: Position | None, limit: int, *, settled: bool = True
    ) -> list[ChangeRow]:
        """The next lines after a position, or from the oldest that is left.

        Settled lines are those ahead of which none can appear any more: who reads only these, and goes on after the
        last one, misses nothing. With `settled=False` all that is committed. Lines of sessions that are gone are left
        out, but for "session.deleted". `ChangesTrimmedError` if lines after the position were removed."""

    async def last_change(self, namespace: str) -> Position:
        """The position of the newest settled line, `BEGINNING` if there is none."""

    async def wait_for_change(self, seconds: float) -> None:
        """Return when something may have been logged, after so many seconds at the latest."""

    async def trim_changes(self, namespace: str, before_at: int, limit: int, *, until: Position | None = None) -> int:
        """Remove the oldest lines, up to the first that is not older than `before_at` or stands behind `until`, and
        never the newest; at most `limit` at a time. Gives how many went."""


class ErasureStore(Protocol):
    """What an erasure needs besides plans."""

    async def count_rows(self, session: int, spans: Sequence[Span]) -> RowCounts:
        """How many messages stand in these spans, and how much else is kept for a session."""

    async def scrub(self, namespace: str) -> None:
        """Leave nothing behind of what was deleted: neither the lines that the log has of sessions that are gone, nor
        bytes in places that the engine would only use again some day. Works in steps, beside other changes; one that
        was interrupted can be done again."""


@runtime_checkable
class Store(DocumentStore, IndexStore, LeaseStore, ChangeStore, ErasureStore, Protocol):
    """Where everything lives. All methods may be called from several event loops and tasks at once, and open the store
    when it is not open yet. Engine failures are raised as `StoreError`s; after `close` as `StoreClosedError`."""

    async def open(self) -> None:
        """Connect, and bring the schema up to date under a lock. `SchemaVersionError` if it is newer or unreleased."""

    async def close(self) -> None:
        """Finish what is in flight and let go of everything. Idempotent."""

    async def create(self, new: NewSession) -> tuple[SessionRow, bool]:
        """The new session and True, or the one that has its id (or its key, as the current one) already, and False."""

    async def get(self, namespace: str, session_id: str) -> SessionRow | None: ...

    async def get_current(self, namespace: str, key: tuple[str, str, str, str | None]) -> SessionRow | None:
        """The current session under a key."""

    async def page(self, query: SessionQuery) -> list[SessionRow]: ...

    async def due(self, query: DueQuery) -> list[SessionRow]: ...

    async def append(self, request: Append) -> AppendResult:
        """Insert the messages that are not there yet and move the head, all or nothing; the session is made if needed.

        In this order: a `fence` that does not hold raises `TurnLostError`; a session that is not there, if it is to be
        an `existing` one, `SessionNotFoundError`; a duplicate id is skipped, and the next
        message follows it; a session that is suspended, or ended for another reason than `timeout`, raises
        `SessionEndedError` without `reopen`; `expected_head` that is not the head raises `HeadMovedError`, an unknown
        parent `MessageNotFoundError`, unless every message is a duplicate.
        A session that was not active becomes so with the first message, and current under its key if no other is.
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

        A `fence` that does not hold raises `TurnLostError`, a fork's id that is taken raises `SessionExistsError`."""

    async def add_usage(self, namespace: str, session_id: str, line: UsageRow) -> bool:
        """Enter a line and move the totals; False if the session has a line with this id already."""

    async def usage(self, query: UsageQuery) -> list[UsageRow]: ...

    async def stats(self, query: StatsQuery) -> StatsRow: ...
