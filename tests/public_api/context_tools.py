"""The tools that a model gets for its context blocks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from frontdesk import Session, SessionKey, SessionManager, Store
from frontdesk.context import StoreSearch
from tests.public_api.steps import call, view


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


class Skills:
    """A skill provider that stores what it gets and records its calls."""

    def __init__(self, session_id: str, key: SessionKey | None) -> None:
        self.texts: dict[str, str] = {"bake": "Preheat the oven to 180 degrees. " * 40}
        self.calls: list[tuple[str, ...]] = []

    def init(self, label: str, session_id: str) -> None:
        self.calls.append(("init", label, session_id))

    async def get(self) -> str:
        self.calls.append(("get",))
        return "\n".join(f"- {key}" for key in sorted(self.texts))

    async def load(self, key: str) -> str | None:
        return self.texts.get(key)

    async def set(self, key: str, content: str, description: str | None) -> None:
        self.texts[key] = content


class ContextToolTests:
    async def test_tools_exist_only_if_a_block_can_use_them(self, store: Store, namespace: str) -> None:
        async def names(manager: SessionManager) -> set[str]:
            return set(await manager.session("s").tools(scope=None))

        def manager() -> SessionManager:
            return SessionManager(store, namespace=namespace)

        assert await names(manager()) == set()
        assert await names(manager().with_context("soul", readonly=True)) == set()
        assert await names(manager().with_context("memory")) == {"update_context"}
        skills = manager().with_context("skills", provider=Skills)
        assert await names(skills) == {"update_context", "load_context", "unload_context"}
        assert await names(manager().with_context("facts", provider=StoreSearch)) == {
            "update_context",
            "search_context",
        }
        readonly = manager().with_context("skills", provider=Skills, readonly=True)
        assert await names(readonly) == {"load_context", "unload_context"}

    async def test_update_context_writes_and_reports_how_full_the_block_is(self, guest: Session) -> None:
        update = (await guest.tools())["update_context"]
        answer = await update(label="memory", content="Likes tea.")
        tokens = (await guest.context_block("memory")).tokens
        assert answer == f"Written to memory. Usage: {tokens}% ({tokens}/100 tokens)"
        assert (await update(label="house", content="x")).startswith("Written to house. Usage: ")
        await update(label="memory", content="And cake.", action="append")
        assert (await guest.context_block("memory")).content == "Likes tea.\nAnd cake."
        assert (await guest.block_history("memory"))[0].author == "model"

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ({"label": "soul", "content": "x"}, '"memory", "house"'),
            ({"label": "nothing", "content": "x"}, '"memory", "house"'),
            ({"label": "memory"}, '"content" is missing'),
            ({"content": "x"}, '"label" is missing'),
            ({"label": "memory", "content": 7}, "must be a string"),
            ({"label": "memory", "content": "x", "action": "burn"}, '"replace", "append"'),
            ({"label": "memory", "content": "x", "tilte": "y"}, 'no argument "tilte"'),
            ({"label": "memory", "content": "word " * 500}, "more than its limit of 100"),
            ({"label": "memory", "content": "\0"}, "NUL"),
        ],
    )
    async def test_bad_arguments_return_an_explanation_and_write_nothing(
        self, guest: Session, arguments: dict[str, Any], said: str
    ) -> None:
        answer = await (await guest.tools())["update_context"](**arguments)
        assert answer.startswith("Error: ")
        assert said in answer
        assert await guest.block_history("memory") == []

    async def test_a_skill_is_loaded_and_unloading_frees_its_tokens(self, store: Store, namespace: str) -> None:
        def manager() -> SessionManager:
            return SessionManager(store, namespace=namespace).with_context("skills", provider=Skills)

        session = manager().session("s")
        tools = await session.tools()
        await session.append(call("c1", "call-1"))
        loaded = await tools["load_context"](label="skills", key="bake")
        assert "Preheat the oven" in loaded
        await session.append({"id": "r1", "role": "tool", "tool_call_id": "call-1", "content": loaded})
        before = (await session.info()).token_count
        later = manager().session("s")
        answer = await (await later.tools())["unload_context"](label="skills", key="bake")
        assert answer == 'Unloaded "bake" from skills. Context reclaimed.'
        assert (await later.get_message("r1")).text == "[skill unloaded: bake]"
        assert (await later.info()).token_count < before - 100
        answer = await tools["unload_context"](label="skills", key="bake")
        assert answer.startswith('Skill "bake" is not currently loaded in "skills".')
        assert "Preheat" in await tools["load_context"](label="skills", key="bake")

    async def test_a_skill_unloaded_in_the_same_turn_takes_no_tokens(self, store: Store, namespace: str) -> None:
        session = SessionManager(store, namespace=namespace).with_context("skills", provider=Skills).session("s")
        tools = await session.tools()
        await session.append(call("c1", "call-1"))
        loaded = await tools["load_context"](label="skills", key="bake")
        answer = await tools["unload_context"](label="skills", key="bake")
        assert "Context reclaimed" not in answer
        await session.append({"id": "r1", "role": "tool", "tool_call_id": "call-1", "content": loaded})
        assert (await session.get_message("r1")).text == "[skill unloaded: bake]"
        assert "Preheat" not in "".join(await view(session))

    @pytest.mark.parametrize(
        "wrap",
        [
            lambda text: compact({"ok": True, "result": text}),
            lambda text: compact([{"type": "text", "text": compact(text)}]),
            lambda text: f"<result>{text}</result>",
            lambda text: [{"type": "text", "text": f"Result: {text} (end)"}],
        ],
    )
    async def test_a_skill_is_found_in_a_result_that_was_wrapped(
        self, store: Store, namespace: str, wrap: Callable[[str], Any]
    ) -> None:
        session = SessionManager(store, namespace=namespace).with_context("skills", provider=Skills).session("s")
        tools = await session.tools()
        await session.append(call("c1", "call-1"))
        loaded = await tools["load_context"](label="skills", key="bake")
        await session.append({"id": "r1", "role": "tool", "tool_call_id": "call-1", "content": wrap(loaded)})
        answer = await tools["unload_context"](label="skills", key="bake")
        assert answer == 'Unloaded "bake" from skills. Context reclaimed.'
        assert (await session.get_message("r1")).raw["content"] == wrap("[skill unloaded: bake]")

    async def test_unloading_says_when_there_was_nothing_to_reclaim(self, store: Store, namespace: str) -> None:
        session = SessionManager(store, namespace=namespace).with_context("skills", provider=Skills).session("s")
        tools = await session.tools()
        await session.append(call("c1", "call-1"))
        loaded = await tools["load_context"](label="skills", key="bake")
        await session.append({"id": "r1", "role": "tool", "tool_call_id": "call-1", "content": loaded})
        await session.update_message({"id": "r1", "role": "tool", "tool_call_id": "call-1", "content": "shortened"})
        answer = await tools["unload_context"](label="skills", key="bake")
        assert "no context was reclaimed" in answer

    async def test_unloading_changes_only_the_result_of_the_tool(self, store: Store, namespace: str) -> None:
        session = SessionManager(store, namespace=namespace).with_context("skills", provider=Skills).session("s")
        tools = await session.tools()
        loaded = await tools["load_context"](label="skills", key="bake")
        mark = loaded.splitlines()[0]
        await session.append(call("c1", "call-1"))
        await session.append({"id": "r1", "role": "tool", "tool_call_id": "call-1", "content": loaded})
        quote = {**call("c2", "call-2"), "content": f"As {mark} says."}
        await session.append(quote)
        await session.append({"id": "u1", "role": "user", "content": loaded})
        await tools["unload_context"](label="skills", key="bake")
        assert (await session.get_message("r1")).text == "[skill unloaded: bake]"
        assert (await session.get_message("c2")).raw == quote
        assert (await session.get_message("u1")).text == loaded

    async def test_a_tool_result_written_by_upsert_is_also_recognised(self, store: Store, namespace: str) -> None:
        session = SessionManager(store, namespace=namespace).with_context("skills", provider=Skills).session("s")
        tools = await session.tools()
        answer = {"id": "r1", "role": "tool", "tool_call_id": "call-1", "content": "..."}
        await session.append_all([call("c1", "call-1"), answer])
        loaded = await tools["load_context"](label="skills", key="bake")
        await session.upsert({**answer, "content": loaded})
        await tools["unload_context"](label="skills", key="bake")
        assert (await session.get_message("r1")).text == "[skill unloaded: bake]"

    async def test_an_unknown_skill_returns_the_list_of_skills(self, store: Store, namespace: str) -> None:
        session = SessionManager(store, namespace=namespace).with_context("skills", provider=Skills).session("s")
        answer = await (await session.tools())["load_context"](label="skills", key="fly")
        assert answer.startswith("Not found: 'fly'")
        assert "- bake" in answer

    async def test_entries_written_by_the_model_get_unique_keys(self, store: Store, namespace: str) -> None:
        session = SessionManager(store, namespace=namespace).with_context("facts", provider=StoreSearch).session("s")
        tools = await session.tools()
        assert "title" in tools["update_context"].parameters["properties"]
        contents = {"C": "the letter", "C++": "the language", "名前": "name", "住所": "address", "Tea time": "at four"}
        for title, content in contents.items():
            assert (await tools["update_context"](label="facts", title=title, content=content)).startswith("Stored ")
        await tools["update_context"](label="facts", content="same beginning, one end")
        await tools["update_context"](label="facts", content="same beginning, other end")
        assert (await session.context_block("facts")).content == "7 entries indexed."
        assert "at four" in await tools["search_context"](label="facts", query="four o'clock")
        assert await tools["search_context"](label="facts", query="zebra") == "No results found."
        await tools["update_context"](label="facts", title="Tea time", content="at five")
        assert (await session.context_block("facts")).content == "7 entries indexed."
        assert "at five" in await tools["search_context"](label="facts", query="five")

    async def test_entries_belong_to_a_session_unless_they_are_shared(self, store: Store, namespace: str) -> None:
        manager = (
            SessionManager(store, namespace=namespace)
            .with_context("own", provider=StoreSearch)
            .with_context("all", provider=StoreSearch(scope="namespace"))
        )
        for label in ("own", "all"):
            tools = await manager.session("a").tools()
            await tools["update_context"](label=label, title="fact", content=f"{label} fact of a")
        other = await manager.session("b").tools()
        assert await other["search_context"](label="own", query="fact") == "No results found."
        assert "all fact of a" in await other["search_context"](label="all", query="fact")

    async def test_a_factory_makes_one_provider_for_each_session_and_init_comes_first(
        self, store: Store, namespace: str
    ) -> None:
        made: list[Skills] = []

        def factory(session_id: str, key: SessionKey | None) -> Skills:
            made.append(Skills(session_id, key))
            return made[-1]

        manager = SessionManager(store, namespace=namespace).with_context("skills", provider=factory)
        session = manager.session("a")
        await session.context_blocks()
        await session.tools()
        await session.context_blocks()
        await asyncio.gather(*(manager.session("b").context_blocks() for _ in range(5)))
        assert [provider.calls[0] for provider in made] == [("init", "skills", "a"), ("init", "skills", "b")]
        assert sum(entry[0] == "init" for entry in made[0].calls) == 1
