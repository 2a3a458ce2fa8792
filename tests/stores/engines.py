"""The stores with an engine of their own, as fixtures: a test class that runs on one of them inherits its fixtures."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from frontdesk.store import Store
from frontdesk.stores.memory import MemoryStore
from frontdesk.stores.postgres import PostgresStore
from frontdesk.stores.sqlite import SQLiteStore
from frontdesk.testing import StoredText
from tests.stores.dumps import PostgresSchema, read_memory, read_sqlite


class OnMemory:
    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = MemoryStore()
        yield store
        await store.close()

    @pytest.fixture
    def stored_text(self, store: Store) -> StoredText:
        return lambda: read_memory(store)


class OnSQLite:
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = SQLiteStore(tmp_path / "agents.db")
        yield store
        await store.close()

    @pytest.fixture
    def stored_text(self, tmp_path: Path) -> StoredText:
        return lambda: read_sqlite(tmp_path / "agents.db")


class OnPostgres:
    @pytest.fixture
    async def store(self, postgres_schema: PostgresSchema) -> AsyncIterator[Store]:
        store = PostgresStore.from_url(f"{postgres_schema.database}?schema={postgres_schema.name}")
        yield store
        await store.close()

    @pytest.fixture
    def stored_text(self, postgres_schema: PostgresSchema) -> StoredText:
        return postgres_schema.read
