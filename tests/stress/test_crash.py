"""A writing process is killed at random moments: everything acknowledged is stored, and the database is valid."""

from __future__ import annotations

import random
import subprocess
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from frontdesk import SessionManager
from tests.stress.proof import check_namespace, working

ROUNDS = range(10)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "crash.db"


def killed(url: str, namespace: str, work: str, name: str, chance: random.Random) -> list[list[str]]:
    """What a worker had acknowledged, as [session, message], when it was killed shortly after printing some lines."""
    with working(url, namespace, work, name) as worker:
        assert worker.stdout is not None
        lines = [worker.stdout.readline() for _ in range(chance.randrange(1, 40))]
        with suppress(subprocess.TimeoutExpired):
            worker.wait(chance.uniform(0, 0.005))
        worker.kill()
        lines += worker.stdout.readlines()
    return [line.split() for line in lines if line.endswith("\n")]


def check_integrity(database: Path) -> None:
    connection = apsw.Connection(str(database))
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()


@pytest.mark.parametrize("seed", range(5))
async def test_every_acknowledged_append_survives_ten_of_fifty_kills(database: Path, seed: int) -> None:
    url = f"sqlite:///{database}"
    chance = random.Random(seed)
    for number in ROUNDS:
        acknowledged = killed(url, f"round{number}", "many", f"w{number}", chance)
        assert acknowledged
        async with SessionManager(url, namespace=f"round{number}") as manager:
            paths = await check_namespace(manager)
        for session_id, message_id in acknowledged:
            assert paths[session_id].count(message_id) == 1
        check_integrity(database)
    async with SessionManager(url, namespace="round0") as manager:
        assert await check_namespace(manager)


@pytest.mark.parametrize("seed", range(2))
async def test_all_sessions_are_valid_after_kills_among_deletes_forks_and_overlays(database: Path, seed: int) -> None:
    url = f"sqlite:///{database}"
    chance = random.Random(seed)
    for number in ROUNDS:
        acknowledged = killed(url, f"round{number}", "change", f"w{number}", chance)
        async with SessionManager(url, namespace=f"round{number}") as manager:
            paths = await check_namespace(manager)
            for session_id, message_id in acknowledged:
                assert (await manager.session(session_id).get_message(message_id)).id == message_id
        assert paths
        check_integrity(database)


@pytest.mark.parametrize("seed", range(3))
async def test_after_kills_while_indexing_nothing_is_missing_from_search(database: Path, seed: int) -> None:
    url = f"sqlite:///{database}"
    chance = random.Random(seed)
    for number in range(4):
        acknowledged = killed(url, "room", "index", f"w{seed}-{number}", chance)
        assert acknowledged
        async with SessionManager(url, namespace="room") as manager:
            for name in ("s0", "s1"):
                stored = [message.id async for message in manager.session(name).transcript()]
                newest = await manager.session(name).search("lamp", limit=5_000, newest=True)
                assert {hit.message_id for hit in newest} >= set(stored[-1_000:])
                wanted = {message_id for session_id, message_id in acknowledged if session_id == name}
                assert wanted <= set(stored)
            assert (await manager.search("lamp")).total >= min(1_000, await _texts(manager))
        check_integrity(database)
    connection = apsw.Connection(str(database))
    connection.execute("INSERT INTO search_terms (search_terms) VALUES ('integrity-check')")
    connection.close()


async def _texts(manager: SessionManager) -> int:
    return sum([await manager.session(name).path_length() for name in ("s0", "s1")])
