"""Every store meets the whole contract on its real engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from redis.asyncio import Redis, RedisCluster

from frontdesk.store import StateStore, Store
from frontdesk.stores.memory import MemoryStore
from frontdesk.stores.postgres import PostgresStore
from frontdesk.stores.redis import RedisStore
from frontdesk.stores.sqlite import SQLiteStore
from frontdesk.testing import StateContract, StoreContract, StoredText
from tests.stores.schemas import PostgresSchema

# Random histories take long on a busy machine.
pytestmark = pytest.mark.timeout(600)


class TestMemory(StoreContract):
    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = MemoryStore()
        yield store
        await store.close()

    @pytest.fixture
    def stored_text(self, store: Store) -> StoredText:
        async def read() -> str:
            return str(vars(store))

        return read


class TestSQLite(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = SQLiteStore(tmp_path / "agents.db")
        yield store
        await store.close()

    @pytest.fixture
    def stored_text(self, tmp_path: Path) -> StoredText:
        async def read() -> str:
            # Not `sqlite3`: a second SQLite library in one process would drop the store's file locks.
            with closing(apsw.Connection(str(tmp_path / "agents.db"))) as connection:
                tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
                return str([connection.execute(f'SELECT * FROM "{name}"').fetchall() for (name,) in tables])

        return read


class TestPostgres(StoreContract):
    @pytest.fixture
    async def store(self, postgres_schema: PostgresSchema) -> AsyncIterator[Store]:
        store = PostgresStore.from_url(f"{postgres_schema.database}?schema={postgres_schema.name}")
        yield store
        await store.close()

    @pytest.fixture
    def stored_text(self, postgres_schema: PostgresSchema) -> StoredText:
        return postgres_schema.read_all


class TestRedis(StateContract):
    @pytest.fixture
    async def store(self, redis_url: str) -> AsyncIterator[StateStore]:
        store = RedisStore(redis_url)
        yield store
        await store.close()

    @pytest.fixture
    def stored_text(self, redis_url: str) -> StoredText:
        async def read() -> str:
            async with Redis.from_url(redis_url) as client:
                return await all_hashes(client)

        return read


class TestRedisCluster(StateContract):
    @pytest.fixture
    async def store(self, redis_cluster_url: str) -> AsyncIterator[StateStore]:
        store = RedisStore(redis_cluster_url)
        yield store
        await store.close()

    @pytest.fixture
    def stored_text(self, redis_cluster_url: str) -> StoredText:
        async def read() -> str:
            first_node = redis_cluster_url.removeprefix("redis+cluster://").split(",")[0]
            async with RedisCluster.from_url(f"redis://{first_node}") as client:
                return await all_hashes(client)

        return read


async def all_hashes(client: Redis | RedisCluster) -> str:
    """Every state is a hash."""
    keys = [key async for key in client.scan_iter(_type="hash")]
    return str([(key, await client.hgetall(key)) for key in keys])
