"""Converts rows of the database to the rows of the `Store` protocol and back, and lists the columns to read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, overload

import msgspec

from frontdesk.messages.stored import StoredMessage
from frontdesk.store import TEXT_KINDS, EditRow, Owner, Place, SegmentRow, SessionRow, TextKind, ViewRow


class Values(Protocol):
    """The values of a row, by their places: a record of the driver, or a list."""

    @overload
    def __getitem__(self, index: int, /) -> Any: ...
    @overload
    def __getitem__(self, index: slice, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...


NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
"""the server's time in microseconds"""
HERE = "(SELECT number FROM {schema}.namespaces WHERE name = $1)"
"""the number of the namespace whose name is the first argument"""
SHARED = 0
"""the session number of what belongs to a whole namespace"""
OWNER = (
    f"SELECT n.number AS ns, CASE WHEN $2::text IS NULL THEN {SHARED} ELSE s.number END AS session"
    " FROM {schema}.namespaces n LEFT JOIN {schema}.sessions s ON s.ns = n.number AND s.id = $2"
    " WHERE n.name = $1 AND ($2::text IS NULL OR s.number IS NOT NULL)"
)
"""a query for (ns, session) of the namespace $1 and the session $2 (NULL: what is shared)"""

_NUMBER_BITS = 39
_SEPARATE = ("namespace", "base", "head")
_NAMES = tuple(name for name in SessionRow.__struct_fields__ if name not in _SEPARATE)
SESSION_COLUMNS = (*_NAMES, "base_segment", "base_position", "head_segment", "head_position")
SESSION_WIDTH = len(SESSION_COLUMNS)
TEXT_CODES: dict[TextKind, int] = {kind: code for code, kind in enumerate(TEXT_KINDS)}
MESSAGE_COLUMNS = StoredMessage.__struct_fields__

encode = msgspec.json.Encoder().encode
decode_message = msgspec.json.Decoder(StoredMessage).decode
_decode_view = msgspec.json.Decoder(ViewRow).decode
_decode_rows = msgspec.json.Decoder(list[list[Any]]).decode
_decode_tags = msgspec.json.Decoder(list[str]).decode


def namespace_of(number: int) -> int:
    """The number of the namespace that a session, tree, segment, overlay or edit belongs to."""
    return number >> _NUMBER_BITS


def columns_of(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """Rows turned into columns, as `unnest` takes them."""
    return [[row[index] for row in rows] for index in range(width)]


def json_text(value: object) -> str:
    return encode(value).decode()


def json_rows(text: str | None) -> list[list[Any]]:
    """Rows that came as one JSON array; null for none."""
    return [] if text is None else _decode_rows(text)


# sessions


def session_columns(source: str) -> str:
    """The columns that `session_row` reads, of a table's alias."""
    return ", ".join(f"{source}.{name}::text" if name == "cost" else f"{source}.{name}" for name in SESSION_COLUMNS)


SESSION = session_columns("s")


def session_row(namespace: str, values: Values) -> SessionRow:
    """From the columns of `session_columns`; further columns are ignored."""
    base_segment, base_position, head_segment, head_position = values[len(_NAMES) : SESSION_WIDTH]
    return SessionRow(
        namespace=namespace,
        base=place(base_segment, base_position),
        head=place(head_segment, head_position),
        **dict(zip(_NAMES, values, strict=False)),
    )


def session_values(row: SessionRow) -> list[Any]:
    """The values of `SESSION_COLUMNS`."""
    places = (*(row.base or (None, None)), *(row.head or (None, None)))
    return [*(getattr(row, name) for name in _NAMES), *places]


def digest(text: str) -> bytes:
    """Replaces a text in an index that may be too long for it."""
    return hashlib.sha256(text.encode()).digest()


def tag_digests(tags: str) -> list[bytes]:
    return [digest(tag) for tag in sorted(set(_decode_tags(tags)))]


def key_digest(agent: str | None, channel: str | None, peer: str | None, thread: str | None) -> bytes | None:
    """None for a session without a key."""
    return None if agent is None else hashlib.sha256(encode((agent, channel or "", peer or "", thread))).digest()


def owner_digest(owner: Owner) -> bytes:
    """Replaces the parts of an owner that is not a session."""
    return hashlib.sha256(encode(owner.parts)).digest()


# what a session consists of


def place(segment: int | None, position: int | None) -> Place | None:
    return None if segment is None or position is None else Place(segment, position)


SEGMENT = "t.number, t.tree, t.parent_segment, t.parent_position, t.last, t.next, t.shared, t.tokens"
_EDIT_NAMES = EditRow.__struct_fields__
EDIT = ", ".join(f"x.{name}" for name in _EDIT_NAMES)


def segment_row(values: Values) -> SegmentRow:
    number, tree, parent_segment, parent_position, *rest = values
    return SegmentRow(number, tree, place(parent_segment, parent_position), *rest)


def edit_row(values: Values) -> EditRow:
    columns = dict(zip(_EDIT_NAMES, values, strict=True))
    message = columns.pop("message")
    return EditRow(**columns, message=None if message is None else decode_message(message))


def view_row(items: str | None) -> ViewRow:
    return ViewRow() if items is None else _decode_view(items)
