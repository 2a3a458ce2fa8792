"""Storage: what is written comes back exactly, under its own key and no other."""

from __future__ import annotations

import asyncio
import json
import threading
from itertools import product

import pytest

from frontdesk.errors import StoreClosedError
from frontdesk.store import StateKey, StateStore
from frontdesk.testing.inputs import HOSTILE_IDS
from frontdesk.testing.state_contract.steps import HOUR, make, mark, written


class StorageContract:
    async def test_a_new_state_has_version_1(self, store: StateStore, key: StateKey) -> None:
        made = await make(store, key, '{"n": 1}')
        assert (made.value, made.version, made.ttl, made.created_at) == ('{"n": 1}', 1, HOUR, made.accessed_at)
        assert await store.peek_state(key) == made

    async def test_a_state_that_was_never_created_does_not_exist(self, store: StateStore, key: StateKey) -> None:
        assert await store.get_state(key) is None
        assert await store.peek_state(key) is None
        assert not await store.touch_state(key)
        assert await store.replace_state(key, written(), mark()) is None
        assert not await store.delete_state(key)
        assert await store.delete_states(key.namespace, key.id) == 0

    async def test_creating_an_existing_state_changes_nothing(self, store: StateStore, key: StateKey) -> None:
        made = await make(store, key, '"first"')
        assert await store.create_state(key, written('"second"')) is None
        assert await store.peek_state(key) == made

    async def test_any_text_comes_back_exactly(self, store: StateStore, key: StateKey) -> None:
        value = json.dumps({"text": "\u0000\ud83e\udd8a é\u2028", "big": "x" * 900_000}, ensure_ascii=True) + " 🦊\r\n"
        made = await make(store, key, value)
        assert made.value == value
        found = await store.get_state(key)
        assert found is not None
        assert found.value == value

    async def test_hostile_ids_names_and_namespaces_are_kept_apart(self, store: StateStore, namespace: str) -> None:
        texts = [text for text in HOSTILE_IDS if len(text) <= 100]
        keys = [StateKey(namespace, id, "sessions") for id in HOSTILE_IDS]
        keys += [StateKey(namespace, "chat", name) for name in texts]
        keys += [StateKey(f"{namespace}{text}", "chat", "sessions") for text in texts]
        keys += [StateKey(namespace + ns, id, name) for ns, id, name in product(["", ":", ":a"], ["a", "a:a"], "a:")]
        keys += [StateKey(namespace, id, name) for id, name in product(["{a}", "{a", "a}", "{}", "a}:b"], ["{b}", "b"])]
        keys = list(dict.fromkeys(keys))
        for number, key in enumerate(keys):
            await make(store, key, str(number))
        for number, key in enumerate(keys):
            row = await store.peek_state(key)
            assert row is not None
            assert row.value == str(number), key
        for key in keys[::2]:
            assert await store.delete_state(key)
        assert [key for key in keys if await store.peek_state(key)] == keys[1::2]

    async def test_deleting_by_id_deletes_every_name_and_nothing_else(self, store: StateStore, namespace: str) -> None:
        gone = [StateKey(namespace, "chat", name) for name in ("sessions", "cart", "a:b")]
        kept = [StateKey(namespace, "chat2", "sessions"), StateKey(f"{namespace}2", "chat", "sessions")]
        for key in gone + kept:
            await make(store, key, ttl=None if key.name == "cart" else HOUR)
        assert await store.delete_state(gone[2])
        assert await store.delete_states(namespace, "chat") == 2
        assert [await store.peek_state(key) for key in gone] == [None] * 3
        assert all([await store.peek_state(key) for key in kept])
        assert await store.delete_states(namespace, "chat") == 0

    async def test_several_event_loops_can_use_the_store(self, store: StateStore, key: StateKey) -> None:
        await make(store, key, '"here"')
        found: list[str] = []

        async def look() -> None:
            row = await store.get_state(key)
            found.append("" if row is None else row.value)

        threads = [threading.Thread(target=asyncio.run, args=(look(),)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        assert found == ['"here"'] * 4
        assert await store.get_state(key) is not None

    async def test_every_call_of_a_closed_store_raises_store_closed(self, store: StateStore, key: StateKey) -> None:
        await make(store, key)
        await store.close()
        await store.close()
        for call in (store.get_state(key), store.peek_state(key), store.touch_state(key), store.delete_state(key)):
            with pytest.raises(StoreClosedError):
                await call
        for change in (store.create_state(key, written()), store.replace_state(key, written(), mark())):
            with pytest.raises(StoreClosedError):
                await change
        with pytest.raises(StoreClosedError):
            await store.delete_states(*key[:2])
        with pytest.raises(StoreClosedError):
            await store.sweep_states(10)

    async def test_a_closed_store_can_be_opened_again(self, store: StateStore, key: StateKey) -> None:
        await make(store, key)
        await store.close()
        await store.open()
        assert await store.touch_state(key)
