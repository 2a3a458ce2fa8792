"""Leases in the memory store, the lines before them, and what is queued for their holders."""

from __future__ import annotations

import time

from msgspec.structs import replace

from frontdesk.errors import SessionNotFoundError, TurnLostError
from frontdesk.messages import StoredMessage
from frontdesk.store import TURN, HeldLease, LeaseAnswer, LeaseRow, LeaseWanted, SessionRow
from frontdesk.stores.memory.rows import LeaseKey, Rows, Waiter


class Leases(Rows):
    """The leases of the seam."""

    async def get_lease(self, namespace: str, session_id: str | None, name: str) -> LeaseRow | None:
        with self._held():
            return self._held_lease(self._lease_key(namespace, session_id, name))

    async def acquire_lease(
        self, namespace: str, session_id: str | None, name: str, holder: str, ttl: int
    ) -> LeaseRow | None:
        with self._held():
            key = self._lease_key(namespace, session_id, name)
            if session_id is not None and key[1] < 0:
                raise SessionNotFoundError(session_id, namespace)
            return None if self._held_lease(key) is not None else self._take(key, holder, ttl)

    async def held_leases(self, namespace: str, name: str | None = None) -> list[HeldLease]:
        with self._held():
            return [
                HeldLease(self._sessions[owner].id if owner else None, lease)
                for (where, owner, called), lease in self._leases.items()
                if where == namespace and name in (None, called) and lease.expires_at > _now()
            ]

    def _leased(self, namespace: str, name: str) -> set[int]:
        """The numbers of the sessions for which somebody holds a lease."""
        return {
            owner
            for (where, owner, called), lease in self._leases.items()
            if (where, called) == (namespace, name) and lease.expires_at > _now()
        }

    async def renew_lease(self, namespace: str, session_id: str | None, name: str, number: int, ttl: int) -> bool:
        return self._end_at(namespace, session_id, name, number, ttl)

    async def release_lease(self, namespace: str, session_id: str | None, name: str, number: int) -> bool:
        return self._end_at(namespace, session_id, name, number, 0)

    async def queue_lease(self, wanted: LeaseWanted) -> LeaseAnswer:
        with self._held():
            key = self._lease_key(wanted.namespace, wanted.session_id, wanted.name)
            if key[1] < 0:
                raise SessionNotFoundError(wanted.session_id, wanted.namespace)
            return self._queue(key, wanted)

    async def leave_lease(self, namespace: str, session_id: str, name: str, holder: str) -> None:
        with self._held():
            key = self._lease_key(namespace, session_id, name)
            self._waiters.get(key, {}).pop(holder, None)
            lease = self._held_lease(key)
            if lease is not None and lease.holder == holder:
                self._leases[key] = replace(lease, expires_at=_now())

    async def next_queued(self, namespace: str, session_id: str, name: str, number: int) -> StoredMessage | None:
        with self._held():
            key = self._lease_key(namespace, session_id, name)
            lease = self._held_lease(key)
            if lease is None or lease.number != number:
                raise TurnLostError(session_id, number)
            for message in self._queued.get(key, {}).values():
                return message
            self._leases[key] = replace(lease, intake=False)
            return None

    def _queue(self, key: LeaseKey, wanted: LeaseWanted) -> LeaseAnswer:
        lease, line = self._held_lease(key), self._waiters.setdefault(key, {})
        if lease is not None and lease.holder == wanted.holder:
            return LeaseAnswer(lease)
        for holder in [holder for holder in line if line[holder].expires_at <= _now() and holder != wanted.holder]:
            del line[holder]
        ahead = list(line).index(wanted.holder) if wanted.holder in line else len(line)
        if wanted.force or (lease is None and not ahead):
            line.pop(wanted.holder, None)
            self._leave_message(key, wanted.message)
            return LeaseAnswer(self._take(key, wanted.holder, wanted.ttl))
        if wanted.message is not None and lease is not None and lease.intake:
            line.pop(wanted.holder, None)
            self._leave_message(key, wanted.message)
            return LeaseAnswer(lease, queued=True)
        if not wanted.patience:
            return LeaseAnswer(lease, ahead=ahead)
        ticket = line[wanted.holder].ticket if wanted.holder in line else next(self._numbers)
        line[wanted.holder] = Waiter(ticket, _now() + wanted.patience)
        return LeaseAnswer(lease, ticket, ahead)

    def _take(self, key: LeaseKey, holder: str, ttl: int) -> LeaseRow:
        now = _now()
        number = self._leases[key].number + 1 if key in self._leases else now
        self._leases[key] = LeaseRow(key[2], number, holder, now + ttl, now)
        return self._leases[key]

    def _leave_message(self, key: LeaseKey, message: StoredMessage | None) -> None:
        if message is not None:
            self._queued.setdefault(key, {}).setdefault(message.id, message)

    def _end_at(self, namespace: str, session_id: str | None, name: str, number: int, ttl: int) -> bool:
        with self._held():
            key = self._lease_key(namespace, session_id, name)
            lease = self._held_lease(key)
            if lease is None or lease.number != number:
                return False
            self._leases[key] = replace(lease, expires_at=_now() + ttl)
            return True

    def _check_fence(self, session: SessionRow | None, session_id: str, fence: int) -> None:
        lease = None if session is None else self._held_lease((session.namespace, session.number, TURN))
        if lease is None or lease.number != fence:
            raise TurnLostError(session_id, fence)

    def _lease_key(self, namespace: str, session_id: str | None, name: str) -> LeaseKey:
        return namespace, 0 if session_id is None else self._by_id.get((namespace, session_id), -1), name

    def _held_lease(self, key: LeaseKey) -> LeaseRow | None:
        lease = self._leases.get(key)
        return lease if lease is not None and lease.expires_at > _now() else None


def _now() -> int:
    return time.time_ns() // 1000
