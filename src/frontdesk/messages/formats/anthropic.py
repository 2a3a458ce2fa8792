"""Anthropic messages: content blocks, tool results in the user message after the call."""

from __future__ import annotations

from typing import Any

from frontdesk.messages.formats.anthropic_blocks import read_block
from frontdesk.messages.formats.anthropic_writer import write
from frontdesk.messages.formats.content_blocks import type_of, types_in
from frontdesk.messages.formats.excerpts import shorten_content, shorten_output
from frontdesk.messages.formats.format import Format, Limits
from frontdesk.messages.parts import Part

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


def matches(raw: dict[str, Any]) -> bool:
    if type(raw.get("role")) is not str or type(raw.get("content")) is not list:
        return False
    if raw.get("type") == "message":
        return True
    return any(kind in _BLOCKS or kind.endswith("_tool_result") for kind in types_in(raw))


def read(raw: dict[str, Any]) -> tuple[Part, ...]:
    return tuple(map(read_block, raw["content"]))


def shorten(raw: dict[str, Any], limits: Limits) -> dict[str, Any]:
    return {**raw, "content": shorten_content(raw["content"], limits, _shorten_block)}


def _shorten_block(block: dict[str, Any], limits: Limits) -> dict[str, Any]:
    if type_of(block) == "tool_result" and "content" in block:
        return {**block, "content": shorten_output(block["content"], limits.tool)}
    return block


FORMAT = Format("anthropic", matches, read, write, shorten)
