"""A tool never raises for what a model writes: its text says what is wrong and how to call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from anthropic.types import ToolParam
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionToolParam
from openai.types.responses import FunctionToolParam
from pydantic import TypeAdapter

from frontdesk import Tool
from frontdesk.errors import (
    BlockNotFoundError,
    BlockTooLargeError,
    CompactionNotFoundError,
    FrontdeskError,
    HeadMovedError,
    MessageNotFoundError,
    ReadonlyBlockError,
    SessionNotFoundError,
    StoreUnavailableError,
)
from frontdesk.tools import schema

PARAMETERS = schema(
    {"city": {"type": "string"}},
    {
        "days": {"type": "integer", "minimum": 1, "maximum": 7},
        "unit": {"type": "string", "enum": ["C", "F"]},
        "hours": {"type": "array", "items": {"type": "integer"}},
        "exact": {"type": "boolean"},
    },
)
USAGE = (
    'Call weather with a JSON object: {"city": a string, "days": a whole number from 1 to 7 (optional), "unit": one of'
    ' "C", "F" (optional), "hours": a list, each of it a whole number (optional), "exact": true or false (optional)}.'
)


def weather(failure: BaseException | None = None) -> Tool:
    async def run(**arguments: Any) -> str:
        if failure is not None:
            raise failure
        return f"sunny {arguments}"

    return Tool("weather", "The weather of a city.", PARAMETERS, run)


async def test_arguments_are_taken_as_the_model_wrote_them() -> None:
    tool = weather()
    expected = "sunny {'city': 'Rome'}"
    assert await tool(city="Rome") == expected
    assert await tool.call('{"city": "Rome"}') == expected
    assert await tool.call({"city": "Rome"}) == expected, "as Anthropic's package returns them"


@pytest.mark.parametrize("nothing", ["", "  ", None, "{}"])
async def test_no_arguments_at_all_are_an_empty_object(nothing: str | None) -> None:
    async def run() -> str:
        return "done"

    assert await Tool("ring", "Ring.", schema({}), run).call(nothing) == "done"
    answer = await weather().call(nothing)
    assert answer == f'Error: the argument "city" is missing; it must be a string. {USAGE}'


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"city": "Ro', "the arguments are not valid JSON."),
        ("[" * 100_000, "the arguments are not valid JSON."),
        ('["Rome"]', "the arguments must be one JSON object."),
        ('"Rome"', "the arguments must be one JSON object."),
        ("7", "the arguments must be one JSON object."),
        ('{"city": null}', 'the argument "city" is missing; it must be a string.'),
        ('{"city": 7}', 'the argument "city" is 7; it must be a string.'),
        ('{"city": "Rome", "self": 1}', 'there is no argument "self"; the arguments are "city", "days", "unit",'),
        ('{"city": "Rome", "days": true}', 'the argument "days" is true; it must be a whole number from 1 to 7.'),
        ('{"city": "Rome", "days": 8}', 'the argument "days" is 8; it must be a whole number from 1 to 7.'),
        ('{"city": "Rome", "unit": "K"}', 'the argument "unit" is "K"; it must be one of "C", "F".'),
        ('{"city": "Rome", "hours": ["1"]}', 'the argument "hours" is ["1"]; it must be a list, each of it a whole'),
        ('{"city": "Rome", "exact": 1}', 'the argument "exact" is 1; it must be true or false.'),
    ],
)
async def test_wrong_arguments_are_answered_with_what_is_wrong_and_how_to_call(arguments: str, problem: str) -> None:
    answer = await weather().call(arguments)
    assert answer.startswith(f"Error: {problem}")
    assert answer.endswith(USAGE)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(arguments=st.text() | json_values.filter(lambda value: value is None or isinstance(value, str | dict)))
def test_no_arguments_raise(arguments: Any) -> None:
    assert isinstance(asyncio.run(weather().call(arguments)), str)


@given(rule=json_values, value=json_values)
def test_no_schema_of_ones_own_raises(rule: Any, value: Any) -> None:
    async def run(x: Any) -> str:
        return "done"

    rule = {**rule, "type": "string"} if isinstance(rule, dict) else rule
    tool = Tool("own", "Mine.", {"properties": {"x": rule}, "required": ["x"]}, run)
    assert isinstance(asyncio.run(tool(x=value)), str)


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (CompactionNotFoundError("k9", "s"), "there is no summary 'k9': use an id exactly as a summary shows it."),
        (ReadonlyBlockError("soul"), "the block 'soul' cannot be written to: continue without it."),
        (BlockTooLargeError("memory", 12, 10), "context block 'memory' would have 12 tokens, 2 more than its limit"),
        (MessageNotFoundError("m1", "s"), "there is no message 'm1': use an id exactly as it was shown to you."),
        (SessionNotFoundError("s", "n"), "there is no session 's': use an id exactly as it was shown to you."),
        (BlockNotFoundError("x", ("y",)), "there is nothing under this name: use a name or an id exactly as it was"),
        (HeadMovedError("a", "b", "s"), "something else was changed at the same moment, so nothing was done"),
        (StoreUnavailableError("cannot reach db.internal"), "weather failed (StoreUnavailableError): try again later"),
        (OSError("secret"), "weather failed (OSError): try again later, or continue without it."),
    ],
)
async def test_errors_are_explained_in_words_for_a_model(error: FrontdeskError | OSError, answer: str) -> None:
    assert (await weather(error)(city="Rome")).startswith(f"Error: {answer}")
    assert "`" not in await weather(error)(city="Rome")


async def test_a_cancelled_call_stays_cancelled() -> None:
    with pytest.raises(asyncio.CancelledError):
        await weather(asyncio.CancelledError())(city="Rome")


def test_a_tool_is_defined_in_the_words_of_each_provider() -> None:
    tool = weather()
    forms: list[tuple[Any, dict[str, Any]]] = [
        (ChatCompletionToolParam, tool.to_openai()),
        (FunctionToolParam, tool.to_openai_responses()),
        (ToolParam, tool.to_anthropic()),
    ]
    for form, definition in forms:
        TypeAdapter(form).validate_python(definition, strict=True, extra="forbid")
    assert tool.to_openai_responses()["name"] == "weather"
