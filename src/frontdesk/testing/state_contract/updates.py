"""Changing states: each change is decided against the state that is there, however many are at it."""

from __future__ import annotations

import asyncio

from frontdesk.store import StateKey, StateStore
from frontdesk.testing.state_contract.steps import MILLISECOND, make, mark, pass_time


class UpdateContract:
    async def test_replacing_what_was_seen_counts_the_version(self, store: StateStore, key: StateKey) -> None:
        made = await make(store, key, '"first"')
        await pass_time(MILLISECOND)
        second = await store.replace_state(key, '"second"', mark(), made.mark)
        assert second is not None
        assert (second.value, second.version, second.created_at) == ('"second"', 2, made.created_at)
        assert second.accessed_at > made.accessed_at
        assert await store.peek_state(key) == second

    async def test_replacing_what_was_changed_since_changes_nothing(self, store: StateStore, key: StateKey) -> None:
        made = await make(store, key)
        second = await store.replace_state(key, '"second"', mark(), made.mark)
        assert await store.replace_state(key, '"third"', mark(), made.mark) is None
        assert await store.peek_state(key) == second

    async def test_a_write_done_again_takes_effect_once(self, store: StateStore, key: StateKey) -> None:
        """As after an answer that was lost."""
        first, second = mark(), mark()
        made = await store.create_state(key, '"first"', None, first)
        again = await store.create_state(key, '"first"', None, first)
        assert made is not None
        assert again is not None
        assert (again.version, again.mark) == (made.version, made.mark) == (1, first)
        for _ in range(2):
            replaced = await store.replace_state(key, '"second"', second, first)
            assert replaced is not None
            assert (replaced.version, replaced.mark, replaced.value) == (2, second, '"second"')

    async def test_a_state_made_anew_is_not_the_one_that_was_seen(self, store: StateStore, key: StateKey) -> None:
        old = await make(store, key, '"old"')
        await store.delete_state(key)
        new = await make(store, key, '"new"')
        assert new.version == old.version
        assert await store.replace_state(key, '"changed"', mark(), old.mark) is None
        assert await store.peek_state(key) == new

    async def test_of_many_who_create_at_once_one_does(self, store: StateStore, key: StateKey) -> None:
        made = await asyncio.gather(*(store.create_state(key, str(n), None, mark()) for n in range(40)))
        winners = [row for row in made if row is not None]
        assert len(winners) == 1
        assert await store.peek_state(key) == winners[0]

    async def test_of_many_who_replace_the_same_one_does(self, store: StateStore, key: StateKey) -> None:
        seen = await make(store, key)
        made = await asyncio.gather(*(store.replace_state(key, str(n), mark(), seen.mark) for n in range(40)))
        winners = [row for row in made if row is not None]
        assert len(winners) == 1
        assert await store.peek_state(key) == winners[0]

    async def test_of_many_who_delete_at_once_one_does(self, store: StateStore, key: StateKey) -> None:
        await make(store, key)
        deleted = await asyncio.gather(*(store.delete_state(key) for _ in range(20)))
        assert sorted(deleted) == [False] * 19 + [True]

    async def test_reads_and_writes_that_race_a_delete_do_not_bring_the_state_back(
        self, store: StateStore, namespace: str
    ) -> None:
        for number in range(25):
            key = StateKey(namespace, f"chat{number}", "sessions")
            seen = await make(store, key)
            reads = [store.get_state(key), store.touch_state(key), store.peek_state(key)]
            writes = [store.replace_state(key, "1", mark(), seen.mark) for _ in range(3)]
            delete = store.delete_states(namespace, key.id) if number % 2 else store.delete_state(key)
            await asyncio.gather(*reads, *writes, delete, store.get_state(key), store.touch_state(key))
            assert await store.peek_state(key) is None

    async def test_reads_beside_writes_lose_no_write(self, store: StateStore, key: StateKey) -> None:
        await make(store, key, "0")

        async def add() -> None:
            while True:
                row = await store.get_state(key)
                assert row is not None
                if await store.replace_state(key, str(int(row.value) + 1), mark(), row.mark):
                    return

        async def look() -> None:
            for _ in range(20):
                assert await store.get_state(key) is not None

        await asyncio.gather(*(add() for _ in range(20)), *(look() for _ in range(5)))
        row = await store.peek_state(key)
        assert row is not None
        assert (row.value, row.version) == ("20", 21)
