"""Appends to PostgreSQL: the common one is a single statement, and all of them keep the promises of the contract when
several are made at the same moment."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from itertools import count

import asyncpg
import pytest

from frontdesk.store import Append, AppendResult
from frontdesk.stores.postgres import PostgresStore, append, head
from frontdesk.stores.postgres.connection import Connection, Statements
from frontdesk.testing.store_contract.steps import (
    NAMESPACE,
    NOW,
    add,
    change,
    cover,
    delete,
    fork,
    message,
    path,
    place,
    replace,
    row,
    settle,
    tree,
)
from frontdesk.tree import plans

GATE = 4711
"""an advisory lock"""


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore.from_url(postgres_url)
    yield store
    await store.close()


@pytest.fixture
async def connection(postgres_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


def request(session_id: str, *ids: str) -> Append:
    messages = tuple(message(id) for id in ids)
    return Append(namespace=NAMESPACE, session_id=session_id, messages=messages, fresh=(False,) * len(ids), now=NOW)


# duplicates under a race


async def test_an_id_that_many_append_at_once_is_stored_and_answered_as_inserted_once(
    store: PostgresStore, connection: asyncpg.Connection, postgres_url: str
) -> None:
    await add(store, "s", "first")
    others = [PostgresStore.from_url(postgres_url) for _ in range(4)]
    ids = [f"m{number}" for number in range(40)]

    async def append_all(one: PostgresStore) -> list[tuple[str, AppendResult]]:
        return [(id, await one.append(request("s", id))) for id in ids]

    answers = await asyncio.gather(*(append_all(one) for one in (store, *others) for _ in range(3)))
    for other in others:
        await other.close()
    inserted = Counter(id for results in answers for id, result in results if result.rows[0].inserted)
    assert inserted == Counter(ids)
    stored = await connection.fetch("SELECT id, count(*) FROM frontdesk.messages GROUP BY id")
    assert Counter({row["id"]: row["count"] for row in stored}) == Counter(["first", *ids])
    assert Counter(await path(store, "s")) == Counter(["first", *ids])
    assert (await row(store, "s")).message_count == 41


async def test_a_batch_that_began_before_another_append_of_its_id_does_not_take_that_session(
    store: PostgresStore, connection: asyncpg.Connection, postgres_url: str
) -> None:
    """The statement has its snapshot, and waits at a gate before it locks a session."""
    await add(store, "s", "first")
    await add(store, "t", "first")
    late = await asyncpg.connect(postgres_url)
    statements = Statements('"frontdesk"')
    statements[head.MANY] = statements[head.MANY].replace(
        "x.name = g.namespace", f"x.name = g.namespace AND pg_advisory_xact_lock_shared({GATE}) IS NOT NULL"
    )
    groups = [head.group_of([(request(id, "same"), 1)]) for id in ("s", "t")]
    await connection.execute(f"SELECT pg_advisory_lock({GATE})")
    appending = asyncio.create_task(head.append(Connection(late, statements), [one for one in groups if one]))
    while not await connection.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"):
        await connection.execute("SELECT pg_sleep(0.01)")
    assert (await store.append(request("s", "same"))).rows[0].inserted
    await connection.execute(f"SELECT pg_advisory_unlock({GATE})")
    changed, unchanged = await appending
    assert changed is None
    assert unchanged is not None
    again = await append.append(Connection(late, statements), request("s", "same"), call=1)
    assert not again.rows[0].inserted
    assert await path(store, "s") == await path(store, "t") == ["first", "same"]
    assert await connection.fetchval("SELECT count(*) FROM frontdesk.messages") == 4
    await late.close()


async def test_an_append_that_was_decided_before_another_was_committed_is_decided_again(
    store: PostgresStore, connection: asyncpg.Connection, postgres_url: str
) -> None:
    """It has read the session, and waits for its row to write; the other append holds the row, and then commits."""
    await add(store, "s", "first")
    early = await asyncpg.connect(postgres_url)
    statements = Statements("frontdesk")
    transaction = early.transaction()
    await transaction.start()
    await append.append(Connection(early, statements), request("s", "early", "same"), call=1)
    late = request("s", "same", "late")
    appending = asyncio.create_task(append.append(Connection(connection, statements), late, call=2))
    while not await early.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
        await early.execute("SELECT pg_sleep(0.01)")
    await transaction.commit()
    assert [row.inserted for row in (await appending).rows] == [False, True]
    assert await path(store, "s") == ["first", "early", "same", "late"]
    assert (await row(store, "s")).message_count == 4
    await early.close()


async def test_of_many_that_make_a_session_at_once_one_does(store: PostgresStore, postgres_url: str) -> None:
    others = [PostgresStore.from_url(postgres_url) for _ in range(5)]
    for number in range(5):
        answers = await asyncio.gather(
            *(one.append(request(f"s{number}", f"m{index}")) for index, one in enumerate((store, *others)))
        )
        assert [answer.created for answer in answers].count(True) == 1
        assert len(await path(store, f"s{number}")) == 6
    for other in others:
        await other.close()


# what the row of a session says of its head

WRONG_HEADS = """
SELECT s.id FROM frontdesk.sessions s
LEFT JOIN frontdesk.segments t ON t.ns = s.ns AND t.number = s.head_segment
LEFT JOIN frontdesk.messages m ON m.ns = s.ns AND m.segment = s.head_segment AND m.position = s.head_position
WHERE s.head_next IS NOT NULL AND (s.head_id, s.head_next, s.head_tokens, s.tree, s.head_position)
    IS DISTINCT FROM (m.id, t.next, t.tokens, t.tree, t.last)"""


async def test_no_plan_leaves_a_wrong_head_in_the_row(store: PostgresStore, connection: asyncpg.Connection) -> None:
    seen = ["a", "b", "c"]
    numbers = count(1)

    async def append_and_check(session_id: str = "s") -> None:
        assert await connection.fetch(WRONG_HEADS) == []
        seen.append(f"m{next(numbers)}")
        await add(store, session_id, seen[-1])
        assert await connection.fetch(WRONG_HEADS) == []
        assert await path(store, session_id) == seen

    await add(store, "s", *seen)
    await append_and_check()
    await replace(store, "s", message(seen[-1], "longer", 40))
    await append_and_check()
    await delete(store, "s", seen.pop())
    await append_and_check()
    await delete(store, "s", seen.pop(0))
    await append_and_check()
    head_before = await place(store, "s", seen[1])
    await change(store, "s", lambda tree: plans.switch(tree, head_before, NOW))
    del seen[2:]
    await append_and_check()
    await cover(store, "s", "overlay", seen[0], seen[1])
    await append_and_check()
    await settle(store, "s")
    await append_and_check()
    await fork(store, "s", "f")
    await append_and_check()
    seen.pop()
    await append_and_check("f")
    await store.apply(plans.clear_messages((await tree(store, "s", family=True)).rows, NOW))
    seen.clear()
    await append_and_check()
    await append_and_check()


# plans


@pytest.mark.parametrize("grown", [False, True], ids=["empty", "analysed while small"])
async def test_a_plan_made_while_tables_are_small_scans_no_namespace(
    store: PostgresStore, connection: asyncpg.Connection, grown: bool
) -> None:
    await store.open()
    if grown:
        await add(store, "s", "a", "b")
        await add(store, "s", "c")
        await connection.execute("ANALYZE")
    await connection.execute("SET enable_seqscan = off; SET jit = off; SET plan_cache_mode = force_generic_plan")
    for number, text in enumerate((head.ONE, head.MANY, append.LOCK, append.GATHER, append.WRITE)):
        arguments = max(int(mark) for mark in re.findall(r"\$(\d+)", text))
        await connection.execute(f"PREPARE p{number} AS {text.replace('{schema}', 'frontdesk')}")
        plan = await connection.fetch(f"EXPLAIN EXECUTE p{number}({', '.join(['NULL'] * arguments)})")
        lines = [line for (line,) in plan]
        assert not [line for line in lines if "Seq Scan" in line]
        assert not [line for line in lines if "Index Cond" in line and " AND " not in line and "name = " not in line]
