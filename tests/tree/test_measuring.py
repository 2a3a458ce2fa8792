"""How many reads the figures of changed views take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontdesk import SessionManager
from frontdesk.stores.memory import MemoryStore
from tests.public_api.steps import say


class CountingStore(MemoryStore):
    """Counts how often trees and running sums are read."""

    reads = 0

    async def trees(self, *args: Any, **options: Any) -> list[Any]:
        self.reads += 1
        return await super().trees(*args, **options)

    async def sums(self, places: Sequence[Any]) -> list[tuple[int, int]]:
        self.reads += 1
        return await super().sums(places)


async def test_a_page_of_changed_views_takes_two_reads() -> None:
    store = CountingStore()
    async with SessionManager(store) as manager:
        for number in range(40):
            session = manager.session(f"s{number}")
            await say(session, "m1", "m2")
            await session.delete_messages(["m1"])
        store.reads = 0
        page = await manager.list(limit=40)
        assert [info.message_count for info in page.items] == [1] * 40
        assert store.reads == 2
