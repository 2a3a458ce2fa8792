"""What `prepare` returns is accepted by the providers: the official packages send it over real HTTP to a server that
validates as strictly as they do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import anthropic
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frontdesk import InvalidRangeError, Session, SessionManager
from frontdesk.messages.formats import Notes
from tests.mixed_histories import Raw, call, chat_result, histories, said
from tests.models.scripted_server import Answer, ScriptedServer, ToolCall
from tests.models.strict.openai_chat import check_template

FORMATS = ["openai", "openai-responses", "anthropic"]


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        running.otherwise = Answer("Yes.")
        yield running


class Clients:
    """The official packages, connected to the scripted server."""

    def __init__(self, server: ScriptedServer) -> None:
        self.openai = openai.AsyncOpenAI(base_url=server.openai_url, api_key="key", max_retries=0)
        self.anthropic = anthropic.AsyncAnthropic(base_url=server.anthropic_url, api_key="key", max_retries=0)

    async def __aenter__(self) -> Clients:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.openai.close()
        await self.anthropic.close()

    async def send(self, session: Session, format: str, **options: Any) -> Any:
        """The answer to a request that is sent as the documents show it."""
        match format:
            case "openai":
                return await self.openai.chat.completions.create(
                    model="m", **await session.prepare("openai", **options)
                )
            case "openai-responses":
                return await self.openai.responses.create(
                    model="m", **await session.prepare("openai-responses", **options)
                )
        return await self.anthropic.messages.create(
            model="m", max_tokens=9, **await session.prepare("anthropic", **options)
        )


@pytest.fixture
async def clients(server: ScriptedServer) -> AsyncIterator[Clients]:
    async with Clients(server) as clients:
        yield clients


@pytest.fixture(scope="module")
def connected(server: ScriptedServer) -> Iterator[tuple[asyncio.Runner, Clients]]:
    """One event loop with its clients for all examples of a property test."""
    with asyncio.Runner() as runner:
        clients = Clients(server)
        yield runner, clients
        runner.run(clients.__aexit__())


def desk() -> SessionManager:
    return SessionManager("memory://").with_context("memory", default_content="Likes tea.").with_cached_prompt()


# random conversations

changes = st.sampled_from(["none", "pending", "appended", "outdated"])


async def build(session: Session, raws: list[Raw], covered: tuple[int, int], change: str) -> None:
    """A conversation with a summary over a part of it, and with changes of its context."""
    await session.freeze_system_prompt()
    await session.append_all([*raws, said("user", "and now?")])
    stored = [message.id async for message in session.transcript()]
    first, last = (min(each, len(stored) - 1) for each in sorted(covered))
    if first < last:
        with suppress(InvalidRangeError):  # nothing but leading system messages, which stay
            await session.add_compaction("They met. </conversation_summary>", stored[first], stored[last - 1])
    if change != "none":
        await session.freeze_system_prompt()
        await session.replace_context_block("memory", "Likes coffee.")
    if change in ("appended", "outdated"):
        await session.append(await session.context_changes() or {})
    if change == "outdated":
        await session.refresh_system_prompt()


@settings(max_examples=100)
@given(
    raws=histories,
    covered=st.tuples(st.integers(0, 10), st.integers(0, 10)),
    change=changes,
    notes=st.sampled_from(["user", "system"]),
    alternate=st.booleans(),
    cache=st.booleans(),
)
def test_any_conversation_is_accepted_by_every_provider(
    connected: tuple[asyncio.Runner, Clients],
    raws: list[Raw],
    covered: tuple[int, int],
    change: str,
    notes: Notes,
    alternate: bool,
    cache: bool,
) -> None:
    runner, clients = connected

    async def run() -> None:
        async with desk() as manager:
            session = manager.session("s")
            await build(session, raws, covered, change)
            options: dict[str, Any] = {"notes": "user" if alternate else notes, "alternate": alternate, "cache": cache}
            for format in FORMATS:
                await clients.send(session, format, **options)
            if alternate:
                request: Any = await session.prepare("openai", **options)
                check_template(request["messages"])

    runner.run(run())


# an agent that uses tools


@pytest.mark.parametrize("format", FORMATS)
async def test_an_agent_writes_to_its_memory_and_goes_on(server: ScriptedServer, clients: Clients, format: str) -> None:
    """The answers of the packages are appended as they are, and the next request contains them."""
    server.script(
        Answer("A moment.", tool_calls=(ToolCall("c1", "update_context", {"label": "memory", "content": "Tea."}),)),
        Answer("", tool_calls=(ToolCall("c2", "update_context", {"label": "nothing"}),)),
        Answer("Noted."),
    )
    async with desk() as manager:
        session = manager.session("s")
        await session.append(said("user", "Remember that I like tea."))
        tools = await session.tools()
        for _ in range(3):
            answer = await clients.send(session, format)
            await session.append_all(answered(answer, format))
            for id, name, arguments in called(answer, format):
                await session.append(result(id, await tools[name].call(arguments), format))
        assert (await session.history())[-1].text == "Noted."
        assert (await session.context_block("memory")).content == "Tea."
        final = server.requests[-1].body
        assert "Written to memory." in json.dumps(final)
        assert "is missing; it must be" in json.dumps(final)
    assert server.refused == []


def answered(answer: Any, format: str) -> list[Any]:
    if format == "openai":
        return [answer.choices[0].message]
    return list(answer.output) if format == "openai-responses" else [answer]


def called(answer: Any, format: str) -> list[tuple[str, str, Any]]:
    if format == "openai":
        calls = answer.choices[0].message.tool_calls or []
        return [(call.id, call.function.name, call.function.arguments) for call in calls]
    if format == "openai-responses":
        return [(item.call_id, item.name, item.arguments) for item in answer.output if item.type == "function_call"]
    return [(block.id, block.name, block.input) for block in answer.content if block.type == "tool_use"]


def result(id: str, text: str, format: str) -> Raw:
    if format == "openai":
        return chat_result(id, text)
    if format == "openai-responses":
        return {"type": "function_call_output", "call_id": id, "output": text}
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text}]}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("written", FORMATS)
async def test_a_conversation_goes_on_with_another_provider(
    server: ScriptedServer, clients: Clients, written: str, format: str
) -> None:
    server.script(Answer("Looking.", tool_calls=(ToolCall("call-one", "look", {"q": 1}),)), Answer("It is so."))
    async with desk() as manager:
        session = manager.session("s")
        await session.append(said("user", "What is it?"))
        answer = await clients.send(session, written)
        await session.append_all([*answered(answer, written), result("call-one", "found it", written)])
        await session.append_all(answered(await clients.send(session, written), written))
        await session.append(said("user", "Sure?") | {"author": "Ana Maria"})
        await clients.send(session, format)
    sent = json.dumps(server.requests[-1].body)
    places = [sent.index(text) for text in ("What is it?", "Looking.", "call-one", "found it", "It is so.")]
    assert places == sorted(places)
    assert "Ana Maria: Sure?" in sent
    assert server.refused == []


@pytest.mark.parametrize("format", FORMATS)
async def test_a_summary_and_authors_are_sent(server: ScriptedServer, clients: Clients, format: str) -> None:
    async with desk() as manager:
        session = manager.session("group")
        raws = [said("user", f"text {number}") | {"id": f"m{number}", "name": f"guest{number}"} for number in range(4)]
        await session.append_all(raws)
        await session.append_all([said("assistant", "Looking.") | {"tool_calls": [call("c1")]}, chat_result("c1")])
        await session.add_compaction("They met.", "m0", "m1")
        await clients.send(session, format)
    sent = json.dumps(server.requests[-1].body)
    assert "They met." in sent
    assert ('"name": "guest3"' in sent) if format == "openai" else ("guest3: text 3" in sent)
    assert server.refused == []
