"""What of a message is searched."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from frontdesk.messages import DataPart, FilePart, Message, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from frontdesk.messages.formats.content_blocks import text_of_file

SEARCH_TOOLS = frozenset(
    ("session_search", "read_session", "search_sessions", "read_any_session", "search_context", "expand_summary")
)
"""the tools with which a model looks at conversations"""
_OPAQUE = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,|[A-Za-z0-9+/_-]{512}")


def searchable_text(message: Message, *, reasoning: bool = False, traces: set[str] | None = None) -> str:
    """The name of the author, the text, tool calls with their arguments and results, and the names of files, with the
    content of text files.

    Binary data is left out. So is reasoning, unless `reasoning`. With `traces`, calls of `SEARCH_TOOLS` and their
    results are left out, too: they only repeat what is found elsewhere. `traces` has the ids of earlier such calls, and
    gets those of this message."""
    content = message.raw.get("content") if message.stored.derived is None else None
    if type(content) is str and not reasoning:
        text = content
    else:
        parts: Iterable[Part] = message.plain_parts
        if traces is not None:
            parts = [part for part in parts if not _is_trace(part, traces)]
        text = "\n".join(piece for part in parts for piece in _pieces(part, reasoning) if piece)
    author = message.author
    return f"{author}: {text}" if author else text


def _is_trace(part: Part, traces: set[str]) -> bool:
    if isinstance(part, ToolCallPart) and part.name in SEARCH_TOOLS:
        traces.add(part.id)
        return True
    return isinstance(part, ToolResultPart) and (part.call_id in traces or part.name in SEARCH_TOOLS)


def _pieces(part: Part, reasoning: bool) -> Iterator[str]:
    match part:
        case TextPart():
            yield part.text
        case ToolCallPart():
            yield " ".join((part.name, *_strings(part.arguments)))
        case ToolResultPart():
            yield " ".join((part.name or "", *_strings(part.content)))
        case FilePart():
            yield from _file(part)
        case DataPart():
            yield " ".join(_strings(part.data))
        case ReasoningPart():
            yield part.text if reasoning else ""


def _file(part: FilePart) -> Iterator[str]:
    yield part.name or ""
    if part.url and not part.url.startswith("data:"):
        yield part.url
    yield text_of_file(part) or ""


def _strings(value: Any) -> Iterator[str]:
    """Keys and values of a JSON value, in order, without base64 data."""
    if type(value) is str:
        if not _OPAQUE.match(value):
            yield value
    elif type(value) is dict:
        for key, inner in value.items():
            yield key
            yield from _strings(inner)
    elif type(value) is list:
        for inner in value:
            yield from _strings(inner)
    elif value is not None and type(value) is not bool:
        yield str(value)
