"""Strict alternation for chat templates that insist on it: an optional system message, then the user, the assistant,
the user, and so on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from frontdesk.messages.formats.content_blocks import NO_TEXT

BEFORE_ASSISTANT = "[The conversation begins with the assistant.]"
_SYSTEM = ("system", "developer")


def alternate_chat(written: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Chat messages with neighbours of one role merged. Calls and their results belong to the assistant's turn."""
    merged: list[dict[str, Any]] = []
    for message in written:
        last = merged[-1] if merged else None
        role = "system" if message["role"] in _SYSTEM else message["role"]
        message = {**message, "role": role}
        if last is not None and last["role"] == role and role != "tool" and "tool_calls" not in last:
            merged[-1] = _merge(last, message)
            continue
        if role == "assistant" and (last is None or last["role"] == "system"):
            merged.append({"role": "user", "content": BEFORE_ASSISTANT})
        if role == "user" and last is not None and last["role"] == "tool":
            merged.append({"role": "assistant", "content": NO_TEXT})
        merged.append(message)
    return merged


def alternate_items(written: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Responses items with neighbouring messages of one role merged. All other items belong to the assistant's turn."""
    merged: list[dict[str, Any]] = []
    for item in written:
        last = merged[-1] if merged else {}
        item = {**item, "role": "system"} if item.get("role") in _SYSTEM else item
        if "role" in item and item["role"] == last.get("role"):
            merged[-1] = _merge(last, item, "input_text")
            continue
        if item.get("role") in (None, "assistant") and (not last or last.get("role") == "system"):
            merged.append({"role": "user", "content": BEFORE_ASSISTANT})
        if item.get("role") == "user" and last and "role" not in last:
            merged.append({"role": "assistant", "content": NO_TEXT})
        merged.append(item)
    return merged


def _merge(first: dict[str, Any], second: dict[str, Any], kind: str = "text") -> dict[str, Any]:
    contents = [content for content in (first.get("content"), second.get("content")) if content]
    if all(type(content) is str for content in contents):
        content: Any = "\n\n".join(contents) or None
    else:
        content = [block for each in contents for block in _blocks(each, kind)]
    calls = second.get("tool_calls")
    return {"role": first["role"], "content": content, **({"tool_calls": calls} if calls else {})}


def _blocks(content: str | list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [{"type": kind, "text": content}] if isinstance(content, str) else content
