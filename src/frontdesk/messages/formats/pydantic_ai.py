"""Pydantic AI's model messages: requests (prompts and tool returns) and responses, as its type adapter dumps them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from frontdesk.messages.exact_json import decode_arguments
from frontdesk.messages.formats.authors import Speakers
from frontdesk.messages.formats.content_blocks import NO_TEXT, list_at, readable, readable_from_user, text_at, url_of
from frontdesk.messages.formats.excerpts import cut_middle, shorten_content, shorten_output
from frontdesk.messages.formats.format import Format, Limits, Rendering, Source
from frontdesk.messages.formats.notes import note_of, system_text
from frontdesk.messages.formats.pairing import CallIds, CallStep, MessagePiece, is_in_order, steps
from frontdesk.messages.parts import DataPart, FilePart, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart

NAME = "pydantic-ai"
_RETURNS = ("tool-return", "builtin-tool-return")
_LONGEST_CALL_ID = 64
_Call: TypeAlias = tuple[MessagePiece, ToolCallPart, MessagePiece, ToolResultPart]


def matches(raw: dict[str, Any]) -> bool:
    return raw.get("kind") in ("request", "response") and all(map(_kind_of, list_at(raw, "parts"))) and "parts" in raw


def _kind_of(part: Any) -> str:
    return text_at(part, "part_kind") if type(part) is dict else ""


def role_of_message(raw: dict[str, Any]) -> str:
    """The role of a model message: a request belongs to the user, to a tool, or is the system's alone."""
    if raw["kind"] == "response":
        return "assistant"
    kinds = {_kind_of(part) for part in list_at(raw, "parts")}
    if kinds and kinds <= {*_RETURNS, "retry-prompt"}:
        return "tool"
    return "system" if kinds == {"system-prompt"} else "user"


def read(raw: dict[str, Any]) -> tuple[Part, ...]:
    is_system = role_of_message(raw) == "system"
    return tuple(made for part in list_at(raw, "parts") for made in _parts(part, is_system=is_system))


def _parts(part: dict[str, Any], *, is_system: bool) -> Iterator[Part]:
    kind, content = _kind_of(part), part.get("content")
    call_id, name = text_at(part, "tool_call_id"), text_at(part, "tool_name")
    if kind == "user-prompt":
        yield from map(_user_part, content if type(content) is list else [content])
    elif kind == "system-prompt" and not is_system:
        yield DataPart("data-system-prompt", part)  # the framework's own; other providers get their own prompt
    elif kind in ("text", "system-prompt", "retry-feedback") and type(content) is str:
        yield TextPart(content)
    elif kind == "thinking":
        yield ReasoningPart(content if type(content) is str else "", text_at(part, "signature") or None)
    elif kind == "tool-call" and call_id:
        arguments = part.get("args")
        yield ToolCallPart(call_id, name, decode_arguments(arguments) if type(arguments) is str else arguments)
    elif kind == "tool-return" and call_id:
        yield ToolResultPart(call_id, content, name or None, part.get("outcome") not in (None, "success"))
    elif kind == "retry-prompt" and call_id and name:
        yield ToolResultPart(call_id, content, name, is_error=True)
    elif kind == "retry-prompt" and type(content) is str:
        yield TextPart(content)
    else:
        yield DataPart(kind, part)  # also a call of a tool that the provider ran itself, and its result


def _user_part(content: Any) -> Part:
    if type(content) is str:
        return TextPart(content)
    kind = text_at(content, "kind") if type(content) is dict else ""
    if kind == "text-content" and type(content.get("content")) is str:
        return TextPart(content["content"])
    if kind == "binary" and type(content.get("data")) is str:
        return FilePart(text_at(content, "media_type"), data=content["data"])
    if kind.endswith("-url") and text_at(content, "url"):
        default = f"{kind.removesuffix('-url')}/*"
        return FilePart(text_at(content, "media_type") or default, url=content["url"])
    return DataPart(kind or "unknown", content)


def system_prompts(raw: dict[str, Any]) -> list[str]:
    """The system prompts in a request, which belongs to the user."""
    parts = [part for part in list_at(raw, "parts") if type(part) is dict and _kind_of(part) == "system-prompt"]
    return [text_at(part, "content") for part in parts]


def write(messages: Sequence[Source], rendering: Rendering) -> list[dict[str, Any]]:
    """Model messages. If all are of this format, and every call is answered next, they stay as they were given.
    Otherwise neighbouring requests become one, as Pydantic AI itself does it."""
    if all(message.shape == NAME for message in messages) and is_in_order(messages):
        return [message.raw for message in messages]
    writer = _PydanticAIWriter(messages, rendering)
    written: list[dict[str, Any]] = []
    for step in steps(messages):
        for message in writer.write(step):
            if written and message["kind"] == written[-1]["kind"] == "request":
                written[-1] = {**message, "parts": [*written[-1]["parts"], *message["parts"]]}
            else:
                written.append(message)
    return written


class _PydanticAIWriter:
    def __init__(self, messages: Sequence[Source], rendering: Rendering) -> None:
        self._rendering = rendering
        self._speakers = Speakers(messages)
        self._ids = CallIds(_LONGEST_CALL_ID)

    def write(self, step: CallStep) -> list[dict[str, Any]]:
        match step.role:
            case "assistant":
                return self._response(step)
            case "user" if step.complete and step.message.shape == NAME and step.message.author is None:
                return [_without_results(step.message.raw)]
            case "user":
                return _request([{"part_kind": "user-prompt", "content": self._user_content(step)}])
            case "note":
                note = note_of(step, self._rendering)
                return [] if note is None else _request([{"part_kind": "user-prompt", "content": note.tagged}])
        text = system_text(step.message, self._rendering)
        return _request([{"part_kind": "system-prompt", "content": text}]) if text.strip() else []

    def _response(self, step: CallStep) -> list[dict[str, Any]]:
        calls = list(step.calls())
        if step.complete and step.message.shape == NAME:
            for piece, *_ in calls:
                self._ids.of(piece, trusted=True)
            response = step.message.raw
        else:
            parts = [part for piece in step.pieces if (part := self._part(piece)) is not None]
            response = {"kind": "response", "parts": parts or [{"part_kind": "text", "content": NO_TEXT}]}
        return [response, *(self._returns(calls) if calls else [])]

    def _part(self, piece: MessagePiece) -> dict[str, Any] | None:
        part = piece.part
        if isinstance(part, ToolCallPart):
            arguments = part.arguments if type(part.arguments) in (dict, str) else {"input": part.arguments}
            named = {"tool_name": part.name, "tool_call_id": self._ids.of(piece)}
            return {"part_kind": "tool-call", **named, "args": {} if part.arguments is None else arguments}
        text = readable(part)
        return {"part_kind": "text", "content": text} if text and text.strip() else None

    def _returns(self, calls: list[_Call]) -> list[dict[str, Any]]:
        """The request with the results of a step: the one that was given, if it has these and nothing else."""
        returns = [self._return(*call) for call in calls]
        given = calls[0][2].message
        is_whole = given.shape == NAME and returns == given.raw["parts"]
        return [given.raw] if is_whole else _request(returns)

    def _return(
        self, piece: MessagePiece, call: ToolCallPart, answer: MessagePiece, result: ToolResultPart
    ) -> dict[str, Any]:
        given = _result_given(answer.message, result)
        named = {"tool_name": call.name, "tool_call_id": self._ids.of(piece)}
        if given is not None:
            return {**given, **named}
        outcome = {"outcome": "failed"} if result.is_error else {}
        return {"part_kind": "tool-return", **named, "content": result.content, **outcome}

    def _user_content(self, step: CallStep) -> str | list[Any]:
        blocks: list[dict[str, Any]] = []
        for piece in step.pieces:
            part = piece.part
            text = None if isinstance(part, FilePart) else readable_from_user(part)
            if isinstance(part, FilePart) and (file := _file(part)) is not None:
                blocks.append({"type": "file", "content": file})
            elif text and text.strip():
                blocks.append({"type": "text", "text": text})
        blocks = blocks or [{"type": "text", "text": NO_TEXT}]
        marked = self._speakers.mark(step.message, blocks, "text")
        if all(block["type"] == "text" for block in marked):
            return "\n".join(block["text"] for block in marked)
        return [block["text"] if block["type"] == "text" else block["content"] for block in marked]


def _result_given(message: Source, result: ToolResultPart) -> dict[str, Any] | None:
    """The part of a request that a result was read from, with its time; None if another framework wrote it."""
    if message.shape != NAME or message.raw["kind"] != "request":
        return None
    parts = list_at(message.raw, "parts")
    return next((part for part in parts if _is_result(part) and part["tool_call_id"] == result.call_id), None)


def _without_results(request: dict[str, Any]) -> dict[str, Any]:
    """A request without the results in it, which are written after their calls."""
    parts = list_at(request, "parts")
    kept = [part for part in parts if not _is_result(part)]
    return request if len(kept) == len(parts) else {**request, "parts": kept}


def _is_result(part: dict[str, Any]) -> bool:
    return any(type(made) is ToolResultPart for made in _parts(part, is_system=False))


def _request(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"kind": "request", "parts": parts}]


def _file(part: FilePart) -> dict[str, Any] | None:
    if part.data is not None:
        return {"kind": "binary", "data": part.data, "media_type": part.media_type}
    url = url_of(part)
    kind = part.media_type.partition("/")[0]
    kind = kind if kind in ("image", "audio", "video") else "document"
    return None if url is None else {"kind": f"{kind}-url", "url": url}


def shorten(raw: dict[str, Any], limits: Limits) -> dict[str, Any]:
    return {**raw, "parts": [_shorten_part(part, limits) for part in list_at(raw, "parts")]}


def _shorten_part(part: dict[str, Any], limits: Limits) -> dict[str, Any]:
    kind, content = _kind_of(part), part.get("content")
    if kind in _RETURNS:
        return {**part, "content": shorten_output(content, limits.tool)}
    if kind == "user-prompt":
        return {**part, "content": shorten_content(content, limits)}
    if kind == "text" and type(content) is str:
        return {**part, "content": cut_middle(content, limits.text)}
    return part


FORMAT = Format(NAME, matches, read, write, shorten, role_of_message)
