"""OpenAI chat completion messages: `tool_calls` on the assistant, one `tool` message for each result."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import NoneType
from typing import Any

from frontdesk.messages.exact_json import decode_arguments, encode_arguments
from frontdesk.messages.formats.content_blocks import (
    REFUSAL,
    dict_at,
    file_at_url,
    has_own_blocks,
    is_image,
    list_at,
    other,
    read_file,
    readable,
    result_text,
    safe_name,
    text_at,
    text_of_file,
    type_of,
    url_of,
)
from frontdesk.messages.formats.excerpts import shorten_content, shorten_output
from frontdesk.messages.formats.format import Format, Limits, Source
from frontdesk.messages.formats.pairing import CallStep, MessagePiece, safe_id, steps
from frontdesk.messages.formats.summary_tag import wrap_summary
from frontdesk.messages.parts import DataPart, FilePart, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart

NAME = "openai"

_KEYS = frozenset({"tool_calls", "tool_call_id", "refusal", "function_call", "audio", "reasoning_content"})
_ROLES = ("tool", "function", "developer")
_BLOCKS = frozenset({"image_url", "input_audio", "refusal"})
_PRIVATE = frozenset({"id", "created_at", "createdAt", "author", "metadata", "annotations", "tool_call_id"})
_CONTENT_KEYS = ("content", "tool_calls", "refusal", "audio", "function_call")
_KINDS: dict[str, tuple[type, ...]] = {
    "tool_calls": (list, NoneType),
    "refusal": (str, NoneType),
    "audio": (dict, NoneType),
    "function_call": (dict, NoneType),
}
_NAME = re.compile(r"[^\s<|\\/>]{1,64}")
_LONGEST_CALL_ID = 40
_AUDIO_FORMATS = {"audio/wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}


def matches(raw: dict[str, Any]) -> bool:
    if type(raw.get("role")) is not str:
        return False
    if not _KEYS.isdisjoint(raw):
        return True
    if raw["role"] in _ROLES:
        return not has_own_blocks(raw)
    return any(type_of(block) in _BLOCKS or _is_file(block) for block in list_at(raw, "content"))


def read(raw: dict[str, Any]) -> tuple[Part, ...]:
    content = raw.get("content")
    if raw["role"] == "tool" and text_at(raw, "tool_call_id"):
        return (ToolResultPart(raw["tool_call_id"], content, text_at(raw, "name") or None),)
    parts: list[Part] = []
    if text_at(raw, "reasoning_content"):
        parts.append(ReasoningPart(raw["reasoning_content"]))
    if type(content) is str:
        parts += [TextPart(content)] if content else []
    elif content is not None:
        parts += [_part(block) for block in (content if type(content) is list else [content])]
    if text_at(raw, "refusal"):
        parts.append(DataPart(REFUSAL, raw["refusal"]))
    parts += [_call(call) for call in list_at(raw, "tool_calls")]
    parts += [DataPart(key, raw[key]) for key in ("function_call", "audio") if raw.get(key) is not None]
    return tuple(parts)


def _is_file(block: Any) -> bool:
    return type_of(block) == "file" and type(block.get("file")) is dict


def _part(block: Any) -> Part:
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
        case "file" if _is_file(block):
            return read_file(block["file"], "file_data")
    return other(block)


def _call(call: Any) -> Part:
    if type(call) is dict and text_at(call, "id"):
        function = dict_at(call, "function")
        if text_at(function, "name"):
            return ToolCallPart(call["id"], function["name"], decode_arguments(text_at(function, "arguments")))
        custom = dict_at(call, "custom")
        if text_at(custom, "name"):
            return ToolCallPart(call["id"], custom["name"], text_at(custom, "input"))
    return DataPart("tool_calls", call)


def write(messages: Sequence[Source]) -> list[dict[str, Any]]:
    """Chat messages: each assistant message with calls is followed directly by all their results."""
    written: list[dict[str, Any]] = []
    for step in steps(messages):
        if step.role == "tool":
            continue
        message = _as_given(step) or _built(step)
        if message is not None:
            written.append(message)
            written += [_result(*call) for call in step.calls()]
    return written


def _as_given(step: CallStep) -> dict[str, Any] | None:
    """The raw message without our keys and unanswered calls, where it is a valid chat message that is not empty."""
    raw = step.message.raw
    if not step.complete or step.message.is_summary or not _is_valid(raw, step.role):
        return None
    if step.role == "assistant" and step.message.shape == NAME:
        message = {key: value for key, value in raw.items() if key not in _PRIVATE}
    else:
        message = {key: raw[key] for key in ("role", "content", "name") if key in raw}
    if "name" in message and not _NAME.fullmatch(text_at(message, "name")):
        del message["name"]
    if dict_at(message, "audio"):
        message["audio"] = {"id": text_at(message["audio"], "id")}
    answered = {call.id for _, call, _, _ in step.calls()}
    message["tool_calls"] = [call for call in list_at(raw, "tool_calls") if _take(call, answered)]
    if not message["tool_calls"]:
        del message["tool_calls"]
    return message if any(message.get(key) for key in _CONTENT_KEYS) else None


def _take(call: dict[str, Any], wanted: set[str]) -> bool:
    found = call["id"] in wanted
    wanted.discard(call["id"])
    return found


def _is_valid(raw: dict[str, Any], role: str) -> bool:
    """Whether the API accepts the message as it is, apart from our keys."""
    if "type" in raw or "parts" in raw or raw.get("role") != role:
        return False
    if role == "function":
        return type(raw.get("content")) is str and bool(text_at(raw, "name"))
    if any(type(raw.get(key)) not in kinds for key, kinds in _KINDS.items()):
        return False
    if not all(_is_valid_call(call) for call in list_at(raw, "tool_calls")):
        return False
    content = raw.get("content")
    if type(content) is list:
        return bool(content) and all(_is_valid_block(block, role) for block in content)
    return type(content) is str or (content is None and role == "assistant")


def _is_valid_call(call: Any) -> bool:
    if type(call) is not dict or not text_at(call, "id"):
        return False
    if call.get("type") == "custom":
        custom = dict_at(call, "custom")
        return bool(text_at(custom, "name")) and type(custom.get("input")) is str
    function = dict_at(call, "function")
    return call.get("type") == "function" and bool(text_at(function, "name")) and type(function.get("arguments")) is str


def _is_valid_block(block: Any, role: str) -> bool:
    match type_of(block):
        case "text":
            return type(block.get("text")) is str
        case "refusal":
            return role == "assistant" and type(block.get("refusal")) is str
        case "image_url":
            return role == "user" and bool(text_at(dict_at(block, "image_url"), "url"))
        case "input_audio":
            audio = dict_at(block, "input_audio")
            return role == "user" and audio.get("format") in ("wav", "mp3") and bool(text_at(audio, "data"))
        case "file":
            return role == "user" and _is_file(block)
    return False


def _built(step: CallStep) -> dict[str, Any] | None:
    if step.message.is_summary:
        return {"role": "system", "content": wrap_summary(step.message)}
    if step.role == "function":
        return None
    message: dict[str, Any] = {"role": step.role}
    if step.role == "user":
        blocks = [block for piece in step.pieces if (block := _user_block(piece)) is not None]
        only_text = all(block["type"] == "text" for block in blocks)
        message["content"] = "\n".join(block["text"] for block in blocks) if only_text else blocks
    else:
        texts = [text for piece in step.pieces if (text := readable(piece.part))]
        message["content"] = "\n".join(texts) or None
    calls = [_written_call(piece, call) for piece, call, _, _ in step.calls()]
    if calls:
        message["tool_calls"] = calls
    return message if calls or message["content"] else None


def _user_block(piece: MessagePiece) -> dict[str, Any] | None:
    part, block = piece.part, piece.block
    if _is_valid_block(block, "user") and _part(block) == part:
        return dict(block)
    if isinstance(part, FilePart) and text_of_file(part) is None:
        url = url_of(part)
        if is_image(part) and url is not None:
            return {"type": "image_url", "image_url": {"url": url}}
        if part.data is not None and part.media_type in _AUDIO_FORMATS:
            audio = {"data": part.data, "format": _AUDIO_FORMATS[part.media_type]}
            return {"type": "input_audio", "input_audio": audio}
        if part.data is not None:
            return {"type": "file", "file": {"filename": part.name or "file", "file_data": url}}
    text = readable(part)
    return {"type": "text", "text": text} if text else None


def _written_call(piece: MessagePiece, call: ToolCallPart) -> dict[str, Any]:
    function = {"name": safe_name(call.name), "arguments": encode_arguments(call.arguments)}
    return {"id": _call_id(piece, call), "type": "function", "function": function}


def _call_id(piece: MessagePiece, call: ToolCallPart) -> str:
    """Ids in chat messages are kept whatever they are, since the provider made them."""
    return call.id if list_at(piece.message.raw, "tool_calls") else safe_id(call.id, _LONGEST_CALL_ID)


def _result(piece: MessagePiece, call: ToolCallPart, answer: MessagePiece, result: ToolResultPart) -> dict[str, Any]:
    content = result.content
    if type(content) is not list or not content or not all(_is_valid_block(block, "tool") for block in content):
        content = result_text(content)
    return {"role": "tool", "tool_call_id": _call_id(piece, call), "content": content}


def shorten(raw: dict[str, Any], limits: Limits) -> dict[str, Any]:
    content = raw.get("content")
    is_result = raw["role"] == "tool" and bool(text_at(raw, "tool_call_id"))
    if is_result or (raw["role"] in ("tool", "function") and type(content) is str):
        return {**raw, "content": shorten_output(content, limits.tool)}
    return {**raw, "content": shorten_content(content, limits)} if "content" in raw else raw


FORMAT = Format(NAME, matches, read, write, shorten)
