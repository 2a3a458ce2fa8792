"""`NewMessage`: a message to store, with an id, a role or a text that its value does not have itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from frontdesk.record import Record


@dataclass(frozen=True, slots=True)
class NewMessage(Record):
    """A value to store as a message, for `append_all`, `replace_messages`, `upsert` and `update_message`.

    `id`, `role` and `text` override what would be derived from the value. With a `role`, the value may be anything that
    is JSON; it is stored exactly as it is. `text` is what search, token counts and summaries use."""

    value: Any
    id: str | None = None
    role: str | None = None
    text: str | None = None
