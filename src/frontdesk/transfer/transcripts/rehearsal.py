"""What a dry run would have written so far, so that it recognises a session that two files name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from frontdesk.store import UsageRow
from frontdesk.transfer.transcripts.scratch import open_scratch

Kind = Literal["message", "compaction"]


class Rehearsal:
    """The ids of what a dry run has met, by session."""

    def __init__(self) -> None:
        self._file = open_scratch(
            "CREATE TABLE sessions (number INTEGER PRIMARY KEY, id TEXT UNIQUE, format TEXT)",
            "CREATE TABLE rows (session INTEGER, kind TEXT, id TEXT, value BLOB, PRIMARY KEY (session, kind, id))"
            " WITHOUT ROWID",
        )

    def close(self) -> None:
        self._file.close()

    def add_session(self, id: str, format: str) -> None:
        self._file.execute("UPDATE sessions SET format = ? WHERE number = ?", (format, self._number(id)))

    def format_of(self, session_id: str) -> str | None:
        """The format that a session would come from. None if it would not have been written."""
        row = self._file.execute("SELECT format FROM sessions WHERE id = ?", (session_id,)).fetchone()
        return None if row is None else row[0]

    def add(self, session_id: str, kind: Kind, ids: Iterable[str]) -> None:
        session = self._number(session_id)
        self._file.executemany("INSERT OR IGNORE INTO rows VALUES (?, ?, ?, NULL)", ((session, kind, id) for id in ids))

    def known(self, session_id: str, kind: Kind, ids: Iterable[str]) -> set[str]:
        """Those of the ids that were added."""
        session, find = self._number(session_id), "SELECT 1 FROM rows WHERE session = ? AND kind = ? AND id = ?"
        return {id for id in ids if self._file.execute(find, (session, kind, id)).fetchone()}

    def add_usage(self, session_id: str, entries: Iterable[UsageRow]) -> int:
        """Add entries, and return how many of them were not there yet."""
        session = self._number(session_id)
        before = self._file.total_changes
        rows = ((session, entry.id, msgspec.json.encode(entry)) for entry in entries)
        self._file.executemany("INSERT OR IGNORE INTO rows VALUES (?, 'usage', ?, ?)", rows)
        return self._file.total_changes - before

    def usage(self, session_id: str, call: str) -> list[UsageRow]:
        """The entries of a call, whose ids begin with it and "#"."""
        rows = self._file.execute(
            "SELECT value FROM rows WHERE session = ? AND kind = 'usage' AND id >= ? AND id < ? ORDER BY id",
            (self._number(session_id), f"{call}#", f"{call}$"),  # "$" comes after "#"
        )
        return [msgspec.json.decode(value, type=UsageRow) for (value,) in rows]

    def _number(self, session_id: str) -> int:
        """A number for a session, which may also be one that the store has."""
        self._file.execute("INSERT OR IGNORE INTO sessions (id) VALUES (?)", (session_id,))
        number: int = self._file.execute("SELECT number FROM sessions WHERE id = ?", (session_id,)).fetchone()[0]
        return number
