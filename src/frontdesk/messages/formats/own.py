"""Frontdesk's own format, which is used for messages of no other format; `raw` returns messages as they were given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from frontdesk.errors import InvalidMessageError
from frontdesk.messages.formats.content_blocks import other, text_at, type_of
from frontdesk.messages.formats.excerpts import shorten_content, shorten_output
from frontdesk.messages.formats.format import Format, Limits, Rendering, Source
from frontdesk.messages.parts import DataPart, FilePart, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from frontdesk.record import Record


def matches(raw: dict[str, Any]) -> bool:
    """Whether it has a role: every message that no other format claims is read as ours."""
    return type(raw.get("role")) is str


def read(raw: dict[str, Any]) -> tuple[Part, ...]:
    content = raw.get("content")
    if type(content) is str:
        return (TextPart(content),) if content else ()
    if content is None:
        return ()
    return tuple(map(_part, content if type(content) is list else [content]))


def write(messages: Sequence[Source], rendering: Rendering) -> list[dict[str, Any]]:
    """Every message exactly as it was given."""
    return [message.raw for message in messages]


def shorten(raw: dict[str, Any], limits: Limits) -> dict[str, Any]:
    content = raw.get("content")
    if type(content) is str and raw.get("role") in ("tool", "function"):
        return {**raw, "content": shorten_output(content, limits.tool)}
    return {**raw, "content": shorten_content(content, limits, _shorten_block)} if "content" in raw else raw


def compose(
    id: str | None,
    role: str,
    content: str | Sequence[Part | Mapping[str, Any]],
    *,
    created_at: datetime | None,
    author: str | None,
    metadata: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The raw message with exactly what a caller of `Message(...)` gave."""
    raw: dict[str, Any] = {} if id is None else {"id": id}
    raw["role"] = role
    if isinstance(content, str | bytes) or not isinstance(content, Sequence):
        raw["content"] = content
    else:
        raw["content"] = list(map(_block, content))
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
    if isinstance(part, Record):
        return part.to_dict()
    return dict(part) if isinstance(part, Mapping) else part


def _shorten_block(block: dict[str, Any], limits: Limits) -> dict[str, Any]:
    if type_of(block) == "tool-result" and "content" in block:
        return {**block, "content": shorten_output(block["content"], limits.tool)}
    return block


FORMAT = Format("raw", matches, read, write, shorten)
