"""Logs that go back: dumps that are restored, standbys that take over without the last changes, and copied files. No
event is skipped silently, and search finds what is written afterwards."""

from __future__ import annotations

import asyncio
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from frontdesk import ChangesRewoundError, Event, SessionManager
from tests.servers.postgres import PostgresServer
from tests.servers.replicas import Standby, copy_database
from tests.waiting import eventually


async def say(manager: SessionManager, *texts: str) -> None:
    for text in texts:
        await manager.append("s", {"id": text, "role": "user", "content": f"the word {text}"})


async def follow(manager: SessionManager, after: str | None = "start") -> list[Event]:
    """All events that are committed, also those that are not settled yet."""
    return [event async for event in manager.events(after=after, follow=False)]


def appended(events: list[Event]) -> list[str | None]:
    return [event.message_id for event in events if event.kind == "message.appended"]


async def found(manager: SessionManager, word: str) -> list[str | None]:
    return [hit.message_id for hit in await manager.search(word)]


async def check_goes_on(manager: SessionManager, seen: list[Event], *before: str) -> None:
    """A consumer that has seen events continues after them, and misses nothing that is written now."""
    await say(manager, "apple", "pear")
    after = await follow(manager, seen[-1].position)
    assert appended(after) == ["apple", "pear"]
    assert appended(await follow(manager)) == [*before, "apple", "pear"]
    for word in (*before, "apple", "pear"):
        assert await found(manager, word) == [word]
    assert (await manager.search_info()).pending == 0 or await found(manager, "pear") == ["pear"]


async def check_went_back(manager: SessionManager, position: str, *kept: str) -> None:
    """A consumer that has seen what is not there any more is told so, and where to continue."""
    await say(manager, "apple", "pear")
    with pytest.raises(ChangesRewoundError) as caught:
        await follow(manager, position)
    again = await follow(manager, caught.value.position)
    assert appended(again)[-2:] == ["apple", "pear"]
    assert set(appended(again)) <= {*kept, "apple", "pear"}
    for word in ("apple", "pear"):
        assert await found(manager, word) == [word]


# PostgreSQL


@pytest.fixture
def other_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server whose transactions have higher numbers than those of a new one."""
    with PostgresServer() as server:
        yield server


async def spend_transactions(url: str, number: int) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("SET synchronous_commit = off")
    for _ in range(number):
        await connection.execute("SELECT pg_current_xact_id()")
    await connection.close()


async def test_events_and_search_continue_after_dump_and_restore(
    own_server: PostgresServer, other_server: PostgresServer
) -> None:
    source, target = own_server.create_database(), other_server.create_database()
    await spend_transactions(source, 3_000)
    async with SessionManager(source) as manager:
        await say(manager, "one", "two")
        assert await found(manager, "two") == ["two"]
        await say(manager, "three")
        seen = await follow(manager)
        copy_database(own_server, source, target)
        await say(manager, "lost")
        lost = (await follow(manager))[-1].position
    async with SessionManager(target) as restored:
        await check_goes_on(restored, seen, "one", "two", "three")
        with pytest.raises(ChangesRewoundError) as caught:
            await follow(restored, lost)
        assert appended(await follow(restored, caught.value.position)) == ["apple", "pear"]


async def test_a_follower_notices_that_the_log_went_back(own_server: PostgresServer) -> None:
    """It follows while the database is replaced by an older dump of itself."""
    source, backup = own_server.create_database(), own_server.create_database()
    manager = SessionManager(source)
    await say(manager, "one")
    copy_database(own_server, source, backup)
    await say(manager, "lost")
    stream = manager.events(after="start")
    seen = [await anext(stream) for _ in range(3)]
    assert appended(seen) == ["one", "lost"]
    admin = await asyncpg.connect(own_server.url)
    name, copy = (url.rsplit("/", 1)[1] for url in (source, backup))
    await admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    await admin.execute(f'ALTER DATABASE "{copy}" RENAME TO "{name}"')
    await admin.close()
    await say(manager, "apple")
    with pytest.raises(ChangesRewoundError) as caught:
        await anext(stream)
    assert appended(await follow(manager, caught.value.position)) == ["apple"]
    await manager.close()


async def test_a_standby_that_takes_over_without_the_last_changes(own_server: PostgresServer) -> None:
    source = own_server.create_database()
    async with SessionManager(source) as manager:
        await say(manager, "one", "two")
        with Standby(own_server) as standby:
            reading = SessionManager(standby.url_of(source))

            async def is_copied() -> bool:
                return appended(await follow(reading)) == ["one", "two"]

            await eventually(is_copied)
            await stop_receiving(standby.url)
            await say(manager, *(f"lost-{number}" for number in range(11)))
            lost = (await follow(manager))[-1].position
            assert appended(await follow(reading)) == ["one", "two"]
            await asyncio.to_thread(standby.promote)
            # Connections from before the promotion, as well as new ones.
            await check_went_back(reading, lost, "one", "two")
            await reading.close()
            async with SessionManager(standby.url_of(source)) as promoted:
                assert appended(await follow(promoted)) == ["one", "two", "apple", "pear"]


async def stop_receiving(url: str) -> None:
    admin = await asyncpg.connect(url)
    await admin.execute("ALTER SYSTEM SET primary_conninfo = ''")
    await admin.execute("SELECT pg_reload_conf()")

    async def is_stopped() -> bool:
        return not await admin.fetchval("SELECT count(*) FROM pg_stat_wal_receiver")

    await eventually(is_stopped)
    await admin.close()


async def test_a_restart_changes_nothing_for_consumers(own_server: PostgresServer) -> None:
    async with SessionManager(own_server.create_database()) as manager:
        await say(manager, "one")
        seen = await follow(manager)
        await asyncio.to_thread(own_server.restart)
        assert await follow(manager, seen[-1].position) == []
        await check_goes_on(manager, seen, "one")


# SQLite and memory


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "desk.db"


async def test_a_sqlite_file_that_was_restored(file: Path) -> None:
    async with SessionManager(f"sqlite:///{file}") as manager:
        await say(manager, "one", "two")
        seen = await follow(manager)
    shutil.copy(file, file.with_suffix(".backup"))
    async with SessionManager(f"sqlite:///{file}") as manager:
        await say(manager, "lost", "lost too")
        lost = (await follow(manager))[-1].position
    shutil.copy(file.with_suffix(".backup"), file)
    async with SessionManager(f"sqlite:///{file}") as manager:
        await check_went_back(manager, lost, "one", "two")
        assert appended(await follow(manager, seen[-1].position)) == ["apple", "pear"]


async def test_a_sqlite_file_that_was_copied_while_it_was_open(file: Path) -> None:
    """The same process writes on, so that both copies have the epoch of the last position."""
    async with SessionManager(f"sqlite:///{file}") as manager:
        await say(manager, "one")
        await asyncio.to_thread(back_up, file, file.with_suffix(".backup"))
        await say(manager, "lost")
        lost = (await follow(manager))[-1].position
    async with SessionManager(f"sqlite:///{file.with_suffix('.backup')}") as copy:
        await check_went_back(copy, lost, "one")


def back_up(source: Path, target: Path) -> None:
    """In another process: a second SQLite library in this one would release the locks of the first."""
    program = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).backup(sqlite3.connect(sys.argv[2]))"
    subprocess.run([sys.executable, "-c", program, source, target], check=True)


async def test_the_position_of_another_memory_store() -> None:
    async with SessionManager("memory://") as one, SessionManager("memory://") as other:
        await say(one, "one")
        position = (await follow(one))[-1].position
        await check_went_back(other, position)


async def test_random_numbers_of_the_program_do_not_make_two_logs_alike(tmp_path: Path) -> None:
    """Tests and simulations seed `random`. Copies of a file that are written to afterwards are different logs."""
    path, copy = tmp_path / "agents.db", tmp_path / "copy.db"
    async with SessionManager(f"sqlite:///{path}") as manager:
        await say(manager, "one")
    shutil.copy(path, copy)
    positions = []
    for file in (path, copy):
        random.seed(7)
        async with SessionManager(f"sqlite:///{file}") as manager:
            await say(manager, "two")
            positions.append((await follow(manager))[-1].position)
    async with SessionManager(f"sqlite:///{copy}") as manager:
        with pytest.raises(ChangesRewoundError):
            await follow(manager, positions[0])
