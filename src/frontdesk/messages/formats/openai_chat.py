"""OpenAI chat completion messages: `tool_calls` on the assistant, one `tool` message for each result."""

from __future__ import annotations

from typing import Any

from frontdesk.messages.exact_json import decode_arguments
from frontdesk.messages.formats.content_blocks import (
    REFUSAL,
    has_own_blocks,
    list_at,
    text_at,
    type_of,
)
from frontdesk.messages.formats.excerpts import shorten_content, shorten_output
from frontdesk.messages.formats.format import Format, Limits
from frontdesk.messages.formats.openai_chat_blocks import function_call_id, is_file, read_block, read_call
from frontdesk.messages.formats.openai_chat_writer import NAME, write
from frontdesk.messages.parts import DataPart, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart

_KEYS = frozenset({"tool_calls", "tool_call_id", "refusal", "function_call", "audio", "reasoning_content"})
_ROLES = ("tool", "function", "developer")
_BLOCKS = frozenset({"image_url", "input_audio", "refusal"})


def matches(raw: dict[str, Any]) -> bool:
    if type(raw.get("role")) is not str:
        return False
    if not _KEYS.isdisjoint(raw):
        return True
    if raw["role"] in _ROLES:
        return not has_own_blocks(raw)
    return any(type_of(block) in _BLOCKS or is_file(block) for block in list_at(raw, "content"))


def read(raw: dict[str, Any]) -> tuple[Part, ...]:
    content = raw.get("content")
    if raw["role"] == "tool" and text_at(raw, "tool_call_id"):
        return (ToolResultPart(raw["tool_call_id"], content, text_at(raw, "name") or None),)
    if raw["role"] == "function" and text_at(raw, "name"):
        return (ToolResultPart(function_call_id(raw["name"]), content, raw["name"]),)
    parts: list[Part] = []
    if text_at(raw, "reasoning_content"):
        parts.append(ReasoningPart(raw["reasoning_content"]))
    if type(content) is str:
        parts += [TextPart(content)] if content else []
    elif content is not None:
        parts += [read_block(block) for block in (content if type(content) is list else [content])]
    if text_at(raw, "refusal"):
        parts.append(DataPart(REFUSAL, raw["refusal"]))
    parts += [read_call(call) for call in list_at(raw, "tool_calls")]
    parts += _read_function_call(raw.get("function_call"))
    parts += [DataPart("audio", raw["audio"])] if raw.get("audio") is not None else []
    return tuple(parts)


def _read_function_call(given: Any) -> list[Part]:
    """The call of a message in the form that OpenAI had before `tool_calls`."""
    if given is None:
        return []
    if type(given) is dict and text_at(given, "name"):
        arguments = decode_arguments(text_at(given, "arguments"))
        return [ToolCallPart(function_call_id(given["name"]), given["name"], arguments)]
    return [DataPart("function_call", given)]


def shorten(raw: dict[str, Any], limits: Limits) -> dict[str, Any]:
    content = raw.get("content")
    is_result = raw["role"] == "tool" and bool(text_at(raw, "tool_call_id"))
    if is_result or (raw["role"] in ("tool", "function") and type(content) is str):
        return {**raw, "content": shorten_output(content, limits.tool)}
    return {**raw, "content": shorten_content(content, limits)} if "content" in raw else raw


FORMAT = Format(NAME, matches, read, write, shorten)
