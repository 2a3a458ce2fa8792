"""Converts rows of the database to the rows of the `Store` protocol and back, and lists the columns to read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import astuple

from frontdesk.messages.stored import StoredMessage
from frontdesk.store import SEGMENT_SIZE, EditRow, OverlayRow, Place, SegmentRow, SessionRow, Span, ViewRow
from frontdesk.stores.sql.database import Row

# The fields that are not columns as they are come last, so that a row is made of the others by their order.
_AS_STORED, _CONVERTED = SessionRow.__struct_fields__[:-4], SessionRow.__struct_fields__[-4:]
assert _AS_STORED[:2] == ("number", "namespace")
assert _CONVERTED == ("key_current", "base", "head", "is_leased")
_STORED_WIDTH = len(_AS_STORED)
_PLACE_COLUMNS = ("base_segment", "base_position", "head_segment", "head_position")
_NO_PLACE = (None, None)
SESSION_COLUMNS: tuple[str, ...] = ("number", "ns", *_AS_STORED[2:], "key_current", *_PLACE_COLUMNS)
SESSION_WIDTH = len(SESSION_COLUMNS)

MESSAGE_COLUMNS = StoredMessage.__struct_fields__
MESSAGE = ", ".join(MESSAGE_COLUMNS)

encode = msgspec.json.Encoder().encode
decode_message = msgspec.json.Decoder(StoredMessage).decode
decode_view = msgspec.json.Decoder(ViewRow).decode


def json_text(value: object) -> str:
    """The JSON in which a view or a replacing message is kept."""
    return encode(value).decode()


def session_columns(source: str) -> str:
    """The columns that `session_row` reads, of a table's alias."""
    return ", ".join(f"{source}.{name}" for name in SESSION_COLUMNS)


SESSION = session_columns("s")


def session_row(namespace: str, row: Row, *, is_leased: bool = False) -> SessionRow:
    """From the columns of `session_columns`; further columns are ignored."""
    key_current, base_segment, base_position, head_segment, head_position = row[_STORED_WIDTH:SESSION_WIDTH]
    values = (
        row[0],
        namespace,
        *row[2:_STORED_WIDTH],
        bool(key_current),
        None if base_segment is None else Place(base_segment, base_position),
        None if head_segment is None else Place(head_segment, head_position),
        is_leased,
    )
    return SessionRow(*values)


def session_values(ns: Any, row: SessionRow) -> dict[str, Any]:
    """The values of `SESSION_COLUMNS`, by their names."""
    number, _, *stored, key_current, base, head, _ = astuple(row)
    values = (number, ns, *stored, key_current, *(base or _NO_PLACE), *(head or _NO_PLACE))
    return dict(zip(SESSION_COLUMNS, values, strict=True))


# what a session consists of

SEGMENT_COLUMNS = ("number", "tree", "parent_segment", "parent_position", "last", "next", "shared", "tokens")
OVERLAY_COLUMNS = (
    *("number", "tree", "revision", "id", "kind", "start_segment", "start_position", "end_segment", "end_position"),
    *("tokens", "created_at", "stale", "details"),
)
EDIT_COLUMNS = EditRow.__struct_fields__


def place(segment: int | None, position: int | None) -> Place | None:
    return None if segment is None or position is None else Place(segment, position)


def span_values(ns: Any, spans: Iterable[Span]) -> list[dict[str, Any]]:
    """The values for `{in_span}`, of each span."""
    return [
        # A last position beyond the end of a segment could reach into the next one.
        {"ns": ns, "segment": span.segment, "first": span.first, "last": min(span.last, SEGMENT_SIZE - 1)}
        for span in spans
    ]


def segment_row(row: Row) -> SegmentRow:
    number, tree, parent_segment, parent_position, *rest = row
    return SegmentRow(number, tree, place(parent_segment, parent_position), *rest)


def overlay_row(row: Row) -> OverlayRow:
    """From `OVERLAY_COLUMNS`, and the summary where that was read, too."""
    number, tree, revision, id, kind, start, start_at, end, end_at, tokens, created_at, stale, details, *more = row
    return OverlayRow(
        number=number,
        tree=tree,
        revision=revision,
        id=id,
        kind=kind,
        start=Place(start, start_at),
        end=Place(end, end_at),
        tokens=tokens,
        created_at=created_at,
        stale=bool(stale),
        details=details,
        summary=more[0] if more else None,
    )


def edit_row(row: Row) -> EditRow:
    columns = dict(zip(EDIT_COLUMNS, row, strict=True))
    message = columns.pop("message")
    return EditRow(**columns, message=edit_message(message))


def edit_message(text: str | None) -> StoredMessage | None:
    return None if text is None else decode_message(text)
