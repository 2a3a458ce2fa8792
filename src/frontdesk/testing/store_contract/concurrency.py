"""Many tasks at once: every acknowledged message is stored exactly once, and the counters agree."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from frontdesk.errors import HeadMovedError
from frontdesk.store import Store, UsageRow
from frontdesk.testing.store_contract.steps import NAMESPACE, NOW, add, message, new, path, row, tree
from frontdesk.tree import plans

TASKS = 64


class ConcurrencyContract:
    async def test_many_tasks_append_to_one_session_each_exactly_once(self, store: Store) -> None:
        async def write(task: int) -> None:
            for number in range(4):
                assert (await add(store, "s", f"{task}-{number}")).rows[0].inserted

        await asyncio.gather(*(write(task) for task in range(TASKS)))
        wanted = [f"{task}-{number}" for task in range(TASKS) for number in range(4)]
        written = await path(store, "s")
        assert sorted(written) == sorted(wanted)
        for task in range(TASKS):
            mine = [id for id in written if id.startswith(f"{task}-")]
            assert mine == sorted(mine)
        session = await row(store, "s")
        assert (session.message_count, session.view_messages, session.view_tokens) == (256, 256, 768)

    async def test_many_tasks_append_to_many_sessions(self, store: Store) -> None:
        async def write(task: int) -> None:
            for number in range(4):
                await add(store, f"s{task % 16}", f"{task}-{number}")

        await asyncio.gather(*(write(task) for task in range(TASKS)))
        for number in range(16):
            assert len(set(await path(store, f"s{number}"))) == 16
            assert (await row(store, f"s{number}")).message_count == 16

    async def test_an_id_that_many_tasks_append_at_once_is_inserted_once(self, store: Store) -> None:
        results = await asyncio.gather(*(add(store, "s", message("m", str(task))) for task in range(32)))
        assert sorted(result.rows[0].inserted for result in results) == [False] * 31 + [True]
        [winner] = [result for result in results if result.rows[0].inserted]
        assert await path(store, "s") == ["m"]
        assert winner.session.message_count == (await row(store, "s")).message_count == 1
        assert len({result.rows[0].existing for result in results} - {None}) == 1

    async def test_one_bad_append_among_many_fails_alone(self, store: Store) -> None:
        await add(store, "s", "m0")
        results = await asyncio.gather(
            *(add(store, "s", f"m{number}") for number in range(1, 20)),
            add(store, "s", "late", expected_head="long ago"),
            *(add(store, "s", f"m{number}") for number in range(20, 40)),
            return_exceptions=True,
        )
        assert [type(result) for result in results if isinstance(result, BaseException)] == [HeadMovedError]
        assert len(await path(store, "s")) == 40

    async def test_of_many_appends_with_the_same_expected_head_one_succeeds(self, store: Store) -> None:
        await add(store, "s", "m0")
        racing = (add(store, "s", f"m{task}", expected_head="m0") for task in range(1, 20))
        results = await asyncio.gather(*racing, return_exceptions=True)
        assert sum(not isinstance(result, BaseException) for result in results) == 1
        assert len(await path(store, "s")) == 2

    async def test_of_many_tasks_that_create_a_session_one_does(self, store: Store) -> None:
        key = {"agent": "a", "channel": "b", "peer": "c"}
        by_id = await asyncio.gather(*(store.create(new("s")) for _ in range(16)))
        by_key = await asyncio.gather(*(store.create(new(f"k{task}", **key)) for task in range(16)))
        for created in (by_id, by_key):
            assert sum(is_new for _, is_new in created) == 1
            assert len({made.number for made, _ in created}) == 1

    async def test_of_many_plans_made_from_the_same_revision_one_is_applied(self, store: Store) -> None:
        made, _ = await store.create(new("s"))
        racing = (store.apply(plans.change_row(made, NOW, name=str(task))) for task in range(16))
        results = await asyncio.gather(*racing)
        assert sorted(results) == [False] * 15 + [True]
        session = await row(store, "s")
        assert (session.name, session.revision) == (str(results.index(True)), made.revision + 1)

    async def test_a_usage_entry_that_many_tasks_add_at_once_counts_once(self, store: Store) -> None:
        await store.create(new("s"))
        same = UsageRow(id="u", at=NOW, day="2026-01-01", input_tokens=1)
        results = await asyncio.gather(*(store.add_usage(NAMESPACE, "s", same) for _ in range(16)))
        assert sorted(results) == [False] * 15 + [True]
        assert (await row(store, "s")).input_tokens == 1

    async def test_deleting_a_session_while_others_write_to_it_leaves_no_partial_session(self, store: Store) -> None:
        await store.create(new("s"))

        async def delete() -> None:
            while rows := await store.trees(NAMESPACE, ["s"], family=True):
                if await store.apply(plans.delete_session(rows[0], NOW)):
                    return

        await asyncio.gather(*(add(store, "s", f"m{number}") for number in range(20)), delete())
        session = await store.get(NAMESPACE, "s")
        written = await path(store, "s") if session else []
        assert len(written) == (session.message_count if session else 0)
        left = [id for id in (f"m{number}" for number in range(20)) if id not in written]
        if left:
            assert all(appended.inserted for appended in (await add(store, "s", *left)).rows)

    async def test_readers_see_a_consistent_session_while_it_grows(self, store: Store) -> None:
        await add(store, "s", "m0")

        async def read() -> None:
            for _ in range(10):
                seen = await tree(store, "s")
                [piece] = await store.read(seen.lay(seen.session.head))
                assert len(piece.messages) == seen.session.message_count

        async def write() -> None:
            for number in range(1, 30):
                await add(store, "s", f"m{number}")

        await asyncio.gather(write(), read(), read())

    async def test_event_loops_in_several_threads_share_one_store(self, store: Store) -> None:
        def run(thread: int) -> None:
            async def write() -> None:
                await asyncio.gather(*(add(store, "s", f"{thread}-{number}") for number in range(20)))
                assert len(await path(store, "s")) >= 20

            asyncio.run(write())

        with ThreadPoolExecutor(2) as threads:
            running = [asyncio.wrap_future(threads.submit(run, thread)) for thread in range(2)]
            await add(store, "s", "from the test's own loop")
            await asyncio.gather(*running)
        assert len(set(await path(store, "s"))) == 41
        assert (await row(store, "s")).message_count == 41
