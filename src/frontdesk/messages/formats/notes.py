"""Notes: what the application says in the middle of a conversation. Providers have no role for it there, so a note is
written between tags that no text of a user can contain."""

from __future__ import annotations

from typing import NamedTuple

from frontdesk.messages.formats.content_blocks import readable, result_text
from frontdesk.messages.formats.format import Rendering, Source
from frontdesk.messages.formats.pairing import CallStep, MessagePiece
from frontdesk.messages.formats.tags import tag_output, tag_summary, tag_system
from frontdesk.messages.parts import ToolResultPart

_OUTDATED = "(An earlier note on the context was here. The system prompt contains what is current.)"


class Note(NamedTuple):
    """The text of a note in tags, and as a system message may have it: None where it must not become one."""

    tagged: str
    plain: str | None


def note_of(step: CallStep, rendering: Rendering) -> Note | None:
    """The note that a step of the role "note" is; None if it says nothing."""
    message = step.message
    if message.is_summary:
        summary = tag_summary(message.id, message.text)
        return Note(summary, summary)
    if step.pieces or message.role in ("tool", "function"):
        # What a tool returned must not get the authority of a system message.
        text = "\n".join(filter(None, map(_text_of, step.pieces))) if step.pieces else message.text
        return Note(tag_output(text), None) if text.strip() else None
    text = system_text(message, rendering)
    return Note(tag_system(text), text) if text.strip() else None


def system_text(message: Source, rendering: Rendering) -> str:
    """The text of a system message; for a note that the prompt has replaced, a line that overrides nothing."""
    return _OUTDATED if message.id in rendering.outdated else message.text


def _text_of(piece: MessagePiece) -> str | None:
    return result_text(piece.part.content) if isinstance(piece.part, ToolResultPart) else readable(piece.part)
