"""Reads and writes messages where they are, for an export and an import. The other rows are those of `sql.transfer`."""

from __future__ import annotations

from msgspec.structs import astuple

from frontdesk.messages.stored import StoredMessage
from frontdesk.store import SEGMENT_SIZE, PlacedMessage, Restore
from frontdesk.stores.sql import transfer
from frontdesk.stores.sql.rows import MESSAGE
from frontdesk.stores.sqlite.connections import SQLiteConnection
from frontdesk.stores.sqlite.database import shared
from frontdesk.stores.sqlite.rows import pack, unpack

_READ = f"SELECT place, running, {MESSAGE} FROM messages WHERE place BETWEEN ? AND ? ORDER BY place LIMIT ?"
_WRITE = f"INSERT OR REPLACE INTO messages (place, family, running, {MESSAGE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_restore = shared(transfer.restore)


def placed_messages(
    connection: SQLiteConnection, namespace: str, segment: int, first: int, limit: int
) -> list[PlacedMessage]:
    bounds = pack(segment, first), pack(segment, SEGMENT_SIZE - 1)
    rows = connection.execute(_READ, (*bounds, limit))
    return [PlacedMessage(unpack(place), running, StoredMessage(*message)) for place, running, *message in rows]


def restore(connection: SQLiteConnection, rows: Restore) -> None:
    messages = [(pack(*one.place), rows.family, one.running, *astuple(one.message)) for one in rows.messages]
    _restore(connection, rows)
    connection.executemany(_WRITE, messages)
