"""Everything that a store keeps, as one text and read past the store: what the contracts search for deleted content."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import apsw
import asyncpg
from redis.asyncio import Redis, RedisCluster

from frontdesk.store import Store


async def read_memory(store: Store) -> str:
    return str(vars(store))


async def read_sqlite(path: Path) -> str:
    # Not `sqlite3`: a second SQLite library in one process would drop the store's file locks.
    with closing(apsw.Connection(str(path))) as connection:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        return str([connection.execute(f'SELECT * FROM "{name}"').fetchall() for (name,) in tables])


@dataclass(frozen=True)
class PostgresSchema:
    """A schema for one test in a database that many tests share: it takes half the time of a database of its own."""

    database: str
    name: str

    async def read(self) -> str:
        connection = await asyncpg.connect(self.database)
        try:
            tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", self.name)
            return str([await connection.fetch(f'SELECT t::text FROM {self.name}."{name}" t') for (name,) in tables])
        finally:
            await connection.close()


async def read_redis(client: Redis | RedisCluster) -> str:
    """Every state is a hash."""
    async with client:
        keys = [key async for key in client.scan_iter(_type="hash")]
        return str([(key, await client.hgetall(key)) for key in keys])
