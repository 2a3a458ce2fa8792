"""A server to measure, in a process of its own: `python -m bench.http_app frontdesk|bare STORE`. It prints its port,
and ends when its input does.

`bare` is the yardstick: two FastAPI routes over one table, which insert and read the same messages."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from frontdesk import SessionManager
from frontdesk.http.listening import listen
from frontdesk.server import create_app

POOL = 16
_SQLITE = """
PRAGMA journal_mode=WAL;
PRAGMA synchronous=FULL;
CREATE TABLE messages (
    place INTEGER PRIMARY KEY, session TEXT NOT NULL, id TEXT NOT NULL, role TEXT NOT NULL, raw TEXT NOT NULL
);
CREATE UNIQUE INDEX message_ids ON messages (session, id);
CREATE INDEX places ON messages (session, place);
"""
_POSTGRES = """
CREATE TABLE messages (
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, session text NOT NULL, id text NOT NULL, role text NOT NULL,
    raw text NOT NULL
);
CREATE UNIQUE INDEX message_ids ON messages (session, id);
CREATE INDEX places ON messages (session, place);
"""


class AppendBody(BaseModel):
    message: dict[str, Any]


class SQLiteRows:
    """One connection, one commit for each insert, no thread in between."""

    async def open(self, path: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.executescript(_SQLITE)

    async def insert(self, *row: str) -> None:
        self._connection.execute("INSERT INTO messages (session, id, role, raw) VALUES (?, ?, ?, ?)", row)

    async def last(self, session: str, count: int) -> list[str]:
        found = self._connection.execute(
            "SELECT raw FROM messages WHERE session = ? ORDER BY place DESC LIMIT ?", (session, count)
        )
        return [raw for (raw,) in found][::-1]


class PostgresRows:
    """A pool of connections, one statement with its own commit for each insert."""

    async def open(self, url: str) -> None:
        self._pool = await asyncpg.create_pool(url, min_size=POOL, max_size=POOL)
        await self._pool.execute(_POSTGRES)

    async def insert(self, *row: str) -> None:
        await self._pool.execute("INSERT INTO messages (session, id, role, raw) VALUES ($1, $2, $3, $4)", *row)

    async def last(self, session: str, count: int) -> list[str]:
        found = await self._pool.fetch(
            "SELECT raw FROM messages WHERE session = $1 ORDER BY place DESC LIMIT $2", session, count
        )
        return [row["raw"] for row in reversed(found)]


def bare_app(rows: SQLiteRows | PostgresRows) -> FastAPI:
    app = FastAPI()

    @app.post("/v1/sessions/{session}/messages", status_code=201)
    async def append(session: str, body: AppendBody) -> dict[str, Any]:
        message = body.message
        await rows.insert(session, message["id"], message["role"], json.dumps(message))
        return {"message": message, "inserted": True}

    @app.get("/v1/sessions/{session}/history")
    async def history(session: str, last: int) -> dict[str, Any]:
        return {"messages": [json.loads(raw) for raw in await rows.last(session, last)]}

    return app


@asynccontextmanager
async def _opened(kind: str, store: str) -> AsyncIterator[FastAPI]:
    if kind == "frontdesk":
        async with SessionManager(store) as manager:
            yield create_app(manager)
        return
    is_file = store.startswith("sqlite:///")
    rows = SQLiteRows() if is_file else PostgresRows()
    await rows.open(store.removeprefix("sqlite:///"))
    yield bare_app(rows)


async def main(kind: str, store: str) -> None:
    async with _opened(kind, store) as app:
        with listen("127.0.0.1", 0) as listener:
            # The connections stay open while the other server is measured.
            config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_keep_alive=3600)
            server = uvicorn.Server(config)
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            print(listener.getsockname()[1], flush=True)
            await asyncio.to_thread(sys.stdin.read)
            server.should_exit = True
            await serving


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
