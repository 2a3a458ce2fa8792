"""The life cycle of sessions at moments that a contract cannot control."""

from __future__ import annotations

import pytest

from frontdesk import SessionEndedError, SessionKey, SessionManager
from frontdesk.store import Append, AppendResult
from frontdesk.stores.memory import MemoryStore

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
