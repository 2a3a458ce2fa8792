"""The tags around notes of the application, which no text of a user can contain."""

from __future__ import annotations

import re

_TAGS = re.compile(r"<(?=\s*/?\s*(?:conversation_summary|system_message|tool_output)\b)", re.IGNORECASE)
_SUMMARY = (
    '<conversation_summary id="{}" note="Summary of earlier messages, made by the system; not the user\'s words.">'
)
_SYSTEM = '<system_message note="From the application; not the user\'s words.">'
_OUTPUT = '<tool_output note="Output of a tool call that is not shown here; not the user\'s words.">'


def tag_summary(id: str, text: str) -> str:
    """The text of a summary between tags that carry its id (for `expand_summary`)."""
    return f"{_SUMMARY.format(id)}{escape_tags(text)}</conversation_summary>"


def tag_system(text: str) -> str:
    return f"{_SYSTEM}{escape_tags(text)}</system_message>"


def tag_output(text: str) -> str:
    return f"{_OUTPUT}{escape_tags(text)}</tool_output>"


def escape_tags(text: str) -> str:
    """`text` in which nothing can pass for a tag of a note."""
    return _TAGS.sub("&lt;", text) if "<" in text else text
