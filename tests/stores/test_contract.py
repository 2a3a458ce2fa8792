"""Every store keeps the whole contract on its real engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import apsw
import asyncpg
import pytest

from frontdesk.store import Store
from frontdesk.stores.memory import MemoryStore
from frontdesk.stores.postgres import PostgresStore
from frontdesk.stores.sqlite import SQLiteStore
from frontdesk.testing.store_contract import StoreContract
from frontdesk.testing.store_contract.vectors import VectorContract
from frontdesk.testing.store_machine import StoreProperties

# Random histories take a while on a busy machine.
pytestmark = pytest.mark.timeout(600)


class TestMemory(StoreContract, VectorContract, StoreProperties):
    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = MemoryStore()
        yield store
        await store.close()

    async def everything_stored(self, store: Store) -> str:
        return str(vars(store))


class TestSQLite(StoreContract, VectorContract, StoreProperties):
    path: Path

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        self.path = tmp_path / "agents.db"
        store = SQLiteStore(self.path)
        yield store
        await store.close()

    async def everything_stored(self, store: Store) -> str:
        # Not `sqlite3`: a second SQLite library in one process would drop the store's file locks.
        with closing(apsw.Connection(str(self.path))) as connection:
            tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
            return str([connection.execute(f'SELECT * FROM "{name}"').fetchall() for (name,) in tables])


class TestPostgres(StoreContract, VectorContract, StoreProperties):
    url: str

    @pytest.fixture
    async def store(self, postgres_url: str) -> AsyncIterator[Store]:
        self.url = postgres_url
        store = PostgresStore(postgres_url)
        yield store
        await store.close()

    async def everything_stored(self, store: Store) -> str:
        connection = await asyncpg.connect(self.url)
        try:
            tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'frontdesk'")
            return str([await connection.fetch(f'SELECT t::text FROM frontdesk."{name}" t') for (name,) in tables])
        finally:
            await connection.close()
