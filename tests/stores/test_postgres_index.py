"""What the search index on PostgreSQL costs."""

from __future__ import annotations

from array import array

import asyncpg
import pytest

from frontdesk import SessionManager
from frontdesk.search.candidates import MAX_COMMON_CANDIDATES
from frontdesk.store import Address, NewVector
from frontdesk.stores.postgres import vectors
from frontdesk.stores.postgres.connection import Connection, Statements
from tests.waiting import eventually

MESSAGES = 4_000
_READ = """
SELECT t.n_tup_del, t.seq_tup_read + i.idx_tup_read FROM pg_stat_user_tables t
JOIN pg_stat_user_indexes i ON i.indexrelname = 'search_texts_pkey' AND i.schemaname = t.schemaname
WHERE t.relname = 'search_texts'"""
_READ_BY_INDEX = "SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname = 'search_texts'"

_BLOCKS = """
SELECT sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::bigint FROM pg_statio_user_tables"""
_WITHOUT_AUTOVACUUM = """
SELECT format('ALTER TABLE %I.%I SET (autovacuum_enabled = off)', schemaname, tablename) FROM pg_tables
WHERE schemaname = 'frontdesk'"""
_SORT_IN = "SELECT gin_clean_pending_list('frontdesk.search_texts_by_term')"
_CLIENTS = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"""


async def test_a_batch_of_texts_replaces_what_the_index_has_without_reading_the_whole_session(
    postgres_url: str,
) -> None:
    watcher = await asyncpg.connect(postgres_url)

    async def work_of_index() -> tuple[int, int]:
        """How many texts were deleted from the index, and how many were read."""
        [row] = await watcher.fetch(_READ)
        return row[0], row[1]

    async with SessionManager(postgres_url) as manager:
        texts = [f"lamp {number}" for number in range(MESSAGES)]
        await manager.session("chat").append_all({"role": "user", "content": text} for text in texts)
        await manager.reindex()
    await watcher.execute("ANALYZE frontdesk.search_texts")
    _, before = await work_of_index()
    async with SessionManager(postgres_url) as manager:
        await manager.reindex()

    async def is_reported() -> bool:
        """The figures of a connection are there when it has been closed."""
        return (await work_of_index())[0] >= MESSAGES

    await eventually(is_reported)
    _, after = await work_of_index()
    assert after - before <= 4 * MESSAGES
    await watcher.close()


async def test_few_entries_of_the_index_are_not_sorted_in(postgres_url: str) -> None:
    """Every search reads all of those."""
    async with SessionManager(postgres_url) as manager:
        texts = [" ".join(f"{number}x{place}" for place in range(20)) for number in range(MESSAGES)]
        await manager.session("chat").append_all({"role": "user", "content": text} for text in texts)
        await manager.reindex()
    watcher = await asyncpg.connect(postgres_url)
    pages = await watcher.fetchval(_SORT_IN)
    await watcher.close()
    assert pages <= 40


@pytest.mark.parametrize("query", ["zanzibar", "lamp", "lamp 78 zanzibar"])
async def test_a_search_reads_no_more_after_scattered_messages_were_deleted(postgres_url: str, query: str) -> None:
    watcher = await asyncpg.connect(postgres_url)
    async with SessionManager(postgres_url) as manager:
        texts = ["zanzibar" if number % 1_000 == 500 else f"lamp {number}" for number in range(MESSAGES)]
        messages = [{"id": f"m{number}", "role": "user", "content": text} for number, text in enumerate(texts)]
        await manager.session("source").append_all(messages)
        await manager.reindex()
    for (statement,) in await watcher.fetch(_WITHOUT_AUTOVACUUM):
        await watcher.execute(statement)
    await watcher.execute("VACUUM ANALYZE")

    async def blocks_read(times: int, session: str | None) -> int:
        before = int(await watcher.fetchval(_BLOCKS))
        async with SessionManager(postgres_url) as manager:
            for _ in range(times):
                search = manager.search if session is None else manager.session(session).search
                assert (await search(query)).total > 0

        async def is_reported() -> bool:
            return bool(await watcher.fetchval(_CLIENTS) == 1)

        await eventually(is_reported)
        return int(await watcher.fetchval(_BLOCKS)) - before

    async def blocks_of_search(session: str | None) -> int:
        """Of a search that is not the first one, which loads the holes."""
        return await blocks_read(4, session) - await blocks_read(1, session)

    in_session, in_namespace = await blocks_of_search("source"), await blocks_of_search(None)
    async with SessionManager(postgres_url) as manager:
        await manager.fork("source", new_id="fork")
        await manager.session("source").delete_messages([f"m{number}" for number in range(7, MESSAGES, 5)])
        await manager.reindex()
    await watcher.execute("VACUUM ANALYZE")
    assert await blocks_of_search("source") <= 2 * in_session
    assert await blocks_of_search("fork") <= 2 * in_session
    assert await blocks_of_search(None) <= 2 * in_namespace
    await watcher.close()


@pytest.mark.parametrize("messages", [MESSAGES, 21_000], ids=["looked at one by one", "found by their words"])
async def test_a_common_word_is_looked_for_only_in_the_latest_messages_of_a_session(
    postgres_url: str, messages: int
) -> None:
    watcher = await asyncpg.connect(postgres_url)
    async with SessionManager(postgres_url) as manager:
        texts = [f"lamp {number}" for number in range(messages)]
        await manager.session("chat").append_all({"role": "user", "content": text} for text in texts)
        await manager.reindex()
    await watcher.execute("VACUUM ANALYZE frontdesk.search_texts")

    async def texts_read() -> int:
        async def is_reported() -> bool:
            """The figures of a connection are there when it has been closed."""
            return bool(await watcher.fetchval(_CLIENTS) == 1)

        await eventually(is_reported)
        return int(await watcher.fetchval(_READ_BY_INDEX))

    before = await texts_read()
    async with SessionManager(postgres_url) as manager:
        assert (await manager.session("chat").search("lamp")).hits
    # All of them are counted by the index over words alone.
    assert await texts_read() - before <= messages + 3 * MAX_COMMON_CANDIDATES
    await watcher.close()


async def test_vectors_of_scattered_messages_are_compared_without_reading_those_between_them(postgres_url: str) -> None:
    async with SessionManager(postgres_url) as manager:
        await manager.session("s").append_all({"role": "user", "content": str(number)} for number in range(MESSAGES))
    connection = await asyncpg.connect(postgres_url)
    wrapped = Connection(connection, Statements("frontdesk"))
    vector = array("f", [1.0, -1.0] * 4).tobytes()
    segment = await connection.fetchval("SELECT min(segment) FROM frontdesk.messages")
    addresses = [Address("message", segment, at) for at in range(MESSAGES)]
    extension = vectors.Extension()
    read = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'vector_codes'"
    try:
        await extension.prepare(wrapped, "default", 8)
        async with connection.transaction():
            await vectors.put(wrapped, "default", 8, [NewVector(address, vector) for address in addresses])
        await connection.execute("ANALYZE frontdesk.vector_codes")
        async with connection.transaction():
            before = await connection.fetchval(read)
            ranges = [(address, address) for address in addresses[::40]]
            near = await extension.nearest(wrapped, "default", vector, len(ranges), ranges)
            assert {one.address for one in near} == set(addresses[::40])
            assert await connection.fetchval(read) - before <= 2 * len(ranges)
    finally:
        await connection.close()
