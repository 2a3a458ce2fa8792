"""The public API keeps every promise on every store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from frontdesk.store import Store
from frontdesk.stores import open_url
from tests.public_api import PublicApiTests
from tests.public_api.search_random import OpenedAgain
from tests.servers.postgres import PostgresServer


class TestMemory(PublicApiTests):
    @pytest.fixture
    def store(self) -> Store:
        return open_url("memory://")


class TestSQLite(PublicApiTests):
    long_examples = 1_000
    covered_histories = 800
    random_steps = (1_000, 12_000)

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = open_url(f"sqlite:///{tmp_path}/sessions.db")
        yield store
        await store.close()

    @pytest.fixture
    async def opened_again(self, store: Store, tmp_path: Path) -> AsyncIterator[OpenedAgain]:
        stores = [store]

        async def open_again() -> Store:
            await stores[-1].close()
            stores.append(open_url(f"sqlite:///{tmp_path}/sessions.db"))
            return stores[-1]

        yield open_again
        await stores[-1].close()


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> Iterator[str]:
    """One database for all tests of this module."""
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)


class TestPostgres(PublicApiTests):
    long_examples = 500
    covered_histories = 400
    random_steps = (500, 4_000)

    @pytest.fixture
    def guest_count(self) -> int:
        return 600

    @pytest.fixture
    async def store(self, database: str) -> AsyncIterator[Store]:
        store = open_url(database)
        yield store
        await store.close()

    @pytest.fixture
    async def opened_again(self, store: Store, database: str) -> AsyncIterator[OpenedAgain]:
        stores = [store]

        async def open_again() -> Store:
            await stores[-1].close()
            stores.append(open_url(database))
            return stores[-1]

        yield open_again
        await stores[-1].close()
