"""Messages as Strands stores them in a session: a message of the Converse API of Bedrock with its number, and with the
message that replaces it if it was redacted. They are read; what goes into a model call is written in another format."""

from __future__ import annotations

from typing import Any

from frontdesk.messages.formats.anthropic_writer import write
from frontdesk.messages.formats.content_blocks import dict_at, list_at, text_at
from frontdesk.messages.formats.excerpts import cut_middle, shorten_output
from frontdesk.messages.formats.format import Format, Limits
from frontdesk.messages.parts import DataPart, FilePart, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart

NAME = "strands"
_ROLES = ("user", "assistant")
_FILES = {"image": "image/", "video": "video/", "audio": "audio/", "document": "application/"}


def matches(raw: dict[str, Any]) -> bool:
    message = dict_at(raw, "message")
    is_numbered = type(raw.get("message_id")) is int and "role" not in raw
    return is_numbered and message.get("role") in _ROLES and type(message.get("content")) is list


def role_of_message(raw: dict[str, Any]) -> str:
    """The role of a message: one that consists of tool results belongs to a tool."""
    message = _shown(raw)
    blocks = list_at(message, "content")
    if blocks and all(type(block) is dict and "toolResult" in block for block in blocks):
        return "tool"
    return text_at(message, "role") or text_at(raw["message"], "role")


def read(raw: dict[str, Any]) -> tuple[Part, ...]:
    return tuple(_part(block) for block in list_at(_shown(raw), "content") if type(block) is dict)


def _shown(raw: dict[str, Any]) -> dict[str, Any]:
    """What replaces a redacted message, or the message itself."""
    return dict_at(raw, "redact_message") or dict_at(raw, "message")


def _part(block: dict[str, Any]) -> Part:
    if type(block.get("text")) is str:
        return TextPart(block["text"])
    kind = next((key for key, value in block.items() if type(value) is dict), "")
    value = dict_at(block, kind)
    if kind == "toolUse":
        return ToolCallPart(text_at(value, "toolUseId"), text_at(value, "name"), value.get("input"))
    if kind == "toolResult":
        content = _output_in(list_at(value, "content"))
        return ToolResultPart(text_at(value, "toolUseId"), content, is_error=value.get("status") == "error")
    if kind == "reasoningContent":
        text = dict_at(value, "reasoningText")
        return ReasoningPart(text_at(text, "text"), text_at(text, "signature") or None)
    if kind in _FILES:
        return _file(kind, value)
    return DataPart(kind or "unknown", block)


def _output_in(blocks: list[Any]) -> Any:
    """The output of a tool: its text, or its JSON value, where it is nothing else."""
    if blocks and all(type(block) is dict and type(block.get("text")) is str for block in blocks):
        return "\n".join(block["text"] for block in blocks)
    if len(blocks) == 1 and type(blocks[0]) is dict and "json" in blocks[0]:
        return blocks[0]["json"]
    return blocks


def _file(kind: str, value: dict[str, Any]) -> FilePart:
    """A file, whose bytes Strands writes as base64 in an object, or which is at an address."""
    source = dict_at(value, "source")
    url = text_at(dict_at(source, "location"), "uri") or None
    data = text_at(dict_at(source, "bytes"), "data") or None
    return FilePart(_FILES[kind] + (text_at(value, "format") or "*"), text_at(value, "name") or None, url, data)


def shorten(raw: dict[str, Any], limits: Limits) -> dict[str, Any]:
    key = "redact_message" if dict_at(raw, "redact_message") else "message"
    message = raw[key]
    return {**raw, key: {**message, "content": [_shorten(block, limits) for block in list_at(message, "content")]}}


def _shorten(block: Any, limits: Limits) -> Any:
    if type(block) is not dict:
        return block
    if type(block.get("text")) is str:
        return {**block, "text": cut_middle(block["text"], limits.text)}
    result = dict_at(block, "toolResult")
    if not result:
        return block
    content = [_shorten_output(output, limits) for output in list_at(result, "content")]
    return {**block, "toolResult": {**result, "content": content}}


def _shorten_output(output: Any, limits: Limits) -> Any:
    for key in ("text", "json"):
        if type(output) is dict and key in output:
            return {**output, key: shorten_output(output[key], limits.tool)}
    return output


FORMAT = Format(NAME, matches, read, write, shorten, role_of_message)
