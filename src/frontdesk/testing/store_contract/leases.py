"""Leases of a session or a namespace: one holder, increasing numbers, and expiry by the clock of the store."""

from __future__ import annotations

import asyncio

import pytest

from frontdesk.errors import SessionNotFoundError
from frontdesk.store import NewSession, Store

MINUTE = 60_000_000


class LeaseContract:
    @pytest.fixture
    async def room(self, store: Store) -> str:
        """A session in the namespace `ns`."""
        await store.create(NewSession(namespace="ns", id="room", now=1))
        return "room"

    async def test_a_lease_has_one_holder_and_increasing_numbers(self, store: Store, room: str) -> None:
        for owner in (room, None):
            first = await store.acquire_lease("ns", owner, "work", "ana", MINUTE)
            assert first is not None
            assert await store.acquire_lease("ns", owner, "work", "ben", MINUTE) is None
            assert await store.acquire_lease("ns", owner, "other work", "ben", MINUTE) is not None
            held = await store.get_lease("ns", owner, "work")
            assert held is not None
            assert (held.holder, held.number) == ("ana", first.number)
            assert await store.renew_lease("ns", owner, "work", first.number, MINUTE)
            assert not await store.renew_lease("ns", owner, "work", first.number + 1, 0)
            assert await store.renew_lease("ns", owner, "work", first.number, 0)
            assert await store.get_lease("ns", owner, "work") is None
            assert not await store.renew_lease("ns", owner, "work", first.number, MINUTE)
            second = await store.acquire_lease("ns", owner, "work", "ben", MINUTE)
            assert second is not None
            assert second.number > first.number

    async def test_an_expired_lease_can_be_acquired_but_not_renewed(self, store: Store, room: str) -> None:
        gone = await store.acquire_lease("ns", room, "work", "ana", -1)
        assert gone is not None
        assert not await store.renew_lease("ns", room, "work", gone.number, MINUTE)
        taken = await store.acquire_lease("ns", room, "work", "ben", MINUTE)
        assert taken is not None
        assert taken.number == gone.number + 1

    async def test_of_many_concurrent_requests_for_a_lease_one_succeeds(self, store: Store, room: str) -> None:
        taken = await asyncio.gather(*(store.acquire_lease("ns", room, "work", str(n), MINUTE) for n in range(16)))
        assert sum(lease is not None for lease in taken) == 1

    async def test_a_missing_session_has_no_leases_and_cannot_get_any(self, store: Store) -> None:
        assert await store.get_lease("ns", "missing", "work") is None
        with pytest.raises(SessionNotFoundError):
            await store.acquire_lease("ns", "missing", "work", "ana", MINUTE)
