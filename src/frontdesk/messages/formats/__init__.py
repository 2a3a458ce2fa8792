"""Other people's message shapes, in and out: everything given is kept exactly, and rendered valid for each provider."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from frontdesk.errors import InvalidInputError
from frontdesk.messages import Message
from frontdesk.messages.formats import anthropic, openai_chat, openai_responses, ours, ui
from frontdesk.messages.formats.anthropic import system_text as anthropic_system
from frontdesk.messages.formats.ingestion import DEFAULT_MAX_BYTES, ingest, read

__all__ = ["DEFAULT_MAX_BYTES", "FORMATS", "anthropic_system", "ingest", "ours", "read", "render"]

_WRITERS: dict[str, Callable[[Sequence[Message]], list[dict[str, Any]]]] = {
    "openai": openai_chat.write,
    "openai-responses": openai_responses.write,
    "anthropic": anthropic.write,
    "ui": ui.write,
    "raw": ours.write,
}
FORMATS = tuple(_WRITERS)


def render(messages: Sequence[Message], format: str) -> list[dict[str, Any]]:
    """`messages` as the list that goes into a call of that provider, valid for it.

    Tool calls and their results go out in pairs or not at all. `"anthropic"` has no system messages: what they say is
    `anthropic_system(messages)`. `"raw"` is what was given. Raises `InvalidInputError` for an unknown format.
    """
    writer = _WRITERS.get(format) if isinstance(format, str) else None
    if writer is None:
        raise InvalidInputError(f"unknown format {format!r}: choose one of {', '.join(FORMATS)}", format=format)
    return writer(messages)
