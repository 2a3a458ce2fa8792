"""Updates: each one is checked against the current state, however many run at once."""

from __future__ import annotations

import asyncio

from frontdesk.store import StateKey, StateStore
from frontdesk.testing.state_contract.steps import MILLISECOND, make, mark, pass_time, written


class UpdateContract:
    async def test_replacing_the_current_state_raises_its_version(self, store: StateStore, key: StateKey) -> None:
        made = await make(store, key, '"first"')
        await pass_time(MILLISECOND)
        second = await store.replace_state(key, written('"second"'), made.mark)
        assert second is not None
        assert (second.value, second.version, second.created_at) == ('"second"', 2, made.created_at)
        assert second.accessed_at > made.accessed_at
        assert await store.peek_state(key) == second

    async def test_replacing_an_outdated_state_changes_nothing(self, store: StateStore, key: StateKey) -> None:
        made = await make(store, key)
        second = await store.replace_state(key, written('"second"'), made.mark)
        assert await store.replace_state(key, written('"third"'), made.mark) is None
        assert await store.peek_state(key) == second

    async def test_a_repeated_write_takes_effect_once(self, store: StateStore, key: StateKey) -> None:
        """As a client does that lost the answer."""
        first, second = mark(), mark()
        made = await store.create_state(key, written('"first"', first))
        again = await store.create_state(key, written('"first"', first))
        assert made is not None
        assert again is not None
        assert (again.version, again.mark) == (made.version, made.mark) == (1, first)
        for _ in range(2):
            replaced = await store.replace_state(key, written('"second"', second), first)
            assert replaced is not None
            assert (replaced.version, replaced.mark, replaced.value) == (2, second, '"second"')

    async def test_a_recreated_state_is_not_the_one_that_was_read_before(
        self, store: StateStore, key: StateKey
    ) -> None:
        old = await make(store, key, '"old"')
        await store.delete_state(key)
        new = await make(store, key, '"new"')
        assert new.version == old.version
        assert await store.replace_state(key, written('"changed"'), old.mark) is None
        assert await store.peek_state(key) == new

    async def test_of_many_concurrent_creates_one_succeeds(self, store: StateStore, key: StateKey) -> None:
        made = await asyncio.gather(*(store.create_state(key, written(str(n))) for n in range(40)))
        winners = [row for row in made if row is not None]
        assert len(winners) == 1
        assert await store.peek_state(key) == winners[0]

    async def test_of_many_concurrent_replacements_one_succeeds(self, store: StateStore, key: StateKey) -> None:
        seen = await make(store, key)
        made = await asyncio.gather(*(store.replace_state(key, written(str(n)), seen.mark) for n in range(40)))
        winners = [row for row in made if row is not None]
        assert len(winners) == 1
        assert await store.peek_state(key) == winners[0]

    async def test_a_state_is_deleted_only_as_it_was_seen(self, store: StateStore, key: StateKey) -> None:
        old = await make(store, key, '"old"')
        new = await store.replace_state(key, written('"new"'), old.mark)
        assert new is not None
        assert not await store.delete_state(key, old.mark)
        assert await store.peek_state(key) == new
        assert await store.delete_state(key, new.mark)
        assert not await store.delete_state(key, new.mark)
        assert await store.peek_state(key) is None

    async def test_of_many_concurrent_deletes_one_succeeds(self, store: StateStore, key: StateKey) -> None:
        await make(store, key)
        deleted = await asyncio.gather(*(store.delete_state(key) for _ in range(20)))
        assert sorted(deleted) == [False] * 19 + [True]

    async def test_reads_and_writes_concurrent_with_a_delete_do_not_restore_the_state(
        self, store: StateStore, namespace: str
    ) -> None:
        for number in range(25):
            key = StateKey(namespace, f"chat{number}", "sessions")
            seen = await make(store, key)
            reads = [store.get_state(key), store.touch_state(key), store.peek_state(key)]
            writes = [store.replace_state(key, written("1"), seen.mark) for _ in range(3)]
            delete = store.delete_states(namespace, key.id) if number % 2 else store.delete_state(key)
            await asyncio.gather(*reads, *writes, delete, store.get_state(key), store.touch_state(key))
            assert await store.peek_state(key) is None

    async def test_concurrent_reads_lose_no_write(self, store: StateStore, key: StateKey) -> None:
        await make(store, key, "0")

        async def add() -> None:
            while True:
                row = await store.get_state(key)
                assert row is not None
                if await store.replace_state(key, written(str(int(row.value) + 1)), row.mark):
                    return

        async def look() -> None:
            for _ in range(20):
                assert await store.get_state(key) is not None

        await asyncio.gather(*(add() for _ in range(20)), *(look() for _ in range(5)))
        row = await store.peek_state(key)
        assert row is not None
        assert (row.value, row.version) == ("20", 21)
