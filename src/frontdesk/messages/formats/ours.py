"""Frontdesk's own message shape, which is also how a message without marks of any other shape is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from frontdesk.errors import InvalidMessageError
from frontdesk.messages import (
    DataPart,
    FilePart,
    Message,
    Part,
    Reading,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from frontdesk.messages.formats.blocks import other, text_at, type_of


def matches(raw: dict[str, Any]) -> bool:
    """Whether it has a role: every message of any shape that nobody else claims is read as ours."""
    return type(raw.get("role")) is str


def read(raw: dict[str, Any]) -> Reading:
    content = raw.get("content")
    if type(content) is str:
        return Reading(raw["role"], (TextPart(content),) if content else ())
    if content is None:
        return Reading(raw["role"], ())
    blocks = content if type(content) is list else [content]
    return Reading(raw["role"], tuple(_part(block) for block in blocks))


def write(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Every message exactly as it was given."""
    return [message.raw for message in messages]


def compose(
    id: str | None,
    role: str,
    content: str | Sequence[Part | Mapping[str, Any]],
    *,
    created_at: datetime | None,
    author: str | None,
    metadata: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The raw message for what a caller of `Message(...)` said, and no more than that."""
    raw: dict[str, Any] = {} if id is None else {"id": id}
    raw["role"] = role
    if isinstance(content, str | bytes) or not isinstance(content, Sequence):
        raw["content"] = content
    else:
        raw["content"] = [_block(part) for part in content]
    if created_at is not None:
        if not isinstance(created_at, datetime) or created_at.utcoffset() is None:
            raise InvalidMessageError("created_at must be a datetime with a time zone")
        raw["created_at"] = created_at.isoformat()
    if author is not None:
        raw["author"] = author
    if metadata is not None:
        raw["metadata"] = dict(metadata)
    return raw


def _part(block: Any) -> Part:
    if type(block) is str:
        return TextPart(block)
    match type_of(block):
        case "text" if type(block.get("text")) is str:
            return TextPart(block["text"])
        case "reasoning" if type(block.get("text")) is str:
            return ReasoningPart(block["text"], text_at(block, "signature") or None)
        case "tool-call" if text_at(block, "id"):
            return ToolCallPart(block["id"], text_at(block, "name"), block.get("arguments"))
        case "tool-result" if text_at(block, "call_id"):
            name = text_at(block, "name") or None
            return ToolResultPart(block["call_id"], block.get("content"), name, block.get("is_error") is True)
        case "file":
            media_type = text_at(block, "media_type") or "application/octet-stream"
            optional = (text_at(block, key) or None for key in ("name", "url", "data"))
            return FilePart(media_type, *optional)
        case "data" if "data" in block:
            return DataPart(text_at(block, "data_type") or "data", block["data"])
    return other(block)


def _block(part: Part | Mapping[str, Any] | str) -> Any:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ReasoningPart():
            return _without_none({"type": "reasoning", "text": part.text, "signature": part.signature})
        case ToolCallPart():
            return {"type": "tool-call", "id": part.id, "name": part.name, "arguments": part.arguments}
        case ToolResultPart():
            block = {"type": "tool-result", "call_id": part.call_id, "content": part.content}
            block |= _without_none({"name": part.name, "is_error": part.is_error or None})
            return block
        case FilePart():
            fields = {"media_type": part.media_type, "name": part.name, "url": part.url, "data": part.data}
            return _without_none({"type": "file"} | fields)
        case DataPart():
            named = {} if part.type == "data" else {"data_type": part.type}
            return {"type": "data", **named, "data": part.data}
    return dict(part) if isinstance(part, Mapping) else part


def _without_none(block: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if value is not None}
