"""What the memory store holds: dictionaries instead of tables, each with the indexes that look-ups need."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import msgspec

from frontdesk.errors import StoreClosedError
from frontdesk.messages import StoredMessage
from frontdesk.store import (
    ChangeRow,
    DocumentRow,
    EditRow,
    LeaseRow,
    Lineage,
    NewChange,
    NewSession,
    OverlayRow,
    Place,
    Position,
    PromptRow,
    SegmentRow,
    SessionRow,
    UsageRow,
    ViewRow,
)
from frontdesk.store.changes import session_created
from frontdesk.stores.bell import Bell
from frontdesk.stores.memory.terms import TermIndex
from frontdesk.tree.leases import Waiter

Key = tuple[str, str, str, str, str | None]
LeaseKey = tuple[str, int, str]
"""namespace, session number or 0, and name"""


class MessageRow(msgspec.Struct, frozen=True):
    """A message and the running sum of tokens along its segment."""

    message: StoredMessage
    running: int
    family: int


class Rows:
    """All rows, and one lock, held only for the moment of a look or a change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._numbers = count(1)
        self._sessions: dict[int, SessionRow] = {}
        self._by_id: dict[tuple[str, str], int] = {}
        self._by_key: dict[Key, int] = {}
        self._by_family: defaultdict[int, set[int]] = defaultdict(set)
        self._views: dict[int, ViewRow] = {}
        self._segments: dict[int, SegmentRow] = {}
        self._owned: defaultdict[int, list[int]] = defaultdict(list)
        self._rows: defaultdict[int, dict[int, MessageRow]] = defaultdict(dict)
        self._ids: dict[tuple[int, str], list[Place]] = {}
        self._overlays: dict[int, OverlayRow] = {}
        self._overlays_of: defaultdict[int, dict[int, None]] = defaultdict(dict)
        self._edits: dict[int, EditRow] = {}
        self._edits_of_tree: defaultdict[int, dict[int, None]] = defaultdict(dict)
        self._lineage: dict[int, Lineage] = {}
        self._forks_of: defaultdict[int, dict[int, int]] = defaultdict(dict)
        self._ledger: dict[int, dict[str, UsageRow]] = {}
        self._days: dict[str, dict[tuple[str, str | None], UsageRow]] = {}
        self._documents: dict[tuple[str, int, str], dict[str, list[DocumentRow]]] = {}
        self._prompts: dict[int, PromptRow] = {}
        self._indexes: dict[str, TermIndex] = {}
        self._log: defaultdict[str, list[ChangeRow]] = defaultdict(list)
        self._details: defaultdict[tuple[str, int], dict[Position, str]] = defaultdict(dict)
        self._trimmed: dict[str, Position] = {}
        self._leases: dict[LeaseKey, LeaseRow] = {}
        self._waiters: dict[LeaseKey, list[Waiter]] = {}
        self._queued: dict[LeaseKey, dict[str, StoredMessage]] = {}
        self._bell = Bell()
        self._vectors: dict[str, Any] = {}

    @contextmanager
    def _held(self) -> Iterator[None]:
        if self._closed:
            raise StoreClosedError("the memory store was closed: make a new manager")
        with self._lock:
            yield

    def _get(self, namespace: str, session_id: str) -> SessionRow | None:
        number = self._by_id.get((namespace, session_id))
        return None if number is None else self._sessions[number]

    def _taken(self, new: NewSession) -> int | None:
        by_id = self._by_id.get((new.namespace, new.id))
        return by_id if by_id is not None else self._by_key.get(key_of(new)) if new.agent is not None else None

    def _insert(self, row: SessionRow) -> SessionRow:
        """Add a session that was made just now."""
        self._sessions[row.number] = row
        self._by_family[row.family].add(row.number)
        self._by_id[row.namespace, row.id] = row.number
        if row.key_current:
            self._by_key[key_of(row)] = row.number
        self._write_log(row.namespace, row.number, row.created_at, session_created(row.parent_session_id))
        return row

    def _write_log(self, namespace: str, session: int, at: int, change: NewChange, number: int = 0) -> None:
        """Add a line. Its detail is kept by session, so that it goes with it."""
        log = self._log[namespace]
        position = (log[-1].position[0] + 1 if log else 1, 0)
        if change.detail:
            self._details[namespace, session][position] = change.detail
        where = change.segment, change.first, change.last
        log.append(ChangeRow(position, at, change.kind, session, None, *where, number or change.number))
        self._bell.ring()

    def _is_kept(self, row: ChangeRow) -> bool:
        return row.session == 0 or row.session in self._sessions or row.kind == "session.deleted"

    def _forget_log(self, row: SessionRow) -> None:
        """Keep of a session that is gone only what says so; its other lines tell nothing without it."""
        last = self._log[row.namespace][-1].position
        details = self._details.pop((row.namespace, row.number), {})
        if last in details:
            self._details[row.namespace, row.number][last] = details[last]


def is_idle(row: SessionRow, now: int, idle_after: int) -> bool:
    return row.last_active_at + (idle_after if row.idle_after is None else row.idle_after) <= now


def key_of(row: SessionRow | NewSession) -> Key:
    return row.namespace, row.agent or "", row.channel or "", row.peer or "", row.thread
