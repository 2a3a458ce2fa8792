"""What the search tools say about hits that they cannot show, and conversations that they could not look at."""

from __future__ import annotations

import re

import pytest

from frontdesk import SessionManager, StoreReadOnlyError
from frontdesk.search import visibility
from frontdesk.store import IndexBatch
from frontdesk.stores.memory import MemoryStore
from tests.public_api.steps import user


class UnindexedStore(MemoryStore):
    """A store whose index cannot be written to."""

    async def write_index(self, batch: IndexBatch) -> bool:
        raise StoreReadOnlyError("the index cannot be written to")


async def test_the_tool_says_if_there_may_be_more_hits_than_it_counted() -> None:
    async with SessionManager("memory://") as manager:
        await manager.session("long").append_all([user(f"m{number}", f"lamp w{number}") for number in range(2_600)])
        await manager.reindex()
        search = manager.tools(scope="namespace")["search_sessions"]
        assert "(at least 999 more: search again with skip=1." in await search(query="lamp", limit=1)
        assert "(1 more: search again with skip=1." in await search(query="w7 w8", limit=1)


async def test_the_tool_offers_no_skip_that_it_refuses() -> None:
    async with SessionManager("memory://") as manager:
        await manager.session("long").append_all([user(f"m{number}", f"lamp w{number}") for number in range(1_400)])
        await manager.reindex()
        search = manager.tools(scope="namespace")["search_sessions"]
        said, skip, offered = "", 980, True
        while offered:
            said = await search(query="lamp", limit=20, skip=skip)
            more = re.search(r"more: search again with skip=(\d+)", said)
            offered = more is not None
            skip = int(more[1]) if more is not None else skip
        assert re.search(r"\d+ more: search for rarer words\.", said)


async def test_the_tool_says_if_a_function_was_not_asked_about_all_sessions_without_an_index(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(visibility, "MAX_ASKED", 20)
    async with SessionManager(UnindexedStore()) as manager:
        for number in range(30):
            await manager.append(f"s{number}", user(f"x{number}", f"room {number}"))
        search = manager.tools(scope=lambda info: info.id == "s1")["search_sessions"]
        assert "too many conversations" in await search(query="room")
        assert "too many conversations" in await search(query="room", skip=5)
