"""The chat bot of the recipes answers, calls tools, remembers its guests, and keeps what it said when it is cut off."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import openai
import pytest

from frontdesk import Message, SessionKey, SessionManager
from tests.models.scripted_server import Answer, Interrupted, ScriptedServer, ToolCall, overflow
from tests.models.steps import Request, Step

ANA, BEN = SessionKey("concierge", "web", "ana"), SessionKey("concierge", "web", "ben")


@pytest.fixture
def bot(provider: ScriptedServer) -> ModuleType:
    return import_module("chat_bot")


@pytest.fixture
async def client(provider: ScriptedServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(max_retries=0) as client:
        yield client


@pytest.fixture
async def manager(bot: ModuleType, tmp_path: Path) -> AsyncIterator[SessionManager]:
    manager: SessionManager = bot.open_manager(f"sqlite:///{tmp_path}/chat.db")
    async with manager:
        yield manager


async def say(bot: ModuleType, manager: SessionManager, client: Any, key: SessionKey, text: str) -> str:
    return "".join([piece async for piece in bot.answer(manager.session(key), client, text)])


async def said(manager: SessionManager, key: SessionKey) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in await manager.session(key).history()]


def asked(provider: ScriptedServer, question: str) -> Request:
    """The request for an answer to a question. The models that summarise and extract have requests of their own."""
    found = [request for request in provider.requests if request.body["messages"][-1]["content"] == question]
    return found[-1]


def system_of(request: Request) -> str:
    first = request.body["messages"][0]
    assert first["role"] == "system"
    return str(first["content"])


async def test_an_answer_is_streamed_and_stored_once(
    bot: ModuleType, manager: SessionManager, client: openai.AsyncOpenAI, provider: ScriptedServer
) -> None:
    provider.script(Answer("The breakfast is from seven to ten."))
    assert await say(bot, manager, client, ANA, "When is breakfast?") == "The breakfast is from seven to ten."
    assert await said(manager, ANA) == [
        ("user", "When is breakfast?"),
        ("assistant", "The breakfast is from seven to ten."),
    ]
    assert "You are the concierge of a small hotel." in system_of(asked(provider, "When is breakfast?"))


async def test_memory_that_the_model_writes_survives_new_and_belongs_to_the_guest(
    bot: ModuleType, manager: SessionManager, client: openai.AsyncOpenAI, provider: ScriptedServer
) -> None:
    note = ToolCall("call_1", "update_context", {"label": "memory", "content": "Ana is a vegetarian."})
    provider.script(Answer(tool_calls=(note, ToolCall("call_2", "burn"))))
    provider.otherwise = Answer("I will remember that.")
    assert await say(bot, manager, client, ANA, "I am a vegetarian.") == "I will remember that."
    roles = [message.role for message in await manager.session(ANA).history()]
    assert roles == ["user", "assistant", "tool", "tool", "assistant"]

    await manager.new(ANA)
    provider.otherwise = Answer("NO_MEMORY_NEEDED")
    await say(bot, manager, client, ANA, "What shall I eat?")
    assert "Ana is a vegetarian." in system_of(asked(provider, "What shall I eat?"))
    await say(bot, manager, client, BEN, "And what shall I eat?")
    assert "vegetarian" not in str(asked(provider, "And what shall I eat?").body)


@pytest.mark.parametrize("how", ["reset", "error"])
async def test_an_answer_that_is_cut_off_is_kept_as_far_as_it_was_shown(
    bot: ModuleType, manager: SessionManager, client: openai.AsyncOpenAI, provider: ScriptedServer, how: Any
) -> None:
    provider.script(Interrupted("The pool is on the roof", how=how))
    shown, failure = "", None
    try:
        async for piece in bot.answer(manager.session(ANA), client, "Where is the pool?"):
            shown += piece
    except Exception as error:  # what the package raises depends on how the connection ends
        failure = error
    assert failure is not None
    last: Message = (await manager.session(ANA).history())[-1]
    assert shown
    assert (last.role, last.text, last.metadata) == ("assistant", shown, {"cut_off": True})

    provider.script(Answer("On the roof."))
    assert await say(bot, manager, client, ANA, "Sorry, where?") == "On the roof."


async def test_a_guest_who_leaves_in_the_middle_leaves_what_was_shown(
    bot: ModuleType, manager: SessionManager, client: openai.AsyncOpenAI, provider: ScriptedServer
) -> None:
    provider.script(Answer("A long answer about everything there is."))
    pieces = bot.answer(manager.session(ANA), client, "Tell me everything.")
    shown = await anext(pieces)
    await pieces.aclose()
    assert (await said(manager, ANA))[-1] == ("assistant", shown)
    provider.script(Answer("Of course."))
    assert await say(bot, manager, client, ANA, "Shorter, please.") == "Of course."


async def test_a_context_that_is_too_long_is_compacted_and_sent_again(
    bot: ModuleType, manager: SessionManager, client: openai.AsyncOpenAI, provider: ScriptedServer
) -> None:
    provider.otherwise = Answer("Noted.")
    for number in range(20):
        await say(bot, manager, client, ANA, f"Fact {number}: " + "the hotel has many rooms. " * 20)

    def refuse_once(request: Request) -> Step:
        provider.otherwise = Answer("Ana told many facts about rooms.")
        return overflow("openai", tokens=9_000, window=8_000)

    provider.script(refuse_once)
    assert await say(bot, manager, client, ANA, "How many rooms?") == "Ana told many facts about rooms."
    messages = await manager.session(ANA).history()
    assert any(message.is_summary for message in messages)
    assert messages[-2].text == "How many rooms?"
