"""Converts keys of this store, and names what the shared `stores.sql.rows` have for its other modules."""

from __future__ import annotations

from frontdesk.store import SEGMENT_SIZE, TEXT_KINDS, Address, Place, SessionRow
from frontdesk.stores.sql import rows as shared
from frontdesk.stores.sql.database import Row

POSITION_BITS = SEGMENT_SIZE.bit_length() - 1
_KIND_BITS = 2

SESSION_COLUMNS = shared.SESSION_COLUMNS
SESSION_WIDTH = shared.SESSION_WIDTH
SESSION = ", ".join(SESSION_COLUMNS)
MESSAGE = shared.MESSAGE
SEGMENT = ", ".join(shared.SEGMENT_COLUMNS)
OVERLAY = ", ".join(shared.OVERLAY_COLUMNS)
EDIT = ", ".join(shared.EDIT_COLUMNS)
decode_view = shared.decode_view
segment_row = shared.segment_row
overlay_row = shared.overlay_row
edit_row = shared.edit_row
edit_message = shared.edit_message
json_text = shared.json_text


def session_row(row: Row) -> SessionRow:
    """From the columns of `SESSION`; more after them are ignored. The namespace is among them."""
    return shared.session_row(row[1], row)


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
