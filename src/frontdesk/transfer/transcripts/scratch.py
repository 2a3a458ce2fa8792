"""Tables for what an import has to remember, in a temporary file that SQLite deletes, so that memory does not grow."""

from __future__ import annotations

import sqlite3


def open_scratch(*tables: str) -> sqlite3.Connection:
    """A connection to a new file with these tables. Nothing in it has to survive."""
    file = sqlite3.connect("", isolation_level=None)
    for statement in ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", *tables, "BEGIN"):
        file.execute(statement)
    return file
