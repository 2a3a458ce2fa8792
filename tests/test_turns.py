"""Turns on a store that is slow or down for a moment, and holders that are cancelled at the worst moment."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from frontdesk import Message, Session, SessionManager, StoreUnavailableError, TurnBusyError, TurnLostError
from frontdesk.store import TURN, LeaseAnswer, LeaseRow, LeaseWanted
from frontdesk.stores.memory import MemoryStore
from tests.waiting import PATIENCE, eventually


class UnsteadyStore(MemoryStore):
    """Answers calls about turns late, or not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = asyncio.Event()
        self.answers.set()
        self.asked = asyncio.Event()
        self.refusals = 0

    async def _wait(self, name: str) -> None:
        if name != TURN:
            return
        self.asked.set()
        await self.answers.wait()
        if self.refusals:
            self.refusals -= 1
            raise StoreUnavailableError("away for a moment")

    async def queue_lease(self, wanted: LeaseWanted) -> LeaseAnswer:
        answer = await super().queue_lease(wanted)
        await self._wait(wanted.name)
        return answer

    async def leave_lease(self, namespace: str, session_id: str, name: str, holder: str) -> None:
        await self._wait(name)
        await super().leave_lease(namespace, session_id, name, holder)

    async def get_lease(self, namespace: str, session_id: str | None, name: str) -> LeaseRow | None:
        await self._wait(name)
        return await super().get_lease(namespace, session_id, name)

    async def renew_lease(self, namespace: str, session_id: str | None, name: str, number: int, ttl: int) -> bool:
        await self._wait(name)
        return await super().renew_lease(namespace, session_id, name, number, ttl)

    def falls_silent(self) -> None:
        self.asked.clear()
        self.answers.clear()


@pytest.fixture
def store() -> UnsteadyStore:
    return UnsteadyStore()


@pytest.fixture
async def session(store: UnsteadyStore) -> AsyncIterator[Session]:
    async with SessionManager(store) as manager:
        session = manager.session("chat")
        await session.append({"role": "user", "content": "hello"})
        yield session


async def cancel_as_soon_as_asked(store: UnsteadyStore, task: asyncio.Task[None], times: int) -> None:
    """Cancel a task after each of its calls to the store, and then let the store answer."""
    async with asyncio.timeout(PATIENCE):
        for _ in range(times):
            await store.asked.wait()
            store.asked.clear()
            task.cancel()
            await asyncio.sleep(0)
        with suppress(asyncio.CancelledError):
            await task
    store.answers.set()


async def is_to_be_had(session: Session) -> bool:
    """Whether the turn is free long before any lease has expired."""
    async with asyncio.timeout(PATIENCE):
        for _ in range(100):
            with suppress(TurnBusyError):
                async with session.turn(on_busy="reject"):
                    return True
            await asyncio.sleep(0)
    return False


async def test_a_holder_that_is_cancelled_while_releasing_its_turn_still_releases_it(
    store: UnsteadyStore, session: Session
) -> None:
    async def work() -> None:
        async with session.turn(ttl=600):
            store.falls_silent()

    await cancel_as_soon_as_asked(store, asyncio.create_task(work()), 1)
    assert await is_to_be_had(session)


async def test_a_waiter_that_is_cancelled_while_asking_and_again_while_leaving_still_leaves(
    store: UnsteadyStore, session: Session
) -> None:
    async def work() -> None:
        async with session.turn(ttl=600):
            raise AssertionError("it was cancelled before")

    store.falls_silent()
    await cancel_as_soon_as_asked(store, asyncio.create_task(work()), 2)
    assert await is_to_be_had(session)


async def test_work_is_cancelled_in_time_even_if_the_store_never_answers(
    store: UnsteadyStore, session: Session
) -> None:
    async with asyncio.timeout(PATIENCE), session.turn(ttl=0.3) as turn:
        store.falls_silent()
        with pytest.raises(TurnLostError):
            await turn.run(asyncio.sleep(2 * PATIENCE))
        assert turn.lost
        assert not turn.interrupted
        store.answers.set()


async def test_a_turn_survives_a_store_that_is_down_for_a_moment(store: UnsteadyStore, session: Session) -> None:
    async with session.turn(ttl=6) as turn:
        [taken] = await store.held_leases("default", TURN)
        store.refusals = 2

        async def is_renewed() -> bool:
            [held] = await store.held_leases("default", TURN)
            return held.lease.expires_at > taken.lease.expires_at

        await eventually(is_renewed)
        assert store.refusals == 0
        assert not turn.lost
        appended = await turn.append({"role": "assistant", "content": "still here"})
        assert isinstance(appended.message, Message)


async def test_a_failure_during_the_cancellation_for_a_lost_turn_is_not_reported_twice(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails() -> None:
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            raise ValueError("while cleaning up")

    async with session.turn() as turn:
        running = asyncio.create_task(turn.run(fails()))
        await asyncio.sleep(0)
        async with session.turn(on_busy="interrupt"):
            with pytest.raises(TurnLostError):
                await running
    del running
    gc.collect()
    assert "never retrieved" not in caplog.text
