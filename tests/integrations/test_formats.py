"""What the formats of frameworks and providers read and write, checked by the official packages' own types."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types import MessageParam
from google.adk.events.event import Event
from google.genai.types import Content
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.ui.vercel_ai.request_types import UIMessage

from frontdesk import FilePart as File
from frontdesk import Message, MessageFormat, ReasoningPart, SessionManager, convert
from frontdesk import TextPart as Text
from frontdesk import ToolCallPart as Call
from frontdesk import ToolResultPart as Result
from frontdesk.messages.formats import render

_FORMATS: tuple[MessageFormat, ...] = (
    "openai",
    "openai-responses",
    "anthropic",
    "gemini",
    "pydantic-ai",
    "adk",
    "ui",
)
_VALIDATORS: dict[str, Any] = {
    "openai": TypeAdapter(list[ChatCompletionMessageParam]).validate_python,
    "openai-responses": TypeAdapter(list[ResponseInputItemParam]).validate_python,
    "anthropic": TypeAdapter(list[MessageParam]).validate_python,
    "gemini": TypeAdapter(list[Content]).validate_python,
    "pydantic-ai": ModelMessagesTypeAdapter.validate_python,
    "adk": TypeAdapter(list[Event]).validate_python,
    "ui": TypeAdapter(list[UIMessage]).validate_python,
}

_words = st.text("abc äß世 .,\n", min_size=1, max_size=20).map(str.strip).filter(bool)
_arguments = st.dictionaries(st.sampled_from("abc"), st.integers() | _words, max_size=2)


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Requests of a user, each with rounds of tool calls and an answer, in Frontdesk's own format."""
    messages: list[dict[str, Any]] = []
    number = 0
    for _ in range(draw(st.integers(1, 4))):
        messages.append({"role": "user", "content": draw(_words)})
        for _ in range(draw(st.integers(0, 2))):
            calls, results = [], []
            for _ in range(draw(st.integers(1, 3))):
                number += 1
                calls.append(
                    {"type": "tool-call", "id": f"call_{number}", "name": "tool", "arguments": draw(_arguments)}
                )
                results.append({"type": "tool-result", "call_id": f"call_{number}", "content": draw(_words)})
            spoken = [{"type": "text", "text": draw(_words)}] if draw(st.booleans()) else []
            messages += [{"role": "assistant", "content": [*spoken, *calls]}, {"role": "tool", "content": results}]
        messages.append({"role": "assistant", "content": draw(_words)})
    return messages


def _said(messages: list[Message]) -> list[tuple[Any, ...]]:
    """Everything that was said and done, in order, without how it is divided into messages."""
    said: list[tuple[Any, ...]] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, Text):
                said.append(("user" if message.role == "user" else "assistant", part.text))
            elif isinstance(part, Call):
                said.append(("call", part.id, part.name, part.arguments))
            elif isinstance(part, Result):
                said.append(("result", part.call_id, part.content))
    # UIMessages have each result with its call; elsewhere all results follow all calls.
    return [each for each in said if each[0] != "result"] + [each for each in said if each[0] == "result"]


async def _stored(manager: SessionManager, raws: list[Any]) -> list[Message]:
    session = manager.session("chat")
    await session.clear_messages()
    await session.append_all(raws)
    return await session.history()


@given(conversations(), st.permutations(_FORMATS))
async def test_a_conversation_survives_the_way_through_all_formats(
    raws: list[dict[str, Any]], order: list[str]
) -> None:
    async with SessionManager("memory://") as manager:
        messages = await _stored(manager, raws)
        said = _said(messages)
        for format in order:
            written = json.loads(json.dumps(render(messages, format)))
            _VALIDATORS[format](written)
            messages = await _stored(manager, [{**raw, "id": None} if format == "ui" else raw for raw in written])
            assert _said(messages) == said, format


_data = st.dictionaries(st.sampled_from("ab"), st.integers(), min_size=1)
_user_parts = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, _words),
    st.just({"type": "file", "media_type": "image/png", "data": "cG5n"}),
    st.just({"type": "file", "media_type": "image/jpeg", "url": "https://x.test/a.jpg"}),
    st.builds(lambda data: {"type": "data", "data_type": "chart", "data": data}, _data),
)
_model_parts = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, _words),
    st.builds(lambda text, sign: {"type": "reasoning", "text": text, "signature": sign}, _words, _words),
    st.builds(lambda data: {"type": "data", "data_type": "chart", "data": data}, _data),
)


@st.composite
def rich_conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Conversations with everything that some format cannot hold."""
    messages: list[dict[str, Any]] = []
    for raw in draw(conversations()):
        if raw["role"] == "user":
            raw = {**raw, "content": [{"type": "text", "text": "?"}, *draw(st.lists(_user_parts, max_size=3))]}
            raw |= {"metadata": draw(_data)} if draw(st.booleans()) else {}
        elif isinstance(raw["content"], str):
            raw = {**raw, "content": [*draw(st.lists(_model_parts, max_size=3)), {"type": "text", "text": "!"}]}
        messages.append({**raw, "id": f"m{len(messages)}"})
        if draw(st.integers(0, 5)) == 0:
            messages.append({"id": f"m{len(messages)}", "role": "system", "content": draw(_words)})
    return messages


@given(rich_conversations(), st.sampled_from(_FORMATS))
async def test_what_a_format_does_not_hold_is_reported(raws: list[dict[str, Any]], format: MessageFormat) -> None:
    converted = convert(raws, format)
    written = json.loads(json.dumps(converted.messages))
    _VALIDATORS[format](written)
    async with SessionManager("memory://") as manager:
        before = await _stored(manager, raws)
        after = await _stored(manager, [{**raw, "id": None} if format == "ui" else raw for raw in written])
    held = [part for message in after for part in message.parts]
    reasoning = {part.text for part in held if isinstance(part, ReasoningPart)}
    files = {part.data or part.url for part in held if isinstance(part, File)}
    expected: set[tuple[str, str, int | None]] = set()
    for message in before:
        for index, part in enumerate(message.parts):
            if isinstance(part, ReasoningPart) and part.text not in reasoning:
                expected.add((message.id, "reasoning", index))
            elif isinstance(part, File) and (part.data or part.url) not in files:
                expected.add((message.id, "file", index))
        if message.metadata and not any(raw.get("metadata") == message.metadata for raw in written):
            expected.add((message.id, "metadata", None))
    reported = {(loss.message_id, loss.kind, loss.part) for loss in converted.losses}
    assert {each for each in reported if each[1] in ("reasoning", "file", "metadata")} == expected
    # What was said and done is in every format.
    assert not {each for each in reported if each[1] in ("text", "tool-call", "tool-result")}


async def test_model_messages_of_pydantic_ai_are_read_and_come_back_unchanged() -> None:
    given: list[ModelMessage] = [
        ModelRequest(parts=[SystemPromptPart("Be brief."), UserPromptPart("Weather?")]),
        ModelResponse(
            parts=[
                ThinkingPart("hm", signature="sig", provider_name="anthropic"),
                TextPart("I look."),
                ToolCallPart("weather", {"city": "Lima"}, "c1"),
            ],
            model_name="claude-test",
        ),
        ModelRequest(parts=[ToolReturnPart("weather", {"sky": "clear"}, "c1")]),
        ModelResponse(parts=[TextPart("Clear.")]),
        ModelRequest(
            parts=[
                UserPromptPart(
                    ["And here?", ImageUrl("https://x.test/a.png"), BinaryContent(b"png", media_type="image/png")]
                )
            ]
        ),
    ]
    dumped = json.loads(ModelMessagesTypeAdapter.dump_json(given))
    async with SessionManager("memory://") as manager:
        messages = await _stored(manager, dumped)
    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert [message.text for message in messages] == ["Weather?", "I look.", "", "Clear.", "And here?"]
    assert messages[1].tool_call_ids == messages[2].tool_result_ids == ("c1",)
    files = [part for part in messages[4].parts if isinstance(part, File)]
    assert [file.url or file.data for file in files] == ["https://x.test/a.png", "cG5n"]
    # What Pydantic AI is given is what it wrote.
    assert render(messages, "pydantic-ai") == dumped
    assert json.loads(ModelMessagesTypeAdapter.dump_json(ModelMessagesTypeAdapter.validate_python(dumped))) == dumped


async def test_a_call_that_the_provider_ran_itself_comes_back_to_pydantic_ai_unchanged() -> None:
    given: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart("Weather?")]),
        ModelResponse(
            parts=[
                ThinkingPart("hm", signature="sig", provider_name="anthropic"),
                NativeToolCallPart("web_search", {"query": "Lima"}, "srv_1", provider_name="anthropic"),
                NativeToolReturnPart("web_search", [{"title": "Clear"}], "srv_1", provider_name="anthropic"),
                TextPart("Clear."),
            ]
        ),
        ModelRequest(parts=[UserPromptPart("And tomorrow?")]),
    ]
    dumped = json.loads(ModelMessagesTypeAdapter.dump_json(given))
    async with SessionManager("memory://") as manager:
        assert render(await _stored(manager, dumped), "pydantic-ai") == dumped
        mixed = await _stored(manager, [*dumped, {"role": "assistant", "content": "Rain."}])
    assert render(mixed, "pydantic-ai")[:3] == dumped
    assert [message["role"] for message in render(mixed, "openai")] == ["user", "assistant", "user", "assistant"]


async def test_a_call_of_pydantic_ai_without_its_result_gets_one() -> None:
    given: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart("Go")]),
        ModelResponse(parts=[ToolCallPart("run", {}, "c1")]),
    ]
    async with SessionManager("memory://") as manager:
        messages = await _stored(manager, json.loads(ModelMessagesTypeAdapter.dump_json(given)))
    *_, last = ModelMessagesTypeAdapter.validate_python(render(messages, "pydantic-ai"))
    assert isinstance(last, ModelRequest)
    (part,) = last.parts
    assert isinstance(part, ToolReturnPart)
    assert part.tool_call_id == "c1"


@pytest.mark.parametrize("by_alias", [True, False])
async def test_gemini_contents_are_read_in_both_spellings(by_alias: bool) -> None:
    contents = [
        Content.model_validate({"role": "user", "parts": [{"text": "Weather?"}]}),
        Content.model_validate(
            {
                "role": "model",
                "parts": [
                    {"text": "hm", "thought": True},
                    {"functionCall": {"name": "weather", "args": {"city": "Lima"}}},
                ],
            }
        ),
        Content.model_validate(
            {"role": "user", "parts": [{"functionResponse": {"name": "weather", "response": {"output": "clear"}}}]}
        ),
    ]
    dumped = [content.model_dump(mode="json", by_alias=by_alias, exclude_none=True) for content in contents]
    async with SessionManager("memory://") as manager:
        messages = await _stored(manager, dumped)
    assert [message.role for message in messages] == ["user", "assistant", "tool"]
    assert [message.raw for message in messages] == dumped
    assert messages[1].tool_call_ids == messages[2].tool_result_ids
    assert [part.content for part in messages[2].parts if isinstance(part, Result)] == ["clear"]
    (*_, result) = render(messages, "openai")
    assert result["role"] == "tool"
    assert result["content"] == "clear"
