"""The scripted server refuses what the providers refuse, with their error 400."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anthropic
import openai
import pytest

from tests.models.scripted_server import Answer, ScriptedServer, ToolCall
from tests.models.strict import RefusedError, validate

HI = {"role": "user", "content": "hi"}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CALLS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "42"}
USE = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
USED = {"type": "tool_result", "tool_use_id": "c1", "content": "42"}
TEXT = {"type": "text", "text": "hi"}
ITEM = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "42"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
CACHED = {"cache_control": {"type": "ephemeral"}}

CHAT = [
    ([], "too short"),
    ([{**HI, "latency_ms": 3}], "Extra inputs"),
    ([{**HI, "name": "Ana Maria"}], "pattern"),
    ([{"role": "user", "content": None}], "content"),
    ([{"role": "user", "content": []}], "too short"),
    ([{"role": "user", "content": [{**TEXT, **CACHED}]}], "Extra inputs"),
    ([{"role": "owl", "content": "hu"}], "role"),
    ([{"role": "function", "name": "look", "content": "x"}], "no longer supported"),
    ([{"role": "assistant", "content": None}], "expected content"),
    ([{**CALLS, "citations": None}, RESULT], "Extra inputs"),
    ([{**CALLS, "tool_calls": []}], "too short"),
    ([CALLS], "did not have response"),
    ([CALLS, HI, RESULT], "did not have response"),
    ([CALLS, RESULT, RESULT], "must be a response"),
    ([HI, RESULT], "must be a response"),
    ([{**CALLS, "tool_calls": [{**CALL, "id": "x" * 41}]}], "too long"),
    ([{**CALLS, "tool_calls": [CALL, CALL]}, RESULT], "duplicate"),
]
RESPONSES = [
    ([], "too short"),
    ([{**HI, "latency_ms": 3}], "Extra inputs"),
    ([{**HI, "content": ""}], "expected content"),
    ([ITEM], "No tool output found"),
    ([OUTPUT], "No tool call found"),
    ([OUTPUT, ITEM], "No tool call found"),
    ([ITEM, {**OUTPUT, "type": "custom_tool_call_output"}], "No tool call found"),
    ([{**ITEM, "id": "m1"}, OUTPUT], "begins with 'fc'"),
    ([{**ITEM, "name": "a.b"}, OUTPUT], "pattern"),
    ([REASONING, HI], "required following item"),
    ([REASONING, ITEM, OUTPUT, REASONING, ITEM, OUTPUT], "Duplicate item"),
    ([{"type": "poll"}], "input"),
]
CLAUDE = [
    ([], "at least one message"),
    ([{"role": "assistant", "content": "hi"}], "first message"),
    ([HI, HI], "alternate"),
    ([{"role": "system", "content": "x"}], "Unexpected role"),
    ([{**HI, "name": "ana"}], "Extra inputs"),
    ([{"role": "user", "content": " "}], "non-empty"),
    ([{"role": "user", "content": [{**TEXT, "text": " "}]}], "non-whitespace"),
    ([{"role": "user", "content": [{**TEXT, "latency_ms": 3}]}], "Extra inputs"),
    ([{"role": "user", "content": [{**TEXT, **CACHED}] * 5}], "maximum of 4"),
    ([HI, {"role": "assistant", "content": [USE]}], "without `tool_result`"),
    ([HI, {"role": "assistant", "content": [USE]}, HI], "immediately after"),
    ([HI, {"role": "assistant", "content": [USE]}, {"role": "user", "content": [TEXT, USED]}], "must come first"),
    ([{"role": "user", "content": [USED]}], "immediately after"),
    ([HI, {"role": "assistant", "content": [{**USE, "id": "a b"}]}], "match pattern"),
    ([HI, {"role": "assistant", "content": "so far "}], "trailing whitespace"),
]


@pytest.mark.parametrize(("messages", "problem"), CHAT)
def test_chat_completions_refuse(messages: list[Any], problem: str) -> None:
    with pytest.raises(RefusedError, match=problem):
        validate("/v1/chat/completions", {"model": "m", "messages": messages})


@pytest.mark.parametrize(("items", "problem"), RESPONSES)
def test_responses_refuse(items: list[Any], problem: str) -> None:
    with pytest.raises(RefusedError, match=problem):
        validate("/v1/responses", {"model": "m", "input": items})


@pytest.mark.parametrize(("messages", "problem"), CLAUDE)
def test_messages_refuse(messages: list[Any], problem: str) -> None:
    with pytest.raises(RefusedError, match=problem):
        validate("/v1/messages", {"model": "m", "max_tokens": 9, "messages": messages})


def test_valid_requests_are_accepted() -> None:
    validate("/v1/chat/completions", {"model": "m", "messages": [HI, CALLS, RESULT]})
    validate("/v1/responses", {"model": "m", "input": [HI, REASONING, ITEM, OUTPUT]})
    used: list[Any] = [HI, {"role": "assistant", "content": [USE]}, {"role": "user", "content": [USED, TEXT]}]
    validate("/v1/messages", {"model": "m", "max_tokens": 9, "messages": used})


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as running:
        yield running


async def test_the_packages_raise_the_providers_errors(server: ScriptedServer) -> None:
    server.script(Answer("never sent"))
    wrong: Any = [{**HI, "latency_ms": 3}]
    async with openai.AsyncOpenAI(base_url=server.openai_url, api_key="key", max_retries=0) as client:
        with pytest.raises(openai.BadRequestError) as refused:
            await client.chat.completions.create(model="m", messages=wrong)
        assert refused.value.param == "messages.[0]"
        assert refused.value.type == "invalid_request_error"
        with pytest.raises(openai.BadRequestError):
            await client.responses.create(model="m", input=wrong)
    async with anthropic.AsyncAnthropic(base_url=server.anthropic_url, api_key="key", max_retries=0) as claude:
        with pytest.raises(anthropic.BadRequestError, match=r"messages\.0"):
            await claude.messages.create(model="m", max_tokens=9, messages=wrong)
    assert (len(server.refused), server.requests, server.left) == (3, [], 1)


async def test_responses_are_answered_whole_and_streamed(server: ScriptedServer) -> None:
    answer = Answer("Paris, naturally.", tool_calls=(ToolCall("c1", "look", {"q": 1}),), reasoning=3)
    server.script(answer, answer)
    async with openai.AsyncOpenAI(base_url=server.openai_url, api_key="key", max_retries=0) as client:
        whole = await client.responses.create(model="m", input="hi")
        assert whole.output_text == "Paris, naturally."
        assert whole.output[1].type == "function_call"
        async with client.responses.stream(model="m", input="hi") as stream:
            kinds = [event.type async for event in stream]
            streamed = await stream.get_final_response()
    assert streamed.output_text == whole.output_text
    assert kinds.count("response.output_text.delta") == 3
    assert kinds[-1] == "response.completed"
