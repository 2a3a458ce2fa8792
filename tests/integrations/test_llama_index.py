"""`FrontdeskChatStore` and `FrontdeskMemoryStore` in real runs of LlamaIndex agents, with LlamaIndex's own scripted
model. Its own stores do the same, for comparison."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock, ThinkingBlock, ToolCallBlock
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer, Memory
from llama_index.core.storage.chat_store import BaseChatStore, SimpleChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from frontdesk import InvalidInputError, InvalidMessageError, SessionKey, sync
from frontdesk.integrations.llama_index import FrontdeskChatStore, FrontdeskMemoryStore
from tests.integrations.conftest import STORES, url_of

pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")  # in its agents

CALL = ChatMessage(
    role="assistant",
    blocks=[ToolCallBlock(tool_call_id="c1", tool_name="weather", tool_kwargs={"city": "Lima"})],
)
RESULT = ChatMessage(role="tool", content="Lima: sunny", additional_kwargs={"tool_call_id": "c1"})


def said(text: str, role: str = "user") -> ChatMessage:
    return ChatMessage(role=role, content=text)


def weather(city: str) -> str:
    """The weather in a city."""
    return f"{city}: sunny"


class Script:
    """The answers of a model, and what it was sent."""

    def __init__(self, *answers: ChatMessage) -> None:
        self.answers = list(answers)
        self.sent: list[list[ChatMessage]] = []

    def model(self) -> MockFunctionCallingLLM:
        return MockFunctionCallingLLM(response_generator=self._answer)

    def _answer(self, messages: Sequence[ChatMessage], **options: Any) -> ChatMessage:
        self.sent.append(list(messages))
        return self.answers.pop(0)


# BaseChatStore


@pytest.fixture
def chats(sync_manager: sync.SessionManager) -> FrontdeskChatStore:
    return FrontdeskChatStore(sync_manager, agent="guide")


@pytest.fixture(params=["llama-index", *STORES])
def any_chats(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "llama-index":
        yield SimpleChatStore()
    else:
        with sync.SessionManager(url_of(request.param, request, tmp_path)) as manager:
            yield FrontdeskChatStore(manager)


def test_the_store_does_what_that_of_llama_index_does(any_chats: BaseChatStore) -> None:
    messages = [said("one"), CALL, RESULT, said("two", "assistant"), said("one")]
    assert any_chats.get_messages("ana") == []
    assert any_chats.delete_messages("ana") is None
    assert any_chats.delete_message("ana", 0) is None
    assert any_chats.delete_last_message("ana") is None
    for message in messages:
        any_chats.add_message("ana", message)
    any_chats.add_message("bo/x", said("other"))
    assert any_chats.get_messages("ana") == messages
    assert any_chats.get_keys() == ["ana", "bo/x"]
    assert any_chats.delete_message("ana", 9) is None
    assert any_chats.delete_message("ana", 3) == messages[3]
    assert any_chats.delete_last_message("ana") == said("one")
    assert any_chats.get_messages("ana") == messages[:3]
    any_chats.set_messages("ana", [*messages[:3], said("new"), said("new")])
    assert any_chats.get_messages("ana") == [*messages[:3], said("new"), said("new")]
    any_chats.set_messages("ana", [said("last")])
    assert any_chats.delete_messages("ana") == [said("last")]
    assert any_chats.get_keys() == ["bo/x"]
    assert any_chats.get_messages("bo/x") == [said("other")]


async def test_the_async_calls_do_the_same(chats: FrontdeskChatStore) -> None:
    await chats.async_add_message("ana", said("hi"))
    assert await chats.aget_messages("ana") == [said("hi")]
    assert await chats.adelete_last_message("ana") == said("hi")


def test_messages_come_back_exactly_and_other_frameworks_can_read_them(
    chats: FrontdeskChatStore, sync_manager: sync.SessionManager
) -> None:
    openai_call = {"id": "c2", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    messages = [
        ChatMessage(role="system", content="Be short."),
        ChatMessage(
            role="user",
            blocks=[TextBlock(text="Look at this"), ImageBlock(image=b"\xff\x00", image_mimetype="image/png")],
        ),
        ChatMessage(role="assistant", blocks=[ThinkingBlock(content="hm"), *CALL.blocks]),
        RESULT,
        ChatMessage(role="assistant", blocks=[], additional_kwargs={"tool_calls": [openai_call]}),
        ChatMessage(role="tool", content="cloudy", additional_kwargs={"tool_call_id": "c2", "name": "weather"}),
        ChatMessage(role="chatbot", content="Sunny today", additional_kwargs={"score": 0.5, "none": None}),
    ]
    for message in messages:
        chats.add_message("ana", message)
    assert chats.get_messages("ana") == messages
    assert {hit.role for hit in sync_manager.search("today")} == {"assistant"}
    sent = chats.conversation("ana").history(format="openai")
    roles = ["system", "user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert [message["role"] for message in sent] == roles
    assert sent[1]["content"][1]["image_url"]["url"] == "data:image/png;base64,/wA="
    assert sent[5]["content"] == "cloudy"


def test_a_summary_replaces_what_it_covers(chats: FrontdeskChatStore) -> None:
    for message in (said("Weather?"), CALL, RESULT, said("Sunny.", "assistant")):
        chats.add_message("ana", message)
    conversation = chats.conversation("ana")
    ids = [message.id for message in conversation.transcript()]
    made = conversation.add_compaction("It is sunny.", ids[0], ids[2])
    shown = chats.get_messages("ana")
    assert len(shown) == 2
    assert "It is sunny." in str(shown[0].content)
    with pytest.raises(InvalidMessageError):
        chats.delete_message("ana", 0)
    conversation.undo_compaction(made.id)
    assert len(chats.get_messages("ana")) == 4


def test_a_chat_engine_remembers_across_workers(chats: FrontdeskChatStore, sync_manager: sync.SessionManager) -> None:
    script = Script(said("Hello.", "assistant"), said("Ana.", "assistant"))
    for words in ("I am Ana.", "Who am I?"):
        store = FrontdeskChatStore(sync_manager, agent="guide")
        memory = ChatMemoryBuffer.from_defaults(chat_store=store, chat_store_key="ana")
        SimpleChatEngine.from_defaults(llm=script.model(), memory=memory).chat(words)
    assert [message.content for message in script.sent[-1]] == ["I am Ana.", "Hello.", "Who am I?"]
    assert len(chats.get_messages("ana")) == 4


def test_erasing_a_guest_leaves_nothing(chats: FrontdeskChatStore, sync_manager: sync.SessionManager) -> None:
    chats.add_message("ana", said("hello"))
    chats.add_message("bo", said("hello"))
    assert sync_manager.erase(key=SessionKey("guide", "chat", "ana")).sessions == 1
    assert chats.get_keys() == ["bo"]


# Memory


@pytest.fixture
def memories(sync_manager: sync.SessionManager) -> FrontdeskMemoryStore:
    return FrontdeskMemoryStore(sync_manager, agent="guide")


@pytest.fixture(params=["llama-index", *STORES])
async def any_memories(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    if request.param == "llama-index":
        store = SQLAlchemyChatStore(table_name="chats", async_database_uri=f"sqlite+aiosqlite:///{tmp_path}/l.db")
        yield store
        if store._async_engine is not None:
            await store._async_engine.dispose()
    else:
        with sync.SessionManager(url_of(request.param, request, tmp_path)) as manager:
            yield FrontdeskMemoryStore(manager)


async def test_the_store_of_a_memory_does_what_that_of_llama_index_does(any_memories: AsyncDBChatStore) -> None:
    store = any_memories
    messages = [said(f"m{number}", "user" if number % 2 == 0 else "assistant") for number in range(8)]
    assert await store.get_messages("ana") == []
    await store.add_message("ana", messages[0])
    await store.add_messages("ana", messages[1:])
    assert await store.archive_oldest_messages("ana", 3) == messages[:3]
    assert await store.get_messages("ana") == messages[3:]
    assert await store.get_messages("ana", limit=2, offset=1) == messages[4:6]
    assert await store.get_messages("ana", status=MessageStatus.ARCHIVED) == messages[:3]
    assert await store.get_messages("ana", status=None) == messages
    assert await store.delete_oldest_messages("ana", 2) == messages[3:5]
    counts = [
        await store.count_messages("ana", status) for status in (MessageStatus.ACTIVE, MessageStatus.ARCHIVED, None)
    ]
    assert counts == [3, 3, 6]
    assert await store.archive_oldest_messages("ana", 1) == [messages[5]]
    await store.delete_messages("ana", MessageStatus.ARCHIVED)
    assert await store.get_messages("ana", status=None) == messages[6:]
    await store.set_messages("ana", messages[:2])
    assert await store.get_messages("ana") == messages[:2]
    assert await store.get_messages("bo") == []
    assert await store.get_keys() == ["ana"]
    await store.delete_messages("ana")
    assert await store.get_messages("ana", status=None) == []


async def test_a_memory_archives_what_does_not_fit_as_with_the_store_of_llama_index(
    any_memories: AsyncDBChatStore,
) -> None:
    memory = Memory.from_defaults(
        session_id="ana", chat_store=any_memories, token_limit=60, token_flush_size=10, chat_history_token_ratio=0.5
    )
    for number in range(10):
        await memory.aput(said(f"a question with some words {number}"))
        await memory.aput(said(f"an answer with some words {number}", "assistant"))
    active = [message.content for message in await memory.aget()]
    everything = [message.content for message in await memory.aget_all()]
    assert len(everything) == 20
    assert everything[-len(active) :] == active
    assert active[0] == f"a question with some words {10 - len(active) // 2}"
    assert 0 < len(active) < 10


async def test_an_agent_with_a_tool_is_continued_by_another_worker(
    memories: FrontdeskMemoryStore, sync_manager: sync.SessionManager
) -> None:
    script = Script(CALL, said("Sunny.", "assistant"), said("Bye.", "assistant"))
    for words in ("Weather in Lima?", "Thanks"):
        store = FrontdeskMemoryStore(sync_manager, agent="guide")
        agent = FunctionAgent(tools=[weather], llm=script.model(), streaming=False)
        await agent.run(words, memory=Memory.from_defaults(session_id="ana", chat_store=store))
    assert [message.role.value for message in script.sent[-1]] == ["user", "assistant", "tool", "assistant", "user"]
    messages = memories.conversation("ana").history()
    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert messages[1].tool_call_ids == messages[2].tool_result_ids == ("c1",)


def test_a_memory_can_be_used_without_an_event_loop(memories: FrontdeskMemoryStore) -> None:
    memory = Memory.from_defaults(session_id="ana", chat_store=memories, chat_history=[said("hi")])
    memory.put(said("hello", "assistant"))
    assert memory.get() == [said("hi"), said("hello", "assistant")]


async def test_active_messages_keep_summaries_and_never_begin_with_a_result_without_its_call(
    memories: FrontdeskMemoryStore,
) -> None:
    await memories.add_messages("ana", [said("Weather?"), CALL, RESULT, said("Sunny.", "assistant"), said("Thanks")])
    await memories.archive_oldest_messages("ana", 2)
    assert await memories.get_messages("ana") == [said("Sunny.", "assistant"), said("Thanks")]
    conversation = memories.conversation("ana")
    ids = [message.id for message in conversation.transcript()]
    await asyncio.to_thread(conversation.add_compaction, "It is sunny.", ids[0], ids[3])
    active = await memories.get_messages("ana")
    assert len(active) == 2
    assert "It is sunny." in str(active[0].content)
    assert await memories.archive_oldest_messages("ana", 1) == active[:1]
    assert await memories.get_messages("ana") == [said("Thanks")]
    with pytest.raises(InvalidInputError):
        await memories.add_message("ana", said("old"), MessageStatus.ARCHIVED)
    assert await memories.delete_message("ana", 3) == said("Sunny.", "assistant")
    assert await memories.get_messages("ana", MessageStatus.ARCHIVED) == [said("Weather?"), CALL, RESULT]
    assert await memories.delete_message("ana", 9) is None


async def test_a_conversation_of_another_framework_is_continued(memories: FrontdeskMemoryStore) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "/wA="}}
    calls = [{"type": "tool_use", "id": f"t{n}", "name": "weather", "input": {"city": "Lima"}} for n in range(2)]
    results = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": "sunny"} for n in range(2)]
    memories.conversation("ana").append_all(
        [
            {"role": "user", "content": [{"type": "text", "text": "Weather?"}, image]},
            {"role": "assistant", "content": calls},
            {"role": "user", "content": results},
            {"role": "assistant", "content": "Sunny."},
        ]
    )
    script = Script(said("Yes.", "assistant"))
    agent = FunctionAgent(tools=[weather], llm=script.model(), streaming=False)
    await agent.run("Sure?", memory=Memory.from_defaults(session_id="ana", chat_store=memories))
    (sent,) = script.sent
    roles = [message.role.value for message in sent]
    assert roles == ["user", "assistant", "tool", "tool", "assistant", "user"]
    assert [block.block_type for block in sent[0].blocks] == ["text", "image"]
    assert [message.additional_kwargs.get("tool_call_id") for message in sent[2:4]] == ["t0", "t1"]


async def test_what_comes_with_results_of_tools_is_not_read_as_a_result(memories: FrontdeskMemoryStore) -> None:
    retry = {"part_kind": "retry-prompt", "content": "Shorter.", "tool_name": None, "tool_call_id": "r1"}
    memories.conversation("ana").append_all(
        [
            {
                "kind": "response",
                "parts": [{"part_kind": "tool-call", "tool_name": "f", "args": {}, "tool_call_id": "c"}],
            },
            {
                "kind": "request",
                "parts": [{"part_kind": "tool-return", "tool_name": "f", "content": "1", "tool_call_id": "c"}, retry],
            },
        ]
    )
    found = await memories.get_messages("ana")
    assert [(message.role.value, message.content) for message in found[1:]] == [("tool", "1"), ("user", "Shorter.")]


async def test_a_call_of_another_framework_without_a_result_is_left_out(memories: FrontdeskMemoryStore) -> None:
    def call(id: str) -> dict[str, Any]:
        return {"type": "tool_use", "id": id, "name": "weather", "input": {"city": "Lima"}}

    text = {"type": "text", "text": "I look it up."}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "sunny"}
    stored = memories.conversation("ana").append_all(
        [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": [text, call("t0")]},
            {"role": "user", "content": "Again, please."},
            {"role": "assistant", "content": [call("t1"), call("t2")]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": [call("t3")]},
            {"role": "user", "content": "Hello?"},
        ]
    )
    found = await memories.get_messages("ana")
    calls = [
        (block.tool_call_id, number)
        for number, message in enumerate(found)
        for block in message.blocks
        if isinstance(block, ToolCallBlock)
    ]
    assert calls == [("t1", 3)]
    contents = [found[number].content for number in (1, 4, 5)]
    assert contents == ["I look it up.", "sunny", "(no text)"]
    assert await memories.get_messages("ana", status=None) == found
    assert await memories.delete_message("ana", 5) == found[5]
    assert [message.id for message in memories.conversation("ana").history()] == [
        one.message.id for number, one in enumerate(stored) if number != 5
    ]
    assert await memories.archive_oldest_messages("ana", 2) == found[:2]
    assert await memories.get_messages("ana") == [*found[2:5], found[6]]


def test_positions_stay_if_a_call_of_another_framework_is_left_out(chats: FrontdeskChatStore) -> None:
    call = {"type": "tool_use", "id": "t0", "name": "weather", "input": {}}
    chats.conversation("ana").append_all(
        [{"role": "assistant", "content": [call]}, {"role": "user", "content": "Hello?"}]
    )
    chats.add_message("ana", CALL)
    found = chats.get_messages("ana")
    assert found == [said("(no text)", "assistant"), said("Hello?"), CALL]
    assert chats.delete_last_message("ana") == CALL
    assert chats.delete_message("ana", 1) == found[1]
    assert chats.get_messages("ana") == found[:1]
    assert chats.delete_messages("ana") == found[:1]
