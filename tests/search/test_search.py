"""Search through the public API: what is searchable, filters, pages, forks, positions, and changes during a search."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from frontdesk import InvalidCursorError, SearchResults, SessionManager
from frontdesk.search import index
from frontdesk.search.candidates import MAX_CANDIDATES
from frontdesk.store import SessionRow, TreeRows
from frontdesk.stores.memory import MemoryStore


@pytest.fixture
async def manager() -> AsyncIterator[SessionManager]:
    async with SessionManager("memory://") as manager:
        yield manager


def user(id: str, text: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "role": "user", "content": text, **more}


def ids(results: SearchResults) -> list[str]:
    return [hit.message_id for hit in results]


# what is searchable


async def test_tool_names_arguments_and_results_are_found(manager: SessionManager) -> None:
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "lookup_weather", "arguments": '{"city": "Reykjavik"}'},
    }
    await manager.append("chat", {"id": "m1", "role": "assistant", "content": None, "tool_calls": [call]})
    await manager.append("chat", {"id": "m2", "role": "tool", "tool_call_id": "c1", "content": "sleet, 2 degrees"})
    assert ids(await manager.search("weather")) == ["m1"]
    assert ids(await manager.search("reykjavik")) == ["m1"]
    assert ids(await manager.search("sleet")) == ["m2"]


@pytest.mark.parametrize("calls", [1, 20, 200])
async def test_results_of_search_tools_are_not_found_however_long_after_their_calls(
    manager: SessionManager, calls: int
) -> None:
    """A model can call a tool many times at once. The results may be indexed one by one."""
    names = ["session_search"] * calls + ["weather"]
    called = [
        {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for number, name in enumerate(names)
    ]
    session = manager.session("chat")
    await session.append({"id": "m0", "role": "assistant", "content": None, "tool_calls": called})
    for number in range(calls):
        result = {"id": f"r{number}", "role": "tool", "tool_call_id": f"c{number}", "content": "the marzipan"}
        await session.append(result)
        if number in (0, calls // 2, calls - 1):
            await index.update(manager._runtime)
            assert ids(await manager.search("marzipan")) == []
    last = {"id": "m9", "role": "tool", "tool_call_id": f"c{calls}", "content": "marzipan rain"}
    await session.append(last)
    assert ids(await manager.search("marzipan")) == ["m9"]
    await index.update(manager._runtime)
    assert ids(await manager.search("marzipan")) == ["m9"]


async def test_file_names_are_found_but_not_binary_content(manager: SessionManager) -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": "QUJD" * 300}
    block = {"type": "document", "title": "quarterly_figures.pdf", "source": source}
    await manager.append("chat", {"id": "m1", "role": "user", "content": [{"type": "text", "text": "see"}, block]})
    assert ids(await manager.search("quarterly figures")) == ["m1"]
    assert ids(await manager.search("QUJDQUJD*")) == []


@pytest.mark.parametrize("messages", [2_001, 2_002])
async def test_a_word_in_every_message_of_a_long_session_is_found(manager: SessionManager, messages: int) -> None:
    chat = manager.session("chat")
    await chat.append_all(user(f"m{number}", "the lamp") for number in range(messages))
    await manager.reindex()
    results = await chat.search("lamp")
    assert (len(results), results.total, results.total_is_exact) == (20, 1_000, False)


@pytest.mark.parametrize("query", ["zanzibar", '"zanzibar trip"', "zanz*", "zanzibar -lamp", "zanzibar role:user"])
async def test_a_new_word_in_a_long_session_is_found_before_it_is_indexed(manager: SessionManager, query: str) -> None:
    session = manager.session("long")
    await session.append_all(user(f"m{number}", f"lamp {number}") for number in range(MAX_CANDIDATES + 1))
    await manager.reindex()
    await session.append(user("new", "the zanzibar trip"))
    assert [hit.message_id for hit in await session.search(query)] == ["new"]


async def test_the_author_is_found(manager: SessionManager) -> None:
    await manager.append("chat", user("m1", "I would wait.", name="Ana"))
    await manager.append("chat", user("m2", "I would not.", name="Ben"))
    assert ids(await manager.search("what did Ana say")) == ["m1"]


async def test_a_quoted_title_in_a_question_falls_back_to_its_words(manager: SessionManager) -> None:
    await manager.append("chat", user("m1", "We saw the tale of two cities in Leeds."))
    await manager.append("chat", user("m2", "It rained."))
    assert ids(await manager.search('where did we see "A Tale of 2 Cities"?')) == ["m1"]
    assert ids(await manager.search('"A Tale of 2 Cities"')) == []
    assert ids(await manager.search('leeds "A Tale of 2 Cities"')) == []
    for number in range(3):
        await manager.append("chat", user(f"t{number}", "A tale of 2 cities, again"))
    assert set(ids(await manager.search('where did we see "A Tale of 2 Cities"?'))) == {"t0", "t1", "t2"}


async def test_reasoning_is_not_found(manager: SessionManager) -> None:
    content = [{"type": "thinking", "thinking": "secretly", "signature": "s"}, {"type": "text", "text": "aloud"}]
    await manager.append("chat", {"id": "m1", "role": "assistant", "content": content})
    assert ids(await manager.search("secretly")) == []
    assert ids(await manager.search("aloud")) == ["m1"]


async def test_sessions_are_found_by_name_and_summary(manager: SessionManager) -> None:
    session = await manager.create("Trip to Lisbon", id="trip")
    await session.set_summary("Planning of the summer holidays")
    for text in ("lisbon", "holiday"):
        [hit] = await manager.search(text)
        assert (hit.kind, hit.session_id, hit.message_id, hit.session_name) == ("session", "trip", "", "Trip to Lisbon")


async def test_summaries_are_found_and_marked_as_visible(manager: SessionManager) -> None:
    session = manager.session("chat")
    await session.append_all([user("m1", "amber"), user("m2", "birch"), user("m3", "cedar")])
    made = await session.add_compaction("They spoke of trees.", "m1", "m2")
    [hit] = await session.search("trees")
    assert (hit.kind, hit.message_id, hit.visible) == ("summary", f"frontdesk-summary:{made.id}", True)


# positions


async def test_a_hit_has_its_position_and_whether_history_shows_it(manager: SessionManager) -> None:
    session = manager.session("chat")
    await session.append_all([user("m1", "amber"), user("m2", "birch"), user("m3", "cedar")])
    await session.append(user("side", "dune"), parent="m1")
    await session.switch("m3")
    await session.add_compaction("earlier", "m1", "m2")
    standing = {}
    for word in ("amber", "cedar", "dune"):
        [hit] = await session.search(word)
        standing[hit.message_id] = (hit.position, hit.visible)
    assert standing == {"m1": (0, False), "m3": (2, True), "side": (None, False)}


# filters


async def test_filters_narrow_by_role_session_tag_and_time(manager: SessionManager) -> None:
    await manager.create("First one", id="a", tags=["x", "y"])
    await manager.create(id="b", tags=["y"])
    await manager.append("a", user("a1", "lamp", created_at="2024-03-05T10:00:00Z"))
    await manager.append(
        "a", {"id": "a2", "role": "assistant", "content": "lamp", "created_at": "2024-04-01T00:00:00Z"}
    )
    await manager.append("b", user("b1", "lamp", created_at="2025-01-01T00:00:00Z"))
    expected = {
        "lamp role:assistant": {"a2"},
        "lamp session:b": {"b1"},
        'lamp session:"first ONE"': {"a1", "a2"},
        "lamp tag:y": {"a1", "a2", "b1"},
        "lamp tag:x tag:y": {"a1", "a2"},
        "lamp after:2024-04": {"a2", "b1"},
        "lamp before:2024-04": {"a1"},
        "lamp after:2024-03-05 before:2024-03-06": {"a1"},
        "lamp role:user after:2025": {"b1"},
        "lamp tag:none": set(),
    }
    assert {query: set(ids(await manager.search(query))) for query in expected} == expected


async def test_a_filter_alone_returns_the_newest_first(manager: SessionManager) -> None:
    for month in (2, 3, 1):
        await manager.append("a", user(f"m{month}", "word", created_at=f"2024-0{month}-01T00:00:00Z"))
    assert ids(await manager.search("role:user")) == ["m3", "m2", "m1"]
    assert ids(await manager.search("-other")) == ["m3", "m2", "m1"]
    assert ids(await manager.search("")) == ids(await manager.search("?!")) == []


async def test_of_equals_the_newest_comes_first(manager: SessionManager) -> None:
    for name, year in (("a", 2023), ("b", 2025), ("c", 2024)):
        await manager.append(name, user("m", "the same lamp", created_at=f"{year}-01-01T00:00:00Z"))
    assert [hit.session_id for hit in await manager.search("lamp")] == ["b", "c", "a"]


# pages


async def test_pages_contain_every_hit_once(manager: SessionManager) -> None:
    await manager.session("a").append_all([user(f"m{number}", f"lamp {'x ' * number}") for number in range(7)])
    found: list[str] = []
    cursor = None
    while True:
        page = await manager.search("lamp", limit=3, cursor=cursor)
        assert page.total == 7
        found += ids(page)
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == ids(await manager.search("lamp"))
    assert len(found) == len(set(found)) == 7


async def test_a_cursor_belongs_to_its_query(manager: SessionManager) -> None:
    await manager.session("a").append_all([user(f"m{number}", "lamp") for number in range(3)])
    cursor = (await manager.search("lamp", limit=1)).next_cursor
    assert cursor is not None
    for search in (manager.search("other", cursor=cursor), manager.session("a").search("lamp", cursor=cursor)):
        with pytest.raises(InvalidCursorError):
            await search


# forks


async def test_a_message_shared_by_forks_is_found_once(manager: SessionManager) -> None:
    source = manager.session("source")
    await source.append_all([user(f"m{number}", f"lamp {number}") for number in range(6)])
    early = await manager.fork("source", at="m2", new_id="early")
    await early.append(user("e1", "lamp e"))
    late = await manager.fork("source", new_id="late")
    await late.update_message(user("m1", "lamp changed"))
    await source.append(user("m6", "lamp 6"))
    hits = await manager.search("lamp", limit=100)
    shown = sorted((hit.message_id, hit.snippet) for hit in hits)
    assert shown == sorted(
        [
            *((f"m{number}", f"**lamp** {number}") for number in range(7)),
            ("e1", "**lamp** e"),
            ("m1", "**lamp** changed"),
        ]
    )
    assert sorted(ids(await late.search("lamp"))) == [f"m{number}" for number in range(6)]
    assert sorted(ids(await early.search("lamp"))) == ["e1", "m0", "m1", "m2"]


# concurrent writes


class InterruptedStore(MemoryStore):
    """Does something before the trees of hits are loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.interruption: Callable[[], Awaitable[Any]] | None = None

    async def trees(
        self, namespace: str, session_ids: Sequence[str], *, find: Sequence[str] = (), family: bool = False
    ) -> list[TreeRows]:
        await self._interrupt()
        return await super().trees(namespace, session_ids, find=find, family=family)

    async def sessions(self, namespace: str, numbers: Sequence[int]) -> list[SessionRow]:
        """Says whether trees that were loaded earlier are still current."""
        await self._interrupt()
        return await super().sessions(namespace, numbers)

    async def _interrupt(self) -> None:
        happens, self.interruption = self.interruption, None
        if happens is not None:
            await happens()


async def test_a_message_deleted_during_a_search_is_left_out() -> None:
    store = InterruptedStore()
    async with SessionManager(store) as manager:
        session = manager.session("chat")
        for change in (lambda: session.delete_messages(["m1"]), session.clear_messages, lambda: manager.delete("chat")):
            await session.append_all([user("m1", "amber"), user("m2", "cedar")])
            await manager.reindex()
            store.interruption = change
            assert ids(await manager.search("amber")) == []
            assert ids(await manager.search("amber")) == []
