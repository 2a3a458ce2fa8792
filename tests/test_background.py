"""Background work: what its loops wait with."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from unittest.mock import AsyncMock

import pytest

from frontdesk import SessionManager, TurnBusyError


@dataclass
class Counter:
    count: int = 0


async def test_a_replaced_sleep_makes_no_loop_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    replaced = AsyncMock()
    async with SessionManager("memory://").with_lifecycle(archive_after=timedelta(days=1)) as manager:
        with monkeypatch.context() as patched:
            patched.setattr(asyncio, "sleep", replaced)
            await manager.states(Counter).create("a")  # starts the sweep of states
            session = manager.session("a")
            async with session.turn():  # watches its lease
                with pytest.raises(TurnBusyError):
                    async with manager.session("a").turn(wait=0.1):
                        pass
        assert replaced.await_count == 0
