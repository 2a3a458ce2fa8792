"""What an export, an import and a copy need of a store: rows as they are. A separate protocol, because a store can do
without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from frontdesk.messages.stored import StoredMessage
from frontdesk.store.changes import NewChange
from frontdesk.store.rows import (
    DocumentRow,
    EditRow,
    Lineage,
    OverlayRow,
    Owner,
    Place,
    PromptRow,
    SegmentRow,
    SessionRow,
    UsageRow,
    ViewRow,
)
from frontdesk.store.shelves import Blob, ShelfKey, ShelfVersion
from frontdesk.store.states import StateKey, StateOwner, StateRow

NumberKind = Literal["session", "segment", "overlay", "edit"]
"""what is numbered; sessions, trees and families share their numbers"""


class PlacedMessage(NamedTuple):
    """A message where it is stored, with the running sum of its segment."""

    place: Place
    running: int
    message: StoredMessage


class RestoredSession(NamedTuple):
    """A session and its stored view."""

    row: SessionRow
    view: ViewRow | None


class LoggedChange(NamedTuple):
    """An entry for the change log, about a session by its number (0: the namespace)."""

    session: int
    at: int
    change: NewChange


class UnfinishedSession(NamedTuple):
    """A session whose family is being written."""

    id: str
    number: int


class ShelfRow(NamedTuple):
    """A shelf, without what is on it."""

    key: ShelfKey
    version: ShelfVersion
    owner: StateOwner | None


class Restore(msgspec.Struct, frozen=True, kw_only=True):
    """Rows to write exactly as they are, in one transaction. Their numbers were drawn from the store. A row that is
    there already, by its number or its name, is replaced.

    The rows of a family can be written by several requests: nobody sees them before the sessions are there. The store
    notes such a family before the first of them (`begin_family`), until the request with its sessions."""

    namespace: str
    family: int = 0
    """the family of the messages"""
    is_noted: bool = False
    """whether the family was begun with `begin_family`"""
    segments: tuple[SegmentRow, ...] = ()
    messages: tuple[PlacedMessage, ...] = ()
    overlays: tuple[OverlayRow, ...] = ()
    edits: tuple[EditRow, ...] = ()
    lineage: tuple[Lineage, ...] = ()
    sessions: tuple[RestoredSession, ...] = ()
    prompts: tuple[tuple[int, PromptRow], ...] = ()
    """by the number of the session"""
    documents: tuple[tuple[Owner, DocumentRow], ...] = ()
    usage: tuple[tuple[int, UsageRow], ...] = ()
    """entries, by the number of the session"""
    days: tuple[UsageRow, ...] = ()
    """totals, each with its day, model, agent and channel"""
    states: tuple[tuple[StateKey, StateRow], ...] = ()
    shelves: tuple[tuple[ShelfRow, tuple[Blob, ...]], ...] = ()
    """shelves, each with blobs to put on it; what is on it already stays"""
    log: tuple[LoggedChange, ...] = ()


@runtime_checkable
class TransferStore(Protocol):
    """Reads what no other call lists, and writes rows as they are."""

    async def document_owners(self, namespace: str) -> list[Owner]:
        """The owners of documents that are not sessions, in any order."""

    async def documents_of(self, namespace: str, owner: Owner) -> list[DocumentRow]:
        """All versions of all documents of an owner, in any order."""

    async def placed_messages(self, namespace: str, segment: int, first: int, limit: int) -> list[PlacedMessage]:
        """The messages of a segment from a position on, in the order of their positions."""

    async def usage_entries(self, namespace: str, session_id: str, after: str, limit: int) -> list[UsageRow]:
        """The usage entries of a session after an id, in the order of their ids."""

    async def usage_days(self, namespace: str) -> list[UsageRow]:
        """The totals of usage by day, model, agent and channel, in any order."""

    async def states_after(self, namespace: str, name: str, id: str, limit: int) -> list[tuple[StateKey, StateRow]]:
        """The states after a name and an id, with their values, in this order. Expired ones are left out."""

    async def shelves_after(self, namespace: str, name: str, id: str, limit: int) -> list[ShelfRow]:
        """The shelves after a name and an id, in this order by code points."""

    async def draw_numbers(self, namespace: str, kind: NumberKind, count: int) -> list[int]:
        """Numbers that nothing ever had, each larger than the one before it."""

    async def begin_family(self, namespace: str, family: int, sessions: Sequence[UnfinishedSession]) -> None:
        """Note a family that several requests will write, and remove what is left of others with one of its ids."""

    async def unfinished_families(self, namespace: str) -> list[tuple[int, str]]:
        """The families that are noted, in their order, each with the first of its ids."""

    async def remove_unfinished(self, namespace: str, family: int) -> None:
        """Remove a family that is noted: the note, and all that was written of it."""

    async def restore(self, rows: Restore) -> None:
        """Write rows. Raises `SessionExistsError` if a session with another number has the id or the key, and
        `ConcurrentChangeError` if the family should be noted and is not any more."""


@runtime_checkable
class BackupStore(Protocol):
    """A store that can copy itself while it is in use."""

    async def backup(self, path: str) -> None:
        """Write a copy of everything, as of one moment, to a file that does not exist yet. Raises `OSError`s."""
