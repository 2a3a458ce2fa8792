"""Every format is stored exactly, and what is derived from it is right."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontdesk import messages
from frontdesk.errors import ConfigurationError, InvalidMessageError, MessageTooLargeError
from frontdesk.messages import (
    DataPart,
    FilePart,
    Message,
    Part,
    ReasoningPart,
    StoredMessage,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    formats,
)
from frontdesk.messages.exact_json import decode
from frontdesk.messages.formats.format import Limits
from frontdesk.messages.tokens import FILE_TOKENS, IMAGE_TOKENS, MESSAGE_TOKENS

Raw = dict[str, Any]

PNG = "iVBORw0KGgo="


def ingest(given: Any, **options: Any) -> StoredMessage:
    return messages.ingest(given, counter=len, **options)


def message(raw: Raw) -> Message:
    return Message.from_stored(ingest(raw), None)


def call(id: str, name: str = "look", arguments: str = '{"q": 1}') -> Raw:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


EXAMPLES: list[tuple[str, Raw, str, list[Part]]] = [
    ("ours text", {"role": "user", "content": "hi"}, "user", [TextPart("hi")]),
    ("ours empty", {"role": "user", "content": ""}, "user", []),
    (
        "ours parts",
        {"role": "assistant", "content": [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "a"}]},
        "assistant",
        [ReasoningPart("hm"), TextPart("a")],
    ),
    (
        "ours tools",
        {
            "role": "assistant",
            "content": [
                {"type": "tool-call", "id": "c1", "name": "look", "arguments": {"q": 1}},
                {"type": "tool-result", "call_id": "c1", "content": [1], "is_error": True},
            ],
        },
        "assistant",
        [ToolCallPart("c1", "look", {"q": 1}), ToolResultPart("c1", [1], is_error=True)],
    ),
    (
        "ours file and unknown",
        {
            "role": "user",
            "content": [{"type": "file", "media_type": "image/png", "data": PNG}, {"type": "poll", "n": 1}, 7],
        },
        "user",
        [FilePart("image/png", data=PNG), DataPart("poll", {"type": "poll", "n": 1}), DataPart("unknown", 7)],
    ),
    (
        "chat calls",
        {"role": "assistant", "content": None, "tool_calls": [call("c1"), call("c2", arguments="not json")]},
        "assistant",
        [ToolCallPart("c1", "look", {"q": 1}), ToolCallPart("c2", "look", "not json")],
    ),
    (
        "chat custom call",
        {"role": "assistant", "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "sh", "input": "ls"}}]},
        "assistant",
        [ToolCallPart("c1", "sh", "ls")],
    ),
    ("chat result", {"role": "tool", "tool_call_id": "c1", "content": "42"}, "tool", [ToolResultPart("c1", "42")]),
    ("chat refusal", {"role": "assistant", "content": None, "refusal": "no"}, "assistant", [DataPart("refusal", "no")]),
    ("chat developer", {"role": "developer", "content": "be brief"}, "developer", [TextPart("be brief")]),
    (
        "chat media",
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "see"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
            ],
        },
        "user",
        [
            TextPart("see"),
            FilePart("image/png", data=PNG),
            FilePart("image/*", url="https://x.test/a.png"),
            FilePart("audio/wav", data="AAAA"),
            FilePart("application/pdf", "a.pdf", data="AAAA"),
        ],
    ),
    (
        "responses output",
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "a", "annotations": []}, {"type": "refusal", "refusal": "no"}],
        },
        "assistant",
        [TextPart("a"), DataPart("refusal", "no")],
    ),
    (
        "responses input",
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "https://x.test"}],
        },
        "user",
        [TextPart("a"), FilePart("image/*", url="https://x.test")],
    ),
    (
        "responses reasoning",
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "hm"}],
            "encrypted_content": "E",
        },
        "assistant",
        [ReasoningPart("hm", "E")],
    ),
    (
        "responses call",
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": ""},
        "assistant",
        [ToolCallPart("c1", "look", {})],
    ),
    (
        "responses result",
        {"type": "function_call_output", "call_id": "c1", "output": "42"},
        "tool",
        [ToolResultPart("c1", "42")],
    ),
    (
        "responses custom call",
        {"type": "custom_tool_call", "call_id": "c1", "name": "sh", "input": "ls"},
        "assistant",
        [ToolCallPart("c1", "sh", "ls")],
    ),
    (
        "responses shell call",
        {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"]}},
        "assistant",
        [ToolCallPart("c1", "shell", {"action": {"commands": ["ls"]}})],
    ),
    (
        "responses web search",
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        "assistant",
        [DataPart("web_search_call", {"type": "web_search_call", "id": "ws_1", "status": "completed"})],
    ),
    (
        "anthropic answer",
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "stop_reason": "tool_use",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "S"},
                {"type": "redacted_thinking", "data": "R"},
                {"type": "text", "text": "a"},
                {"type": "tool_use", "id": "c1", "name": "look", "input": {"q": 1}},
            ],
        },
        "assistant",
        [ReasoningPart("hm", "S"), ReasoningPart("", "R"), TextPart("a"), ToolCallPart("c1", "look", {"q": 1})],
    ),
    (
        "anthropic results",
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "bad", "is_error": True},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                {"type": "document", "title": "T", "source": {"type": "url", "url": "https://x.test/a.pdf"}},
                {"type": "text", "text": "go on"},
            ],
        },
        "user",
        [
            ToolResultPart("c1", "bad", is_error=True),
            FilePart("image/png", data=PNG),
            FilePart("application/pdf", "T", url="https://x.test/a.pdf"),
            TextPart("go on"),
        ],
    ),
    (
        "anthropic server tool",
        {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}]},
        "assistant",
        [DataPart("server_tool_use", {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}})],
    ),
    (
        "ui",
        {
            "id": "u1",
            "role": "assistant",
            "parts": [
                {"type": "step-start"},
                {"type": "reasoning", "text": "hm"},
                {"type": "text", "text": "a", "state": "done"},
                {"type": "tool-look", "toolCallId": "c1", "state": "output-available", "input": {"q": 1}, "output": 2},
                {
                    "type": "dynamic-tool",
                    "toolName": "peek",
                    "toolCallId": "c2",
                    "state": "output-error",
                    "errorText": "E",
                },
                {"type": "tool-look", "toolCallId": "c3", "state": "input-available", "input": {}},
                {"type": "file", "mediaType": "image/png", "url": "https://x.test/a.png", "filename": "a.png"},
            ],
        },
        "assistant",
        [
            DataPart("step-start", {"type": "step-start"}),
            ReasoningPart("hm"),
            TextPart("a"),
            ToolCallPart("c1", "look", {"q": 1}),
            ToolResultPart("c1", 2, "look"),
            ToolCallPart("c2", "peek", None),
            ToolResultPart("c2", "E", "peek", is_error=True),
            ToolCallPart("c3", "look", {}),
            FilePart("image/png", "a.png", url="https://x.test/a.png"),
        ],
    ),
    (
        "strands",
        {
            "message_id": 3,
            "message": {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
                    {"text": "a"},
                    {"toolUse": {"toolUseId": "c1", "name": "look", "input": {"q": 1}}},
                    {"image": {"format": "png", "source": {"bytes": {"__bytes_encoded__": True, "data": PNG}}}},
                ],
            },
            "redact_message": None,
        },
        "assistant",
        [
            ReasoningPart("hm", "s"),
            TextPart("a"),
            ToolCallPart("c1", "look", {"q": 1}),
            FilePart("image/png", data=PNG),
        ],
    ),
    (
        "strands results",
        {
            "message_id": 4,
            "message": {
                "role": "user",
                "content": [
                    {"toolResult": {"toolUseId": "c1", "content": [{"text": "a"}, {"text": "b"}]}},
                    {"toolResult": {"toolUseId": "c2", "status": "error", "content": [{"json": {"x": 1}}]}},
                ],
            },
        },
        "tool",
        [ToolResultPart("c1", "a\nb"), ToolResultPart("c2", {"x": 1}, is_error=True)],
    ),
    (
        "strands redacted",
        {
            "message_id": 5,
            "message": {"role": "user", "content": [{"text": "secret"}]},
            "redact_message": {"role": "user", "content": [{"text": "[redacted]"}]},
        },
        "user",
        [TextPart("[redacted]")],
    ),
    (
        "agent framework",
        {
            "type": "message",
            "role": "assistant",
            "contents": [
                {"type": "text_reasoning", "text": "hm", "protected_data": "p"},
                {"type": "text", "text": "a"},
                {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"q": 1}'},
                {"type": "usage", "tokens": 3},
            ],
        },
        "assistant",
        [
            ReasoningPart("hm", "p"),
            TextPart("a"),
            ToolCallPart("c1", "look", {"q": 1}),
            DataPart("usage", {"type": "usage", "tokens": 3}),
        ],
    ),
    (
        "agent framework results",
        {
            "type": "message",
            "role": "tool",
            "contents": [
                {"type": "function_result", "call_id": "c1", "result": "a"},
                {"type": "function_result", "call_id": "c2", "exception": "boom"},
            ],
        },
        "tool",
        [ToolResultPart("c1", "a"), ToolResultPart("c2", "boom", is_error=True)],
    ),
    (
        "llama index",
        {
            "role": "assistant",
            "blocks": [
                {"block_type": "thinking", "content": "hm"},
                {"block_type": "text", "text": "a"},
                {"block_type": "tool_call", "tool_call_id": "c1", "tool_name": "look", "tool_kwargs": {"q": 1}},
                {"block_type": "image", "image": PNG, "image_mimetype": "image/png"},
            ],
            "additional_kwargs": {"tool_calls": [call("c1"), call("c2")]},
        },
        "assistant",
        [
            ReasoningPart("hm"),
            TextPart("a"),
            ToolCallPart("c1", "look", {"q": 1}),
            FilePart("image/png", data=PNG),
            ToolCallPart("c2", "look", {"q": 1}),
        ],
    ),
    (
        "llama index result",
        {
            "role": "tool",
            "blocks": [{"block_type": "text", "text": "a"}],
            "additional_kwargs": {"tool_call_id": "c1", "name": "look"},
        },
        "tool",
        [ToolResultPart("c1", "a", "look")],
    ),
]


@pytest.mark.parametrize(("raw", "role", "parts"), [e[1:] for e in EXAMPLES], ids=[e[0] for e in EXAMPLES])
def test_each_format_is_read_and_stored(raw: Raw, role: str, parts: list[Part]) -> None:
    made = message(raw)
    assert (made.role, list(made.parts)) == (role, parts)
    assert made.raw == raw
    assert list(made.raw) == list(raw)
    assert made.tool_call_ids == tuple(part.id for part in parts if isinstance(part, ToolCallPart))
    assert made.tool_result_ids == tuple(part.call_id for part in parts if isinstance(part, ToolResultPart))
    assert made.id == raw.get("id", made.id)


@pytest.mark.parametrize(
    "raw",
    [
        {
            "message_id": 1,
            "message": {
                "role": "user",
                "content": [
                    {"text": "w" * 5000},
                    {"toolResult": {"toolUseId": "c1", "content": [{"text": "w" * 5000}, {"json": ["w" * 5000]}]}},
                ],
            },
        },
        {
            "type": "message",
            "role": "tool",
            "contents": [
                {"type": "text", "text": "w" * 5000},
                {"type": "function_result", "call_id": "c1", "result": "w" * 5000, "items": [{"text": "w" * 5000}]},
            ],
        },
        {
            "role": "tool",
            "blocks": [{"block_type": "text", "text": "w" * 5000}],
            "additional_kwargs": {"tool_call_id": "c1"},
        },
    ],
    ids=["strands", "agent framework", "llama index"],
)
def test_long_texts_and_outputs_of_frameworks_are_shortened_and_keep_their_calls(raw: Raw) -> None:
    long = message(raw)
    shortened = formats.shorten(raw, long.shape, Limits(200, 200))
    short = message(shortened)
    assert len(str(shortened)) < 1500
    assert short.shape == long.shape
    assert short.tool_result_ids == long.tool_result_ids == ("c1",)


@pytest.mark.parametrize(
    ("raw", "text", "derived"),
    [
        ({"role": "user", "content": "a\0b"}, "a\0b", None),
        ({"role": "tool", "tool_call_id": "c", "content": "42"}, "42", '{"shape":"openai","results":["c"]}'),
        (
            {"type": "function_call_output", "call_id": "c", "output": "42"},
            "",
            '{"shape":"openai-responses","results":["c"]}',
        ),
        (
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            "a\nb",
            '{"text":"a\\nb"}',
        ),
        ({"role": "user", "content": "old", "parts": []}, "", '{"shape":"ui","text":""}'),
        (
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]},
            "",
            '{"shape":"anthropic"}',
        ),
    ],
)
def test_only_what_raw_does_not_show_is_derived(raw: Raw, text: str, derived: str | None) -> None:
    assert ingest(raw).derived == derived
    assert message(raw).text == text


def test_a_message_is_read_in_the_format_that_was_recognised_at_its_append() -> None:
    raw = '{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"42"}]}'
    recognised = StoredMessage("m", "user", 1, 0, raw, '{"shape":"anthropic","results":["c"]}')
    assert Message.from_stored(recognised, None).parts == (ToolResultPart("c", "42"),)
    as_ours = Message.from_stored(StoredMessage("m", "user", 1, 0, raw), None)
    assert [type(part) for part in as_ours.parts] == [DataPart]


def test_a_format_of_a_later_version_is_recognised_by_what_is_known_here() -> None:
    raw = '{"role":"tool","tool_call_id":"c","content":"42"}'
    stored = StoredMessage("m", "tool", 1, 0, raw, '{"shape":"of-tomorrow","results":["c"]}')
    assert Message.from_stored(stored, None).parts == (ToolResultPart("c", "42"),)


@pytest.mark.parametrize("role", ["assistant", "developer", "function", "tool", "user"])
def test_parts_of_our_own_are_read_back_under_every_role(role: str) -> None:
    parts: list[Part] = [
        TextPart("a"),
        ReasoningPart("hm", "signed"),
        ToolCallPart("c", "look", {"q": 1}),
        ToolResultPart("c", [1, None], "look", is_error=True),
        FilePart("image/png", data=PNG),
        DataPart("weather", {"degrees": 21}),
    ]
    for part in parts:
        assert Message(None, role, [part]).parts == (part,)
    assert Message(None, role, parts).parts == tuple(parts)
    assert Message(None, role, parts).shape is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
block_types = st.sampled_from(
    [
        "text",
        "reasoning",
        "tool-call",
        "tool_use",
        "tool_result",
        "image",
        "image_url",
        "input_text",
        "file",
        "refusal",
        "document",
        "thinking",
        "tool-x",
        "dynamic-tool",
        "input_file",
        "input_image",
        "data",
        "input_audio",
    ]
)
blocks = json_values | st.builds(
    lambda kind, rest: {**rest, "type": kind}, block_types, st.dictionaries(st.text(), json_values)
)
field_names = st.sampled_from(
    ["tool_calls", "tool_call_id", "type", "parts", "refusal", "metadata", "name", "x", "summary"]
)
json_messages = st.builds(
    lambda rest, role, content: {**rest, "role": role, "content": content},
    st.dictionaries(field_names, json_values | st.lists(blocks, max_size=3), max_size=4),
    st.sampled_from(["user", "assistant", "tool", "system", "owl"]),
    st.text() | st.lists(blocks, max_size=4) | st.none(),
)


def same(one: Any, other: Any) -> bool:
    """Equal, with the same types and the same order of keys at every level."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@given(json_messages)
def test_any_json_message_is_returned_exactly_and_can_be_rendered(raw: Raw) -> None:
    stored = ingest(raw)
    assert same(decode(stored.raw), raw)
    assert stored.tokens >= MESSAGE_TOKENS
    made = Message.from_stored(stored, None)
    assert made.text is not None
    for format in formats.FORMATS:
        formats.render([made], format)


@pytest.mark.parametrize(
    "value", [2**64, -(2**63) - 1, 10**300, 1.0, -0.0, 1e300, 5e-324, True, "\u2028\0", "é\u0301", "🦊"]
)
def test_numbers_and_texts_keep_their_exact_value(value: Any) -> None:
    raw = {"role": "user", "content": "x", "extra": [value]}
    assert same(message(raw).raw, raw)
    assert str(message(raw).raw["extra"][0]) == str(value)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("hi", "must be a dict, a Message, or .*, not str"),
        ([], "must be a dict, a Message, or .*, not list"),
        ({"content": "hi"}, "role is missing"),
        ({"type": "human", "content": "hi"}, "role is missing"),
        ({"type": "message", "content": "hi"}, "role is missing"),
        ({"parts": []}, "role is missing"),
        ({"role": "", "content": "hi"}, "role must have 1 to 512 characters"),
        ({"role": 5, "content": "hi"}, "role must be a string, not int"),
        ({"role": "a\0", "content": "hi"}, "role .* NUL"),
        ({"role": "user", "content": 5}, "content must be a text or a list of parts, not int"),
        ({"role": "user", "content": [{"text": float("nan")}]}, r"content\[0\]\.text is nan"),
        ({"role": "user", "content": [math.inf]}, r"content\[0\] is inf"),
        ({"role": "user", "content": [{"text": "\ud800"}]}, r"content\[0\]\.text contains a lone surrogate"),
        ({"role": "user", "content": "a\udfff"}, "content contains a lone surrogate"),
        ({"role": "user", "x": {"\ud800": 1}}, "lone surrogate"),
        ({"role": "user", "x": {"a"}}, "x is builtins.set"),
        ({"role": "user", "x": b"a"}, "x is builtins.bytes"),
        ({"role": "user", "x": datetime(2026, 1, 1, tzinfo=UTC)}, r"x is datetime\.datetime"),
        ({"role": "user", "x": [{"y": {(1,): 2}}]}, r"x\[0\]\.y has the key \(1,\), which is not a string"),
        ({"role": "user", "x": ({"y": {1: 2, "1": 3}},)}, r"x\[0\]\.y has two keys that are '1' in JSON"),
        ({"role": "user", "x": ({"y": math.nan},)}, r"x\[0\]\.y is nan"),
        ({"role": "user", "x": (object(),)}, r"x\[0\] is builtins.object"),
        ({"role": "user", "x": object()}, "x is builtins.object"),
        ({"role": "user", "x": 10**5000}, "number"),
        ({"role": "user", "content": nested(100_000)}, "deeper than 200 levels"),
        ({"role": "user", "content": "x", "created_at": "yesterday"}, "created_at is 'yesterday'"),
        ({"role": "user", "content": "x", "createdAt": 1e300}, "createdAt"),
        ({"role": "user", "content": "x", "created_at": True}, "created_at"),
        ({"id": "frontdesk-summary:1", "role": "user", "content": "x"}, "synthetic summary"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_path(given: Any, reason: str) -> None:
    with pytest.raises(InvalidMessageError, match=reason):
        ingest(given)


def test_a_message_over_the_limit_is_refused_and_one_at_the_limit_kept() -> None:
    raw = {"role": "user", "content": "é" * 100}
    size = len(ingest(raw).raw.encode())
    assert ingest(raw, max_bytes=size).raw
    with pytest.raises(MessageTooLargeError, match=f"{size} bytes"):
        ingest(raw, max_bytes=size - 1)
    with pytest.raises(MessageTooLargeError):
        ingest(message(raw), max_bytes=size - 1)


@pytest.mark.parametrize(
    "given",
    [
        {"created_at": "2026-01-02T03:04:05.678901Z"},
        {"created_at": "2026-01-02T04:04:05.678901+01:00"},
        {"created_at": "2026-01-02T03:04:05.678901"},
        {"createdAt": 1767323045.678901},
    ],
)
def test_a_given_time_is_honoured(given: Raw) -> None:
    made = message({"role": "user", "content": "x", **given})
    assert abs(made.created_at - datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)) < timedelta(microseconds=2)


def test_javascript_milliseconds_are_a_time_too() -> None:
    made = message({"id": "u", "role": "user", "parts": [], "createdAt": 1767323045678})
    assert made.created_at == datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
    assert ingest({"role": "user", "content": "x"}, now_us=5).created_at == 5


def test_a_message_from_a_store_keeps_id_time_and_raw_when_stored_again() -> None:
    first = ingest({"role": "user", "content": [{"type": "text", "text": "abc"}]}, now_us=5)
    again = messages.ingest(Message.from_stored(first, "p"), counter=lambda text: 100)
    assert (again.id, again.created_at, again.raw, again.derived) == (first.id, 5, first.raw, first.derived)
    assert again.tokens == MESSAGE_TOKENS + 100


def test_a_placeholder_id_is_not_taken_for_an_id() -> None:
    raw = {"type": "function_call", "id": "__fake_id__", "call_id": "c", "name": "f", "arguments": "{}"}
    assert ingest(raw).id != ingest(raw).id
    assert message(raw).raw == raw


@pytest.mark.parametrize(
    ("raw", "tokens"),
    [
        ({"role": "user", "content": "12345"}, 5),
        ({"role": "user", "content": ""}, 0),
        ({"role": "assistant", "content": None, "tool_calls": [call("c1", "look", '{"q":1}')]}, 4 + 7),
        ({"role": "tool", "tool_call_id": "c1", "content": "12345"}, 5),
        (
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9000}}],
            },
            IMAGE_TOKENS,
        ),
        ({"role": "user", "content": [{"type": "file", "file": {"file_data": "A" * 9000}}]}, FILE_TOKENS),
        ({"role": "user", "content": [{"type": "document", "source": {"type": "text", "data": "12345"}}]}, 5),
        (
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c", "content": [{"type": "image", "source": {}}]}],
            },
            IMAGE_TOKENS + len("[null]"),
        ),
        ({"role": "tool", "tool_call_id": "c1", "content": "QUJD" * 1000}, FILE_TOKENS),
        (
            {
                "id": "u",
                "role": "user",
                "parts": [{"type": "data-chart", "data": "x" * 500}, {"type": "text", "text": "ab"}],
            },
            2,
        ),
        (
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "E" * 5000},
            2,
        ),
    ],
)
def test_tokens_count_what_a_model_sees_and_base64_never_as_text(raw: Raw, tokens: int) -> None:
    assert ingest(raw).tokens == MESSAGE_TOKENS + tokens


@pytest.mark.parametrize("count", [-1, math.nan, math.inf, None, "7"])
def test_a_counter_that_does_not_count_is_named_in_the_error(count: Any) -> None:
    def broken(text: str) -> int:
        return count  # type: ignore[no-any-return]

    with pytest.raises(ConfigurationError, match="broken"):
        messages.ingest({"role": "user", "content": "x"}, counter=broken)
