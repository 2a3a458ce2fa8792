"""Events of Google's Agent Development Kit: a Gemini content with its author, its time and what it changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontdesk.messages.formats import gemini
from frontdesk.messages.formats.content_blocks import dict_at, list_at, text_at
from frontdesk.messages.formats.format import Format, Limits, Rendering, Source
from frontdesk.messages.formats.pairing import is_in_order
from frontdesk.messages.parts import Part

NAME = "adk"
_AGENT = "agent"
"""the author of what another format calls the assistant"""


def matches(raw: dict[str, Any]) -> bool:
    is_event = "invocation_id" in raw or "invocationId" in raw
    return is_event and type(raw.get("author")) is str and type(raw.get("content", {})) in (dict, type(None))


def role_of_event(raw: dict[str, Any]) -> str:
    """The user speaks as "user"; every other author is an agent, and results belong to a tool."""
    content = dict_at(raw, "content")
    if gemini.matches(content):
        role = gemini.role_of_content(content)
        if role == "tool":
            return role
    return "user" if text_at(raw, "author") == "user" else "assistant"


def read(raw: dict[str, Any]) -> tuple[Part, ...]:
    return gemini.read_parts([part for part in list_at(dict_at(raw, "content"), "parts") if type(part) is dict])


def write(messages: Sequence[Source], rendering: Rendering) -> list[dict[str, Any]]:
    """Events. If all are events already, and every call is answered next, they stay as they were given."""
    if all(message.shape == NAME for message in messages) and is_in_order(messages):
        return [message.raw for message in messages]
    return [_event(content) for content in gemini.write(messages, rendering)]


def _event(content: dict[str, Any]) -> dict[str, Any]:
    """A content as an event. The results of tools belong to the agent that called them."""
    is_said = gemini.role_of_content(content) == "user"
    return {"invocation_id": "", "author": "user" if is_said else _AGENT, "content": content}


def shorten(raw: dict[str, Any], limits: Limits) -> dict[str, Any]:
    content = dict_at(raw, "content")
    return {**raw, "content": gemini.shorten(content, limits)} if list_at(content, "parts") else raw


FORMAT = Format(NAME, matches, read, write, shorten, role_of_event)
