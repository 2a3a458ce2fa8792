"""The public API keeps every promise on every store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from frontdesk.store import Store
from frontdesk.stores import open_url
from tests.public_api import PublicApiTests
from tests.servers.postgres import PostgresServer


class TestMemory(PublicApiTests):
    @pytest.fixture
    def store(self) -> Store:
        return open_url("memory://")


class TestSQLite(PublicApiTests):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = open_url(f"sqlite:///{tmp_path}/sessions.db")
        yield store
        await store.close()


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> Iterator[str]:
    """One database for all tests of this module."""
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)


class TestPostgres(PublicApiTests):
    long_examples = 500

    @pytest.fixture
    def guest_count(self) -> int:
        return 600

    @pytest.fixture
    async def store(self, database: str) -> AsyncIterator[Store]:
        store = open_url(database)
        yield store
        await store.close()
