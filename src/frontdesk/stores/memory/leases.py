"""Leases in the memory store."""

from __future__ import annotations

import time

from frontdesk.errors import SessionNotFoundError
from frontdesk.store import HeldLease, LeaseRow
from frontdesk.stores.memory.rows import Rows


class Leases(Rows):
    """The leases of the seam, under (namespace, session number or 0, name)."""

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
            if self._held_lease(key) is not None:
                return None
            number = self._leases[key].number + 1 if key in self._leases else 1
            self._leases[key] = LeaseRow(name, number, holder, _now() + ttl)
            return self._leases[key]

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

    def _end_at(self, namespace: str, session_id: str | None, name: str, number: int, ttl: int) -> bool:
        with self._held():
            key = self._lease_key(namespace, session_id, name)
            lease = self._held_lease(key)
            if lease is None or lease.number != number:
                return False
            self._leases[key] = LeaseRow(name, number, lease.holder, _now() + ttl)
            return True

    def _lease_key(self, namespace: str, session_id: str | None, name: str) -> tuple[str, int, str]:
        return namespace, 0 if session_id is None else self._by_id.get((namespace, session_id), -1), name

    def _held_lease(self, key: tuple[str, int, str]) -> LeaseRow | None:
        lease = self._leases.get(key)
        return lease if lease is not None and lease.expires_at > _now() else None


def _now() -> int:
    return time.time_ns() // 1000
