"""Entries of Claude Code transcripts, as the Claude Agent SDK mirrors them: an Anthropic message with its uuid, its
session and its time. They are read; what goes into a model call is the message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontdesk.messages.formats import anthropic
from frontdesk.messages.formats.content_blocks import dict_at
from frontdesk.messages.formats.format import Format, Limits, Rendering, Source
from frontdesk.messages.parts import Part, TextPart

NAME = "claude-code"
_TYPES = ("user", "assistant")


def matches(raw: dict[str, Any]) -> bool:
    message = dict_at(raw, "message")
    return raw.get("type") in _TYPES and "role" not in raw and message.get("role") in _TYPES and "content" in message


def role_of_entry(raw: dict[str, Any]) -> str:
    role: str = raw["message"]["role"]
    return role


def read(raw: dict[str, Any]) -> tuple[Part, ...]:
    content = raw["message"].get("content")
    if type(content) is str:
        return (TextPart(content),) if content else ()
    return anthropic.FORMAT.read(raw["message"]) if type(content) is list else ()


def write(messages: Sequence[Source], rendering: Rendering) -> list[dict[str, Any]]:
    return anthropic.FORMAT.write(messages, rendering)


def shorten(raw: dict[str, Any], limits: Limits) -> dict[str, Any]:
    return {**raw, "message": anthropic.FORMAT.shorten(raw["message"], limits)}


FORMAT = Format(NAME, matches, read, write, shorten, role_of_entry)
