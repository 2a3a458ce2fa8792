"""Walks over all sessions miss nothing while two other processes write as fast as they can."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from frontdesk import SessionInfo, SessionManager
from tests.stress.busy_worker import TASKS, key_of

WORKER = Path(__file__).with_name("busy_worker.py")
NAMESPACE = "walks"
GUESTS = 400
PATIENCE = 120.0


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/walks.db"
    found: str = request.getfixturevalue("postgres_url")
    return found


@asynccontextmanager
async def busy_writers(url: str) -> AsyncIterator[None]:
    """Two processes that write until the end of the block."""
    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, str(WORKER), url, NAMESPACE, name, str(GUESTS)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for name in ("one", "two")
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            async with asyncio.timeout(PATIENCE):
                for _ in range(TASKS):
                    assert await process.stdout.readline() == b"writing\n"
        yield
        assert [process.returncode for process in processes] == [None, None], "both were writing to the end"
        for process in processes:
            async with asyncio.timeout(PATIENCE):
                await process.communicate(b"")
        assert [process.returncode for process in processes] == [0, 0]
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def made_sessions(manager: SessionManager) -> set[str]:
    """The ids of a session for each guest."""
    made = await asyncio.gather(*(manager.create(key=key_of(f"guest-{number}")) for number in range(GUESTS)))
    return {session.id for session in made}


async def pages(manager: SessionManager) -> AsyncIterator[SessionInfo]:
    cursor = None
    while True:
        page = await manager.list(agent="bot", order="created", limit=9, cursor=cursor)
        for info in page:
            yield info
        cursor = page.next_cursor
        if cursor is None:
            return


async def test_every_session_that_was_there_is_walked_exactly_once(url: str) -> None:
    async with SessionManager(url, namespace=NAMESPACE) as manager:
        made = await made_sessions(manager)
        async with busy_writers(url):
            for walk in (manager.iterate(limit=7), manager.iterate(agent="bot", limit=7), pages(manager)):
                seen = [info.id async for info in walk]
                assert len(seen) == len(set(seen))
                assert made <= set(seen)


async def test_an_erasure_removes_every_session_that_was_there(url: str) -> None:
    async with SessionManager(url, namespace=NAMESPACE) as manager:
        made = await made_sessions(manager)
        await manager.create(id="of nobody")
        async with busy_writers(url):
            report = await manager.erase(agent="bot")
            assert report.sessions >= GUESTS
            left = {info.id async for info in manager.iterate()}
            assert not made & left
        report = await manager.erase(agent="bot")
        assert report.remaining == 0
        assert [info.id async for info in manager.iterate()] == ["of nobody"]
