"""Cuts long texts in the JSON of a message, for pages that show many messages."""

from __future__ import annotations

from typing import Any

from frontdesk.server.wire import encode


def cut_content(message: dict[str, Any], most: int) -> int | None:
    """Cut the texts of a message's content to `most` characters each. Returns how long the content is as JSON, or None
    if nothing was cut."""
    content = message["content"]
    shorter = _cut(content, most)
    if shorter is content:
        return None
    message["content"] = shorter
    return len(encode(content))


def _cut(value: Any, most: int) -> Any:
    """The value itself if none of its texts is too long."""
    if isinstance(value, str):
        return value if len(value) <= most else value[:most]
    if isinstance(value, list):
        items = [_cut(item, most) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    if isinstance(value, dict):
        fields = {name: _cut(item, most) for name, item in value.items()}
        return value if all(fields[name] is value[name] for name in value) else fields
    return value
