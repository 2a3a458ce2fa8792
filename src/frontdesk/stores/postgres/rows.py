"""How rows of the database become the rows of the seam, and the columns they are read by."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from frontdesk.messages.stored import StoredMessage
from frontdesk.store import NewSession, Place, SessionRow, ViewRow

_NUMBER_BITS = 39

_APART = ("namespace", "base", "head")
_NAMES = tuple(name for name in SessionRow.__struct_fields__ if name not in _APART)
_PLACES = ("base_segment", "base_position", "head_segment", "head_position")
SESSION_WIDTH = len(_NAMES) + len(_PLACES)

encode = msgspec.json.Encoder().encode
decode_view = msgspec.json.Decoder(ViewRow).decode
decode_message = msgspec.json.Decoder(StoredMessage).decode
_decode_tags = msgspec.json.Decoder(list[str]).decode


def namespace_of(number: int) -> int:
    """The number of the namespace that a session, tree, segment, overlay or edit belongs to."""
    return number >> _NUMBER_BITS


def session_columns(source: str) -> str:
    """The columns that `session_row` reads, of a table's alias or a composite value."""
    return ", ".join(f"{source}.{name}::text" if name == "cost" else f"{source}.{name}" for name in (*_NAMES, *_PLACES))


def session_row(namespace: str, values: Sequence[Any]) -> SessionRow:
    """From the columns of `session_columns`; more behind them are left alone."""
    base_segment, base_position, head_segment, head_position = values[len(_NAMES) : SESSION_WIDTH]
    return SessionRow(
        namespace=namespace,
        base=None if base_segment is None else Place(base_segment, base_position),
        head=None if head_segment is None else Place(head_segment, head_position),
        **dict(zip(_NAMES, values, strict=False)),
    )


def view_row(items: str | None) -> ViewRow:
    return ViewRow() if items is None else decode_view(items)


def view_text(view: ViewRow) -> str:
    return encode(view).decode()


def message_text(message: StoredMessage | None) -> str | None:
    return None if message is None else encode(message).decode()


def digest(text: str) -> bytes:
    """What stands in an index for a text that may be too long for it."""
    return hashlib.sha256(text.encode()).digest()


def tag_digests(tags: str) -> list[bytes]:
    return [digest(tag) for tag in sorted(set(_decode_tags(tags)))]


def key_digest(agent: str | None, channel: str | None, peer: str | None, thread: str | None) -> bytes | None:
    """None for a session without a key."""
    return None if agent is None else hashlib.sha256(encode((agent, channel or "", peer or "", thread))).digest()


def new_session_values(new: NewSession) -> dict[str, Any]:
    """The columns that a new session's row takes from what was given."""
    given = {name: getattr(new, name) for name in new.__struct_fields__ if name not in ("namespace", "now")}
    return {
        **given,
        "key_current": new.agent is not None,
        "key_digest": key_digest(new.agent, new.channel, new.peer, new.thread),
        "created_at": new.now,
        "updated_at": new.now,
        "last_active_at": new.now,
    }


def columns_of(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """Rows turned into columns, as `unnest` wants them."""
    return [[row[index] for row in rows] for index in range(width)]
