"""The yardstick on PostgreSQL: a pool of connections; each append is one statement with its own commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import asyncpg
import orjson

from bench.payload import message

_SCHEMA = """
CREATE TABLE sessions (
    id text PRIMARY KEY, number bigint GENERATED ALWAYS AS IDENTITY, head bigint NOT NULL,
    message_count bigint NOT NULL, tokens bigint NOT NULL, updated_at bigint NOT NULL
);
CREATE TABLE messages (
    session bigint, position bigint, id text NOT NULL, role text NOT NULL, tokens int NOT NULL, sum bigint NOT NULL,
    created_at bigint NOT NULL, raw text NOT NULL,
    PRIMARY KEY (session, position)
);
CREATE UNIQUE INDEX message_ids ON messages (session, id);
"""
_APPEND = """
WITH moved AS (
    INSERT INTO sessions AS s (id, head, message_count, tokens, updated_at) VALUES ($1, 1, 1, $4, $5)
    ON CONFLICT (id) DO UPDATE SET head = s.head + 1, message_count = s.message_count + 1,
        tokens = s.tokens + $4, updated_at = $5
    RETURNING number, head, tokens
)
INSERT INTO messages (session, position, id, role, tokens, sum, created_at, raw)
SELECT number, head, $2, $3, $4, tokens, $5, $6 FROM moved
"""
_TOKENS = 100


class RawPool:
    """Head, counters and message are written together, in one round trip. `reset=False` omits the statement with which
    asyncpg resets a connection that returns to the pool."""

    def __init__(self, url: str, *, size: int, reset: bool = True) -> None:
        self.name = f"asyncpg pool of {size}" + ("" if reset else ", no reset query")
        self.settings = "fsync on, commit each"
        self._url = url
        self._size = size
        self._reset = reset

    async def open(self, directory: Path) -> None:
        options: dict[str, Any] = {} if self._reset else {"reset": _leave}
        self._pool = await asyncpg.create_pool(self._url, min_size=self._size, max_size=self._size, **options)
        await self._pool.execute(_SCHEMA)

    async def close(self) -> None:
        await self._pool.close()

    async def append(self, session: str, number: int) -> None:
        given = message(number)
        raw = orjson.dumps(given).decode()
        await self._pool.execute(_APPEND, session, given["id"], given["role"], _TOKENS, number, raw)

    async def append_many(self, session: str, numbers: range) -> None:
        for number in numbers:
            await self.append(session, number)

    async def read_all(self, session: str) -> int:
        return await self._read(session, None)

    async def read_last(self, session: str, count: int) -> int:
        return await self._read(session, count)

    async def _read(self, session: str, count: int | None) -> int:
        rows = await self._pool.fetch(
            "SELECT raw FROM messages WHERE session = (SELECT number FROM sessions WHERE id = $1)"
            " ORDER BY position DESC LIMIT $2",
            session,
            count,
        )
        return len([orjson.loads(row["raw"]) for row in reversed(rows)])


async def _leave(connection: Any) -> None:
    """No reset: the statements here leave no state in a connection."""
