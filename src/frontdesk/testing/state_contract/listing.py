"""Lists, counts and removals of many states: exact for every id, name and owner, and without expired states."""

from __future__ import annotations

import asyncio

from frontdesk.store import OwnerFilter, StateKey, StateOwner, StateQuery, StateStore, prefix_end
from frontdesk.testing.inputs import HOSTILE_IDS, StoredText
from frontdesk.testing.state_contract.steps import HOUR, MILLISECOND, make, make_expired, pass_time, written

ADA = StateOwner("bot", "web", "ada@example.org", None)
IDS = [*HOSTILE_IDS, "*", "a*", "a?", "[a]", "a[b]", "a\\*", "\U0010ffff", "a\U0010ffff", "\ud7ff", "\ue000"]


class ListingContract:
    async def test_a_list_is_in_the_order_of_ids_by_code_points(self, store: StateStore, namespace: str) -> None:
        for id in IDS:
            await make(store, StateKey(namespace, id, "sessions"), '"the value"')
        for limit in (1, 7, 100):
            found: list[str] = []
            query = StateQuery(namespace, "sessions", limit)
            while page := await store.list_states(query):
                assert len(page) <= limit
                assert {listed.row.value for listed in page} == {""}
                found += [listed.id for listed in page]
                query = query._replace(after=found[-1])
            assert found == sorted(IDS)
        assert await store.count_states(namespace, "sessions") == len(IDS)

    async def test_a_prefix_means_the_characters_that_it_consists_of(self, store: StateStore, namespace: str) -> None:
        for id in IDS:
            await make(store, StateKey(namespace, id, "sessions"))
        for prefix in ("a", "a%", "a_", "a*", "[", "*", "%", "_", "\\", "x" * 511, "\U0010ffff", "\ud7ff", "nothing"):
            query = StateQuery(namespace, "sessions", 100, prefix, prefix_end(prefix))
            found = [listed.id for listed in await store.list_states(query)]
            assert found == sorted(id for id in IDS if id.startswith(prefix)), prefix

    async def test_a_state_whose_id_is_the_prefix_is_listed_once(self, store: StateStore, namespace: str) -> None:
        for id in ("a", "ab", "b"):
            await make(store, StateKey(namespace, id, "sessions"))
        query = StateQuery(namespace, "sessions", 1, "a", prefix_end("a"))
        assert [listed.id for listed in await store.list_states(query)] == ["a"]
        assert [listed.id for listed in await store.list_states(query._replace(after="a"))] == ["ab"]
        assert await store.list_states(query._replace(after="ab")) == []

    async def test_a_listed_state_is_the_state_without_its_value(self, store: StateStore, key: StateKey) -> None:
        made = await make(store, key, owner=ADA)
        await pass_time(MILLISECOND)
        [listed] = await store.list_states(StateQuery(key.namespace, key.name, 10))
        assert listed.id == key.id
        assert (listed.row.version, listed.row.owner, listed.row.accessed_at) == (1, ADA, made.accessed_at)
        assert await store.peek_state(key) == made, "listing does not postpone the expiry"

    async def test_names_and_namespaces_are_listed_separately(self, store: StateStore, namespace: str) -> None:
        keys = [StateKey(namespace + ns, id, name) for ns in ("", ":") for id in ("a", "b") for name in ("s", "s:")]
        for key in keys:
            await make(store, key)
        for namespace, _, name in keys:
            found = [listed.id for listed in await store.list_states(StateQuery(namespace, name, 10))]
            assert found == ["a", "b"]
            assert await store.count_states(namespace, name) == 2

    async def test_expired_and_deleted_states_are_neither_listed_nor_counted(
        self, store: StateStore, namespace: str
    ) -> None:
        keys = [StateKey(namespace, f"chat{number}", "sessions") for number in range(6)]
        await make(store, keys[0])
        await make_expired(store, *keys[1:3])
        for key in keys[3:]:
            await make(store, key, ttl=None)
        await store.delete_state(keys[3])
        await store.delete_states(namespace, keys[4].id)
        listed = await store.list_states(StateQuery(namespace, "sessions", 10))
        assert [each.id for each in listed] == [keys[0].id, keys[5].id]
        assert await store.count_states(namespace, "sessions") == 2
        await make(store, keys[3])
        assert await store.count_states(namespace, "sessions") == 3, "created again"

    async def test_a_state_is_listed_as_soon_as_it_is_created_however_many_are_deleted(
        self, store: StateStore, key: StateKey
    ) -> None:
        async def create_and_delete() -> None:
            for _ in range(10):
                await store.create_state(key, written(owner=ADA))
                await store.delete_state(key)

        async def sweep() -> None:
            for _ in range(10):
                await store.sweep_states(100)

        await asyncio.gather(*(create_and_delete() for _ in range(5)), sweep())
        await store.delete_state(key)
        made = await make(store, key, owner=ADA)
        assert [each.row.mark for each in await store.list_states(StateQuery(key.namespace, key.name, 10))] == [
            made.mark
        ]
        assert (await store.delete_owned_states(key.namespace, OwnerFilter(peer=ADA.peer), 10)).removed == 1

    async def test_clearing_removes_the_states_of_one_name(
        self, store: StateStore, namespace: str, stored_text: StoredText
    ) -> None:
        for number in range(7):
            await make(store, StateKey(namespace, f"chat{number}", "gone"), f'"secret of {namespace}"', owner=ADA)
        await make_expired(store, StateKey(namespace, "expired", "gone"), value=f'"secret of {namespace}"')
        kept = [StateKey(namespace, "chat1", "kept"), StateKey(f"{namespace}2", "chat1", "gone")]
        for key in kept:
            await make(store, key)
        removed, more = 0, True
        while more:
            batch, more = await store.clear_states(namespace, "gone", 3)
            assert batch <= 3
            removed += batch
        assert removed == 7
        assert all([await store.peek_state(key) for key in kept])
        assert await store.count_states(namespace, "gone") == 0
        assert f"secret of {namespace}" not in await stored_text()


class OwnerContract:
    async def test_an_owner_stays_with_its_state(self, store: StateStore, key: StateKey) -> None:
        made = await make(store, key, owner=ADA)
        assert made.owner == ADA
        replaced = await store.replace_state(key, written(owner=ADA._replace(thread="t")), made.mark)
        assert replaced is not None
        assert replaced.owner == ADA._replace(thread="t")
        read = await store.get_state(key)
        assert read is not None
        assert read.owner == replaced.owner
        disowned = await store.replace_state(key, written(), replaced.mark)
        assert disowned is not None
        assert disowned.owner is None

    async def test_each_part_of_an_owner_chooses_states(self, store: StateStore, namespace: str) -> None:
        owners = [StateOwner(*parts) for parts in (("a", "x", "p", None), ("a", "x", "p", "t"), ("a", "y", "p", None),
                  ("b", "x", "p", None), ("b", "x", "q", None), ("%", "*", "p:q", "_"))]  # fmt: skip
        filters = [
            OwnerFilter(peer="p"),
            OwnerFilter(peer="q"),
            OwnerFilter(agent="a"),
            OwnerFilter(channel="x"),
            OwnerFilter("a", "x", "p"),
            OwnerFilter("a", "x", "p", "t"),
            OwnerFilter(agent="%"),
            OwnerFilter(channel="*"),
            OwnerFilter(peer="p:q", thread="_"),
            OwnerFilter(thread="t"),
            OwnerFilter(peer="nobody"),
        ]
        for wanted in filters:
            for number, owner in enumerate(owners):
                await store.create_state(StateKey(namespace, f"state{number}", "any"), written(owner=owner))
            await store.create_state(StateKey(namespace, "nobody's", "any"), written())
            expected = [number for number, owner in enumerate(owners) if wanted.matches(owner)]
            assert await _delete_owned(store, namespace, wanted) == len(expected)
            left = [listed.id for listed in await store.list_states(StateQuery(namespace, "any", 100))]
            kept = [f"state{number}" for number in range(len(owners)) if number not in expected]
            assert left == ["nobody's", *kept], wanted

    async def test_deleting_by_owner_leaves_no_trace_of_the_owner(
        self, store: StateStore, namespace: str, stored_text: StoredText
    ) -> None:
        owner = ADA._replace(peer=f"ada of {namespace}")
        for number in range(7):
            key = StateKey(namespace, f"note{number}", f"name{number % 2}")
            await make(store, key, f'"secret of {namespace}"', None if number % 2 else HOUR, owner)
        await make(store, StateKey(f"{namespace}2", "note", "name"), owner=ADA)
        assert await _delete_owned(store, namespace, OwnerFilter(peer=owner.peer), limit=2) == 7
        text = await stored_text()
        assert f"secret of {namespace}" not in text
        assert owner.peer not in text
        assert await store.peek_state(StateKey(f"{namespace}2", "note", "name"))

    async def test_a_state_with_another_owner_since_is_kept(self, store: StateStore, key: StateKey) -> None:
        made = await make(store, key, owner=ADA)
        ben = ADA._replace(peer="ben")
        assert await store.replace_state(key, written(owner=ben), made.mark)
        assert await _delete_owned(store, key.namespace, OwnerFilter(peer=ADA.peer)) == 0
        assert await store.peek_state(key)
        assert await _delete_owned(store, key.namespace, OwnerFilter(peer="ben")) == 1

    async def test_a_time_to_live_can_be_changed_by_a_write(
        self, store: StateStore, key: StateKey, stored_text: StoredText
    ) -> None:
        made = await make(store, key, f'"secret of {key.namespace}"', ttl=None)
        brief = await store.replace_state(key, written(f'"secret of {key.namespace}"', ttl=MILLISECOND), made.mark)
        assert brief is not None
        await pass_time(4 * MILLISECOND)
        assert await store.peek_state(key) is None
        more = True
        while more:
            _, more = await store.sweep_states(100)
        assert f"secret of {key.namespace}" not in await stored_text()
        again = await make(store, key, ttl=20 * MILLISECOND)
        lasting = await store.replace_state(key, written(ttl=None), again.mark)
        if lasting is not None:  # on a busy machine, 20 ms may be over
            await pass_time(25 * MILLISECOND)
            assert await store.peek_state(key) == lasting


async def _delete_owned(store: StateStore, namespace: str, owners: OwnerFilter, limit: int = 100) -> int:
    removed, more = 0, True
    while more:
        batch, more = await store.delete_owned_states(namespace, owners, limit)
        assert batch <= limit
        removed += batch
    return removed
