"""A message as JSON without loss, for the client of a server: with what was appended as text, exactly as it is stored,
and what was derived from it."""

from __future__ import annotations

from typing import Any

import msgspec

from frontdesk.messages.message import Message
from frontdesk.messages.stored import StoredMessage


class _Exact(msgspec.Struct, frozen=True):
    id: str
    role: str
    tokens: int
    created_at: int
    raw: str
    derived: str | None
    parent_id: str | None


def to_exact(message: Message) -> _Exact:
    """What `from_exact` makes the same message of, for an encoder of JSON. `created_at` counts microseconds."""
    stored = message.stored
    return _Exact(
        stored.id, stored.role, stored.tokens, stored.created_at, stored.raw, stored.derived, message.parent_id
    )


def from_exact(written: Any) -> Message:
    """The message. Raises `msgspec.ValidationError`."""
    exact = msgspec.convert(written, _Exact)
    stored = StoredMessage(exact.id, exact.role, exact.tokens, exact.created_at, exact.raw, exact.derived)
    return Message.from_stored(stored, exact.parent_id)
