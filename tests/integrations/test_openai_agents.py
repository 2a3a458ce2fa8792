"""`FrontdeskSession` in real runs of the OpenAI Agents SDK, whose model is a scripted server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
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


@pytest.mark.parametrize(
    "item",
    [
        {"role": "user", "content": "Hi", "name": "ana"},
        {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        {"payload": [1, 2.5, None], "id": "x"},
        {"type": None},
        {},
    ],
)
async def test_items_of_any_shape_come_back_as_they_were_added_and_change_no_other(
    manager: SessionManager, item: Any
) -> None:
    session = FrontdeskSession(manager, "chat")
    items: list[Any] = [CALL, OUTPUT, item]
    await session.add_items(items)
    assert await session.get_items() == items
    assert await session.pop_item() == item


async def test_popping_a_message_of_another_framework_returns_its_last_item(manager: SessionManager) -> None:
    session = FrontdeskSession(manager, "chat")
    called = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    await session.session.append_all(
        [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": "One moment.", "tool_calls": [called]},
            {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        ]
    )
    popped = [await session.pop_item() for _ in range(4)]
    assert [item is not None for item in popped] == [True, True, True, False]
    assert "sunny" in str(popped[0])
    assert "c1" in str(popped[1])
    assert popped[2] == {"role": "user", "content": "Weather?"}


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


async def test_usage_is_recorded_once_if_the_model_gives_its_responses_no_ids(
    manager: SessionManager, server: ScriptedServer
) -> None:
    client = AsyncOpenAI(base_url=server.openai_url, api_key="key", max_retries=0)
    agent: Agent[Any] = Agent("guide", model=OpenAIChatCompletionsModel("gpt-test", client))
    session = FrontdeskSession(manager, "chat")
    server.script(*[Answer("Sunny.", input_tokens=50, output_tokens=3)] * 2)
    results = [await Runner.run(agent, "Weather?", session=session) for _ in range(2)]
    assert [response.response_id for result in results for response in result.raw_responses] == [None, None]
    for result in (*results, *results):
        await session.record_usage(result)
    info = await session.session.info()
    assert (info.input_tokens, info.output_tokens) == (100, 6)


async def test_a_run_after_a_switch_continues_on_a_branch(
    manager: SessionManager, server: ScriptedServer, agent: Agent[Any]
) -> None:
    session = FrontdeskSession(manager, "chat")
    server.script(Answer("Lima."), Answer("Sunny."), Answer("Hotel Bolivar."))
    await Runner.run(agent, "Where to?", session=session)
    fork = await session.session.head()
    assert fork is not None
    await Runner.run(agent, "And the weather?", session=session)
    weather = await session.session.head()
    assert weather is not None
    await session.session.switch(fork.id)
    await Runner.run(agent, "And a hotel?", session=session)
    assert "weather" not in str(server.requests[-1].body["input"])
    assert [leaf.text for leaf in await session.session.leaves()] == ["Sunny.", "Hotel Bolivar."]
    assert "Hotel Bolivar." in str(await session.get_items())
    await session.session.switch(weather.id)
    assert [message.text for message in await session.session.history()] == [
        *("Where to?", "Lima."),
        *("And the weather?", "Sunny."),
    ]
    assert "Hotel" not in str(await session.get_items())
    assert server.refused == []


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
