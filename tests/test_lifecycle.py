"""The life cycle of sessions at moments that a contract cannot control."""

from __future__ import annotations

import asyncio

import pytest

from frontdesk import ConcurrentChangeError, SessionEndedError, SessionKey, SessionManager
from frontdesk.store import Append, AppendResult, Plan
from frontdesk.stores.memory import MemoryStore
from tests.waiting import PATIENCE

ADA = SessionKey("bot", "web", "ada")


class Overtaken(MemoryStore):
    """Moves the key to another session between the look-up by an append and the append itself."""

    def __init__(self) -> None:
        super().__init__()
        self.manager = SessionManager(self)
        self.times = 0

    async def append(self, request: Append) -> AppendResult:
        if self.times:
            self.times -= 1
            await self.manager.new(ADA)
        return await super().append(request)


async def test_a_message_under_a_key_that_moves_on_goes_where_the_key_points_then() -> None:
    store = Overtaken()
    await store.manager.append(ADA, {"id": "m1", "role": "user", "content": "before"})
    store.times = 3
    await store.manager.append(ADA, {"id": "m2", "role": "user", "content": "after"})
    assert [message.id for message in await store.manager.history(ADA)] == ["m2"]
    assert len(await store.manager.list(status="archived")) == 3


async def test_a_handle_that_has_found_its_session_stays_with_it() -> None:
    store = Overtaken()
    session = store.manager.session(ADA)
    await session.append({"id": "m1", "role": "user", "content": "before"})
    store.times = 1
    with pytest.raises(SessionEndedError):
        await session.append({"id": "m2", "role": "user", "content": "after"})
    assert await store.manager.history(ADA) == []


class AlwaysOvertaken(MemoryStore):
    """Another writer is always first."""

    timeout = 0.2

    async def apply(self, plan: Plan) -> bool:
        return False


async def test_a_change_that_others_always_overtake_ends_with_the_time_limit_of_the_store() -> None:
    session = SessionManager(AlwaysOvertaken()).session("chat")
    await session.append({"id": "m1", "role": "user", "content": "before"})
    async with asyncio.timeout(PATIENCE):  # less than three times the limit of a store that has none
        for change in (session.rename("new"), session.delete_messages(["m1"]), session.set_metadata(a=1)):
            with pytest.raises(ConcurrentChangeError, match=r"others \d+ times in a row, and nothing was written"):
                await change
    assert len(await session.history()) == 1


async def test_a_next_session_that_others_always_overtake_ends_with_the_time_limit_of_the_store() -> None:
    manager = SessionManager(AlwaysOvertaken())
    await manager.append(ADA, {"id": "m1", "role": "user", "content": "before"})
    async with asyncio.timeout(PATIENCE), manager.session(ADA).turn() as turn:
        with pytest.raises(ConcurrentChangeError, match=r"others \d+ times in a row, and nothing was written"):
            await turn.new()
        assert not turn.lost
    assert len(await manager.history(ADA)) == 1
