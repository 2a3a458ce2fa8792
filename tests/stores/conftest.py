"""Fixtures for the tests of stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import count

import pytest

from tests.servers.postgres import PostgresServer
from tests.stores.dumps import PostgresSchema

numbers = count(1)


@pytest.fixture(scope="session")
def shared_database(postgres: PostgresServer) -> Iterator[str]:
    """The URL of one PostgreSQL database for all tests that use their own schema in it."""
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)


@pytest.fixture
async def postgres_schema(shared_database: str) -> AsyncIterator[PostgresSchema]:
    """An unused schema in the shared database, which is dropped in the end."""
    schema = PostgresSchema(shared_database, f"s{next(numbers)}")
    yield schema
    await schema.close()
