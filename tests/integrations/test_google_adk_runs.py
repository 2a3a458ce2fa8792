"""`FrontdeskSessionService` in real runs of ADK's `Runner`, whose model is a scripted server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.apps import App
from google.adk.models.anthropic_llm import AnthropicLlm
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, InMemorySessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.tools.tool_context import ToolContext
from google.genai.types import Content, Part

from frontdesk import SessionKey, SessionManager
from frontdesk.integrations.google_adk import FrontdeskSessionService
from tests.models.scripted_server import Answer, ScriptedServer, ToolCall

ANA: dict[str, Any] = {"user_id": "ana", "session_id": "s1"}


def remember_city(city: str, tool_context: ToolContext) -> dict[str, str]:
    """Remember where the user is."""
    tool_context.state["city"] = city
    tool_context.state["user:home"] = city
    tool_context.state["temp:draft"] = city
    return {"result": f"{city} is noted"}


@pytest.fixture
async def model(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AnthropicLlm]:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.anthropic_url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
    model = AnthropicLlm(model="claude-sonnet-5")
    yield model
    await model._anthropic_client.close()
    assert server.refused == []


def runner_of(model: AnthropicLlm, service: BaseSessionService) -> Runner:
    agent = LlmAgent(name="guide", model=model, instruction="You are a guide.", tools=[remember_city])
    app = App(name="trips", root_agent=agent)
    return Runner(app=app, session_service=service, auto_create_session=True)


async def say(runner: Runner, text: str, config: RunConfig | None = None) -> str:
    """The invocation in which the agent answers a text."""
    invocation = ""
    message = Content(role="user", parts=[Part(text=text)])
    async for event in runner.run_async(**ANA, new_message=message, run_config=config):
        invocation = event.invocation_id
    return invocation


async def load(service: BaseSessionService) -> Session:
    session = await service.get_session(app_name="trips", **ANA)
    assert session is not None
    return session


def note(city: str) -> Answer:
    return Answer(tool_calls=(ToolCall(f"toolu_{city}", "remember_city", {"city": city}),))


def sent_texts(server: ScriptedServer) -> list[str]:
    """What the last request contained, from each message its first text or its kind."""
    texts = []
    for message in server.requests[-1].body["messages"]:
        content = message["content"]
        block = {"text": content} if isinstance(content, str) else content[0]
        texts.append(str(block.get("text", block.get("type"))))
    return texts


async def test_a_run_with_a_tool_is_stored_and_another_worker_continues(
    manager: SessionManager, server: ScriptedServer, model: AnthropicLlm
) -> None:
    server.script(note("Lima"), Answer("Noted."), Answer("In Lima."))
    await say(runner_of(model, FrontdeskSessionService(manager)), "I am in Lima.")
    service = FrontdeskSessionService(manager)
    await say(runner_of(model, service), "Where am I?")
    assert sent_texts(server) == ["I am in Lima.", "tool_use", "tool_result", "Noted.", "Where am I?"]
    session = await load(service)
    assert session.state == {"city": "Lima", "user:home": "Lima"}
    roles = [message.role for message in await service.conversation(session).history()]
    assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert await service.get_user_state(app_name="trips", user_id="ana") == {"home": "Lima"}


async def test_a_rewind_takes_back_state_and_words_as_with_the_service_of_adk(
    manager: SessionManager, server: ScriptedServer, model: AnthropicLlm
) -> None:
    sent, states = [], []
    service = FrontdeskSessionService(manager)
    for used in (InMemorySessionService(), service):
        server.script(note("Lima"), Answer("Noted."), note("Rome"), Answer("Moved."), Answer("In Lima."))
        runner = runner_of(model, used)
        await say(runner, "I am in Lima.")
        moved = await say(runner, "I am in Rome.")
        await runner.rewind_async(**ANA, rewind_before_invocation_id=moved)
        await say(runner, "Where am I?")
        sent.append(sent_texts(server))
        states.append((await load(used)).state)
    assert sent[0] == sent[1] == ["I am in Lima.", "tool_use", "tool_result", "Noted.", "Where am I?"]
    assert states[0] == states[1]
    assert states[1]["city"] == "Lima"
    conversation = service.conversation(await load(service))
    assert "Rome" not in "".join(message.text for message in await conversation.history())
    assert [leaf.text for leaf in await conversation.leaves()] == ["Moved.", "In Lima."]


async def test_the_first_invocation_can_be_rewound(
    manager: SessionManager, server: ScriptedServer, model: AnthropicLlm
) -> None:
    server.script(note("Lima"), Answer("Noted."), Answer("No idea."))
    service = FrontdeskSessionService(manager)
    runner = runner_of(model, service)
    first = await say(runner, "I am in Lima.")
    await runner.rewind_async(**ANA, rewind_before_invocation_id=first)
    assert (await load(service)).state.get("city") is None
    await say(runner, "Where am I?")
    assert sent_texts(server) == ["Where am I?"]


async def test_a_summary_of_frontdesk_replaces_what_it_covers_in_the_next_request(
    manager: SessionManager, server: ScriptedServer, model: AnthropicLlm
) -> None:
    server.script(note("Lima"), Answer("Noted."), Answer("Yes."), Answer("Still."), Answer("Short."))
    service = FrontdeskSessionService(manager)
    runner = runner_of(model, service)
    await say(runner, "I am in Lima.")
    await say(runner, "Is it sunny?")
    session = await load(service)
    conversation = service.conversation(session)
    made = await conversation.add_compaction("Ana is in Lima.", session.events[0].id, session.events[2].id)
    await say(runner, "Where am I?")
    whole = sent_texts(server)
    assert [text for text in whole if "Lima" in text or "tool" in text] == [whole[0]]
    assert "Ana is in Lima." in str(server.requests[-1].body)
    assert whole[1:] == ["Noted.", "Is it sunny?", "Yes.", "Where am I?"]

    few = RunConfig(get_session_config=GetSessionConfig(num_recent_events=20))
    await say(runner, "And now?", few)
    assert sent_texts(server) == [*whole, "Still.", "And now?"]

    await conversation.undo_compaction(made.id)
    assert (await load(service)).state["city"] == "Lima"
    server.script(Answer("Long."))
    await say(runner, "Again?")
    assert sent_texts(server)[:4] == ["I am in Lima.", "tool_use", "tool_result", "Noted."]


async def test_a_conversation_of_another_framework_is_continued(
    manager: SessionManager, server: ScriptedServer, model: AnthropicLlm
) -> None:
    begun = manager.session(SessionKey("guide", "adk", "ana", "s1"))
    arguments = '{"city": "Lima"}'
    call = {"id": "call_1", "type": "function", "function": {"name": "remember_city", "arguments": arguments}}
    await begun.append_all(
        [
            {"role": "user", "content": "I am in Lima."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "Lima is noted"},
            {"role": "assistant", "content": "Noted."},
        ]
    )
    server.script(Answer("In Lima."), Answer("Yes."))
    service = FrontdeskSessionService(manager)
    agent = LlmAgent(name="guide", model=model, instruction="You are a guide.", tools=[remember_city])
    runner = Runner(app_name="guide", agent=agent, session_service=service)
    await say(runner, "Where am I?")
    assert sent_texts(server) == ["I am in Lima.", "tool_use", "tool_result", "Noted.", "Where am I?"]
    await say(runner, "Sure?", RunConfig(get_session_config=GetSessionConfig(num_recent_events=2)))
    assert sent_texts(server) == ["Where am I?", "In Lima.", "Sure?"]
    assert [message["role"] for message in await begun.history(format="openai")][-2:] == ["user", "assistant"]
