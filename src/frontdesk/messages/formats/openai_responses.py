"""OpenAI Responses items: one turn of a model is several items, and each is stored as a message."""

from __future__ import annotations

from typing import Any

from frontdesk.messages.exact_json import decode_arguments
from frontdesk.messages.formats.content_blocks import list_at, other, text_at, type_of, types_in
from frontdesk.messages.formats.excerpts import LEAST_CHARS, shorten_content, shorten_output, shorten_texts
from frontdesk.messages.formats.format import Format, Limits
from frontdesk.messages.formats.openai_responses_items import PLACEHOLDER_ID, read_block
from frontdesk.messages.formats.openai_responses_writer import NAME, write
from frontdesk.messages.parts import DataPart, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart

__all__ = ["FORMAT", "NAME", "PLACEHOLDER_ID"]

_MESSAGE_BLOCKS = frozenset({"input_text", "output_text", "input_image", "input_file"})
_ITEMS = frozenset(
    {
        "compaction",
        "compaction_trigger",
        "configuration_update",
        "item_reference",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_list_tools",
        "program",
        "reasoning",
    }
)
_FROM_USER = frozenset({"mcp_approval_response", "compaction_trigger", "configuration_update"})
_ENVELOPE = frozenset({"type", "id", "call_id", "status", "caller", "name"})


def matches(raw: dict[str, Any]) -> bool:
    kind = raw.get("type")
    if type(raw.get("role")) is not str:
        return type(kind) is str and (kind in _ITEMS or kind.endswith(("_call", "_output")))
    found = types_in(raw)
    if kind == "additional_tools" or not _MESSAGE_BLOCKS.isdisjoint(found):
        return True
    return kind == "message" and "stop_reason" not in raw and found <= {"refusal"}


def read(raw: dict[str, Any]) -> tuple[Part, ...]:
    if type(raw.get("role")) is not str:
        return (_item(raw, raw["type"]),)
    content = raw.get("content")
    if type(content) is str:
        return (TextPart(content),) if content else ()
    if type(content) is not list:
        return (other(raw),)
    return tuple(map(read_block, content))


def item_role(raw: dict[str, Any]) -> str:
    """The role of an item follows from its type, unless it names one."""
    given = raw.get("role")
    if type(given) is str:
        return given
    kind: str = raw["type"]
    if kind in _FROM_USER:
        return "user"
    return "tool" if kind.endswith("_output") else "assistant"


def _item(raw: dict[str, Any], kind: str) -> Part:
    if kind == "reasoning":
        blocks = [*list_at(raw, "summary"), *list_at(raw, "content")]
        texts = [text_at(block, "text") for block in blocks if type(block) is dict]
        return ReasoningPart("\n".join(filter(None, texts)), text_at(raw, "encrypted_content") or None)
    call_id = text_at(raw, "call_id") or (text_at(raw, "id") if kind == "local_shell_call_output" else "")
    if call_id and kind.endswith("_output"):
        return ToolResultPart(call_id, raw.get("output"), text_at(raw, "name") or None)
    if call_id and (kind.endswith("_call") or kind == "program"):
        return _call(raw, kind, call_id)
    return DataPart(kind, raw)


def _call(raw: dict[str, Any], kind: str, call_id: str) -> ToolCallPart:
    name = text_at(raw, "name") or kind.removesuffix("_call")
    if kind == "function_call":
        return ToolCallPart(call_id, name, decode_arguments(text_at(raw, "arguments")))
    if kind == "custom_tool_call":
        return ToolCallPart(call_id, name, text_at(raw, "input"))
    return ToolCallPart(call_id, name, {key: value for key, value in raw.items() if key not in _ENVELOPE})


def shorten(raw: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """Outputs of hosted tools keep their fixed shape."""
    if type(raw.get("role")) is str:
        return {**raw, "content": shorten_content(raw.get("content"), limits)} if "content" in raw else raw
    kind, output = type_of(raw), raw.get("output")
    if type(output) is str or kind in ("function_call_output", "custom_tool_call_output"):
        return raw if output is None else {**raw, "output": shorten_output(output, limits.tool)}
    if kind == "shell_call_output" and type(output) is list and all(type(each) is dict for each in output):
        share = max(LEAST_CHARS, limits.tool // (2 * len(output) or 1))
        return {**raw, "output": [shorten_texts(each, ("stdout", "stderr"), share) for each in output]}
    return raw


FORMAT = Format(NAME, matches, read, write, shorten, item_role)
