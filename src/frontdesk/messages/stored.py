"""`StoredMessage`: a message as a store keeps it, with the values that were derived when it was appended."""

from __future__ import annotations

import msgspec

DEFAULT_MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""the size as JSON from which a message is refused, unless a manager sets another"""


class StoredMessage(msgspec.Struct, frozen=True, gc=False):
    """What a store keeps of a message. `created_at` counts microseconds since 1970 in UTC; `raw` is JSON text.

    `derived` is the JSON text of `Derived`, None where that has only defaults."""

    id: str
    role: str
    tokens: int
    created_at: int
    raw: str
    derived: str | None = None


class Derived(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was found in a message when it was appended, so that no read has to look for it again.

    `shape` names the format that it was recognised as (None: Frontdesk's own); `text` is its plain text, where that is
    not simply the content; `calls` and `results` are the ids of tool calls that it makes and answers. `text_given` says
    that the caller gave the text: then it replaces the parts in search, token counts and summaries."""

    shape: str | None = None
    text: str | None = None
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    text_given: bool = False


NOTHING_DERIVED = Derived()
decode_derived = msgspec.json.Decoder(Derived).decode
encode_derived = msgspec.json.Encoder().encode


def derived_of(message: StoredMessage) -> Derived:
    """What was found in a stored message when it was appended."""
    return NOTHING_DERIVED if message.derived is None else decode_derived(message.derived)
