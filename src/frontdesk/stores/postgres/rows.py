"""Expressions and conversions of this store, and what its other modules use of the shared `stores.sql.rows`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from frontdesk.store import TEXT_KINDS, TextKind, ViewRow
from frontdesk.stores.sql import digests
from frontdesk.stores.sql import rows as shared
from frontdesk.stores.sql.database import Row

Values = Row

NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
"""the server's time in microseconds"""
HERE = "(SELECT number FROM {schema}.namespaces WHERE name = $1)"
"""the number of the namespace whose name is the first argument"""
_NUMBER_BITS = 39
SESSION = shared.SESSION
SESSION_COLUMNS = shared.SESSION_COLUMNS
SESSION_WIDTH = shared.SESSION_WIDTH
MESSAGE_COLUMNS = shared.MESSAGE_COLUMNS
SEGMENT = ", ".join(f"t.{name}" for name in shared.SEGMENT_COLUMNS)
EDIT = ", ".join(f"x.{name}" for name in shared.EDIT_COLUMNS)
session_columns = shared.session_columns
session_row = shared.session_row
segment_row = shared.segment_row
edit_row = shared.edit_row
decode_message = shared.decode_message
json_text = shared.json_text
digest = digests.digest
TEXT_CODES: dict[TextKind, int] = {kind: code for code, kind in enumerate(TEXT_KINDS)}

_decode_rows = msgspec.json.Decoder(list[list[Any]]).decode


def namespace_of(number: int) -> int:
    """The number of the namespace that a session, tree, segment, overlay or edit belongs to."""
    return number >> _NUMBER_BITS


def columns_of(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """Rows turned into columns, as `unnest` takes them."""
    return [[row[index] for row in rows] for index in range(width)]


def json_rows(text: str | None) -> list[list[Any]]:
    """Rows that came as one JSON array; null for none."""
    return [] if text is None else _decode_rows(text)


def view_row(items: str | None) -> ViewRow:
    return ViewRow() if items is None else shared.decode_view(items)
