"""Finds out which record of several cannot be read, once reading them failed."""

from __future__ import annotations

from frontdesk.errors import DamagedRecordError, StoreCorruptError, StoreError
from frontdesk.stores.sqlite.connections import SQLiteConnection
from frontdesk.stores.sqlite.rows import MESSAGE

_MESSAGE = f"SELECT {MESSAGE} FROM messages WHERE place = ?"


def find_damaged(connection: SQLiteConnection, first: int, last: int) -> StoreError:
    """The error that names the first message between two places whose text is not valid."""
    for place in connection.execute("SELECT place FROM messages WHERE place BETWEEN ? AND ?", (first, last)).fetchall():
        try:
            connection.execute(_MESSAGE, place).fetchall()
        except UnicodeDecodeError:
            return DamagedRecordError("message", _id(connection, place), place[0])
    return StoreCorruptError("a message could not be read at first, but could be read again: check the disk")


def _id(connection: SQLiteConnection, place: tuple[int]) -> str | None:
    id = connection.execute("SELECT CAST(id AS BLOB) FROM messages WHERE place = ?", place).fetchone()[0]
    try:
        return str(id, "utf-8")
    except UnicodeDecodeError:
        return None
