"""One conversation in three frameworks: it starts in the OpenAI Agents SDK, continues in Pydantic AI with a model of
Anthropic, and ends in LangGraph."""

from __future__ import annotations

from typing import Any

from agents import Agent as OpenAIAgent
from agents import OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from anthropic import AsyncAnthropic
from langchain_core.messages import AIMessage, HumanMessage, convert_to_openai_messages
from langgraph.graph import START, MessagesState, StateGraph
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from frontdesk import SessionKey, SessionManager
from frontdesk.integrations.langchain import FrontdeskChatHistory
from frontdesk.integrations.langgraph import FrontdeskSaver
from frontdesk.integrations.openai_agents import FrontdeskSession
from frontdesk.integrations.pydantic_ai import FrontdeskHistory
from tests.models.scripted_server import Answer, ScriptedServer, ToolCall

ANA = SessionKey("guide", "web", "ana")
LONG_ID = "call_1__thought__" + "Ab+/" * 30
"""an id of a call as gateways make them: too long for Anthropic and OpenAI, and with characters that they refuse"""


async def start_in_openai_agents(manager: SessionManager, client: AsyncOpenAI) -> None:
    @function_tool
    def weather(city: str) -> str:
        return f"{city}: sunny"

    set_tracing_disabled(True)
    agent = OpenAIAgent("guide", model=OpenAIResponsesModel("gpt-test", client), tools=[weather])
    session = FrontdeskSession(manager, ANA)
    await Runner.run(agent, "Weather in Lima?", session=session)
    thought = {"type": "summary_text", "text": "Cusco is in the mountains."}
    of_another_model: list[Any] = [
        {"role": "user", "content": "And in Cusco?"},
        {"type": "reasoning", "id": "rs_1", "summary": [thought], "encrypted_content": "gAAAA"},
        {
            "type": "function_call",
            "call_id": LONG_ID,
            "name": "weather",
            "arguments": '{"city": "Cusco"}',
            "id": "fc_1",
        },
        {"type": "function_call_output", "call_id": LONG_ID, "output": "Cusco: rainy"},
        {"role": "assistant", "content": "Rainy."},
    ]
    await session.add_items(of_another_model)


async def continue_in_pydantic_ai(manager: SessionManager, client: AsyncAnthropic) -> None:
    agent = Agent(AnthropicModel("claude-test", provider=AnthropicProvider(anthropic_client=client)))

    @agent.tool_plain
    def hotels(city: str) -> str:
        return f"{city}: Hotel Bolivar"

    history = FrontdeskHistory(manager, ANA)
    result = await agent.run("And a hotel?", message_history=await history.load())
    await history.save(result.new_messages())


async def end_in_langgraph(manager: SessionManager, client: AsyncOpenAI) -> None:
    async def answer(state: MessagesState) -> dict[str, Any]:
        messages: Any = convert_to_openai_messages(state["messages"])
        done = await client.chat.completions.create(model="gpt-test", messages=messages)
        return {"messages": [AIMessage(done.choices[0].message.content or "")]}

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    graph: Any = builder.compile(checkpointer=FrontdeskSaver(manager))
    history = FrontdeskChatHistory(manager, ANA)
    before = await history.aget_messages()
    thread = {"configurable": {"thread_id": str(ANA)}}
    values = await graph.ainvoke({"messages": [*before, HumanMessage("Thanks")]}, thread)
    await history.aadd_messages(values["messages"][len(before) :])


async def test_a_conversation_starts_continues_and_ends_in_three_frameworks(
    manager: SessionManager, server: ScriptedServer
) -> None:
    openai = AsyncOpenAI(base_url=server.openai_url, api_key="key", max_retries=0)
    anthropic = AsyncAnthropic(base_url=server.anthropic_url, api_key="key", max_retries=0)
    server.script(
        Answer(tool_calls=(ToolCall("c1", "weather", {"city": "Lima"}),)),
        Answer("Sunny."),
        Answer(tool_calls=(ToolCall("c2", "hotels", {"city": "Lima"}),)),
        Answer("Hotel Bolivar."),
        Answer("Bye."),
    )
    await start_in_openai_agents(manager, openai)
    await continue_in_pydantic_ai(manager, anthropic)
    await end_in_langgraph(manager, openai)
    assert server.refused == []
    session = manager.session(ANA)
    sent = server.requests[-1].body["messages"]
    assert [message["role"] for message in sent] == [
        *("user", "assistant", "tool", "assistant"),
        *("user", "assistant", "tool", "assistant"),
        *("user", "assistant", "tool", "assistant"),
        "user",
    ]
    calls = [call["id"] for message in sent for call in message.get("tool_calls", ())]
    results = [message["tool_call_id"] for message in sent if message["role"] == "tool"]
    assert calls == results
    assert [sent[place]["content"] for place in (2, 6, 10)] == ["Lima: sunny", "Cusco: rainy", "Lima: Hotel Bolivar"]
    for_anthropic = [block for message in server.requests[2].body["messages"] for block in message["content"]]
    ids = [block["id"] for block in for_anthropic if block["type"] == "tool_use"]
    assert ids == [block["tool_use_id"] for block in for_anthropic if block["type"] == "tool_result"]
    assert max(map(len, [*ids, *calls])) <= 64
    assert "mountains" not in str(for_anthropic)  # what a model of another provider thought is not something it said
    assert {"weather"} == {block["name"] for block in for_anthropic if block["type"] == "tool_use"}
    stored = [message async for message in session.transcript()]
    assert [message.raw["encrypted_content"] for message in stored if message.raw.get("type") == "reasoning"] == [
        "gAAAA"
    ]
    assert [(message.role, message.text) for message in await session.history()][-2:] == [
        ("user", "Thanks"),
        ("assistant", "Bye."),
    ]
    report = await manager.erase(key=ANA)
    assert (report.sessions, report.shelves) == (1, 1)
