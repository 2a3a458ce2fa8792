"""Shortens messages for the model's view: long tool outputs and very long texts are cut, and formats stay valid.

Separate because nothing here depends on the place of a message. A message is always shortened in the same way, so that
the prefix that a provider has cached stays the same."""

from __future__ import annotations

from collections.abc import Sequence

from frontdesk.messages import Message, formats, rewrite
from frontdesk.messages.counting import count_parts
from frontdesk.messages.formats.excerpts import LEAST_CHARS
from frontdesk.messages.formats.format import Limits
from frontdesk.messages.formats.pairing import role_of
from frontdesk.messages.tokens import TokenCounter, estimate_tokens


def truncate_older_messages(
    messages: Sequence[Message],
    *,
    keep_recent: int = 4,
    max_tool_chars: int = 500,
    max_text_chars: int = 10_000,
    counter: TokenCounter = estimate_tokens,
) -> list[Message]:
    """A list in which all messages but the last `keep_recent` are shortened: tool outputs to `max_tool_chars`
    characters, other texts to `max_text_chars`. The given messages do not change.

    Reasoning, tool arguments, files, system messages and summaries stay whole."""
    older = max(0, len(messages) - max(0, keep_recent))
    shortened = [shorten(message, max_tool_chars, max_text_chars, counter) for message in messages[:older]]
    return [*shortened, *messages[older:]]


def shorten(message: Message, max_tool_chars: int, max_text_chars: int, counter: TokenCounter) -> Message:
    """A copy for the view whose tool outputs and texts have at most this many characters, or `message` itself where
    nothing is cut or nothing gained.

    Id, role, call ids, time and format stay, and so do reasoning, tool arguments, files, system messages and summaries.
    Shortening twice is the same as once.
    """
    limits = Limits(max(LEAST_CHARS, max_tool_chars), max(LEAST_CHARS, max_text_chars))
    if len(message.stored.raw) <= min(limits) or message.is_summary or role_of(message) in ("system", "developer"):
        return message
    raw = formats.shorten(message.raw, message.shape, limits)
    if raw == message.raw:
        return message
    shorter = rewrite(message.stored, raw, counter)
    if shorter.tokens >= count_parts(message.parts, counter):
        return message
    return Message.from_stored(shorter, message.parent_id)
