"""Chat messages of LlamaIndex, as it writes them as JSON: a role, blocks that name their kind, and what a provider adds
(`additional_kwargs`). They are read; what goes into a model call is written in another format."""

from __future__ import annotations

from typing import Any

from frontdesk.messages.formats.content_blocks import dict_at, file_at_url, list_at, text_at
from frontdesk.messages.formats.excerpts import cut_middle, shorten_output
from frontdesk.messages.formats.format import Format, Limits
from frontdesk.messages.formats.openai_chat_blocks import read_call
from frontdesk.messages.formats.openai_chat_writer import write
from frontdesk.messages.parts import DataPart, FilePart, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart

NAME = "llama-index"
_ROLES = {"chatbot": "assistant", "model": "assistant"}
_FILES = {"image": "image/*", "audio": "audio/*", "video": "video/*", "document": "application/octet-stream"}


def matches(raw: dict[str, Any]) -> bool:
    blocks = raw.get("blocks")
    is_message = type(raw.get("role")) is str and type(raw.get("additional_kwargs")) is dict
    return is_message and type(blocks) is list and all(type(block) is dict and _kind(block) for block in blocks)


def role_of_message(raw: dict[str, Any]) -> str:
    role: str = raw["role"]
    return _ROLES.get(role, role)


def read(raw: dict[str, Any]) -> tuple[Part, ...]:
    """The parts of a message. Tool calls are blocks, or what the API of OpenAI returned, or both."""
    call_id = _answered_call(raw)
    if call_id:
        return (ToolResultPart(call_id, _text_in(raw), text_at(raw["additional_kwargs"], "name") or None),)
    parts = [_part(block) for block in raw["blocks"]]
    known = {part.id for part in parts if isinstance(part, ToolCallPart)}
    calls = [read_call(call) for call in list_at(raw["additional_kwargs"], "tool_calls") if type(call) is dict]
    return (*parts, *(call for call in calls if not isinstance(call, ToolCallPart) or call.id not in known))


def _answered_call(raw: dict[str, Any]) -> str:
    return text_at(raw["additional_kwargs"], "tool_call_id") if raw["role"] in ("tool", "function") else ""


def _text_in(raw: dict[str, Any]) -> str:
    return "\n".join(text_at(block, "text") for block in raw["blocks"] if _kind(block) == "text")


def _kind(block: dict[str, Any]) -> str:
    return text_at(block, "block_type")


def _part(block: dict[str, Any]) -> Part:
    kind = _kind(block)
    match kind:
        case "text":
            return TextPart(text_at(block, "text"))
        case "thinking":
            signature = text_at(dict_at(block, "additional_information"), "signature")
            return ReasoningPart(text_at(block, "content"), signature or None)
        case "tool_call":
            return ToolCallPart(text_at(block, "tool_call_id"), text_at(block, "tool_name"), block.get("tool_kwargs"))
    return _file(kind, block) if kind in _FILES else DataPart(kind, block)


def _file(kind: str, block: dict[str, Any]) -> FilePart:
    media_type = text_at(block, f"{kind}_mimetype") or _FILES[kind]
    data = text_at(block, "data" if kind == "document" else kind)
    name = text_at(block, "title") or None
    return FilePart(media_type, name, data=data) if data else file_at_url(media_type, text_at(block, "url"), name)


def shorten(raw: dict[str, Any], limits: Limits) -> dict[str, Any]:
    is_result = bool(_answered_call(raw))
    return {**raw, "blocks": [_shorten(block, limits, is_result=is_result) for block in raw["blocks"]]}


def _shorten(block: dict[str, Any], limits: Limits, *, is_result: bool) -> dict[str, Any]:
    if _kind(block) != "text":
        return block
    text = text_at(block, "text")
    return {**block, "text": shorten_output(text, limits.tool) if is_result else cut_middle(text, limits.text)}


FORMAT = Format(NAME, matches, read, write, shorten, role_of_message)
