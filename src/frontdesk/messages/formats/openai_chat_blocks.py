"""The content blocks and tool calls of OpenAI chat messages: what each may contain, and how it is read."""

from __future__ import annotations

from typing import Any

from frontdesk.messages.exact_json import decode_arguments
from frontdesk.messages.formats.content_blocks import (
    MALFORMED_CALL,
    REFUSAL,
    dict_at,
    file_at_url,
    keep,
    other,
    read_file,
    text_at,
    type_of,
)
from frontdesk.messages.parts import DataPart, FilePart, Part, TextPart, ToolCallPart

_NESTED = {
    "image_url": ("url", "detail"),
    "input_audio": ("data", "format"),
    "file": ("file_data", "file_id", "filename"),
}
_ROLES_OF_BLOCKS = {
    "text": ("system", "developer", "user", "assistant", "tool"),
    "refusal": ("assistant",),
    "image_url": ("user",),
    "input_audio": ("user",),
    "file": ("user",),
}
_DETAILS = ("auto", "low", "high", "original")


def is_file(block: Any) -> bool:
    return type_of(block) == "file" and type(block.get("file")) is dict


def read_block(block: Any) -> Part:
    match type_of(block):
        case "text" if type(block.get("text")) is str:
            return TextPart(block["text"])
        case "refusal" if type(block.get("refusal")) is str:
            return DataPart(REFUSAL, block["refusal"])
        case "image_url":
            return file_at_url("image/*", text_at(dict_at(block, "image_url"), "url"))
        case "input_audio":
            audio = dict_at(block, "input_audio")
            return FilePart(f"audio/{text_at(audio, 'format') or '*'}", data=text_at(audio, "data") or None)
        case "file" if is_file(block):
            return read_file(block["file"], "file_data")
    return other(block)


def clean_block(block: Any, role: str) -> dict[str, Any] | None:
    """The block with the keys that the API knows; None where it does not accept the block in this role."""
    kind = type_of(block)
    if role not in _ROLES_OF_BLOCKS.get(kind, ()):
        return None
    if kind in ("text", "refusal"):
        return keep(block, ("type", kind)) if text_at(block, kind).strip() else None
    nested = {key: value for key in _NESTED[kind] if (value := text_at(dict_at(block, kind), key))}
    if kind == "image_url" and nested.get("detail") not in (None, *_DETAILS):
        del nested["detail"]
    complete = {
        "image_url": "url" in nested,
        "input_audio": "data" in nested and nested.get("format") in ("wav", "mp3"),
        "file": "file_data" in nested or "file_id" in nested,
    }
    return {"type": kind, kind: nested} if complete[kind] else None


def read_call(call: Any) -> Part:
    if type(call) is dict and text_at(call, "id"):
        function = dict_at(call, "function")
        if text_at(function, "name"):
            arguments = function.get("arguments")
            decoded = arguments if type(arguments) is dict else decode_arguments(text_at(function, "arguments"))
            return ToolCallPart(call["id"], function["name"], decoded)
        custom = dict_at(call, "custom")
        if text_at(custom, "name"):
            return ToolCallPart(call["id"], custom["name"], text_at(custom, "input"))
    return DataPart(MALFORMED_CALL, call)


def function_call_id(name: str) -> str:
    """The id of a call in the form that was used before there were ids: by the function's name."""
    return f"function:{name}"
