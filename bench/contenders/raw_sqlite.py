"""The yardstick: the standard library's sqlite3, with one table, the same unique index, and nothing else."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import orjson

from bench.payload import message

_SCHEMA = """
PRAGMA journal_mode=WAL;
PRAGMA synchronous=FULL;
CREATE TABLE messages (
    place INTEGER PRIMARY KEY, session INTEGER NOT NULL, id TEXT NOT NULL, role TEXT NOT NULL, raw TEXT NOT NULL
);
CREATE UNIQUE INDEX message_ids ON messages (session, id);
"""
_INSERT = "INSERT INTO messages VALUES (?, ?, ?, ?, ?)"
_SESSION_BITS = 24


class RawSQLite:
    """The rows of a session are stored together and read by a key range. One commit per call."""

    name = "raw sqlite3"
    settings = "WAL, FULL, commit each"

    async def open(self, directory: Path) -> None:
        self._sessions: dict[str, int] = {}
        self._next: dict[str, int] = {}
        self._connection = sqlite3.connect(directory / "raw.db", isolation_level=None)
        self._connection.executescript(_SCHEMA)

    async def close(self) -> None:
        self._connection.close()

    def _row(self, session: str, number: int) -> tuple[Any, ...]:
        key = self._sessions.setdefault(session, len(self._sessions) + 1)
        position = self._next[session] = self._next.get(session, -1) + 1
        given = message(number)
        return key << _SESSION_BITS | position, key, given["id"], given["role"], orjson.dumps(given).decode()

    async def append(self, session: str, number: int) -> None:
        self._connection.execute(_INSERT, self._row(session, number))

    async def append_many(self, session: str, numbers: range) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(_INSERT, [self._row(session, number) for number in numbers])
        self._connection.execute("COMMIT")

    async def read_all(self, session: str) -> int:
        rows = self._connection.execute(
            "SELECT raw FROM messages WHERE place BETWEEN ? AND ? ORDER BY place", self._range(session)
        )
        return len([orjson.loads(raw) for (raw,) in rows])

    async def read_last(self, session: str, count: int) -> int:
        rows = self._connection.execute(
            "SELECT raw FROM messages WHERE place BETWEEN ? AND ? ORDER BY place DESC LIMIT ?",
            (*self._range(session), count),
        ).fetchall()
        return len([orjson.loads(raw) for (raw,) in reversed(rows)])

    def _range(self, session: str) -> tuple[int, int]:
        key = self._sessions[session]
        return key << _SESSION_BITS, (key + 1 << _SESSION_BITS) - 1
