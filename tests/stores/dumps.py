"""Everything that a store keeps, as one text and read past the store: what the contracts search for deleted content."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw
import asyncpg
from redis.asyncio import Redis, RedisCluster

from frontdesk.store import Store


async def read_memory(store: Store) -> str:
    return _describe(store)


def _describe(value: object) -> str:
    """A value with the attributes of our own objects in it, which their `repr` does not show."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_describe(key)}: {_describe(each)}' for key, each in value.items())}}}"
    if isinstance(value, list | tuple | set):
        return f"[{', '.join(map(_describe, value))}]"
    if type(value).__module__.startswith("frontdesk.stores.memory") and hasattr(value, "__dict__"):
        return _describe(vars(value))
    return repr(value)


async def read_sqlite(path: Path) -> str:
    # Not `sqlite3`: a second SQLite library in one process would drop the store's file locks.
    with closing(apsw.Connection(str(path))) as connection:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        return str([connection.execute(f'SELECT * FROM "{name}"').fetchall() for (name,) in tables])


class PostgresSchema:
    """A schema for one test in a database that many tests share: it takes half the time of a database of its own."""

    def __init__(self, database: str, name: str) -> None:
        self.database = database
        self.name = name
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None
        self._every_row = ""

    async def read(self) -> str:
        # Random histories read after every other step: one query on a connection that stays open keeps that fast.
        if self._connection is None:
            self._connection = await asyncpg.connect(self.database)
            tables = await self._connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", self.name)
            self._every_row = " UNION ALL ".join(f'SELECT t::text FROM {self.name}."{name}" t' for (name,) in tables)
        return str(await self._connection.fetch(self._every_row))

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()


async def read_redis(client: Redis | RedisCluster) -> str:
    """Every state is a hash; the index consists of sorted sets."""
    async with client:
        hashes = [key async for key in client.scan_iter(_type="hash")]
        indexes = [key async for key in client.scan_iter(_type="zset")]
        entries = [await client.zrange(key, 0, -1) for key in indexes]
        return str([[(key, await client.hgetall(key)) for key in hashes], entries])
