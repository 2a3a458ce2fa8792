"""The example of a store that wraps another one: it keeps the whole contract, and what it measures is true."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from examples.metrics_store import StoreMetrics, with_metrics
from frontdesk.errors import HeadMovedError
from frontdesk.store import Store
from frontdesk.stores.memory import MemoryStore
from frontdesk.stores.sqlite import SQLiteStore
from frontdesk.testing import StoreContract, StoredText
from frontdesk.testing.store_contract.steps import NAMESPACE, add
from tests.stores.dumps import read_memory, read_sqlite


class TestMemory(StoreContract):
    @pytest.fixture
    def wrapped(self) -> Store:
        return MemoryStore()

    @pytest.fixture
    async def store(self, wrapped: Store) -> AsyncIterator[Store]:
        store = with_metrics(wrapped, StoreMetrics())
        yield store
        await store.close()

    @pytest.fixture
    def stored_text(self, wrapped: Store) -> StoredText:
        return lambda: read_memory(wrapped)


class TestSQLite(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = with_metrics(SQLiteStore(tmp_path / "agents.db"), StoreMetrics())
        yield store
        await store.close()

    @pytest.fixture
    def stored_text(self, tmp_path: Path) -> StoredText:
        return lambda: read_sqlite(tmp_path / "agents.db")


async def test_calls_errors_and_time_are_counted_by_method() -> None:
    metrics = StoreMetrics()
    store = with_metrics(MemoryStore(), metrics)
    await add(store, "s", "m1")
    await store.get(NAMESPACE, "s")
    with pytest.raises(HeadMovedError):
        await add(store, "s", "m2", expected_head="nobody")
    measured = metrics.snapshot()
    assert {name: (method.calls, method.errors) for name, method in measured.items()} == {
        "append": (2, 1),
        "get": (1, 0),
    }
    assert all(method.seconds > 0 for method in measured.values())
