"""Leases in the memory store, the lines before them, and what is queued for their holders."""

from __future__ import annotations

import time

from frontdesk.errors import SessionNotFoundError
from frontdesk.messages import StoredMessage
from frontdesk.store import TURN, HeldLease, LeaseAnswer, LeaseRow, LeaseWanted, SessionRow
from frontdesk.stores.memory.rows import LeaseKey, Rows
from frontdesk.tree import leases


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
            return self._put_lease(key, leases.acquire(self._leases.get(key), name, holder, ttl, _now()))

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
            self._waiters[key] = [waiter for waiter in self._waiters.get(key, []) if waiter.holder != holder]
            self._put_lease(key, leases.leave(self._leases.get(key), holder, _now()))

    async def next_queued(self, namespace: str, session_id: str, name: str, number: int) -> StoredMessage | None:
        with self._held():
            key = self._lease_key(namespace, session_id, name)
            message = next(iter(self._queued.get(key, {}).values()), None)
            closed = leases.close_intake(self._leases.get(key), session_id, number, _now(), is_empty=message is None)
            self._put_lease(key, closed)
            return message

    def _queue(self, key: LeaseKey, wanted: LeaseWanted) -> LeaseAnswer:
        waiters = self._waiters.get(key, [])
        writes = leases.queue(self._leases.get(key), waiters, wanted, _now())
        if writes.place is not None:
            waiters = [waiter for waiter in waiters if waiter.holder != wanted.holder] + [writes.place]
            waiters.sort(key=lambda waiter: waiter.ticket)
        self._waiters[key] = [waiter for waiter in waiters if waiter.holder not in writes.leave]
        self._put_lease(key, writes.lease)
        if writes.queues_message and wanted.message is not None:
            self._queued.setdefault(key, {}).setdefault(wanted.message.id, wanted.message)
        return writes.answer

    def _put_lease(self, key: LeaseKey, lease: LeaseRow | None) -> LeaseRow | None:
        """Store the new row of a lease, if there is one."""
        if lease is not None:
            self._leases[key] = lease
        return lease

    def _end_at(self, namespace: str, session_id: str | None, name: str, number: int, ttl: int) -> bool:
        with self._held():
            key = self._lease_key(namespace, session_id, name)
            return self._put_lease(key, leases.renew(self._leases.get(key), number, ttl, _now())) is not None

    def _turn_of(self, session: SessionRow) -> int | None:
        """The number under which a session's turn is held now."""
        lease = self._held_lease((session.namespace, session.number, TURN))
        return None if lease is None else lease.number

    def _lease_key(self, namespace: str, session_id: str | None, name: str) -> LeaseKey:
        return namespace, 0 if session_id is None else self._by_id.get((namespace, session_id), -1), name

    def _held_lease(self, key: LeaseKey) -> LeaseRow | None:
        return leases.held(self._leases.get(key), _now())


def _now() -> int:
    return time.time_ns() // 1000
