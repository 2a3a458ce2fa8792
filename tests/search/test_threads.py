"""Searches of one manager in the event loops of several threads."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from frontdesk import SessionManager
from frontdesk.search import trees
from frontdesk.stores.memory import MemoryStore

THREADS = 6
SESSIONS = [f"s{number}" for number in range(60)]


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads that take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("hasty_threads")
def test_threads_may_search_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "_MAX_ROWS", 40)
    manager = SessionManager(MemoryStore())

    async def fill() -> None:
        for session in SESSIONS:
            await manager.session(session).append({"role": "user", "content": f"a lamp in {session}"})

    async def search(seed: int) -> None:
        chosen = random.Random(seed)
        for _ in range(300):
            wanted = chosen.sample(SESSIONS, 20)
            assert [tree.session.id for tree in await trees.load_trees(manager._runtime, wanted)] == wanted

    asyncio.run(fill())
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda seed: asyncio.run(search(seed)), range(THREADS)))
