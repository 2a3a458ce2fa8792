"""The rows of the memory store: dictionaries instead of tables, with the indexes that look-ups need."""

from __future__ import annotations

import secrets
from collections import defaultdict
from itertools import count

import msgspec

from frontdesk.messages.stored import StoredMessage
from frontdesk.store import (
    ChangeRow,
    DocumentRow,
    EditRow,
    LeaseRow,
    Lineage,
    NewSession,
    OverlayRow,
    Owner,
    Place,
    Position,
    PromptRow,
    SegmentRow,
    SessionRow,
    ShelfKey,
    ShelfVersion,
    StateOwner,
    UnfinishedSession,
    UsageRow,
    ViewRow,
)
from frontdesk.stores.bell import Bell
from frontdesk.stores.memory.states import StateRows
from frontdesk.stores.memory.term_index import TermIndex
from frontdesk.stores.memory.vector_space import VectorSpace
from frontdesk.tree.leases import Waiter

SHARED = 0
"""the session number of what belongs to a whole namespace"""

Key = tuple[str, str, str, str, str | None]
LeaseKey = tuple[str, int, str]
"""namespace, session number or `SHARED`, and name"""


class MessageRow(msgspec.Struct, frozen=True):
    """A message and the running sum of tokens along its segment."""

    message: StoredMessage
    running: int
    family: int


class MemoryShelf:
    """Blobs, and their keys in order."""

    def __init__(self, version: ShelfVersion) -> None:
        self.version = version
        self.owner: StateOwner | None = None
        self.keys: list[bytes] = []
        self.blobs: dict[bytes, bytes] = {}


class Rows:
    """All rows. The store makes sure that only one operation at a time uses them."""

    def __init__(self) -> None:
        self.numbers = count(1)
        self.sessions: dict[int, SessionRow] = {}
        self.by_id: dict[tuple[str, str], int] = {}
        self.by_key: dict[Key, int] = {}
        self.by_family: defaultdict[int, set[int]] = defaultdict(set)
        self.views: dict[int, ViewRow] = {}
        self.segments: dict[int, SegmentRow] = {}
        self.segments_of: defaultdict[int, list[int]] = defaultdict(list)
        self.messages: defaultdict[int, dict[int, MessageRow]] = defaultdict(dict)
        """segment -> position -> row"""
        self.places: dict[tuple[int, str], list[Place]] = {}
        """family and message id -> where"""
        self.overlays: dict[int, OverlayRow] = {}
        self.overlays_of: defaultdict[int, dict[int, None]] = defaultdict(dict)
        self.edits: dict[int, EditRow] = {}
        self.edits_of: defaultdict[int, dict[int, None]] = defaultdict(dict)
        self.lineage: dict[int, Lineage] = {}
        self.forks_of: defaultdict[int, dict[int, int]] = defaultdict(dict)
        self.usage: dict[int, dict[str, UsageRow]] = {}
        self.unfinished: dict[tuple[str, int], tuple[UnfinishedSession, ...]] = {}
        """namespace and family -> the sessions of a family that an import is writing"""
        self.days: dict[str, dict[tuple[str | None, ...], UsageRow]] = {}
        self.documents: dict[tuple[str, int, str], dict[str, list[DocumentRow]]] = {}
        """namespace, session number or minus that of another owner, and label -> key -> versions, oldest first"""
        self.owners: dict[tuple[str, Owner], int] = {}
        """numbers of the owners of documents that are not sessions; in `documents` they are negative"""
        self.prompts: dict[int, PromptRow] = {}
        self.indexes: dict[str, TermIndex] = {}
        self.vectors: dict[str, VectorSpace] = {}
        self.log: defaultdict[str, list[ChangeRow]] = defaultdict(list)
        self.details: defaultdict[tuple[str, int], dict[Position, str]] = defaultdict(dict)
        """what log entries say, by session, so that it is deleted with it"""
        self.epoch = secrets.randbits(48) | 1
        """that of the change log: what another store returned is not in this one"""
        self.trimmed: dict[str, Position] = {}
        self.leases: dict[LeaseKey, LeaseRow] = {}
        self.waiters: dict[LeaseKey, list[Waiter]] = {}
        self.queued: dict[LeaseKey, dict[str, StoredMessage]] = {}
        self.states = StateRows()
        self.state_stores: defaultdict[str, dict[str, None]] = defaultdict(dict)
        """namespace -> URLs of other stores that keep its states"""
        self.shelves: dict[ShelfKey, MemoryShelf] = {}
        self.bell = Bell()

    def get(self, namespace: str, session_id: str) -> SessionRow | None:
        number = self.by_id.get((namespace, session_id))
        return None if number is None else self.sessions[number]

    def owner(self, namespace: str, session_id: str | None) -> int | None:
        """The number of a session, or `SHARED` for the namespace; None if the session is not there."""
        return SHARED if session_id is None else self.by_id.get((namespace, session_id))

    def message_at(self, place: Place) -> StoredMessage:
        return self.messages[place.segment][place.position].message


def key_of(row: SessionRow | NewSession) -> Key:
    return row.namespace, row.agent or "", row.channel or "", row.peer or "", row.thread
