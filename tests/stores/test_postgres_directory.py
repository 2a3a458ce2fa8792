"""Pages of sessions on PostgreSQL: every filter is answered by its own index, also by plans made while tables are
small."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from frontdesk.store import SessionQuery
from frontdesk.stores.postgres import PostgresStore, directory
from frontdesk.stores.postgres.connection import Connection, Row, Statements
from frontdesk.testing.store_contract.steps import NAMESPACE, new

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
        await directory.page(connection, SessionQuery(namespace=NAMESPACE, limit=9, order="created", **filters))
        assert index in connection.indexes[0], (filters, connection.indexes)
        assert "sessions_pkey" not in connection.indexes[0]
        assert "sessions_pkey" in connection.indexes[-1], (filters, connection.last_plan)
        if not few:
            # By number, without a sort below the limit.
            assert "Index Scan Backward using sessions_pkey" in connection.last_plan, connection.last_plan
            assert "Sort" not in connection.last_plan
