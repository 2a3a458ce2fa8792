"""`MemoryStore`: the seam's methods for sessions, on top of the parts that append, read, change and count."""

from __future__ import annotations

import heapq

import msgspec

from frontdesk.store import DueQuery, NewSession, SessionQuery, SessionRow
from frontdesk.stores.memory.appending import Appending
from frontdesk.stores.memory.changes import Changes
from frontdesk.stores.memory.erasing import Erasing
from frontdesk.stores.memory.ledger import Ledger
from frontdesk.stores.memory.log import Log
from frontdesk.stores.memory.rows import is_idle
from frontdesk.stores.memory.searching import Searching
from frontdesk.tree.sessions import new_row


class MemoryStore(Appending, Changes, Erasing, Ledger, Log, Searching):
    """A `Store` in memory, for tests, notebooks and throw-away agents: everything is gone with the process.

    Safe for threads and event loops."""

    async def open(self) -> None:
        with self._held():
            pass

    async def close(self) -> None:
        self._closed = True
        self._bell.ring()

    async def create(self, new: NewSession) -> tuple[SessionRow, bool]:
        with self._held():
            existing = self._taken(new)
            return (
                (self._sessions[existing], False)
                if existing is not None
                else (self._insert(new_row(new, next(self._numbers))), True)
            )

    async def get(self, namespace: str, session_id: str) -> SessionRow | None:
        with self._held():
            return self._get(namespace, session_id)

    async def get_current(self, namespace: str, key: tuple[str, str, str, str | None]) -> SessionRow | None:
        with self._held():
            number = self._by_key.get((namespace, *key))
            return None if number is None else self._sessions[number]

    async def page(self, query: SessionQuery) -> list[SessionRow]:
        with self._held():
            rows = [row for row in self._sessions.values() if _matches(row, query)]
            if query.leased is not None:
                leased = self._leased(query.namespace, query.leased)
                rows = [row for row in rows if row.number in leased]
            if query.unleased is not None:
                leased = self._leased(query.namespace, query.unleased)
                rows = [row for row in rows if row.number not in leased]
        return heapq.nlargest(query.limit, rows, key=lambda row: (row.last_active_at, row.number))

    async def due(self, query: DueQuery) -> list[SessionRow]:
        with self._held():
            rows = [(moment, row) for row in self._sessions.values() if (moment := _due(row, query)) is not None]
        found = sorted(rows, key=lambda pair: (pair[0], pair[1].number))
        return [row for moment, row in found if query.after is None or (moment, row.number) > query.after][
            : query.limit
        ]


def _matches(row: SessionRow, query: SessionQuery) -> bool:
    wanted = (
        (query.agent, row.agent),
        (query.channel, row.channel),
        (query.peer, row.peer),
        (query.thread, row.thread),
        (query.status, row.status),
        (query.parent, row.parent_session_id),
    )
    return (
        row.namespace == query.namespace
        and all(want is None or want == have for want, have in wanted)
        and (query.tag is None or query.tag in msgspec.json.decode(row.tags))
        and (query.created_after is None or row.created_at > query.created_after)
        and (query.created_before is None or row.created_at < query.created_before)
        and (query.after is None or (row.last_active_at, row.number) < query.after)
        and (query.idle is None or query.idle == is_idle(row, query.now, query.idle_after))
    )


def _due(row: SessionRow, query: DueQuery) -> int | None:
    """The moment by which a session is in the order of those that are due; None if it is not."""
    archive = query.what == "archive"
    start, own = (row.last_active_at, row.archive_after) if archive else (row.ended_at, row.delete_after)
    if row.namespace != query.namespace or row.status != ("active" if archive else "archived") or start is None:
        return None
    if query.threshold is not None:
        return start if own is None and start + query.threshold <= query.now else None
    return start + own if own is not None and start + own <= query.now else None
