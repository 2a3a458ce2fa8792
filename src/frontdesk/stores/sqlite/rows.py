"""Converts rows of the database to the rows of the `Store` protocol, and lists the columns to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import astuple

from frontdesk.messages.stored import StoredMessage
from frontdesk.store import (
    SEGMENT_SIZE,
    TEXT_KINDS,
    Address,
    EditRow,
    OverlayRow,
    Place,
    SegmentRow,
    SessionRow,
    ViewRow,
)

POSITION_BITS = SEGMENT_SIZE.bit_length() - 1

# The fields that are not columns as they are come last, so that a row is made of the others by their order.
_AS_STORED, _CONVERTED = SessionRow.__struct_fields__[:-3], SessionRow.__struct_fields__[-3:]
assert _CONVERTED == ("key_current", "base", "head")
SESSION_NAMES: tuple[str, ...] = (*_AS_STORED, "key_current")
_PLACE_COLUMNS = ("base_segment", "base_position", "head_segment", "head_position")
SESSION_COLUMNS: tuple[str, ...] = (*SESSION_NAMES, *_PLACE_COLUMNS)
SESSION_WIDTH = len(SESSION_COLUMNS)
SESSION = ", ".join(SESSION_COLUMNS)

MESSAGE = ", ".join(StoredMessage.__struct_fields__)
SEGMENT = "number, tree, parent_segment, parent_position, last, next, shared, tokens"
OVERLAY = (
    "number, tree, revision, id, kind, start_segment, start_position, end_segment, end_position,"
    " tokens, created_at, stale, details"
)
EDIT = "number, tree, revision, kind, segment, first, last, tokens, overlay, message"

_STORED_WIDTH = len(_AS_STORED)
_NO_PLACE = (None, None)
_KIND_BITS = 2
_decode_message = msgspec.json.Decoder(StoredMessage).decode
decode_view = msgspec.json.Decoder(ViewRow).decode
encode = msgspec.json.Encoder().encode


def pack(segment: int, position: int) -> int:
    """The key of a message's row."""
    return segment << POSITION_BITS | position


def unpack(place: int) -> Place:
    return Place(place >> POSITION_BITS, place & SEGMENT_SIZE - 1)


def text_key(address: Address) -> int:
    """The key of a text in the index and among the vectors: the place of a message, and for others a negative number
    that holds their number and kind."""
    kind, number, position = address
    return pack(number, position) if kind == "message" else -(number << _KIND_BITS | TEXT_KINDS.index(kind))


def text_address(key: int) -> Address:
    if key >= 0:
        return Address("message", *unpack(key))
    return Address(TEXT_KINDS[-key & (1 << _KIND_BITS) - 1], -key >> _KIND_BITS)


def place_or_none(segment: int | None, position: int | None) -> Place | None:
    return None if segment is None or position is None else Place(segment, position)


def session_row(row: Sequence[Any]) -> SessionRow:
    """From the columns of `SESSION`; more after them are ignored."""
    key_current, base_segment, base_position, head_segment, head_position = row[_STORED_WIDTH:SESSION_WIDTH]
    values = (
        *row[:_STORED_WIDTH],
        key_current == 1,
        None if base_segment is None else Place(base_segment, base_position),
        None if head_segment is None else Place(head_segment, head_position),
    )
    return SessionRow(*values)


def session_values(row: SessionRow) -> tuple[Any, ...]:
    """The values of the columns of `SESSION`."""
    *stored, key_current, base, head = astuple(row)
    return (*stored, int(key_current), *(base or _NO_PLACE), *(head or _NO_PLACE))


def segment_row(row: Sequence[Any]) -> SegmentRow:
    number, tree, parent_segment, parent_position, last, next_position, shared, tokens = row
    parent = place_or_none(parent_segment, parent_position)
    return SegmentRow(number, tree, parent, last, next_position, shared, tokens)


def overlay_row(row: Sequence[Any]) -> OverlayRow:
    """From the columns of `OVERLAY`, and the summary where that was read, too."""
    return OverlayRow(
        number=row[0],
        tree=row[1],
        revision=row[2],
        id=row[3],
        kind=row[4],
        start=Place(row[5], row[6]),
        end=Place(row[7], row[8]),
        tokens=row[9],
        created_at=row[10],
        stale=row[11] == 1,
        details=row[12],
        summary=row[13] if len(row) > 13 else None,
    )


def edit_row(row: Sequence[Any]) -> EditRow:
    return EditRow(
        number=row[0],
        tree=row[1],
        revision=row[2],
        kind=row[3],
        segment=row[4],
        first=row[5],
        last=row[6],
        tokens=row[7],
        overlay=row[8],
        message=edit_message(row[9]),
    )


def edit_message(text: str | None) -> StoredMessage | None:
    return None if text is None else _decode_message(text)


def json_text(value: object) -> str:
    """The JSON in which a view or a replacing message is kept."""
    return encode(value).decode()
