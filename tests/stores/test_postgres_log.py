"""The change log on PostgreSQL, where transactions may commit in another order than that of their numbers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from frontdesk.messages.ids import new_id
from frontdesk.store import Append, AppendResult, ChangeRow, NewChange, Position
from frontdesk.stores.postgres import PostgresStore, append, log
from frontdesk.stores.postgres.connection import Connection, Statements
from frontdesk.testing.store_contract.change_log import settled
from frontdesk.testing.store_contract.steps import NAMESPACE, NOW, add, message, new, row
from tests.waiting import PATIENCE


async def append_in(connection: asyncpg.Connection, session_id: str, message_id: str) -> AppendResult:
    """Append in the transaction of a connection."""
    request = Append(
        namespace=NAMESPACE, session_id=session_id, messages=(message(message_id),), fresh=(True,), now=NOW
    )
    return await append.append(Connection(connection, Statements("frontdesk")), request, call=1)


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore.from_url(postgres_url)
    await store.open()
    yield store
    await store.close()


@asynccontextmanager
async def transaction(url: str) -> AsyncIterator[Any]:
    """A transaction that has its number, and is committed at the end."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await connection.execute("SELECT pg_current_xact_id()")
            yield connection
    finally:
        await connection.close()


def about(lines: list[ChangeRow]) -> list[tuple[str, str | None]]:
    return [(line.kind, line.session_id) for line in lines]


async def test_an_entry_that_is_committed_late_is_not_missed_by_a_reader(
    store: PostgresStore, postgres_url: str
) -> None:
    await add(store, "before", "m1")
    before = await settled(store, 2)
    async with transaction(postgres_url) as late:
        await append_in(late, "late", "m1")
        await add(store, "early", "m1")
        assert await store.changes(NAMESPACE, before[-1].position, 100) == []
        unsettled = await store.changes(NAMESPACE, before[-1].position, 100, settled=False)
        assert about(unsettled) == [("session.created", "early"), ("message.appended", "early")]
        assert await store.last_change(NAMESPACE) == before[-1].position
    after = await settled(store, 4, before[-1].position)
    assert [session_id for _, session_id in about(after)] == ["late", "late", "early", "early"]
    assert await store.changes(NAMESPACE, None, 100) == [*before, *after]


async def test_entries_of_one_session_are_in_the_order_of_its_changes(store: PostgresStore, postgres_url: str) -> None:
    await add(store, "s", "m0")
    async with transaction(postgres_url) as early:
        await add(store, "s", "m1")
        await append_in(early, "s", "m2")
    await add(store, "s", "m3")
    lines = await settled(store, 5)
    assert [line.first for line in lines[1:]] == [0, 1, 2, 3]


async def test_a_plan_that_began_early_is_logged_after_what_it_waited_for(
    store: PostgresStore, postgres_url: str
) -> None:
    number = (await add(store, "s", "m0")).session.number
    async with transaction(postgres_url) as early:
        await add(store, "s", "m1")
        entries = [NewChange(kind="usage.added")]
        await log.write(Connection(early, Statements("frontdesk")), number >> 39, number, NOW, entries)
    assert [line.kind for line in await settled(store, 4)][1:] == ["message.appended"] * 2 + ["usage.added"]


async def test_a_transaction_that_is_rolled_back_leaves_no_entry(store: PostgresStore, postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    failing = connection.transaction()
    await failing.start()
    await append_in(connection, "s", "m1")
    await failing.rollback()
    await connection.close()
    await add(store, "t", "m1")
    assert {line.session_id for line in await settled(store, 2)} == {"t"}


async def test_a_reader_misses_nothing_while_transactions_of_all_lengths_overlap(
    store: PostgresStore, postgres_url: str
) -> None:
    async def write(writer: int) -> None:
        for number in range(10):
            async with transaction(postgres_url) as connection:
                await asyncio.sleep(0.002 * ((writer * 7 + number * 3) % 5))
                name = f"s{(writer + number) % 3}"
                await append_in(connection, name, f"{writer}-{number}")
                await asyncio.sleep(0.002 * ((writer * 3 + number * 7) % 5))

    async def follow() -> list[ChangeRow]:
        lines: list[ChangeRow] = []
        after: Position | None = None
        while sum(line.kind == "message.appended" for line in lines) < 80:
            lines += await store.changes(NAMESPACE, after, 3)
            after = lines[-1].position if lines else None
        return lines

    await asyncio.gather(*(store.create(new(f"s{number}")) for number in range(3)))
    following = asyncio.create_task(follow())
    await asyncio.gather(*(write(writer) for writer in range(8)))
    lines = await following
    assert len({line.position for line in lines}) == len(lines) == 83
    for name in ("s0", "s1", "s2"):
        appended = [line for line in lines if line.session_id == name and line.kind == "message.appended"]
        assert [line.first for line in appended] == list(range(len(appended)))
        assert len(appended) == (await row(store, name)).message_count


@pytest.mark.parametrize("writer", ["direct", "pooled"])
async def test_a_notification_ends_the_wait_of_another_process(
    store: PostgresStore, postgres_url: str, writer: str
) -> None:
    await store.wait_for_change(0.01)  # starts to listen
    other = PostgresStore(postgres_url, pooler=writer == "pooled")
    waiting = asyncio.create_task(store.wait_for_change(3600))
    async with asyncio.timeout(PATIENCE):
        while not waiting.done():
            await add(other, "s", new_id())
            await asyncio.sleep(0.02)
    await other.close()


async def test_behind_a_pooler_there_is_no_listener_and_polling_continues(
    store: PostgresStore, postgres_url: str
) -> None:
    pooled = PostgresStore(postgres_url, pooler=True)
    await pooled.wait_for_change(0.01)
    await add(store, "s", "m1")
    await asyncio.wait_for(pooled.wait_for_change(0.05), PATIENCE)
    assert len(await settled(pooled, 2)) == 2
    connection = await asyncpg.connect(postgres_url)
    listening = "SELECT count(*) FROM pg_stat_activity WHERE query ILIKE 'LISTEN %' AND datname = current_database()"
    assert await connection.fetchval(listening) == 0
    await connection.close()
    await pooled.close()


async def test_a_listener_whose_connection_was_cut_still_polls(store: PostgresStore, postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    listeners = "FROM pg_stat_activity WHERE query ILIKE 'LISTEN %' AND datname = current_database()"
    async with asyncio.timeout(PATIENCE):
        while not await connection.fetchval(f"SELECT count(*) {listeners}"):
            await store.wait_for_change(0.01)
    await connection.execute(f"SELECT pg_terminate_backend(pid) {listeners}")
    await asyncio.wait_for(store.wait_for_change(0.05), PATIENCE)
    await add(store, "s", "m1")
    assert len(await settled(store, 2)) == 2
    await connection.close()
