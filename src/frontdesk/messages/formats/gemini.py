"""Gemini contents: a role ("user" or "model") and parts that are distinguished by their keys. Google's packages write
the keys in camel case or in snake case; both are read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from frontdesk.messages.formats.authors import Speakers
from frontdesk.messages.formats.content_blocks import (
    NO_TEXT,
    dict_at,
    readable,
    readable_from_user,
    safe_name,
    split_data_url,
    text_at,
    text_of_file,
)
from frontdesk.messages.formats.excerpts import cut_middle, shorten_output
from frontdesk.messages.formats.format import Format, Limits, Rendering, Source
from frontdesk.messages.formats.notes import note_of
from frontdesk.messages.formats.pairing import CallIds, CallStep, MessagePiece, is_in_order, steps
from frontdesk.messages.parts import DataPart, FilePart, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart

NAME = "gemini"
_ROLES = ("user", "model")
_KINDS = (
    "text",
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
    "executableCode",
    "codeExecutionResult",
)
_SNAKE = {
    "function_call": "functionCall",
    "function_response": "functionResponse",
    "inline_data": "inlineData",
    "file_data": "fileData",
    "executable_code": "executableCode",
    "code_execution_result": "codeExecutionResult",
    "thought_signature": "thoughtSignature",
    "video_metadata": "videoMetadata",
}
_KEYS = frozenset({*_KINDS, "thought", "thoughtSignature", "videoMetadata"})
"""of a part"""
_LONGEST_CALL_ID = 64
_ERROR_KEYS = frozenset({"error"})
_OUTPUT_KEYS = ("output", "result")


def matches(raw: dict[str, Any]) -> bool:
    parts = raw.get("parts")
    return raw.get("role") in _ROLES and type(parts) is list and bool(parts) and all(map(_is_part, parts))


def _is_part(part: Any) -> bool:
    return type(part) is dict and "type" not in part and _kind_of(part) is not None


def _kind_of(part: dict[str, Any]) -> str | None:
    for key, value in part.items():
        kind = _SNAKE.get(key, key)
        if value is not None and kind in _KINDS:
            return kind
    return None


def role_of_content(raw: dict[str, Any]) -> str:
    """The role of a content: one that consists of tool results belongs to a tool."""
    if raw["role"] == "model":
        return "assistant"
    return "tool" if all(_kind_of(part) == "functionResponse" for part in raw["parts"]) else "user"


def read(raw: dict[str, Any]) -> tuple[Part, ...]:
    return read_parts(raw["parts"])


def read_parts(parts: Sequence[dict[str, Any]]) -> tuple[Part, ...]:
    """The parts of a content. A call without an id, which Gemini allows, is answered by the next response of its name:
    both get the name and their number as an id."""
    counts: dict[tuple[str, str], int] = {}
    return tuple(_part(part, counts) for part in parts)


def _part(part: dict[str, Any], counts: dict[tuple[str, str], int]) -> Part:
    kind = _kind_of(part) or ""
    value = next((part[key] for key in part if _SNAKE.get(key, key) == kind), None)
    if kind == "text" and type(value) is str:
        signature = text_at(part, "thoughtSignature") or text_at(part, "thought_signature") or None
        return ReasoningPart(value, signature) if part.get("thought") is True else TextPart(value)
    if type(value) is not dict:
        return DataPart(kind or "unknown", part)
    name = text_at(value, "name")
    match kind:
        case "functionCall":
            return ToolCallPart(_id_of(value, "call", name, counts), name, value.get("args") or {})
        case "functionResponse":
            content = value.get("response")
            is_error = type(content) is dict and content.keys() == _ERROR_KEYS
            return ToolResultPart(_id_of(value, "result", name, counts), _output_in(content), name or None, is_error)
        case "inlineData":
            return FilePart(_media_type(value), text_at(value, "displayName") or None, data=text_at(value, "data"))
        case "fileData":
            url = text_at(value, "fileUri") or text_at(value, "file_uri") or None
            return FilePart(_media_type(value), text_at(value, "displayName") or None, url=url)
    return DataPart(kind, part)


def _media_type(value: dict[str, Any]) -> str:
    return text_at(value, "mimeType") or text_at(value, "mime_type") or "application/octet-stream"


def _id_of(value: dict[str, Any], what: str, name: str, counts: dict[tuple[str, str], int]) -> str:
    if id := text_at(value, "id"):
        return id
    counts[what, name] = counts.get((what, name), 0) + 1
    return f"{name}#{counts[what, name]}"


def _output_in(content: Any) -> Any:
    """The output in a response, which must be an object: Google's packages put other values under a key."""
    if type(content) is dict and len(content) == 1:
        return next((content[key] for key in (*_OUTPUT_KEYS, *_ERROR_KEYS) if key in content), content)
    return content


def write(messages: Sequence[Source], rendering: Rendering) -> list[dict[str, Any]]:
    """Contents that alternate; the responses come directly after their calls. There are no system messages: leading
    ones, and those in the middle, become notes in a user content. If all are of this format, and every call is answered
    next, they stay as they were given, with the signatures of their thoughts."""
    if all(message.shape == NAME for message in messages) and is_in_order(messages) and _alternate(messages):
        return [_clean(message.raw) for message in messages]
    writer = _GeminiWriter(messages, rendering)
    for step in steps(messages):
        writer.add(step)
    return writer.written


def _alternate(messages: Sequence[Source]) -> bool:
    return all(one.raw["role"] != other.raw["role"] for one, other in pairwise(messages))


class _GeminiWriter:
    def __init__(self, messages: Sequence[Source], rendering: Rendering) -> None:
        self.written: list[dict[str, Any]] = []
        self._rendering = rendering
        self._speakers = Speakers(messages)
        self._ids = CallIds(_LONGEST_CALL_ID)

    def add(self, step: CallStep) -> None:
        if step.role == "assistant":
            parts = self._own_parts(step)
            if parts is None:
                parts = [part for piece in step.pieces if (part := self._model_part(piece)) is not None]
            self._put("model", parts if parts or not step.is_blank else [{"text": NO_TEXT}])
            self._put("user", [self._response(piece, call, result) for piece, call, _, result in step.calls()])
        elif step.role == "user":
            self._put("user", self._user_parts(step))
        else:
            note = note_of(step, self._rendering)
            self._put("user", [] if note is None else [{"text": note.tagged}])

    def _put(self, role: str, parts: list[dict[str, Any]]) -> None:
        if not parts:
            return
        if self.written and self.written[-1]["role"] == role:
            self.written[-1]["parts"] += parts
        else:
            self.written.append({"role": role, "parts": parts})

    def _own_parts(self, step: CallStep) -> list[dict[str, Any]] | None:
        """The parts of a content of Gemini, with the signatures of its thoughts; None if it is none, or if a call in it
        has no id, so that its response could not name it."""
        if not step.complete or step.message.shape != NAME:
            return None
        calls = [piece for piece, *_ in step.calls()]
        if any(not text_at(dict_at(_named(piece), "functionCall"), "id") for piece in calls):
            return None
        for piece in calls:
            self._ids.of(piece, trusted=True)
        parts: list[dict[str, Any]] = _clean(step.message.raw)["parts"]
        return parts

    def _model_part(self, piece: MessagePiece) -> dict[str, Any] | None:
        part = piece.part
        if isinstance(part, ToolCallPart):
            arguments = part.arguments if type(part.arguments) is dict else {"input": part.arguments}
            call = {"id": self._ids.of(piece), "name": safe_name(part.name)}
            return {"functionCall": {**call, "args": {} if part.arguments is None else arguments}}
        text = readable(part)
        return {"text": text} if text and text.strip() else None

    def _response(self, piece: MessagePiece, call: ToolCallPart, result: ToolResultPart) -> dict[str, Any]:
        content = result.content
        key = "error" if result.is_error else "output"
        response = content if type(content) is dict and not result.is_error else {key: content}
        named = {"id": self._ids.of(piece), "name": safe_name(call.name)}
        return {"functionResponse": {**named, "response": response}}

    def _user_parts(self, step: CallStep) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        for piece in step.pieces:
            file = _file(piece.part) if isinstance(piece.part, FilePart) else None
            text = None if file is not None else readable_from_user(piece.part)
            if file is not None:
                blocks.append({"type": "file", "part": file})
            elif text and text.strip():
                blocks.append({"type": "text", "text": text})
        if not blocks and step.is_blank:
            blocks = [{"type": "text", "text": NO_TEXT}]
        marked = self._speakers.mark(step.message, blocks, "text") if blocks else []
        return [block["part"] if block["type"] == "file" else {"text": block["text"]} for block in marked]


def _clean(raw: dict[str, Any]) -> dict[str, Any]:
    """A content with the keys that the API knows."""

    def cleaned(part: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in part.items() if _SNAKE.get(key, key) in _KEYS}

    return {"role": raw["role"], "parts": [*map(cleaned, raw["parts"])]}


def _named(piece: MessagePiece) -> dict[str, Any]:
    """The part of a content that a piece was read from, with its keys in camel case."""
    part: dict[str, Any] = piece.message.raw["parts"][piece.index]
    return {_SNAKE.get(key, key): value for key, value in part.items()}


def _file(part: FilePart) -> dict[str, Any] | None:
    if text_of_file(part) is not None:
        return None
    media_type, data = split_data_url(part.url) or (part.media_type, part.data)
    if data:
        return {"inlineData": {"mimeType": media_type, "data": data}}
    return {"fileData": {"mimeType": media_type, "fileUri": part.url}} if part.url else None


def shorten(raw: dict[str, Any], limits: Limits) -> dict[str, Any]:
    return {**raw, "parts": [_shorten_part(part, limits) for part in raw["parts"]]}


def _shorten_part(part: dict[str, Any], limits: Limits) -> dict[str, Any]:
    if type(part.get("text")) is str:
        return {**part, "text": cut_middle(part["text"], limits.text)}
    for key in ("functionResponse", "function_response"):
        response = dict_at(part, key)
        if "response" in response:
            return {**part, key: {**response, "response": shorten_output(response["response"], limits.tool)}}
    return part


FORMAT = Format(NAME, matches, read, write, shorten, role_of_content)
