"""Anthropic messages: content blocks, tool results in the user message after the call."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from frontdesk.messages.formats.content_blocks import (
    dict_at,
    is_image,
    list_at,
    other,
    readable,
    result_text,
    safe_name,
    split_data_url,
    text_at,
    text_of_file,
    type_of,
    types_in,
)
from frontdesk.messages.formats.excerpts import shorten_content, shorten_output
from frontdesk.messages.formats.format import Format, Limits, Source
from frontdesk.messages.formats.pairing import CallStep, MessagePiece, role_of, safe_id, steps
from frontdesk.messages.formats.summary_tag import wrap_summary
from frontdesk.messages.parts import DataPart, FilePart, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart

_BLOCKS = frozenset(
    {
        "container_upload",
        "document",
        "image",
        "redacted_thinking",
        "search_result",
        "server_tool_use",
        "thinking",
        "tool_result",
        "tool_use",
    }
)
_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_RESULT_BLOCKS = frozenset({"text", "image", "search_result", "document", "tool_reference"})
_LONGEST_CALL_ID = 64
_BEFORE_ASSISTANT = "[The conversation begins with the assistant.]"


def matches(raw: dict[str, Any]) -> bool:
    if type(raw.get("role")) is not str or type(raw.get("content")) is not list:
        return False
    if raw.get("type") == "message":
        return True
    return any(kind in _BLOCKS or kind.endswith("_tool_result") for kind in types_in(raw))


def read(raw: dict[str, Any]) -> tuple[Part, ...]:
    return tuple(map(_part, raw["content"]))


def _part(block: Any) -> Part:
    match type_of(block):
        case "text" if type(block.get("text")) is str:
            return TextPart(block["text"])
        case "thinking" if type(block.get("thinking")) is str:
            return ReasoningPart(block["thinking"], text_at(block, "signature") or None)
        case "redacted_thinking":
            return ReasoningPart("", text_at(block, "data") or None)
        case "tool_use" if text_at(block, "id"):
            return ToolCallPart(block["id"], text_at(block, "name"), block.get("input"))
        case "tool_result" if text_at(block, "tool_use_id"):
            is_error = block.get("is_error") is True
            return ToolResultPart(block["tool_use_id"], block.get("content", ""), is_error=is_error)
        case "image":
            return _file(dict_at(block, "source"), "image/*", None) or other(block)
        case "document":
            return _file(dict_at(block, "source"), "application/pdf", text_at(block, "title") or None) or other(block)
    return other(block)


def _file(source: dict[str, Any], media_type: str, name: str | None) -> FilePart | None:
    match type_of(source):
        case "base64":
            return FilePart(text_at(source, "media_type") or media_type, name, data=text_at(source, "data") or None)
        case "url":
            return FilePart(media_type, name, url=text_at(source, "url") or None)
        case "text":
            return FilePart("text/plain", name, data=base64.b64encode(text_at(source, "data").encode()).decode())
        case "file":
            return FilePart(media_type, name)
    return None


def write(messages: Sequence[Source]) -> list[dict[str, Any]]:
    """Messages that begin with the user and alternate; results come first after their calls. No system messages."""
    written: list[dict[str, Any]] = []
    ids = _CallIds()
    for step in steps(messages):
        if step.message.is_summary:
            _add(written, "user", [{"type": "text", "text": wrap_summary(step.message)}])
        elif step.role == "assistant":
            _add(written, "assistant", _assistant_blocks(step, ids))
            _add(written, "user", [_result_block(ids.of(call), answer, part) for call, _, answer, part in step.calls()])
        elif step.role == "user":
            _add(written, "user", [block for piece in step.pieces if (block := _user_block(piece)) is not None])
    if written and written[0]["role"] == "assistant":
        written.insert(0, {"role": "user", "content": [{"type": "text", "text": _BEFORE_ASSISTANT}]})
    return _without_trailing_space(written)


def system_text(messages: Sequence[Source]) -> str:
    """The text of the system and developer messages, for the `system` parameter of the call."""
    texts = [
        message.text for message in messages if role_of(message) in ("system", "developer") and not message.is_summary
    ]
    return "\n\n".join(text for text in texts if text.strip())


class _CallIds:
    """Ids in the characters that Anthropic takes, each used once in a request."""

    def __init__(self) -> None:
        self._by_call: dict[int, str] = {}
        self._taken: set[str] = set()

    def of(self, call: MessagePiece) -> str:
        known = self._by_call.get(id(call))
        if known is not None:
            return known
        assert isinstance(call.part, ToolCallPart)
        wanted = chosen = safe_id(call.part.id, _LONGEST_CALL_ID)
        while chosen in self._taken:
            chosen = safe_id(f"{wanted}:{len(self._taken)}", 0)
        self._taken.add(chosen)
        self._by_call[id(call)] = chosen
        return chosen


def _add(written: list[dict[str, Any]], role: str, blocks: list[dict[str, Any]]) -> None:
    if not blocks:
        return
    if written and written[-1]["role"] == role:
        written[-1]["content"] += blocks
    else:
        written.append({"role": role, "content": blocks})


def _without_trailing_space(written: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The API refuses an answer to be continued that ends in white space."""
    if written and written[-1]["role"] == "assistant" and written[-1]["content"][-1]["type"] == "text":
        last = written[-1]["content"][-1]
        written[-1]["content"][-1] = {**last, "text": last["text"].rstrip()}
    return written


def _assistant_blocks(step: CallStep, ids: _CallIds) -> list[dict[str, Any]]:
    blocks = [block for piece in step.pieces if (block := _assistant_block(piece, ids)) is not None]
    while blocks and blocks[-1]["type"] in ("thinking", "redacted_thinking"):
        blocks.pop()
    return blocks


def _assistant_block(piece: MessagePiece, ids: _CallIds) -> dict[str, Any] | None:
    part, given = piece.part, _given_block(piece)
    if isinstance(part, ToolCallPart):
        arguments = part.arguments if type(part.arguments) is dict else {"input": part.arguments}
        own = {"type": "tool_use", "name": safe_name(part.name), "input": {} if part.arguments is None else arguments}
        return {**(given or own), "id": ids.of(piece)}
    if isinstance(part, ReasoningPart):
        return given if part.signature is not None else None
    if isinstance(part, DataPart) and part.type != "search_result" and given is not None:
        return given
    return _text_block(part, given if isinstance(part, TextPart) else None)


def _user_block(piece: MessagePiece) -> dict[str, Any] | None:
    part, given = piece.part, _given_block(piece)
    if isinstance(part, FilePart):
        return given or _file_block(part) or _text_block(part, None)
    if isinstance(part, DataPart) and given is not None and given["type"] in ("search_result", "container_upload"):
        return given
    return _text_block(part, given)


def _given_block(piece: MessagePiece) -> dict[str, Any] | None:
    """The block as it was given, where Anthropic accepts it and it reads as this very part."""
    block = piece.block
    return dict(block) if _is_valid(block) and _part(block) == piece.part else None


def _is_valid(block: Any) -> bool:
    """Whether the API accepts the block as it is."""
    kind = type_of(block)
    match kind:
        case "text":
            return type(block.get("text")) is str and block.keys() <= {"type", "text", "cache_control", "citations"}
        case "tool_use" | "server_tool_use":
            return bool(text_at(block, "id") and text_at(block, "name")) and type(block.get("input")) is dict
        case "tool_result":
            return bool(text_at(block, "tool_use_id")) and _is_valid_result(block.get("content", ""))
        case "thinking" | "redacted_thinking":
            return bool(text_at(block, "signature" if kind == "thinking" else "data"))
        case "image" | "document":
            return _is_valid_source(dict_at(block, "source"))
        case "search_result":
            return bool(text_at(block, "source") and text_at(block, "title") and list_at(block, "content"))
        case "container_upload":
            return bool(text_at(block, "file_id"))
    return kind.endswith("_tool_result") and bool(text_at(block, "tool_use_id")) and "content" in block


def _is_valid_source(source: dict[str, Any]) -> bool:
    kind = type_of(source)
    if kind == "base64" and source.get("media_type") not in (*_IMAGE_TYPES, "application/pdf"):
        return False
    return bool(text_at(source, {"base64": "data", "url": "url", "text": "data", "file": "file_id"}.get(kind, "")))


def _is_valid_result(content: Any) -> bool:
    if type(content) is not list:
        return type(content) is str
    kinds = [type_of(block) for block in content]
    return bool(content) and all(
        kind in _RESULT_BLOCKS and (kind == "tool_reference" or _is_valid(block))
        for kind, block in zip(kinds, content, strict=True)
    )


def _text_block(part: Part, given: dict[str, Any] | None) -> dict[str, Any] | None:
    text = readable(part)
    if text is None or not text.strip():
        return None
    return given or {"type": "text", "text": text}


def _file_block(part: FilePart) -> dict[str, Any] | None:
    media_type, data = split_data_url(part.url) or (part.media_type, part.data)
    text = text_of_file(part)
    titled = {"title": part.name} if part.name else {}
    if text is not None:
        return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}, **titled}
    by_url = part.url is not None and part.url.startswith(("https://", "http://"))
    if is_image(part):
        if data is not None and media_type in _IMAGE_TYPES:
            return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
        return {"type": "image", "source": {"type": "url", "url": part.url}} if by_url else None
    if media_type != "application/pdf":
        return None
    if data is not None:
        return {"type": "document", "source": {"type": "base64", "media_type": media_type, "data": data}, **titled}
    return {"type": "document", "source": {"type": "url", "url": part.url}, **titled} if by_url else None


def _result_block(id: str, answer: MessagePiece, result: ToolResultPart) -> dict[str, Any]:
    given = _given_block(answer)
    if given is not None:
        return {**given, "tool_use_id": id}
    block = {"type": "tool_result", "tool_use_id": id, "content": result_text(result.content)}
    return {**block, "is_error": True} if result.is_error else block


def shorten(raw: dict[str, Any], limits: Limits) -> dict[str, Any]:
    return {**raw, "content": shorten_content(raw["content"], limits, _shorten_block)}


def _shorten_block(block: dict[str, Any], limits: Limits) -> dict[str, Any]:
    if type_of(block) == "tool_result" and "content" in block:
        return {**block, "content": shorten_output(block["content"], limits.tool)}
    return block


FORMAT = Format("anthropic", matches, read, write, shorten)
