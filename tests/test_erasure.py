"""After an erasure no byte is left in the files of SQLite and the tables of PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from frontdesk import SessionKey, SessionManager
from tests.public_api.erasure import everything
from tests.servers.postgres import PostgresServer

PEER = "zebedee-quux"
WORDS = ("xylophonist", "yttrium", "zymurgy")


async def fill(manager: SessionManager) -> list[str]:
    """Sessions of a person among those of others; returns everything that must not be found afterwards."""
    traces = [PEER, *WORDS]
    for number, word in enumerate(WORDS):
        for other in range(20):
            stranger = await manager.get_or_create(SessionKey("bot", "web", f"stranger-{other}"))
            await stranger.append({"role": "user", "content": f"ordinary words {number} {other} " * 20})
        session = await everything(manager, SessionKey("bot", "web", PEER, str(number)), word)
        traces.append(session.id)
        await session.append({"role": "user", "content": f"a long text about {word} " * 400})
        fork = await manager.fork(session.id, f"{word}-1", name=f"fork of {word}")
        await fork.append({"role": "user", "content": f"{word} on another way"})
        traces.append(fork.id)
        await manager.reindex()
    async with manager.session(traces[-1]).turn():
        pass
    await manager.archive(traces[-2])
    return traces


async def erased(url: str) -> list[bytes]:
    async with SessionManager(url) as manager:
        traces = await fill(manager)
        report = await manager.erase(peer=PEER)
        assert (report.sessions, report.messages, report.summaries) == (6, 21, 3)
        assert (await manager.search("ordinary", limit=1)).total == 60
        assert (await manager.stats()).sessions == 20
    return [trace.encode() for trace in traces]


def found(folder: Path, traces: list[bytes]) -> set[tuple[str, bytes]]:
    return {
        (file.name, trace)
        for file in folder.iterdir()
        for trace in traces
        if trace in file.read_bytes() or trace in file.read_bytes().replace(b"\0", b"")
    }


async def test_no_byte_is_left_in_the_files_of_sqlite_while_they_are_in_use(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/sessions.db"
    async with SessionManager(url) as manager:
        traces = [trace.encode() for trace in await fill(manager)]
        assert {trace for _, trace in await asyncio.to_thread(found, tmp_path, traces)} == set(traces)
        async with SessionManager(
            url
        ) as beside:  # another connection keeps the write-ahead log and its index from being removed
            await beside.list()
            await manager.erase(peer=PEER)
            assert {file.name for file in await asyncio.to_thread(lambda: [*tmp_path.iterdir()])} >= {
                "sessions.db",
                "sessions.db-wal",
            }
            assert await asyncio.to_thread(found, tmp_path, traces) == set()


async def test_no_byte_is_left_of_what_was_changed_or_deleted_before(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/sessions.db"
    async with SessionManager(url) as manager:
        session = await manager.create(key=SessionKey("bot", "web", PEER))
        await session.append({"id": "m1", "role": "user", "content": "xylophonist " * 2_000})
        await manager.reindex()
        await session.update_message({"id": "m1", "role": "user", "content": "yttrium"})
        await session.append({"id": "m2", "role": "user", "content": "zymurgy " * 2_000})
        await session.delete_messages(["m2"])
        await manager.delete(session.id)
        await manager.erase(peer=PEER)
        assert await asyncio.to_thread(found, tmp_path, [trace.encode() for trace in (PEER, *WORDS)]) == set()


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)


async def test_no_row_is_left_in_any_table_of_postgres_nor_in_its_statistics(database: str) -> None:
    traces = await erased(database)
    connection = await asyncpg.connect(database)
    try:
        tables = await connection.fetch(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname NOT IN"
            " ('pg_catalog', 'information_schema') UNION ALL SELECT 'pg_stats'"
        )
        for (table,) in tables:
            rows = await connection.fetch(f"SELECT t::text FROM {table} t")
            for (text,) in rows:
                assert not [trace for trace in traces if trace in text.encode()], table
        assert len(tables) > 20
        unswept = await connection.fetch("SELECT relname FROM pg_stat_user_tables WHERE last_vacuum IS NULL")
        assert {"sessions", "messages", "search_texts", "changes", "documents"}.isdisjoint(name for (name,) in unswept)
    finally:
        await connection.close()
