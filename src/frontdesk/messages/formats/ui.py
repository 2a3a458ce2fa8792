"""The AI SDK's UIMessage: `parts` with tool call and result folded into one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontdesk.messages.formats.content_blocks import (
    file_at_url,
    other,
    readable,
    result_text,
    text_at,
    type_of,
    url_of,
)
from frontdesk.messages.formats.excerpts import shorten_content, shorten_output, shorten_texts
from frontdesk.messages.formats.format import Format, Limits, Rendering, Source
from frontdesk.messages.formats.pairing import MessagePiece, in_one_turn, pair, role_of
from frontdesk.messages.formats.tags import tag_summary
from frontdesk.messages.parts import DataPart, FilePart, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart

NAME = "ui"
_UI_ROLES = {
    "system": "system",
    "developer": "system",
    "assistant": "assistant",
    "tool": "assistant",
    "function": "assistant",
}


def matches(raw: dict[str, Any]) -> bool:
    return type(raw.get("parts")) is list and type(raw.get("role")) is str


def read(raw: dict[str, Any]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for part in raw["parts"]:
        parts += _parts(part)
    return tuple(parts)


def _parts(part: Any) -> list[Part]:
    kind = type_of(part)
    if kind == "text" and type(part.get("text")) is str:
        return [TextPart(part["text"])]
    if kind == "reasoning" and type(part.get("text")) is str:
        return [ReasoningPart(part["text"])]
    if kind == "file" and text_at(part, "url"):
        media_type = text_at(part, "mediaType") or "application/octet-stream"
        return [file_at_url(media_type, part["url"], text_at(part, "filename") or None)]
    if (kind == "dynamic-tool" or kind.startswith("tool-")) and text_at(part, "toolCallId"):
        return _tool_parts(part, kind)
    return [other(part)]


def _tool_parts(part: dict[str, Any], kind: str) -> list[Part]:
    id = part["toolCallId"]
    name = text_at(part, "toolName") if kind == "dynamic-tool" else kind.removeprefix("tool-")
    call = ToolCallPart(id, name, part.get("input", part.get("rawInput")))
    match part.get("state"):
        case "output-available":
            return [call, ToolResultPart(id, part.get("output"), name)]
        case "output-error":
            return [call, ToolResultPart(id, text_at(part, "errorText"), name, is_error=True)]
        case "output-denied":
            return [call, ToolResultPart(id, "The user denied this tool call.", name, is_error=True)]
    return [call]


def write(messages: Sequence[Source], rendering: Rendering) -> list[dict[str, Any]]:
    """UIMessages: results folded into their calls, a call without one shown as still running. They have a system role
    and names of their own for everything else, so `rendering` has no effect."""
    written: list[dict[str, Any]] = []
    before: Source | None = None
    for message, row in zip(messages, pair(messages), strict=True):
        made = _as_given(message, row) or _built(message, row)
        if made is not None:
            if before is not None and in_one_turn(before, message):
                written[-1]["parts"] = [*written[-1]["parts"], *made["parts"]]
            else:
                written.append(made)
            before = message
    return written


def _as_given(message: Source, row: list[MessagePiece]) -> dict[str, Any] | None:
    raw = message.raw
    answered_elsewhere = any(piece.answer is not None and piece.answer.message is not message for piece in row)
    if message.shape != NAME or answered_elsewhere or raw["role"] not in ("system", "user", "assistant"):
        return None
    if not all(map(type_of, raw["parts"])):
        return None
    return {**raw, "id": message.id}


def _built(message: Source, row: list[MessagePiece]) -> dict[str, Any] | None:
    role = _UI_ROLES.get(role_of(message), "user")
    if message.is_summary:
        parts: list[dict[str, Any]] = [{"type": "text", "text": tag_summary(message.id, message.text)}]
    else:
        parts = [part for piece in row if (part := _written_part(piece)) is not None]
    if not parts and row:
        return None  # results that are shown with their calls
    parts = parts or [{"type": "text", "text": ""}]
    metadata = {"metadata": message.metadata} if message.metadata else {}
    return {"id": message.id, "role": role, **metadata, "parts": parts}


def _written_part(piece: MessagePiece) -> dict[str, Any] | None:
    part = piece.part
    match part:
        case ToolCallPart():
            return _written_tool(part, piece.answer)
        case ToolResultPart():
            return None if piece.is_answer else _written_tool(ToolCallPart(part.call_id, part.name or "", {}), piece)
        case ReasoningPart():
            return {"type": "reasoning", "text": part.text} if part.text else None
        case FilePart() if (url := url_of(part)) is not None:
            named = {"filename": part.name} if part.name else {}
            return {"type": "file", "mediaType": part.media_type, **named, "url": url}
    text = readable(part)
    if text is not None:
        return {"type": "text", "text": text} if text else None
    assert isinstance(part, DataPart)
    if part.type == "step-start" or part.type.startswith(("data-", "source-")):
        return dict(part.data) if type(part.data) is dict and type_of(part.data) == part.type else None
    return {"type": f"data-{part.type}", "data": part.data}


def _written_tool(call: ToolCallPart, answer: MessagePiece | None) -> dict[str, Any]:
    tool = {"type": f"tool-{call.name or 'tool'}", "toolCallId": call.id, "input": call.arguments}
    if answer is None:
        return {**tool, "state": "input-available"}
    result = answer.part
    assert isinstance(result, ToolResultPart)
    if result.is_error:
        return {**tool, "state": "output-error", "errorText": result_text(result.content)}
    return {**tool, "state": "output-available", "output": result.content}


def shorten(raw: dict[str, Any], limits: Limits) -> dict[str, Any]:
    return {**raw, "parts": shorten_content(raw["parts"], limits, _shorten_part)}


def _shorten_part(part: dict[str, Any], limits: Limits) -> dict[str, Any]:
    kind = type_of(part)
    if kind != "dynamic-tool" and not kind.startswith("tool-"):
        return part
    shorter = shorten_texts(part, ("errorText",), limits.tool)
    return {**shorter, "output": shorten_output(part["output"], limits.tool)} if "output" in part else shorter


FORMAT = Format(NAME, matches, read, write, shorten)
