"""The message formats of providers. Messages are kept exactly as given, and rendered so that they are valid for a
provider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

from frontdesk.errors import InvalidInputError
from frontdesk.messages.formats import (
    adk,
    agent_framework,
    anthropic,
    claude_code,
    gemini,
    llama_index,
    opaque,
    openai_chat,
    openai_responses,
    own,
    pydantic_ai,
    strands,
    ui,
)
from frontdesk.messages.formats.format import Format, Limits, Notes, Rendering, Source
from frontdesk.messages.formats.pairing import count_leading
from frontdesk.messages.parts import Part

__all__ = [
    "FORMATS",
    "MessageFormat",
    "Notes",
    "Rendering",
    "check_format",
    "count_leading",
    "read",
    "recognise",
    "render",
    "role",
    "shorten",
]

MessageFormat: TypeAlias = Literal[
    "openai", "openai-responses", "anthropic", "gemini", "pydantic-ai", "adk", "ui", "raw"
]
FORMATS: tuple[str, ...] = get_args(MessageFormat)

# In the order in which they are recognised: the most distinctive marks first, and ours takes what is left.
_BY_NAME: dict[str | None, Format] = {
    format.name: format
    for format in (
        pydantic_ai.FORMAT,
        claude_code.FORMAT,
        adk.FORMAT,
        strands.FORMAT,
        agent_framework.FORMAT,
        llama_index.FORMAT,
        gemini.FORMAT,
        ui.FORMAT,
        openai_responses.FORMAT,
        openai_chat.FORMAT,
        anthropic.FORMAT,
        own.FORMAT,
    )
}
_RECOGNISED = tuple(_BY_NAME.values())
_BY_NAME[None] = own.FORMAT
_BY_NAME[opaque.NAME] = opaque.FORMAT
_DEFAULT = Rendering()


def recognise(raw: dict[str, Any]) -> Format | None:
    """The format of a raw message, None if it is in no known format and has no role."""
    for format in _RECOGNISED:
        if format.matches(raw):
            return format
    return None


def role(raw: dict[str, Any], shape: str | None) -> str:
    """The role of a raw message in the format `shape` (None: our own)."""
    return _format(raw, shape).role(raw)


def read(raw: dict[str, Any], shape: str | None) -> tuple[Part, ...]:
    """The parts of a raw message in the format `shape` (None: our own)."""
    return _format(raw, shape).read(raw)


def shorten(raw: dict[str, Any], shape: str | None, limits: Limits) -> dict[str, Any]:
    """A copy of a raw message in the format `shape` whose tool outputs and texts keep within `limits`."""
    return _format(raw, shape).shorten(raw, limits)


def render(messages: Sequence[Source], format: str, rendering: Rendering = _DEFAULT) -> list[dict[str, Any]]:
    """`messages` as the list that goes into a call of that provider, valid for it.

    Nothing that was said is dropped: tool calls and their results go out in pairs, and what the provider has no role
    for becomes a note. `"raw"` is what was given. Raises `InvalidInputError` for an unknown format."""
    check_format(format)
    if format != own.FORMAT.name:
        messages = opaque.with_text_only(messages)
    return _BY_NAME[format].write(messages, rendering)


def check_format(value: str) -> None:
    """Raises `InvalidInputError` for an unknown format."""
    if not isinstance(value, str) or value not in FORMATS:
        raise InvalidInputError(f"unknown format {value!r}: choose one of {', '.join(FORMATS)}", format=value)


def _format(raw: dict[str, Any], shape: str | None) -> Format:
    # A store may have been written by a later version, with formats that are not known here.
    return _BY_NAME.get(shape) or recognise(raw) or own.FORMAT
