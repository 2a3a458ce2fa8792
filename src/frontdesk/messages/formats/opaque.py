"""Opaque messages, which are in no known format: any JSON value, stored under a role that was given with it. All that
is known of such a message is its text, and a provider gets nothing else of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from frontdesk.messages.formats.format import Format, Source
from frontdesk.messages.formats.own import write
from frontdesk.messages.parts import Part, TextPart

NAME = "opaque"
_TEXT_KEYS = ("text", "content", "parts")


def text_in(value: Any) -> str:
    """The text of a value: a string itself, what an object has under the usual names, and the texts in a list."""
    if type(value) is str:
        return value
    if type(value) is list:
        return "\n".join(filter(None, map(text_in, value)))
    if type(value) is dict:
        return next((text for key in _TEXT_KEYS if (text := text_in(value.get(key)))), "")
    return ""


def parts_of(text: str) -> tuple[Part, ...]:
    """The parts of a message of which only the text is known."""
    return (TextPart(text),) if text else ()


@dataclass(frozen=True, slots=True)
class _TextMessage:
    """An opaque message as the writers of provider formats see it: it consists of its text."""

    id: str
    role: str
    text: str
    parts: tuple[Part, ...]
    raw: dict[str, Any]
    author: str | None
    shape: None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    is_summary: bool = False


def with_text_only(messages: Sequence[Source]) -> list[Source]:
    """Messages for a writer: opaque ones consist of their text, all others stay as they are."""
    return [_text_message(message) if message.shape == NAME else message for message in messages]


def _text_message(message: Source) -> Source:
    raw = {"role": message.role, "content": message.text}
    return _TextMessage(message.id, message.role, message.text, parts_of(message.text), raw, message.author)


def _matches(raw: Any) -> bool:
    return False  # only a message that was given with a role is one


def _read(raw: Any) -> tuple[Part, ...]:
    return parts_of(text_in(raw))


def _shorten(raw: Any, limits: Any) -> Any:
    return raw


FORMAT = Format(NAME, _matches, _read, write, _shorten)
