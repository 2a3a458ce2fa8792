"""Shortened messages: smaller, in the same format, valid for every provider, and always the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frontdesk.compaction.shorten import shorten, truncate_older_messages
from frontdesk.messages import Message, formats
from frontdesk.messages.formats.excerpts import cut_middle
from frontdesk.messages.tokens import estimate_tokens
from tests.mixed_histories import history, item_call, said, text_block, thinking, use
from tests.test_rendering import rendered

Raw = dict[str, Any]

LONG = "start " + "word " * 400 + "end"
RECORD = {"name": "Ann", "bio": LONG, "tags": [f"tag {n}" for n in range(300)], "deep": {"note": LONG, "n": 7}}


def short(raw: Raw, tool: int = 500, text: int = 10_000) -> Raw:
    """The raw form of the shortened message."""
    shortened: Raw = shorten(history(raw)[0], tool, text, len).raw
    return shortened


def chat_result(content: Any, id: str = "c1") -> Raw:
    return {"role": "tool", "tool_call_id": id, "content": content}


def item_result(output: Any, id: str = "c1") -> Raw:
    return {"type": "function_call_output", "call_id": id, "output": output}


def anthropic_result(content: Any, id: str = "c1") -> Raw:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": content}]}


def ui_result(output: Any, id: str = "c1") -> Raw:
    part = {"type": "tool-look", "toolCallId": id, "state": "output-available", "input": {"q": 1}, "output": output}
    return {"role": "assistant", "parts": [part]}


def own_result(content: Any, id: str = "c1") -> Raw:
    return {"role": "user", "content": [{"type": "tool-result", "call_id": id, "content": content}]}


SHAPES = [chat_result, item_result, anthropic_result, ui_result, own_result]


def output_of(message: Message) -> Any:
    (found,) = [part.content for part in message.parts if hasattr(part, "content")]
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_a_long_text_output_is_cut_in_every_format(shape: Any) -> None:
    (message,) = history(shape(LONG))
    shorter = shorten(message, 500, 10_000, len)
    output = output_of(shorter)
    assert len(output) <= 500
    assert output.startswith("start ")
    assert output.endswith(" end")
    assert "characters left out" in output
    assert (shorter.id, shorter.role, shorter.created_at) == (message.id, message.role, message.created_at)
    assert shorter.tool_result_ids == message.tool_result_ids == ("c1",)
    assert shorter.tool_call_ids == message.tool_call_ids
    assert shorter.tokens < message.tokens
    assert output_of(message) == LONG, "the original message is unchanged"


@pytest.mark.parametrize("shape", [ui_result, own_result])
def test_a_structured_output_keeps_its_structure(shape: Any) -> None:
    output = output_of(shorten(history(shape(RECORD))[0], 500, 10_000, len))
    assert output.keys() == RECORD.keys()
    assert output["name"] == "Ann"
    assert output["deep"]["n"] == 7
    assert len(output["bio"]) < len(LONG)
    assert output["tags"][0] == "tag 0"
    assert output["tags"][-1] == f"[… {300 - len(output['tags']) + 1} more items …]"
    assert len(json.dumps(output, ensure_ascii=False)) <= 600


@pytest.mark.parametrize("shape", [chat_result, item_result, anthropic_result])
def test_json_in_a_text_stays_json(shape: Any) -> None:
    output = output_of(shorten(history(shape(json.dumps([RECORD, RECORD], indent=2)))[0], 500, 10_000, len))
    assert type(output) is str
    assert len(output) <= 500
    assert json.loads(output)[0]["name"] == "Ann"


def test_json_that_is_long_only_because_of_spaces_loses_nothing_else() -> None:
    text = json.dumps(list(range(60)), indent=40)
    assert json.loads(short(chat_result(text))["content"]) == list(range(60))


def test_a_text_that_only_starts_like_json_is_cut_as_text() -> None:
    assert short(chat_result("[INFO] " + LONG))["content"].startswith("[INFO] start word")


@pytest.mark.parametrize("wide", [{f"key {n}": n for n in range(5000)}, list(range(5000)), [[1] * 90] * 90])
def test_a_wide_output_stays_a_container_of_its_kind(wide: Any) -> None:
    output = short(own_result(wide))["content"][0]["content"]
    assert type(output) is type(wide)
    assert len(json.dumps(output, ensure_ascii=False)) <= 600


def test_an_output_nested_deeper_than_eight_levels_ends_in_a_marker() -> None:
    deep: Any = ["x" * 900]
    for _ in range(20):
        deep = {"in": deep}
    output = short(own_result(deep))["content"][0]["content"]
    for _ in range(8):
        output = output["in"]
    assert output == {"__truncated": "1 more entries"}


def test_what_cannot_be_cut_is_left_out_entirely() -> None:
    output = short(own_result({"k" * 900: 10**400}))["content"][0]["content"]
    assert output == {"__truncated": f"[… {900 + 401 + 5} characters left out …]"}


def test_blocks_share_the_room_and_images_stay() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 2000}}
    blocks = [text_block("brief"), image, text_block(LONG), text_block(LONG)]
    first, second, third, fourth = short(anthropic_result(blocks))["content"][0]["content"]
    assert (first, second) == (blocks[0], image)
    assert 400 < sum(len(block["text"]) for block in (first, third, fourth)) <= 500


def test_many_blocks_end_in_a_marker_that_is_a_block() -> None:
    blocks = short(chat_result([text_block(f"{n} " + "x" * 50) for n in range(100)]))["content"]
    assert [block["text"][:2] for block in blocks] == ["0 ", "1 ", "2 ", "3 ", "[…"]
    assert blocks[-1]["text"].startswith("[… 96 more texts, ")


def test_the_output_of_a_shell_keeps_its_outcome() -> None:
    outcome = {"type": "exit", "exit_code": 1}
    raw = {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": LONG, "stderr": "", "outcome": outcome}]}
    (entry,) = short(raw)["output"]
    assert len(entry["stdout"]) <= 250
    assert (entry["stderr"], entry["outcome"]) == ("", outcome)


def test_the_error_of_a_tool_is_cut_too() -> None:
    part = {"type": "dynamic-tool", "toolName": "x", "toolCallId": "c", "state": "output-error", "errorText": LONG}
    assert len(short({"role": "assistant", "parts": [part]})["parts"][0]["errorText"]) <= 500


@pytest.mark.parametrize("content", [LONG, [text_block(LONG)], [{"type": "input_text", "text": LONG}]])
def test_an_over_long_text_is_cut_to_its_own_limit(content: Any) -> None:
    raw = {"role": "user", "content": content}
    assert short(raw, tool=100) == raw
    (message,) = history(raw)
    assert len(shorten(message, 100, 1000, len).text) == 1000


def test_annotations_of_a_cut_text_are_removed_since_they_point_into_it() -> None:
    block = {"type": "output_text", "text": LONG, "annotations": [{"type": "url_citation", "start_index": 1900}]}
    raw = {"type": "message", "id": "msg_1", "role": "assistant", "content": [block]}
    assert short(raw, text=500)["content"][0]["annotations"] == []
    assert short(raw) == raw


def test_arguments_reasoning_system_messages_and_summaries_are_never_cut() -> None:
    raws: list[Raw] = [
        said("system", LONG),
        said("developer", LONG),
        {"role": "assistant", "content": [thinking(LONG), {**use("c1"), "input": {"text": LONG}}]},
        {"type": "function_call", "call_id": "c", "name": "x", "arguments": json.dumps({"text": LONG})},
        {"type": "function_call_output", "call_id": "c", "output": None, "note": LONG},
    ]
    for message in [*history(*raws), Message.summary("k", LONG, 9, 0, None)]:
        assert shorten(message, 100, 100, len) is message


def test_a_message_that_would_not_cost_fewer_tokens_is_unchanged() -> None:
    (message,) = history(chat_result(" " * 501))
    assert shorten(message, 500, 10_000, estimate_tokens) is message


def test_only_older_messages_are_shortened() -> None:
    messages = history(*[chat_result(LONG)] * 6)
    view = truncate_older_messages(messages)
    assert [message is given for message, given in zip(view, messages, strict=True)] == [False] * 2 + [True] * 4
    assert truncate_older_messages(messages, keep_recent=9) == messages
    assert all(len(message.text) <= 500 for message in truncate_older_messages(messages, keep_recent=0))


def test_a_message_is_shortened_in_the_same_way_anywhere() -> None:
    messages = history(*[chat_result(LONG + str(n)) for n in range(8)])
    before, after = truncate_older_messages(messages[:6]), truncate_older_messages(messages)
    assert before[:2] == after[:2]


@given(text=st.text(min_size=0, max_size=300), limit=st.integers(0, 200))
def test_a_cut_text_is_never_longer_than_the_limit(text: str, limit: int) -> None:
    cut = cut_middle(text, limit)
    assert len(cut) <= max(limit, 0)
    assert cut_middle(cut, limit) == cut
    assert (cut == text) == (len(text) <= limit)


texts = st.sampled_from(["", "brief", "x" * 99, "two\nlines " * 40, LONG, "日本語" * 200, '"\\\n\x01' * 90])
leaves = st.one_of(texts, st.none(), st.booleans(), st.integers(-5, 10**30), st.floats(-1, 1))
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.sampled_from(["a", "b", "k" * 60]), inner),
    max_leaves=40,
)
blocks = st.lists(st.builds(text_block, texts), min_size=1, max_size=12)
outputs = st.one_of(values, blocks, texts, values.map(json.dumps))


@settings(max_examples=250)
@given(output=outputs, limit=st.integers(0, 700), shape=st.sampled_from([ui_result, own_result]))
def test_any_output_gets_shorter_once_and_keeps_its_kind(output: Any, limit: int, shape: Any) -> None:
    (message,) = history(shape(output))
    shorter = shorten(message, limit, limit, len)
    assert shorten(shorter, limit, limit, len) is shorter
    assert type(output_of(shorter)) is type(output)
    assert len(shorter.stored.raw) <= len(message.stored.raw)
    assert shorter.tokens <= message.tokens
    if shorter is not message:
        size = output_of(shorter) if type(output) is str else formats.render([shorter], "raw")[0]
        assert len(size if type(size) is str else written(size)) < len(written(message.raw))


def written(value: Any) -> str:
    """JSON as it is stored, in which the sign for what was left out is one character."""
    return json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize("format", formats.FORMATS)
@settings(max_examples=60)
@given(output=outputs, said_text=texts, limit=st.integers(100, 600), shape=st.sampled_from(SHAPES))
def test_a_shortened_turn_is_valid_for_every_provider(
    format: str, output: Any, said_text: str, limit: int, shape: Any
) -> None:
    text = output if type(output) is str else json.dumps(output)
    content = output if shape in (ui_result, own_result) else text
    turn = [said("user", said_text), {"role": "assistant", "content": [text_block(said_text), use("c1")]}]
    messages = history(*turn, item_call("c2"), shape(content, "c1"), shape(content, "c2"), said("assistant", "done"))
    shorter = truncate_older_messages(messages, keep_recent=0, max_tool_chars=limit, max_text_chars=limit, counter=len)
    written = rendered(shorter, format)
    if format != "raw":
        assert len(written) == len(rendered(messages, format))
    assert [message.tool_call_ids for message in shorter] == [message.tool_call_ids for message in messages]
    assert [message.tool_result_ids for message in shorter] == [message.tool_result_ids for message in messages]
