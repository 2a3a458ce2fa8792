"""Messages of Microsoft's Agent Framework, as it writes them as JSON: a role and `contents`, which say what they are.
They are read; what goes into a model call is written in another format."""

from __future__ import annotations

from typing import Any

from frontdesk.messages.exact_json import decode_arguments
from frontdesk.messages.formats.content_blocks import file_at_url, other, text_at, type_of
from frontdesk.messages.formats.excerpts import cut_middle, shorten_output
from frontdesk.messages.formats.format import Format, Limits
from frontdesk.messages.formats.openai_chat_writer import write
from frontdesk.messages.parts import Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart

NAME = "agent-framework"


def matches(raw: dict[str, Any]) -> bool:
    contents = raw.get("contents")
    return type(raw.get("role")) is str and type(contents) is list and all(map(type_of, contents))


def read(raw: dict[str, Any]) -> tuple[Part, ...]:
    return tuple(map(_part, raw["contents"]))


def _part(block: dict[str, Any]) -> Part:
    match block["type"]:
        case "text":
            return TextPart(text_at(block, "text"))
        case "text_reasoning":
            return ReasoningPart(text_at(block, "text"), text_at(block, "protected_data") or None)
        case "function_call":
            arguments = block.get("arguments")
            known = decode_arguments(arguments) if type(arguments) is str else arguments
            return ToolCallPart(text_at(block, "call_id"), text_at(block, "name"), known)
        case "function_result":
            error = text_at(block, "exception")
            return ToolResultPart(text_at(block, "call_id"), block.get("result") or error, is_error=bool(error))
        case "data" | "uri":
            media_type = text_at(block, "media_type") or "application/octet-stream"
            return file_at_url(media_type, text_at(block, "uri"))
    return other(block)


def shorten(raw: dict[str, Any], limits: Limits) -> dict[str, Any]:
    return {**raw, "contents": [_shorten(block, limits) for block in raw["contents"]]}


def _shorten(block: dict[str, Any], limits: Limits) -> dict[str, Any]:
    if block["type"] == "text":
        return {**block, "text": cut_middle(text_at(block, "text"), limits.text)}
    if block["type"] == "function_result":
        shown = {key: value for key, value in block.items() if key != "items"}  # they repeat the result
        return {**shown, "result": shorten_output(block.get("result"), limits.tool)}
    return block


FORMAT = Format(NAME, matches, read, write, shorten)
