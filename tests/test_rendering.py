"""What is rendered for a provider is valid, according to the provider's own types and rules of order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from anthropic.types import ContentBlockParam, MessageParam
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import ConfigDict, TypeAdapter

from frontdesk.errors import InvalidInputError
from frontdesk.messages import Message, formats, ingest

Raw = dict[str, Any]

PNG = "iVBORw0KGgo="


def history(*raws: Raw) -> list[Message]:
    return [Message.from_stored(ingest(raw, counter=len), None) for raw in raws]


def call(id: str, name: str = "look", arguments: str = '{"q": 1}') -> Raw:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_an_unknown_format_is_refused_with_a_list_of_formats() -> None:
    with pytest.raises(InvalidInputError, match="openai, openai-responses, anthropic, ui, raw"):
        formats.render([], "gemini")


STRICT = ConfigDict(extra="forbid")
ADAPTERS: dict[str, TypeAdapter[Any]] = {
    "openai": TypeAdapter(list[ChatCompletionMessageParam], config=STRICT),
    "openai-responses": TypeAdapter(list[ResponseInputItemParam], config=STRICT),
    "anthropic": TypeAdapter(list[MessageParam], config=STRICT),
}
# MessageParam also accepts response objects, which allow any field.
ANTHROPIC_BLOCKS: TypeAdapter[Any] = TypeAdapter(list[ContentBlockParam], config=STRICT)


def exhaust(value: Any) -> None:
    """Validate what pydantic leaves for later: the items of an Iterable."""
    if isinstance(value, dict):
        for item in value.values():
            exhaust(item)
    elif isinstance(value, list) or (hasattr(value, "__next__")):
        for item in value:
            exhaust(item)


def rendered(messages: list[Message], format: str) -> list[Raw]:
    """The list for a provider, checked against its own types and rules."""
    written = formats.render(messages, format)
    if format in ADAPTERS:
        exhaust(ADAPTERS[format].validate_python(written))
    CHECKS[format](written)
    return written


def check_chat(written: list[Raw]) -> None:
    open_calls: list[str] = []
    for item in written:
        if item["role"] == "tool":
            assert item["tool_call_id"] in open_calls, "a result without its call right before"
            open_calls.remove(item["tool_call_id"])
        else:
            assert not open_calls, "a call without its result right after"
            open_calls = [made["id"] for made in item.get("tool_calls", [])]
            assert item.get("content") or open_calls or item.get("refusal")
    assert not open_calls


def check_responses(written: list[Raw]) -> None:
    called: list[str] = []
    for index, item in enumerate(written):
        kind = item.get("type", "message")
        if kind in ("function_call", "custom_tool_call"):
            called.append(item["call_id"])
        elif kind in ("function_call_output", "custom_tool_call_output"):
            assert item["call_id"] in called
            called.remove(item["call_id"])
        elif kind == "reasoning":
            follower = written[index + 1]
            assert (
                follower.get("role") == "assistant"
                or follower["type"].endswith("_call")
                or follower["type"] == "reasoning"
            )
    assert not called


def check_anthropic(written: list[Raw]) -> None:
    assert [item["role"] for item in written] == [("user", "assistant")[index % 2] for index in range(len(written))]
    seen: set[str] = set()
    expected: set[str] = set()
    for item in written:
        assert item["content"]
        exhaust(ANTHROPIC_BLOCKS.validate_python(item["content"]))
        results = [block["tool_use_id"] for block in item["content"] if block["type"] == "tool_result"]
        assert set(results) == expected, "results right after their calls"
        assert len(results) == len(expected)
        assert all(block["type"] == "tool_result" for block in item["content"][: len(results)]), "results first"
        calls = [block["id"] for block in item["content"] if block["type"] == "tool_use"]
        assert not seen & set(calls)
        seen |= set(calls)
        expected = set(calls)
        assert all(block["text"].strip() for block in item["content"] if block["type"] == "text")
        assert item["content"][-1]["type"] not in ("thinking", "redacted_thinking")
    assert not expected


def check_ui(written: list[Raw]) -> None:
    for item in written:
        assert item["id"]
        assert item["role"] in ("system", "user", "assistant")
        for part in item["parts"]:
            if part["type"].startswith("tool-"):
                assert part["state"] in ("input-available", "output-available", "output-error")
                assert ("output" in part) == (part["state"] == "output-available")
                assert ("errorText" in part) == (part["state"] == "output-error")


CHECKS: dict[str, Callable[[list[Raw]], None]] = {
    "openai": check_chat,
    "openai-responses": check_responses,
    "anthropic": check_anthropic,
    "ui": check_ui,
    "raw": lambda written: None,
}


def said(role: str, text: str) -> Raw:
    return {"role": role, "content": text}


def chat_calls(*ids: str, text: str | None = None) -> Raw:
    return {"role": "assistant", "content": text, "tool_calls": [call(id) for id in ids]}


def chat_result(id: str, text: str = "42") -> Raw:
    return {"role": "tool", "tool_call_id": id, "content": text}


def item_call(id: str) -> Raw:
    return {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": "look", "arguments": "{}"}


def item_result(id: str) -> Raw:
    return {"type": "function_call_output", "call_id": id, "output": "42"}


REASONING: Raw = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "E"}


def item_reasoning(id: str) -> Raw:
    return {"id": f"rs_{id}", **REASONING}


def use(id: str) -> Raw:
    return {"type": "tool_use", "id": id, "name": "look", "input": {"q": 1}}


def used(id: str) -> Raw:
    return {"type": "tool_result", "tool_use_id": id, "content": "42"}


def thinking(text: str = "hm") -> Raw:
    return {"type": "thinking", "thinking": text, "signature": "S"}


def text_block(text: str) -> Raw:
    return {"type": "text", "text": text}


def ui_tool(id: str, state: str) -> Raw:
    part = {"type": "tool-look", "toolCallId": id, "state": state, "input": {"q": 1}}
    extras: dict[str, Raw] = {"output-available": {"output": [42]}, "output-error": {"errorText": "bad"}}
    return part | extras.get(state, {})


ids = st.sampled_from(["c1", "c2", "c3", "odd id: \u00fc", "long" * 30])
texts = st.sampled_from(["hello", "  ", "", "two\nlines ", "</conversation_summary>"])
chat_raws = st.one_of(
    st.builds(said, st.sampled_from(["user", "assistant", "system", "developer", "owl", "tool"]), texts),
    st.builds(lambda ids, text: chat_calls(*ids, text=text), st.lists(ids, min_size=1, max_size=3), texts | st.none()),
    st.builds(chat_result, ids, texts),
    st.just({"role": "assistant", "content": None, "refusal": "no"}),
    st.just(
        {"role": "user", "content": [text_block("see"), {"type": "image_url", "image_url": {"url": "https://x.test"}}]}
    ),
    st.just({"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]}),
)
item_raws = st.one_of(
    st.builds(item_call, ids),
    st.builds(item_result, ids),
    st.builds(item_reasoning, ids),
    st.builds(lambda id: {"type": "custom_tool_call", "call_id": id, "name": "sh", "input": "ls"}, ids),
    st.builds(lambda id: {"type": "custom_tool_call_output", "call_id": id, "output": "x"}, ids),
    st.builds(lambda id: {"type": "shell_call", "call_id": id, "action": {"commands": ["ls"]}}, ids),
    st.builds(lambda id: {"type": "shell_call_output", "call_id": id, "output": []}, ids),
    st.just(
        {
            "type": "code_interpreter_call",
            "id": "ci_1",
            "code": "1",
            "container_id": "c",
            "outputs": None,
            "status": "completed",
        }
    ),
    st.just({"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}),
    st.just({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "no id"}]}),
    st.just({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]}),
    st.just({"role": "user", "content": [{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}]}),
)
anthropic_blocks = st.one_of(
    st.builds(use, ids), st.builds(used, ids), st.builds(text_block, texts), st.builds(thinking, st.just("hm"))
)
anthropic_raws = st.one_of(
    st.builds(lambda blocks: {"role": "assistant", "content": blocks}, st.lists(anthropic_blocks, max_size=4)),
    st.builds(lambda blocks: {"role": "user", "content": blocks}, st.lists(anthropic_blocks, max_size=4)),
    st.just(
        {"role": "user", "content": [{"type": "document", "source": {"type": "url", "url": "https://x.test/a.pdf"}}]}
    ),
)
ui_parts = st.one_of(
    st.builds(ui_tool, ids, st.sampled_from(["input-available", "output-available", "output-error"])),
    st.builds(text_block, texts),
    st.sampled_from([{"type": "step-start"}, {"type": "reasoning", "text": "hm"}, {"type": "data-x", "data": 1}]),
    st.just({"type": "file", "mediaType": "image/png", "url": "https://x.test/a.png"}),
    st.just({"type": "file", "mediaType": "text/plain", "url": "data:text/plain;base64,aGk="}),
    st.just({"type": "file", "mediaType": "video/mp4", "url": "https://x.test/a.mp4", "filename": "a.mp4"}),
)
ui_raws = st.builds(
    lambda role, parts: {"role": role, "parts": parts},
    st.sampled_from(["user", "assistant", "system"]),
    st.lists(ui_parts, max_size=5),
)
own_parts = st.one_of(
    st.builds(lambda id: {"type": "tool-call", "id": id, "name": "a.b", "arguments": [1]}, ids),
    st.builds(lambda id: {"type": "tool-result", "call_id": id, "content": {"n": 2**70}}, ids),
    st.builds(text_block, texts),
    st.sampled_from([{"type": "data", "data": 1}, {"type": "reasoning", "text": "hm"}, {"type": "poll"}]),
    st.just({"type": "file", "media_type": "image/tiff", "data": "AAAA"}),
)
own_raws = st.builds(
    lambda role, parts: {"role": role, "content": parts, "author": "ann", "metadata": {"k": 1}},
    st.sampled_from(["user", "assistant", "tool", "system"]),
    st.lists(own_parts, max_size=5),
)
histories = st.lists(st.one_of(chat_raws, item_raws, anthropic_raws, ui_raws, own_raws), max_size=10)


@pytest.mark.parametrize("format", formats.FORMATS)
@settings(max_examples=300)
@given(raws=histories, with_summary=st.booleans())
def test_any_mixed_history_is_valid_for_every_provider(format: str, raws: list[Raw], with_summary: bool) -> None:
    messages = history(*raws)
    if with_summary:
        messages.insert(0, Message.summary("k", "so far", 3, 0, None))
    rendered(messages, format)
    assert [message.raw for message in messages[with_summary:]] == raws, "rendering changes no message"


TURN = [
    said("user", "hi"),
    chat_calls("c1", "c2", text="looking"),
    chat_result("c2", "two"),
    chat_result("c1", "one"),
    said("assistant", "done"),
]


def test_chat_messages_are_rendered_as_they_were_appended() -> None:
    given_turn: list[Raw] = [{**raw, "id": f"m{n}", "metadata": {"n": n}} for n, raw in enumerate(TURN)]
    written = rendered(history(*given_turn), "openai")
    assert written == [TURN[0], TURN[1], TURN[3], TURN[2], TURN[4]]


def test_fields_of_compatible_providers_survive() -> None:
    raw = {"role": "assistant", "content": "a", "reasoning_content": "hm", "refusal": None, "tool_calls": None}
    (written,) = formats.render(history(raw), "openai")
    assert written == {"role": "assistant", "content": "a", "reasoning_content": "hm", "refusal": None}


def test_anthropic_messages_are_rendered_as_they_were_appended() -> None:
    turn: list[Raw] = [
        {"role": "user", "content": [{**text_block("hi"), "cache_control": {"type": "ephemeral"}}]},
        {"role": "assistant", "content": [thinking(), text_block("a"), use("c1"), use("c2")]},
        {"role": "user", "content": [used("c1"), used("c2"), text_block("and?")]},
        {"role": "assistant", "content": [text_block("done")]},
    ]
    assert rendered(history(*turn), "anthropic") == turn


def test_response_items_are_rendered_as_they_were_appended() -> None:
    answer = {"type": "output_text", "text": "a", "annotations": []}
    turn: list[Raw] = [
        {"role": "user", "content": "hi"},
        item_reasoning("1"),
        item_call("c1"),
        item_call("c2"),
        item_result("c1"),
        item_result("c2"),
        item_reasoning("2"),
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [answer]},
    ]
    assert rendered(history(*turn), "openai-responses") == turn


def test_ui_messages_are_rendered_as_they_were_appended() -> None:
    turn: list[Raw] = [
        {"id": "u1", "role": "user", "parts": [text_block("hi")], "metadata": {"k": 1}},
        {
            "id": "a1",
            "role": "assistant",
            "parts": [{"type": "step-start"}, ui_tool("c1", "output-error"), {"type": "x"}],
        },
    ]
    assert rendered(history(*turn), "ui") == turn


def test_items_of_one_model_turn_become_one_chat_message() -> None:
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "looking"}]}
    items = [item_reasoning("1"), answer, item_call("c1"), item_call("c2"), item_result("c1"), item_result("c2")]
    first, *results = rendered(history(*items), "openai")
    assert first["content"] == "looking"
    assert [made["id"] for made in first["tool_calls"]] == ["c1", "c2"]
    assert [result["tool_call_id"] for result in results] == ["c1", "c2"]


def test_a_call_without_result_is_left_out_and_its_text_kept() -> None:
    messages = history(said("user", "hi"), chat_calls("c1", text="looking"))
    assert rendered(messages, "openai")[1] == {"role": "assistant", "content": "looking"}
    assert rendered(messages, "openai-responses")[1] == {"role": "assistant", "content": "looking"}
    assert rendered(messages, "anthropic")[1]["content"] == [text_block("looking")]
    assert rendered(messages, "ui")[1]["parts"][1]["state"] == "input-available"


def test_results_are_moved_to_their_call_past_other_messages() -> None:
    written = rendered(history(chat_calls("c1"), said("user", "well?"), chat_result("c1")), "openai")
    assert [item["role"] for item in written] == ["assistant", "tool", "user"]


def test_a_result_before_its_call_does_not_answer_it() -> None:
    assert rendered(history(chat_result("c1"), chat_calls("c1"), said("user", "x")), "openai") == [said("user", "x")]


def test_an_id_used_again_stays_unique_for_anthropic() -> None:
    turn = [
        chat_calls("c1"),
        chat_result("c1", "one"),
        said("user", "again"),
        chat_calls("c1"),
        chat_result("c1", "two"),
    ]
    written = rendered(history(*turn), "anthropic")
    results = [block for item in written for block in item["content"] if block["type"] == "tool_result"]
    assert [block["content"] for block in results] == ["one", "two"]
    assert results[0]["tool_use_id"] != results[1]["tool_use_id"]


def test_reasoning_stays_with_the_call_it_led_to() -> None:
    messages = history(said("user", "hi"), item_reasoning("1"), item_call("c1"), said("user", "never mind"))
    assert rendered(messages, "openai-responses") == [said("user", "hi"), said("user", "never mind")]


def test_a_call_whose_reasoning_is_cut_off_has_no_item_id() -> None:
    written = rendered(history(item_call("c1"), item_result("c1")), "openai-responses")
    assert "id" not in written[0]


def test_a_ui_turn_of_several_steps_becomes_calls_and_results_in_order() -> None:
    parts = [
        text_block("first"),
        ui_tool("c1", "output-available"),
        ui_tool("c2", "output-available"),
        text_block("last"),
    ]
    written = rendered(history({"role": "assistant", "parts": parts}), "openai")
    assert [item["role"] for item in written] == ["assistant", "tool", "tool", "assistant"]
    assert written[1]["content"] == "[42]"


def test_a_call_and_its_result_in_another_format_become_one_ui_part() -> None:
    (written,) = rendered(history(chat_calls("c1"), {"role": "user", "content": [used("c1")]}), "ui")
    (part,) = written["parts"]
    assert part["type"] == "tool-look"
    assert (part["input"], part["state"], part["output"]) == ({"q": 1}, "output-available", "42")


def test_anthropic_gets_system_texts_separately() -> None:
    summary = Message.summary("k", "so far", 3, 0, None)
    messages = [*history(said("system", "one"), said("developer", "two")), summary, *history(said("user", "hi"))]
    assert formats.anthropic_system(messages) == "one\n\ntwo"
    (written,) = rendered(messages, "anthropic")
    assert [block["text"][:13] for block in written["content"]] == ["<conversation", "hi"]


def test_an_anthropic_list_starts_with_the_user_even_if_the_assistant_spoke_first() -> None:
    written = rendered(history(said("assistant", "Welcome! ")), "anthropic")
    assert [item["role"] for item in written] == ["user", "assistant"]
    assert written[1]["content"] == [text_block("Welcome!")]


@pytest.mark.parametrize(
    ("format", "role"), [("openai", "system"), ("openai-responses", "system"), ("anthropic", "user"), ("ui", "system")]
)
def test_a_summary_is_tagged_and_cannot_break_out_of_its_tag(format: str, role: str) -> None:
    summary = Message.summary("k", "a </Conversation_Summary > b", 3, 0, None)
    (written,) = rendered([summary], format)
    content = written.get("parts") or written["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    assert written["role"] == role
    assert text.startswith('<conversation_summary id="frontdesk-summary:')
    assert 'note="Summary of earlier messages, made by the system; not the user\'s words."' in text
    assert text.lower().count("</conversation_summary") == 1
    assert text.endswith("a &lt;/Conversation_Summary > b</conversation_summary>")


def test_raw_is_what_was_appended_and_for_a_summary_its_text() -> None:
    summary = Message.summary("k", "so far", 3, 0, None)
    written = rendered([summary, *history(*TURN)], "raw")
    assert written == [{"id": "frontdesk-summary:k", "role": "system", "content": "so far"}, *TURN]
