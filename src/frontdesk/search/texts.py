"""What of a message can be found: everything that was said, called, answered or attached, as one text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from frontdesk.messages import DataPart, FilePart, Message, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from frontdesk.messages.formats.blocks import text_of_file

_OPAQUE = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,|[A-Za-z0-9+/_-]{512}")


def searchable_text(message: Message, *, reasoning: bool = False) -> str:
    """The author's name, the text, names of tools with arguments and results, names of files and what text files hold.

    Binary data is left out, and so is `reasoning` unless asked for."""
    content = message.raw.get("content")
    if type(content) is str and message.stored.derived is None and not reasoning:
        said = content
    else:
        said = "\n".join(piece for part in message.parts for piece in _pieces(part, reasoning) if piece)
    author = message.author
    return f"{author}: {said}" if author else said


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
    """Keys and values of a JSON value, in order; base64 is no text."""
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
