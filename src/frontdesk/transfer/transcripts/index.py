"""Where the entries of a transcript are in its tree. Kept in a temporary file that SQLite deletes, so that memory does
not grow with the transcript."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple


class Spot(NamedTuple):
    """What the entries after an entry follow: `stored`, the last message at or before it, with `root`, the first one of
    its path, and `before`, the message that the entry itself follows."""

    stored: str | None = None
    root: str | None = None
    before: str | None = None


NOWHERE = Spot()


class EntryIndex:
    """The spots of the entries of one session, by their ids."""

    def __init__(self) -> None:
        self._file = sqlite3.connect("", isolation_level=None)
        self._file.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
            "CREATE TABLE spots (id TEXT PRIMARY KEY, stored TEXT, root TEXT, before TEXT) WITHOUT ROWID; BEGIN"
        )

    def __contains__(self, id: str) -> bool:
        return self.get(id) is not None

    def get(self, id: str | None) -> Spot | None:
        row = self._file.execute("SELECT stored, root, before FROM spots WHERE id = ?", (id,)).fetchone()
        return None if row is None else Spot(*row)

    def put(self, id: str, spot: Spot) -> None:
        self._file.execute("INSERT INTO spots VALUES (?, ?, ?, ?)", (id, *spot))

    def close(self) -> None:
        self._file.close()
