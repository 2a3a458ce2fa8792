"""A takeover on PostgreSQL waits for a write whose fence has been checked, however long its transaction takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import asyncpg
import msgspec
import pytest

from frontdesk.store import TURN, Append, Store
from frontdesk.stores.postgres import PostgresStore
from frontdesk.testing.store_contract.steps import NAMESPACE, NOW, add, message, path, row
from frontdesk.testing.store_contract.turns import has_it, turn, wish
from frontdesk.tree import plans
from tests.waiting import PATIENCE


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore.from_url(postgres_url)
    yield store
    await store.close()


async def waiting_for_locks(connection: Any, count: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while await connection.fetchval("SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted") < count:
            await connection.execute("SELECT pg_sleep(0.01)")


async def append_late(store: Store, fence: int) -> None:
    request = Append(
        namespace=NAMESPACE, session_id="s", messages=(message("late"),), fresh=(False,), now=NOW, fence=fence
    )
    await store.append(request)


async def rename_late(store: Store, fence: int) -> None:
    plan = plans.change_row(await row(store, "s"), NOW, name="late", tags='["late"]')
    assert await store.apply(msgspec.structs.replace(plan, fence=fence))


OCCUPY_THE_NEXT_PLACE = """
INSERT INTO frontdesk.messages (ns, position, segment, family, call, created_at, tokens, running, id, role, raw)
SELECT ns, position + 1, segment, family, call, created_at, tokens, running, 'other', role, raw
FROM frontdesk.messages"""
OCCUPY_THE_TAGS = "LOCK TABLE frontdesk.session_tags IN SHARE MODE"


@pytest.mark.parametrize(
    ("write", "block"), [(append_late, OCCUPY_THE_NEXT_PLACE), (rename_late, OCCUPY_THE_TAGS)], ids=["append", "plan"]
)
async def test_nobody_takes_over_between_the_check_of_the_fence_and_the_commit(
    store: PostgresStore, postgres_url: str, write: Callable[[Store, int], Coroutine[Any, Any, None]], block: str
) -> None:
    await add(store, "s", "first")
    holder = await turn(store, "ana")
    blocker = await asyncpg.connect(postgres_url)
    watcher = await asyncpg.connect(postgres_url)
    transaction = blocker.transaction()
    await transaction.start()
    await blocker.execute(block)
    writing = asyncio.create_task(write(store, holder.number))
    await waiting_for_locks(watcher, 1)
    taking = asyncio.create_task(store.queue_lease(wish("ben", force=True)))
    await waiting_for_locks(watcher, 2)
    assert not taking.done()
    await transaction.rollback()
    assert has_it(await taking, "ben")
    await writing
    assert (await row(store, "s")).name == "late" or await path(store, "s") == ["first", "late"]
    assert not await store.renew_lease(NAMESPACE, "s", TURN, holder.number, 1)
    await watcher.close()
    await blocker.close()
