"""Many processes change one state: no change is lost, and exactly one creates it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from frontdesk import SessionManager
from tests.servers.redis import RedisServer
from tests.stress.state_worker import Counter

WORKER = Path(__file__).with_name("state_worker.py")
PROCESSES = 8
EACH = 200


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that several processes can share."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/states.db"
    found: str = request.getfixturevalue("postgres_url" if request.param == "postgres" else "own_redis_url")
    return found


@pytest.fixture
def own_redis_url() -> Iterator[str]:
    with RedisServer() as server:
        yield server.url


async def test_200_increments_from_each_of_8_processes_make_1600(url: str) -> None:
    command = [sys.executable, str(WORKER), url, str(EACH)]
    with ExitStack() as stack:
        workers = []
        for _ in range(PROCESSES):
            workers.append(stack.enter_context(subprocess.Popen(command, stderr=subprocess.PIPE, text=True)))
            stack.callback(workers[-1].kill)
        outputs = await asyncio.gather(*(asyncio.to_thread(worker.communicate) for worker in workers))
    ended = [(worker.returncode, errors) for worker, (_, errors) in zip(workers, outputs, strict=True)]
    assert ended == [(0, "")] * PROCESSES
    async with SessionManager("memory://", namespace="count") as manager:
        states = manager.states(Counter, store=url)
        assert await states.get("chat") == Counter(PROCESSES * EACH)
        assert (await states.info("chat")).version == PROCESSES * EACH + 1
