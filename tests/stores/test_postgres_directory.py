"""Pages of sessions on PostgreSQL: every filter is answered by its own index, also by plans made while tables are
small."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import asyncpg
import pytest

from frontdesk.store import SessionQuery, SessionRow
from frontdesk.stores.postgres import PostgresStore
from frontdesk.stores.postgres.connection import Connection, Row, Statements
from frontdesk.stores.postgres.database import PostgresDatabase
from frontdesk.stores.sql import directory
from frontdesk.testing.store_contract.steps import NAMESPACE, NOW, add, new
from tests.waiting import eventually

MINUTE = 60_000_000
SETTINGS = "SET enable_seqscan = off; SET jit = off; SET plan_cache_mode = force_generic_plan"


@pytest.fixture
async def driver(postgres_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


class Explaining(Connection):
    """A connection that collects the indexes that its statements use, and the plan of the last one."""

    def __init__(self, driver: asyncpg.Connection) -> None:
        super().__init__(driver, Statements("frontdesk"))
        self.driver = driver
        self.indexes: list[set[str]] = []
        self.last_plan = ""

    async def fetch(self, text: str, *values: object) -> list[Row]:
        await self.driver.execute(f"PREPARE explained AS {text.replace('{schema}', 'frontdesk')}")
        plan = await self.driver.fetch(f"EXPLAIN EXECUTE explained({', '.join(['NULL'] * len(values))})")
        await self.driver.execute("DEALLOCATE explained")
        self.last_plan = "\n".join(line for (line,) in plan)
        self.indexes.append(set(re.findall(r"Index (?:Only )?Scan (?:Backward )?(?:using|on) (\w+)", self.last_plan)))
        return await super().fetch(text, *values)


FILTERS: list[tuple[dict[str, Any], str]] = [
    ({"tag": "x"}, "session_tags_pkey"),
    ({"metadata": (b"digest",)}, "session_metadata_pkey"),
    ({"parent": "p"}, "sessions_by_parent"),
    ({"id_prefix": "s"}, "sessions_by_id"),
    ({"peer": "p"}, "sessions_by_peer"),
    ({"agent": "a"}, "sessions_by_agent"),
    ({"status": "suspended"}, "sessions_by_status"),
    ({"status": "active"}, "sessions_by_activity"),
    ({"status": "active", "idle": True, "now": 5, "idle_after": 1}, "sessions_by_activity"),
    ({"status": "active", "idle": False, "now": 5, "idle_after": 1}, "sessions_by_own_idle"),
]


@pytest.mark.parametrize("grown", [False, True], ids=["empty", "analysed while small"])
@pytest.mark.parametrize("few", [True, False], ids=["few", "many"])
async def test_a_page_scans_no_namespace(
    postgres_url: str, driver: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch, grown: bool, few: bool
) -> None:
    store = PostgresStore.from_url(postgres_url)
    await store.open()
    if grown:
        for number in range(3):
            tagged = new(f"s{number}", agent="a", channel="c", peer=f"p{number}", tags='["x"]', metadata='{"n": 1}')
            await store.create(tagged)
        await driver.execute("ANALYZE")
    await store.close()
    await driver.execute(SETTINGS)
    if not few:
        monkeypatch.setattr(directory, "FEW", 0)
    for filters, index in FILTERS:
        connection = Explaining(driver)
        query = SessionQuery(namespace=NAMESPACE, limit=9, order="created", **filters)
        await directory.page(PostgresDatabase(connection), query)
        assert index in connection.indexes[0], (filters, connection.indexes)
        assert "sessions_pkey" not in connection.indexes[0]
        assert "sessions_pkey" in connection.indexes[-1], (filters, connection.last_plan)
        if not few:
            # By number, without a sort below the limit.
            assert "Index Scan Backward using sessions_pkey" in connection.last_plan, connection.last_plan
            assert "Sort" not in connection.last_plan


async def test_appends_within_a_minute_add_nothing_to_the_indexes_of_sessions(postgres_url: str) -> None:
    store = PostgresStore.from_url(postgres_url)
    start = NOW - NOW % MINUTE
    for second in range(0, 120, 2):
        await asyncio.gather(
            *(add(store, f"s{number}", f"{second}", now=start + 1_000_000 * second) for number in range(10))
        )
    await store.close()  # the server processes report what they did when they end
    connection = await asyncpg.connect(postgres_url)

    async def count(column: str) -> int:
        counted = f"SELECT {column} FROM pg_stat_user_tables WHERE relname = 'sessions'"
        return int(await connection.fetchval(counted))

    async def is_reported() -> bool:
        return await count("n_tup_upd") >= 590

    await eventually(is_reported)
    updated, in_place = await count("n_tup_upd"), await count("n_tup_hot_upd")
    await connection.close()
    assert in_place >= 0.9 * updated


async def test_the_order_within_a_minute_is_exact(postgres_url: str) -> None:
    store = PostgresStore.from_url(postgres_url)
    random = Random(7)
    moments = {f"s{number}": NOW + random.randrange(3 * MINUTE) for number in range(40)}
    for session_id, moment in moments.items():
        await add(store, session_id, "m", now=moment)
    found: list[SessionRow] = []
    while True:
        after = (found[-1].last_active_at, found[-1].number) if found else None
        page = await store.page(SessionQuery(namespace=NAMESPACE, limit=7, order="recent", after=after))
        if not page:
            break
        found += page
    await store.close()
    assert [row.id for row in found] == sorted(moments, key=lambda id: -moments[id])
