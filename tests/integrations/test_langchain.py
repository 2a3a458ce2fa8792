"""`FrontdeskChatHistory`, alone, under LangChain's own runnable, and with messages of other frameworks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory

from frontdesk import SessionKey, SessionManager
from frontdesk.integrations.langchain import FrontdeskChatHistory

pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainDeprecationWarning")

CALL: Any = {"name": "weather", "args": {"city": "Lima"}, "id": "c1"}
MESSAGES: list[BaseMessage] = [
    SystemMessage("Be brief."),
    HumanMessage([{"type": "text", "text": "How is the weather in Lima?"}], id="h1", name="ana"),
    AIMessage("", tool_calls=[CALL], id="a1", response_metadata={"model": "m"}),
    ToolMessage("18 degrees", tool_call_id="c1", artifact={"raw": [18]}, status="success"),
    AIMessage([{"type": "thinking", "thinking": "Mild.", "signature": "x"}, {"type": "text", "text": "Mild."}]),
]


async def test_messages_come_back_as_they_were_added(manager: SessionManager) -> None:
    history = FrontdeskChatHistory(manager, SessionKey("guide", "web", "ana"))
    assert await history.aget_messages() == []
    await history.aadd_messages(MESSAGES[:3])
    await history.aadd_messages(MESSAGES[3:])
    await history.aadd_messages([])
    assert await history.aget_messages() == MESSAGES
    assert [hit.role for hit in await manager.search("degrees")] == ["tool"]
    await history.aclear()
    assert await history.aget_messages() == []


async def test_other_frameworks_read_the_same_conversation(manager: SessionManager) -> None:
    history = FrontdeskChatHistory(manager, "chat")
    await history.aadd_messages(MESSAGES)
    rendered = await history.session.history(format="openai")
    assert [message["role"] for message in rendered] == ["system", "user", "assistant", "tool", "assistant"]
    assert rendered[2]["tool_calls"][0]["id"] == rendered[3]["tool_call_id"] == "c1"
    assert not any("langchain" in message for message in rendered)
    anthropic = await history.session.history(format="anthropic")
    assert [block["type"] for block in anthropic[1]["content"]] == ["tool_use"]


async def test_messages_of_other_frameworks_are_read_with_their_calls_and_results(manager: SessionManager) -> None:
    history = FrontdeskChatHistory(manager, "chat")
    await history.aadd_messages(MESSAGES[:2])
    use = {"type": "tool_use", "id": "c2", "name": "weather", "input": {"city": "Lima"}}
    await history.session.append({"role": "assistant", "content": [use]})
    result = {"type": "tool_result", "tool_use_id": "c2", "content": "18 degrees"}
    await history.session.append({"role": "user", "content": [result]})
    found = await history.aget_messages()
    assert [message.type for message in found] == ["system", "human", "ai", "tool"]
    assert isinstance(found[2], AIMessage)
    assert found[2].tool_calls[0]["args"] == {"city": "Lima"}
    assert isinstance(found[3], ToolMessage)
    assert found[3].tool_call_id == "c2"


async def test_a_call_of_a_custom_tool_is_read_as_one_of_a_function(manager: SessionManager) -> None:
    history = FrontdeskChatHistory(manager, "chat")
    call = {"id": "c3", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    await history.session.append({"role": "assistant", "content": None, "tool_calls": [call]})
    await history.session.append({"role": "tool", "tool_call_id": "c3", "content": "suite"})
    called, result = await history.aget_messages()
    assert isinstance(called, AIMessage)
    assert [(each["id"], each["name"], each["args"]) for each in called.tool_calls] == [
        ("c3", "shell", {"input": "ls"})
    ]
    assert isinstance(result, ToolMessage)


async def test_a_compacted_conversation_begins_with_its_summary(manager: SessionManager) -> None:
    history = FrontdeskChatHistory(manager, "chat")
    await history.aadd_messages([HumanMessage(f"message {number}") for number in range(6)])
    ids = [message.id for message in await history.session.history()]
    await history.session.add_compaction("They counted to three.", ids[0], ids[3])
    found = await history.aget_messages()
    assert "They counted to three." in found[0].text
    assert [message.text for message in found[1:]] == ["message 4", "message 5"]


def test_a_runnable_with_history_remembers_without_an_event_loop(store_url: str) -> None:
    manager = SessionManager(store_url)
    echo: RunnableLambda[Any, AIMessage] = RunnableLambda(lambda messages: AIMessage(f"{len(messages)} so far"))
    chain = RunnableWithMessageHistory(echo, lambda session_id: FrontdeskChatHistory(manager, session_id))
    config: Any = {"configurable": {"session_id": "chat"}}
    assert chain.invoke([HumanMessage("one")], config).text == "1 so far"
    assert chain.invoke([HumanMessage("two")], config).text == "3 so far"
    history = FrontdeskChatHistory(manager, "chat")
    assert [message.text for message in history.messages] == ["one", "1 so far", "two", "3 so far"]
    history.clear()
    assert history.messages == []
    asyncio.run(manager.close())
