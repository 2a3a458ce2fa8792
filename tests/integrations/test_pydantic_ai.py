"""`FrontdeskHistory` in real runs of Pydantic AI, whose models are a scripted server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from frontdesk import SessionManager
from frontdesk.integrations.pydantic_ai import FrontdeskHistory
from tests.models.scripted_server import Answer, ScriptedServer, ToolCall


def make_agent(server: ScriptedServer, provider: str, **options: Any) -> Agent[None, str]:
    model: Any
    if provider == "anthropic":
        claude = AsyncAnthropic(base_url=server.anthropic_url, api_key="key", max_retries=0)
        model = AnthropicModel("claude-test", provider=AnthropicProvider(anthropic_client=claude))
    else:
        client = AsyncOpenAI(base_url=server.openai_url, api_key="key", max_retries=0)
        model = OpenAIChatModel("gpt-test", provider=OpenAIProvider(openai_client=client))
    agent: Agent[None, str] = Agent(model, instructions="You are a guide.", **options)

    @agent.tool_plain
    def weather(city: str) -> str:
        return f"{city}: sunny"

    return agent


async def fail_after_a_tool(history: FrontdeskHistory, server: ScriptedServer) -> Agent[None, str]:
    """An agent that saves every step, and whose run has failed after its tool was called."""
    agent = make_agent(server, "anthropic", capabilities=[ProcessHistory(history.process)])
    server.script(Answer(tool_calls=(ToolCall("c1", "weather", {"city": "Lima"}),)))  # then the script has no step left
    with pytest.raises(Exception, match="script"):
        await agent.run("Weather in Lima?")
    return agent


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_a_run_with_a_tool_is_saved_and_the_next_run_sees_it(
    manager: SessionManager, server: ScriptedServer, provider: str
) -> None:
    agent = make_agent(server, provider)
    server.script(Answer(tool_calls=(ToolCall("c1", "weather", {"city": "Lima"}),)), Answer("Sunny."), Answer("Bye."))
    history = FrontdeskHistory(manager, "chat")
    first = await agent.run("Weather in Lima?", message_history=await history.load())
    await history.save(first.new_messages())
    await history.save(first.new_messages())

    again = FrontdeskHistory(manager, "chat")
    loaded = await again.load()
    assert [type(message) for message in loaded] == [ModelRequest, ModelResponse, ModelRequest, ModelResponse]
    second = await agent.run("Thanks", message_history=loaded)
    await again.save(second.all_messages())
    assert second.output == "Bye."
    assert server.refused == []
    roles = [message.role for message in await history.session.history()]
    assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert [hit.role for hit in await history.session.search("Lima weather")]


async def test_a_processor_saves_every_step_even_of_a_run_that_fails(
    manager: SessionManager, server: ScriptedServer
) -> None:
    history = FrontdeskHistory(manager, "chat")
    agent = await fail_after_a_tool(history, server)
    assert [message.role for message in await history.session.history()] == ["user", "assistant", "tool"]

    server.script(Answer("Sunny."))
    result = await agent.run("Well?", message_history=await history.load())
    await history.save(result.new_messages())
    assert result.output == "Sunny."
    assert server.refused == []
    stored = await history.session.history()
    assert [(message.role, message.text) for message in stored][-2:] == [("user", "Well?"), ("assistant", "Sunny.")]
    assert [message.tool_result_ids for message in stored] == [(), (), ("c1",), (), ()]


async def test_a_run_continues_with_the_summary_of_a_compacted_conversation(
    store_url: str, server: ScriptedServer
) -> None:
    async with SessionManager(store_url).with_compaction(
        lambda prompt: "They planned a trip to Lima.", max_tokens=2_000
    ) as manager:
        history = FrontdeskHistory(manager, "chat")
        agent = make_agent(server, "anthropic", capabilities=[ProcessHistory(history.process)])
        server.otherwise = Answer("Noted. " * 40)
        for day in range(8):
            result = await agent.run(f"Plan day {day}: " + "a long plan " * 60, message_history=await history.load())
            await history.save(result.new_messages())
        await history.session.compact()
        server.script(Answer("Lima."))
        result = await agent.run("Where to?", message_history=await history.load())
        await history.save(result.new_messages())
        assert result.output == "Lima."
        assert server.refused == []
        assert "They planned a trip to Lima." in str(server.requests[-1].body["messages"])
        texts = [message.text async for message in history.session.transcript()]
        assert len(texts) == 18  # the summary was never saved as a message
        assert texts[-1] == "Lima."


async def write_elsewhere(history: FrontdeskHistory) -> None:
    await history.session.append_all([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}])


async def leave_unanswered(history: FrontdeskHistory) -> None:
    await history.session.append({"role": "user", "content": "Anybody there?"})


async def summarise(history: FrontdeskHistory) -> None:
    await write_elsewhere(history)
    first, last = await history.session.history()
    await history.session.add_compaction("They said hello.", first.id, last.id)


@pytest.mark.parametrize("prepare", [write_elsewhere, leave_unanswered, summarise])
async def test_a_processor_stores_each_tool_result_once_whatever_else_the_session_holds(
    manager: SessionManager, server: ScriptedServer, prepare: Callable[[FrontdeskHistory], Awaitable[None]]
) -> None:
    history = FrontdeskHistory(manager, "chat")
    await prepare(history)
    before = [message.role async for message in history.session.transcript()]
    agent = make_agent(server, "anthropic", capabilities=[ProcessHistory(history.process)])
    for number in (1, 2):
        server.script(Answer(tool_calls=(ToolCall(f"c{number}", "weather", {"city": "Lima"}),)), Answer("Sunny."))
        result = await agent.run("Weather in Lima?", message_history=await history.load())
        await history.save(result.all_messages())
    assert server.refused == []
    stored = [message.role async for message in history.session.transcript()]
    assert stored == [*before, *("user", "assistant", "tool", "assistant") * 2]


@pytest.mark.parametrize("prompt", ["Well?", None])
async def test_a_run_that_continues_a_failed_one_stores_nothing_twice(
    manager: SessionManager, server: ScriptedServer, prompt: str | None
) -> None:
    history = FrontdeskHistory(manager, "chat")
    agent = await fail_after_a_tool(history, server)
    server.script(Answer("Sunny."), Answer("Bye."))
    for said in (prompt, "Thanks"):
        result = await agent.run(said, message_history=await history.load())
        await history.save(result.new_messages())
    assert server.refused == []
    stored = [message.role for message in await history.session.history()]
    asked = [] if prompt is None else ["user"]
    assert stored == ["user", "assistant", "tool", *asked, "assistant", "user", "assistant"]


async def test_what_a_run_saved_is_loaded_as_it_was_next_to_messages_of_others(
    manager: SessionManager, server: ScriptedServer
) -> None:
    history = FrontdeskHistory(manager, "chat")
    await write_elsewhere(history)
    server.script(Answer(tool_calls=(ToolCall("c1", "weather", {"city": "Lima"}),)), Answer("Sunny."))
    result = await make_agent(server, "anthropic").run("Weather in Lima?", message_history=await history.load())
    await history.save(result.new_messages())
    assert (await FrontdeskHistory(manager, "chat").load())[2:] == result.new_messages()


async def test_a_result_that_came_with_a_prompt_is_loaded_once(manager: SessionManager) -> None:
    history = FrontdeskHistory(manager, "chat")
    await write_elsewhere(history)
    both = ModelRequest([ToolReturnPart("weather", "sunny", "c1"), UserPromptPart("And tomorrow?")])
    saved: list[ModelMessage] = [ModelResponse([ToolCallPart("weather", {"city": "Lima"}, "c1")]), both]
    await history.save(saved)
    assert (await FrontdeskHistory(manager, "chat").load())[-1] == both
