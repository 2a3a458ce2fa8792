"""Turns over several processes: one after the other in the order of arrival, and taken from a holder that was killed or
stopped, whose late write is refused."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from frontdesk import SessionManager
from frontdesk.moments import to_datetime
from frontdesk.store import TURN, LeaseWanted
from tests.stress.proof import check_namespace
from tests.waiting import eventually

WORKER = Path(__file__).with_name("turn_worker.py")
NAMESPACE = "turns"
TTL = 5.0
"""seconds; a holder that gets no processor for half of them loses its turn"""
PATIENCE = 120.0


class Worker:
    """A process that takes turns on request."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    def send(self, *words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{' '.join(words)}\n".encode())

    async def read_line(self) -> str:
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            return (await self.process.stdout.readline()).decode().strip()

    async def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            assert await self.process.wait() == 0


@asynccontextmanager
async def worker(url: str, ttl: float = TTL) -> AsyncIterator[Worker]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(WORKER), url, NAMESPACE, str(ttl), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        started = Worker(process)
        assert await started.read_line() == "ready"
        yield started
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/turns.db"
    found: str = request.getfixturevalue("postgres_url")
    return found


async def end_of_turn(manager: SessionManager) -> int | None:
    """When the turn that is held now ends, unless it is renewed; None if nobody holds it."""
    lease = await manager._runtime.store.get_lease(NAMESPACE, "chat", TURN)
    return None if lease is None else lease.expires_at


async def said(manager: SessionManager) -> list[str]:
    return (await check_namespace(manager))["chat"]


async def test_a_killed_holder_is_replaced_after_its_lease_expires(url: str) -> None:
    async with worker(url) as dies, worker(url) as waits, SessionManager(url, namespace=NAMESPACE) as manager:
        dies.send("hold", "first")
        assert await dies.read_line() == "held first"
        waits.send("take", "second")
        ends = [await end_of_turn(manager)]

        async def is_renewed() -> bool:
            ends.append(await end_of_turn(manager))
            return ends[-1] != ends[0]

        await eventually(is_renewed)
        assert await said(manager) == ["first"], "a living holder is not replaced"
        dies.process.kill()
        assert await waits.read_line() == "took second"
        assert await said(manager) == ["first", "second-asked", "second-answered"]
        asked = await manager.session("chat").get_message("second-asked")
        assert ends[-1] is not None
        assert asked.created_at >= to_datetime(ends[-1])


async def test_recover_frees_the_turn_of_a_process_that_was_killed(url: str) -> None:
    async with worker(url, ttl=3600) as dies, SessionManager(url, namespace=NAMESPACE) as manager:
        dies.send("hold", "first")
        assert await dies.read_line() == "held first"
        assert (await manager.recover()).leases_freed == 0
        dies.process.kill()
        await dies.process.wait()
        assert (await manager.recover()).leases_freed == 1
        async with manager.session("chat").turn(on_busy="reject") as turn:
            await turn.append({"id": "second", "role": "user", "content": "second"})
        assert await said(manager) == ["first", "second"]


async def test_a_late_write_of_a_holder_that_was_taken_for_dead_is_refused(url: str) -> None:
    async with worker(url) as stopped, worker(url) as takes_over, SessionManager(url, namespace=NAMESPACE) as manager:
        stopped.send("hold", "first")
        assert await stopped.read_line() == "held first"
        stopped.send("write", "in-time")
        assert await stopped.read_line() == "written in-time"
        stopped.process.send_signal(signal.SIGSTOP)
        stopped.send("write", "late")
        takes_over.send("hold", "second")
        assert await takes_over.read_line() == "held second"
        stopped.process.send_signal(signal.SIGCONT)
        assert await stopped.read_line() == "lost late"
        takes_over.send("write", "third")
        assert await takes_over.read_line() == "written third"
        assert await said(manager) == ["first", "in-time", "second", "third"]


async def test_twenty_waiters_in_four_processes_are_served_in_the_order_of_arrival(url: str) -> None:
    names = [f"task{n}" for n in range(20)]
    async with AsyncExitStack() as stack:
        manager = await stack.enter_async_context(SessionManager(url, namespace=NAMESPACE))
        workers = [await stack.enter_async_context(worker(url)) for _ in range(4)]
        async with manager.session("chat").turn():
            for n, name in enumerate(names):
                workers[n % 4].send("take", name)
                await line_of(manager, n + 1)
        for each in workers:
            await each.end()
        assert await said(manager) == [f"{name}-{what}" for name in names for what in ("asked", "answered")]


async def line_of(manager: SessionManager, length: int) -> None:
    """Wait until this number of waiters is in the queue."""
    looks = LeaseWanted(namespace=NAMESPACE, session_id="chat", name=TURN, holder="looks", ttl=1)
    async with asyncio.timeout(PATIENCE):
        for pause in count(1):
            if (await manager._runtime.store.queue_lease(looks)).ahead >= length:
                return
            await asyncio.sleep(pause / 200)


async def test_messages_queued_from_four_processes_are_each_answered_once(url: str) -> None:
    names = [f"q{n}" for n in range(60)]
    async with AsyncExitStack() as stack:
        manager = await stack.enter_async_context(SessionManager(url, namespace=NAMESPACE))
        workers = [await stack.enter_async_context(worker(url)) for _ in range(4)]
        for n, name in enumerate(names):
            workers[n % 4].send("ask", name)
            workers[(n + 1) % 4].send("ask", name)
        for each in workers:
            await each.end()
        messages = await said(manager)
        assert sorted(messages[::2]) == sorted(names)
        assert messages[1::2] == [f"{name}-answered" for name in messages[::2]]


async def test_a_question_queued_for_a_holder_that_is_killed_is_answered_by_the_next(url: str) -> None:
    async with worker(url) as dies, worker(url) as next_one, SessionManager(url, namespace=NAMESPACE) as manager:
        dies.send("hold", "first")
        assert await dies.read_line() == "held first"
        next_one.send("ask", "early")
        assert await next_one.read_line() == "asked early"
        dies.process.kill()

        async def is_over() -> bool:
            return await end_of_turn(manager) is None

        await eventually(is_over)
        next_one.send("ask", "later")
        assert await next_one.read_line() == "asked later"
        assert await said(manager) == ["first", "early", "early-answered", "later", "later-answered"]
