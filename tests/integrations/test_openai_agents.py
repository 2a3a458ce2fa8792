"""`FrontdeskSession` in real runs of the OpenAI Agents SDK, whose model is a scripted server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import Agent, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from agents.memory import Session, is_openai_responses_compaction_aware_session
from openai import AsyncOpenAI

from frontdesk import InvalidInputError, SessionKey, SessionManager
from frontdesk.integrations.openai_agents import FrontdeskSession
from tests.models.scripted_server import Answer, ScriptedServer, ToolCall

CALL = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Lima"}', "id": "fc_1"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}


@pytest.fixture(autouse=True)
def no_tracing() -> None:
    set_tracing_disabled(True)


@pytest.fixture
def agent(server: ScriptedServer) -> Agent[Any]:
    @function_tool
    def weather(city: str) -> str:
        return f"{city}: sunny"

    model = OpenAIResponsesModel("gpt-test", AsyncOpenAI(base_url=server.openai_url, api_key="key", max_retries=0))
    return Agent("guide", instructions="You are a guide.", model=model, tools=[weather])


def test_it_is_a_session_of_the_sdk(manager: SessionManager) -> None:
    session = FrontdeskSession(manager, "chat")
    assert isinstance(session, Session)
    assert is_openai_responses_compaction_aware_session(session)


async def test_a_run_with_a_tool_is_stored_and_the_next_run_sees_it(
    manager: SessionManager, server: ScriptedServer, agent: Agent[Any]
) -> None:
    server.script(Answer(tool_calls=(ToolCall("c1", "weather", {"city": "Lima"}),)), Answer("Sunny."), Answer("Bye."))
    session = FrontdeskSession(manager, SessionKey("guide", "web", "ana"))
    first = await Runner.run(agent, "Weather in Lima?", session=session)
    assert first.final_output == "Sunny."
    await Runner.run(agent, "Thanks", session=FrontdeskSession(manager, SessionKey("guide", "web", "ana")))
    sent = server.requests[-1].body["input"]
    assert [item.get("type", item.get("role")) for item in sent] == [
        "user",
        "function_call",
        "function_call_output",
        "message",
        "user",
    ]
    assert "sunny" in str(sent[2]["output"])
    assert server.refused == []
    assert [message.role for message in await session.session.history()] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]


async def test_items_come_back_as_they_were_added(manager: SessionManager) -> None:
    items: list[Any] = [
        {"role": "user", "content": "Weather?"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc", "vendor": {"x": None}},
        CALL,
        OUTPUT,
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Sunny"}]},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Again"}]},
        {"type": "something_new", "payload": [1, 2.5, None]},
    ]
    session = FrontdeskSession(manager, "chat")
    await session.add_items(items)
    assert await session.get_items() == items
    assert await FrontdeskSession(manager, "chat").get_items() == items
    assert await session.pop_item() == items[-1]
    assert await session.get_items() == items[:-1]
    await session.clear_session()
    assert await session.get_items() == []
    assert await session.pop_item() is None


async def test_a_limit_returns_the_newest_items_and_separates_no_result_from_its_call(manager: SessionManager) -> None:
    session = FrontdeskSession(manager, "chat", session_settings={"limit": 2})
    answer = {"role": "assistant", "content": "Sunny."}
    await session.add_items([{"role": "user", "content": "Weather?"}, CALL, OUTPUT, answer])  # type: ignore[list-item]
    assert await session.get_items(limit=3) == [CALL, OUTPUT, answer]
    assert await session.get_items() == [answer]  # two items, without the result whose call is the third
    assert await session.get_items(limit=0) == []
    with pytest.raises(InvalidInputError):
        await session.get_items(limit=-1)


async def test_of_concurrent_pops_none_returns_the_same_item(manager: SessionManager) -> None:
    session = FrontdeskSession(manager, "chat")
    await session.add_items([{"role": "user", "content": str(n)} for n in range(8)])
    popped = await asyncio.gather(*(FrontdeskSession(manager, "chat").pop_item() for _ in range(8)))
    contents = [dict(item)["content"] for item in popped if item]
    assert sorted(map(str, contents)) == [str(n) for n in range(8)]


async def test_a_compaction_shows_the_summary_and_keeps_the_originals(
    store_url: str, server: ScriptedServer, agent: Agent[Any]
) -> None:
    async with SessionManager(store_url).with_compaction(
        lambda prompt: "They planned a trip to Lima.", max_tokens=2_000
    ) as manager:
        session = FrontdeskSession(manager, "chat")
        for day in range(12):
            plan = f"Plan day {day}: " + "a long plan " * 60
            await session.add_items([{"role": "user", "content": plan}, {"role": "assistant", "content": "Done."}])
        await session.run_compaction({"force": True})
        items = await session.get_items()
        assert "They planned a trip to Lima." in str(items)
        assert len(items) < 24
        assert len([message async for message in session.session.transcript()]) == 24
        server.script(Answer("Hello again."))
        result = await Runner.run(agent, "Where to?", session=session)
        assert result.final_output == "Hello again."
        assert server.refused == []
        assert "They planned a trip to Lima." in str(server.requests[-1].body["input"])


async def test_usage_of_a_run_is_recorded_once(
    manager: SessionManager, server: ScriptedServer, agent: Agent[Any]
) -> None:
    server.script(
        Answer(tool_calls=(ToolCall("c1", "weather", {"city": "Lima"}),), input_tokens=100, cached=40, output_tokens=7),
        Answer("Sunny.", input_tokens=50, output_tokens=3),
    )
    session = FrontdeskSession(manager, "chat")
    result = await Runner.run(agent, "Weather?", session=session)
    await session.record_usage(result)
    await session.record_usage(result)
    info = await session.session.info()
    assert (info.input_tokens, info.output_tokens) == (150, 10)


async def test_what_another_framework_wrote_is_rendered_for_this_api(
    manager: SessionManager, server: ScriptedServer, agent: Agent[Any]
) -> None:
    session = FrontdeskSession(manager, "chat")
    call = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Lima"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}
    await session.session.append_all(
        [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": [{"type": "text", "text": "I look."}, call]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": [{"type": "text", "text": "Sunny."}]},
        ]
    )
    server.script(Answer("Bye."))
    await Runner.run(agent, "Thanks", session=session)
    assert server.refused == []
    sent = server.requests[-1].body["input"]
    assert next(item for item in sent if item.get("type") == "function_call")["name"] == "weather"
