"""Pure: renders a conversation as the text that a summariser or an extractor reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from frontdesk.messages import DataPart, FilePart, Message, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from frontdesk.messages.exact_json import compact
from frontdesk.messages.formats.content_blocks import is_application_data, readable, result_text, text_of_file
from frontdesk.messages.formats.excerpts import cut_middle

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?[^,\s\"]{0,100};base64,[A-Za-z0-9+/=_-]{64,}")
_NOT_IN_NAMES = re.compile(r"[\s\[\]<>]+")
_MAX_NAME = 100
_SPEAKER = re.compile(r"\n(?=\[(?:user|assistant|system|developer|tool|file|earlier summary)\b)", re.IGNORECASE)


def render_for_summary(messages: Sequence[Message], *, max_tool_chars: int = 2000) -> str:
    """The conversation as a summariser reads it: who said what, calls, results and files; no reasoning.

    Tool arguments, results and inline text files are cut in the middle to `max_tool_chars`.
    """
    names: dict[str, str] = {}
    return "\n".join(line for message in messages for line in _lines(message, names, max_tool_chars))


def _lines(message: Message, names: dict[str, str], limit: int) -> Iterator[str]:
    if message.is_summary:
        yield _one_speaker(f"[earlier summary] {message.text}")
        return
    speaker = _speaker(message)
    for part in message.plain_parts:
        line = _line(part, speaker, names, limit)
        if line is not None:
            yield _one_speaker(_without_data(line))


def _speaker(message: Message) -> str:
    """The role, and the name of the author if it was given: several people may take part."""
    name = _NOT_IN_NAMES.sub(" ", message.author or "")[:_MAX_NAME].strip()
    return f"{message.role} {name}" if name else message.role


def _one_speaker(line: str) -> str:
    """A message whose further lines cannot pose as those of others."""
    return _SPEAKER.sub("\n ", line)


def _line(part: Part, speaker: str, names: dict[str, str], limit: int) -> str | None:
    match part:
        case ReasoningPart():
            return None
        case TextPart():
            return f"[{speaker}] {part.text}" if part.text.strip() else None
        case ToolCallPart():
            names[part.id] = part.name
            arguments = part.arguments if type(part.arguments) is str else compact(part.arguments)
            return f"[tool call {part.name or 'tool'}] {cut_middle(arguments, limit)}"
        case ToolResultPart():
            name = part.name or names.get(part.call_id) or "tool"
            failed = "error: " if part.is_error else ""
            return f"[tool result {name}] {failed}{cut_middle(_without_data(result_text(part.content)), limit)}"
        case FilePart():
            return _file_line(part, limit)
    return _data_line(part, speaker, limit)


def _without_data(text: str) -> str:
    return _DATA_URL.sub(r"[\1 data]", text)


def _file_line(part: FilePart, limit: int) -> str:
    url = part.url if part.url and not part.url.startswith("data:") else None
    label = " ".join(filter(None, ("file", part.name or url, part.media_type)))
    text = text_of_file(part)
    return f"[{label}]" if text is None else f"[{label}] {cut_middle(text, limit)}"


def _data_line(part: DataPart, speaker: str, limit: int) -> str | None:
    said = readable(part)
    if said is not None:
        return f"[{speaker}] {said}"
    if is_application_data(part):
        return None
    return f"[{part.type}] {cut_middle(_without_data(compact(part.data)), limit)}"
