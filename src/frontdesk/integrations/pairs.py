"""Tool calls and their results, as frameworks accept them: of the newest messages, none gets a result whose call is
missing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from frontdesk.messages import Message
from frontdesk.messages.exact_json import encode_arguments


def with_calls(messages: Iterable[Message]) -> list[Message]:
    """Messages without the tool results whose calls are missing."""
    called: set[str] = set()
    kept = []
    for message in messages:
        called.update(message.tool_call_ids)
        if called.issuperset(message.tool_result_ids):
            kept.append(message)
    return kept


def as_functions(raws: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages in OpenAI's format in which every call is one of a function: frameworks know no other kind."""
    return [
        {**raw, "tool_calls": [*map(_as_function, raw["tool_calls"])]} if "tool_calls" in raw else raw for raw in raws
    ]


def _as_function(call: dict[str, Any]) -> dict[str, Any]:
    if call["type"] != "custom":
        return call
    custom = call["custom"]
    arguments = encode_arguments({"input": custom["input"]})
    return {"id": call["id"], "type": "function", "function": {"name": custom["name"], "arguments": arguments}}
