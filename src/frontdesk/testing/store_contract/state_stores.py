"""The record of the other stores that a namespace keeps states in."""

from __future__ import annotations

from frontdesk.store import Store
from frontdesk.testing.store_contract.steps import NAMESPACE


class StateStoresContract:
    async def test_stores_of_states_are_recorded_once_for_each_namespace(self, store: Store) -> None:
        first, second = "redis://localhost:6379/0", "sqlite:////data/it%27s%20here.db"
        assert await store.state_stores(NAMESPACE) == []
        for url in (second, first, second):
            await store.add_state_store(NAMESPACE, url)
        await store.add_state_store("there", second)
        assert sorted(await store.state_stores(NAMESPACE)) == [first, second]
        assert await store.forget_state_store(NAMESPACE, second)
        assert not await store.forget_state_store(NAMESPACE, second)
        assert await store.state_stores(NAMESPACE) == [first]
        assert await store.state_stores("there") == [second]
