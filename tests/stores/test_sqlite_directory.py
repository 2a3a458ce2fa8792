"""Pages of sessions on SQLite: what they cost follows the sessions that they look at, whatever the filter."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from frontdesk.store import SessionQuery
from frontdesk.stores.sql import directory, sessions
from frontdesk.stores.sql.database import run
from frontdesk.stores.sqlite import SQLiteStore
from frontdesk.stores.sqlite.connections import Cursor, SQLiteConnection
from frontdesk.stores.sqlite.database import SQLiteDatabase
from frontdesk.testing.store_contract.steps import NAMESPACE, new

BY_NUMBER = "SEARCH s USING INTEGER PRIMARY KEY (rowid=?)"
FILTERS: list[tuple[dict[str, Any], str]] = [
    ({"tag": "x"}, "SEARCH d USING PRIMARY KEY (ns=? AND digest=?)"),
    ({"metadata": (b"digest",)}, "SEARCH d USING PRIMARY KEY (ns=? AND digest=?)"),
    ({"parent": "p"}, "sessions_by_parent (ns=? AND parent_session_id=?)"),
    ({"id_prefix": "s"}, "sessions_by_id (ns=? AND id>? AND id<?)"),
    ({"peer": "p"}, "sessions_by_peer (ns=? AND peer=?)"),
    ({"leased": "work"}, "leases_by_end (ns=? AND name=? AND expires_at>?)"),
]


class Explaining:
    """A connection that collects the plans of its statements."""

    def __init__(self, connection: SQLiteConnection) -> None:
        self.connection = connection
        self.plans: list[str] = []

    def execute(self, statements: str, bindings: Any = None, /) -> Cursor:
        plan = self.connection.execute(f"EXPLAIN QUERY PLAN {statements}", bindings).fetchall()
        self.plans.append("\n".join(step[3] for step in plan))
        return self.connection.execute(statements, bindings)


async def explain(path: Path, operation: Any, *args: Any) -> list[str]:
    """The plans of what an operation executes on a store with a few sessions."""
    store = SQLiteStore(path / "agents.db")
    for number in range(3):
        key = {"agent": "a", "channel": "c", "peer": f"p{number}"}
        await store.create(new(f"s{number}", **key, tags='["x"]', metadata='{"n": 1}'))

    def plans(connection: SQLiteConnection) -> list[str]:
        explaining = Explaining(connection)
        run(operation(SQLiteDatabase(cast(SQLiteConnection, explaining)), *args))
        return explaining.plans

    found = await store.engine.read(plans)
    await store.close()
    return found


@pytest.mark.parametrize("order", ["recent", "created"])
@pytest.mark.parametrize(("filters", "index"), FILTERS, ids=[next(iter(filters)) for filters, _ in FILTERS])
async def test_the_sessions_of_a_narrow_filter_are_found_by_its_index_and_read_by_number(
    tmp_path: Path, filters: dict[str, Any], index: str, order: Any
) -> None:
    query = SessionQuery(namespace=NAMESPACE, limit=9, order=order, **filters)
    narrow, page = await explain(tmp_path, directory.page, query)
    assert index in narrow
    assert BY_NUMBER in page, page


@pytest.mark.parametrize("status", ["active", "suspended", "archived", None])
async def test_a_list_in_the_order_of_activity_ends_in_its_indexes(tmp_path: Path, status: str | None) -> None:
    query = SessionQuery(namespace=NAMESPACE, limit=9, status=status)
    (page,) = await explain(tmp_path, directory.page, query)
    wanted = {"active": "sessions_by_activity (ns=?)", None: "sessions_by_activity (ns=?)"}
    assert wanted.get(status, "sessions_by_status (ns=? AND status=?)") in page
    assert "SCAN s" not in page.replace("SCAN (subquery", "")


async def test_sessions_are_looked_up_by_their_numbers_and_families(tmp_path: Path) -> None:
    (numbered,) = await explain(tmp_path, sessions.get_numbered, NAMESPACE, [1, 2])
    assert BY_NUMBER in numbered, numbered
    (related,) = await explain(tmp_path, sessions.relatives, NAMESPACE, [1, 2])
    assert BY_NUMBER in related, related
    assert "sessions_by_family (family=?)" in related, related
