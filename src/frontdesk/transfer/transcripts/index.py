"""Where the entries of a transcript are in its tree."""

from __future__ import annotations

from typing import NamedTuple

from frontdesk.transfer.transcripts.scratch import open_scratch


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
        self._file = open_scratch(
            "CREATE TABLE spots (id TEXT PRIMARY KEY, stored TEXT, root TEXT, before TEXT) WITHOUT ROWID"
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
