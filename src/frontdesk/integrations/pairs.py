"""Tool calls with their results: where a framework asks for the newest messages only, none gets a result whose call is
missing."""

from __future__ import annotations

from collections.abc import Iterable

from frontdesk.messages import Message


def with_calls(messages: Iterable[Message]) -> list[Message]:
    """Messages without the tool results whose calls are missing."""
    called: set[str] = set()
    kept = []
    for message in messages:
        called.update(message.tool_call_ids)
        if called.issuperset(message.tool_result_ids):
            kept.append(message)
    return kept
