"""Every store meets the whole contract on its real engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from redis.asyncio import Redis, RedisCluster

from frontdesk.store import ShelfStore, StateStore, Store, VectorStore
from frontdesk.stores.memory import MemoryStore
from frontdesk.stores.redis import RedisStore
from frontdesk.testing import StateContract, StoreContract, StoredText
from tests.stores.dumps import read_memory, read_redis
from tests.stores.engines import OnMemory, OnPostgres, OnSQLite


class TestMemory(OnMemory, StoreContract):
    pass


class TestSQLite(OnSQLite, StoreContract):
    pass


class TestPostgres(OnPostgres, StoreContract):
    pass


class TestRedis(StateContract):
    @pytest.fixture
    async def store(self, redis_url: str) -> AsyncIterator[StateStore]:
        store = RedisStore(redis_url)
        yield store
        await store.close()

    @pytest.fixture
    def stored_text(self, redis_url: str) -> StoredText:
        return lambda: read_redis(Redis.from_url(redis_url))


class TestRedisCluster(StateContract):
    @pytest.fixture
    async def store(self, redis_cluster_url: str) -> AsyncIterator[StateStore]:
        store = RedisStore(redis_cluster_url)
        yield store
        await store.close()

    @pytest.fixture
    def stored_text(self, redis_cluster_url: str) -> StoredText:
        node = redis_cluster_url.removeprefix("redis+cluster://").split(",")[0]
        return lambda: read_redis(RedisCluster.from_url(f"redis://{node}"))


def without_abilities(store: Store) -> Store:
    """The same store, without vectors, states and shelves."""
    methods = {name: getattr(store, name) for name in dir(Store) if not name.startswith("_")}
    return cast(Store, SimpleNamespace(**methods))


class TestStoreWithoutAbilities(StoreContract):
    TestVectors = None
    TestStates = None
    TestShelves = None

    @pytest.fixture
    def memory(self) -> Store:
        return MemoryStore()

    @pytest.fixture
    async def store(self, memory: Store) -> AsyncIterator[Store]:
        store = without_abilities(memory)
        yield store
        await store.close()

    @pytest.fixture
    def stored_text(self, memory: Store) -> StoredText:
        return lambda: read_memory(memory)


@pytest.mark.parametrize(
    ("ability", "tests"), [(VectorStore, "TestVectors"), (StateStore, "TestStates"), (ShelfStore, "TestShelves")]
)
async def test_the_contract_fails_if_what_a_store_can_do_is_not_what_is_tested(ability: Any, tests: str) -> None:
    able, unable = MemoryStore(), without_abilities(MemoryStore())
    with pytest.raises(AssertionError, match=f"set `{tests} = None` in StoreContract"):
        await StoreContract().test_every_ability_of_the_store_is_tested(unable, ability, tests)
    with pytest.raises(AssertionError, match=f"remove `{tests} = None` in TestStoreWithoutAbilities"):
        await TestStoreWithoutAbilities().test_every_ability_of_the_store_is_tested(able, ability, tests)
