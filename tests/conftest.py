"""Fixtures for all tests."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.servers.pooler import TransactionPooler
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisCluster, RedisServer

pytest.register_assert_rewrite("tests.public_api")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    # What a shell runs in the background ignores Ctrl-C. The commands under test must not inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
# How long an example takes says nothing about what is tested.
settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("long") is not None:
            item.add_marker(pytest.mark.timeout(3600))


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL server, one for each test worker."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """The URL of an empty PostgreSQL database, which is dropped after the test."""
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """The URL of a real Redis server, one for each test worker."""
    with RedisServer() as server:
        yield server.url


@pytest.fixture(scope="session")
def redis_cluster_url() -> Iterator[str]:
    """The URL of a real Redis cluster, one for each test worker."""
    with RedisCluster() as cluster:
        yield cluster.url


@pytest.fixture(scope="session")
def pooler(postgres: PostgresServer) -> Iterator[TransactionPooler]:
    """A real transaction pooler in front of that server, one for each test worker."""
    with TransactionPooler(postgres.url) as pooler:
        yield pooler
