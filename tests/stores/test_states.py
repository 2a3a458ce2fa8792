"""Every store of states keeps the whole contract on its real engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import asyncpg
import pytest

from frontdesk.store import StateStore
from frontdesk.stores.memory import MemoryStore
from frontdesk.stores.postgres import PostgresStore
from frontdesk.stores.redis import RedisStore
from frontdesk.stores.sqlite import SQLiteStore
from frontdesk.testing.state_contract import StateContract
from tests.servers.postgres import PostgresServer


class TestMemory(StateContract):
    @pytest.fixture
    async def store(self) -> AsyncIterator[StateStore]:
        store = MemoryStore()
        yield store
        await store.close()

    async def stored_text(self, store: StateStore) -> str:
        return str(vars(store))


class TestSQLite(StateContract):
    path: Path

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[StateStore]:
        self.path = tmp_path / "states.db"
        store = SQLiteStore(self.path)
        yield store
        await store.close()

    async def stored_text(self, store: StateStore) -> str:
        with closing(apsw.Connection(str(self.path))) as connection:
            return str(connection.execute("SELECT * FROM states").fetchall())


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> Iterator[str]:
    """One database for all tests of this module."""
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)


class TestPostgres(StateContract):
    url: str

    @pytest.fixture
    async def store(self, database: str) -> AsyncIterator[StateStore]:
        self.url = database
        store = PostgresStore(database)
        yield store
        await store.close()

    async def stored_text(self, store: StateStore) -> str:
        connection = await asyncpg.connect(self.url)
        try:
            return str(await connection.fetch("SELECT t::text FROM frontdesk.states t"))
        finally:
            await connection.close()


class TestRedis(StateContract):
    @pytest.fixture
    async def store(self, redis_url: str) -> AsyncIterator[StateStore]:
        store = RedisStore(redis_url)
        yield store
        await store.close()


class TestRedisCluster(StateContract):
    @pytest.fixture
    async def store(self, redis_cluster_url: str) -> AsyncIterator[StateStore]:
        store = RedisStore(redis_cluster_url)
        yield store
        await store.close()
