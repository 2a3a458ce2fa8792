"""The life cycle of sessions over several processes: an end is reported once, and a key has one current session."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from frontdesk import SessionKey, SessionManager
from tests.stress.proof import check_namespace

WORKER = Path(__file__).with_name("life_worker.py")
PROCESSES = 4
SESSIONS = 200
KEYS, ROUNDS = 3, 30
PATIENCE = 120.0


async def started(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, str(WORKER), *arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


async def said(processes: list[asyncio.subprocess.Process]) -> list[str]:
    """Everything that each process prints until it ends."""
    async with asyncio.timeout(PATIENCE):
        answers = await asyncio.gather(*(process.communicate(b"") for process in processes))
    assert [process.returncode for process in processes] == [0] * len(processes)
    return [line for out, _ in answers for line in out.decode().splitlines()]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/life.db"
    found: str = request.getfixturevalue("postgres_url")
    return found


async def test_of_many_sweeps_one_archives_a_session_and_calls_the_hook_once(url: str) -> None:
    async with SessionManager(url) as manager:
        for number in range(SESSIONS):
            await manager.append(f"s{number}", {"role": "user", "content": "hello"})
        processes = [await started(url, "sweep") for _ in range(PROCESSES)]
        async with asyncio.timeout(PATIENCE):
            while (await manager.stats()).by_status.get("archived") != SESSIONS:  # noqa: ASYNC110 (others do it)
                await asyncio.sleep(0.05)
        told = Counter(await said(processes))
        assert told == {f"s{number} timeout": 1 for number in range(SESSIONS)}
        ended = [
            event.session_id
            async for event in manager.events(after="start", follow=False)
            if event.data.get("status") == "archived"
        ]
        assert Counter(ended) == {f"s{number}": 1 for number in range(SESSIONS)}


async def test_of_many_new_sessions_under_a_key_none_is_lost_and_one_is_current(url: str) -> None:
    async with SessionManager(url) as manager:
        await manager.stats()
        begun = await said([await started(url, "new", str(KEYS), str(ROUNDS)) for _ in range(PROCESSES)])
        assert len(set(begun)) == PROCESSES * ROUNDS
        rows = [info async for info in manager.iterate(limit=500)]
        assert {info.id for info in rows} > set(begun)
        for number in range(KEYS):
            key = SessionKey("bot", "web", f"guest-{number}")
            current = await manager.get(key)
            living = [info.id for info in rows if info.key == key and info.status != "archived"]
            assert current is not None
            assert living == [current.id]
        assert {info.end_reason for info in rows if info.status == "archived"} == {"new"}
        assert sum(info.message_count for info in rows) == PROCESSES * ROUNDS
        await check_namespace(manager)
