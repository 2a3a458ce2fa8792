"""Views in PostgreSQL: the messages of most come with their session, in one statement."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable

import asyncpg
import pytest

from frontdesk import SessionManager
from frontdesk.store import Address, Span
from frontdesk.stores.postgres import PostgresStore, index, views
from frontdesk.stores.postgres.connection import Connection, Statements

_READ = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'messages'"


@pytest.fixture
async def manager(postgres_url: str) -> AsyncIterator[SessionManager]:
    async with SessionManager(postgres_url) as manager:
        await manager.session("s").append_all([{"id": f"m{n}", "role": "user", "content": str(n)} for n in range(300)])
        yield manager


async def statements_of(url: str, session_id: str, last: int | None) -> int:
    """How many statements it takes to read a view, on a connection where the driver knows the types of the columns."""
    connection = await asyncpg.connect(url)
    sent: list[str] = []
    try:
        wrapped = Connection(connection, Statements("frontdesk"))
        await views.view(wrapped, "default", session_id, last)
        with connection.query_logger(lambda record: sent.append(record.query)):
            assert await views.view(wrapped, "default", session_id, last)
    finally:
        await connection.close()
    return len(sent)


async def test_the_last_messages_are_read_with_their_session(manager: SessionManager, postgres_url: str) -> None:
    assert await statements_of(postgres_url, "s", 50) == 1
    await manager.session("s").add_compaction("what was said", "m10", "m100")
    await manager.history("s")  # stores the view
    assert await statements_of(postgres_url, "s", 50) == 1


async def test_a_short_session_is_read_in_one_statement(manager: SessionManager, postgres_url: str) -> None:
    await manager.session("short").append({"role": "user", "content": "Hello"})
    assert await statements_of(postgres_url, "short", None) == 1


async def test_every_end_of_a_view_is_the_same_in_one_statement_or_two(
    manager: SessionManager, postgres_url: str
) -> None:
    await manager.fork("s", at="m280", new_id="fork")
    await manager.session("fork").append_all([{"id": f"f{n}", "role": "user", "content": str(n)} for n in range(20)])
    await manager.session("s").add_compaction("what was said", "m10", "m200")
    await manager.session("s").update_message({"id": "m290", "role": "user", "content": "changed"})
    await manager.session("s").delete_messages(["m295"])
    await manager.session("s").append({"id": "new", "role": "user", "content": "new"})
    for session_id in ("s", "fork"):
        await manager.history(session_id)  # stores the view, which is stale after a change
    store = PostgresStore.from_url(postgres_url)
    try:
        for session_id in ("s", "fork"):
            for last in (None, 1, 2, 4, 5, 6, 10, 19, 20, 21, 22, 90, 100, 110, 255, 256, 257, 1000):
                read = await store.view("default", session_id, last)
                assert read is not None
                assert read.items
                assert read.pieces == await store.read(read.items), (session_id, last)
    finally:
        await store.close()


async def test_scattered_messages_are_counted_without_reading_those_between_them(postgres_url: str) -> None:
    async with SessionManager(postgres_url) as manager:
        await manager.session("s").append_all({"role": "user", "content": str(number)} for number in range(4_000))
    connection = await asyncpg.connect(postgres_url)
    wrapped = Connection(connection, Statements("frontdesk"))
    await connection.execute("ANALYZE frontdesk.messages")
    segment = await connection.fetchval("SELECT min(segment) FROM frontdesk.messages")
    scattered = range(0, 4_000, 40)

    async def messages_read(work: Awaitable[object]) -> int:
        async with connection.transaction():
            before = await connection.fetchval(_READ)
            await work
            return int(await connection.fetchval(_READ) - before)

    ranges = [(Address("message", segment, at),) * 2 for at in scattered]
    try:
        tally = views.tally(wrapped, [Span(segment, at, at, None) for at in scattered])
        assert await messages_read(tally) <= 2 * len(scattered)
        assert await messages_read(index.unindexed(wrapped, "default", ranges)) <= 2 * len(scattered)
    finally:
        await connection.close()
