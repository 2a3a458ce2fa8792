"""Workers with stores of their own, on one file or one database, change a session at the same time. Each change is
bound to the head that it read: none is lost, none is made twice, and no reader sees a state in between."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from frontdesk import HeadMovedError, Session, SessionManager
from tests.servers.postgres import PostgresServer


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/agents.db"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    url = server.create_database()
    yield url
    server.drop_database(url)


def said(message_id: str) -> dict[str, str]:
    return {"id": message_id, "role": "user", "content": message_id}


async def push_and_pop(session: Session, worker: int, pushed: set[str], popped: list[str]) -> None:
    chance = random.Random(worker)
    for step in range(20):
        if chance.random() < 0.6:
            await session.append(said(f"w{worker}-{step}"))
            pushed.add(f"w{worker}-{step}")
        elif (message := await session.pop()) is not None:
            popped.append(message.id)


async def test_workers_that_push_and_pop_lose_and_duplicate_nothing(url: str) -> None:
    pushed: set[str] = set()
    popped: list[str] = []
    async with SessionManager(url) as one, SessionManager(url) as two:
        sessions = [manager.session("chat") for manager in (one, two)]
        await asyncio.gather(*(push_and_pop(sessions[n % 2], n, pushed, popped) for n in range(4)))
        left = [message.id async for message in sessions[0].transcript()]
        assert len(popped) == len(set(popped))
        assert {*popped, *left} == pushed
        assert len(popped) + len(left) == len(pushed)
        assert (await sessions[1].info()).message_count == len(left)


async def rewrite(session: Session, worker: int, written: list[list[str]]) -> None:
    """Read the list, and hand it over with one message more or less, only if nobody has written since."""
    chance = random.Random(worker)
    for step in range(15):
        names = [message.id for message in await session.history()]
        changed = [*names[: len(names) - chance.choice((0, 0, 1))], f"w{worker}-{step}"]
        try:
            expected = names[-1] if names else None
            await session.replace_messages([said(name) for name in changed], expected_head=expected)
        except HeadMovedError:
            continue
        written.append(changed)


async def test_workers_that_hand_over_whole_lists_leave_one_that_was_written(url: str) -> None:
    written: list[list[str]] = []
    async with SessionManager(url) as one, SessionManager(url) as two:
        sessions = [manager.session("chat") for manager in (one, two)]
        work = asyncio.gather(*(rewrite(sessions[n % 2], n, written) for n in range(4)))
        while not work.done():
            is_written = bool(written)
            names = [message.id for message in await sessions[0].history()]
            assert len(names) == len(set(names))
            assert names or not is_written
            await asyncio.sleep(0)
        await work
        names = [message.id for message in await sessions[1].history()]
        # Each list that was written ends with a message of its own, and continues one that was written before it.
        assert names in written
        assert (await sessions[0].info()).message_count == len(names)
        assert all(changed[:-1] == [] or changed[:-1] in written for changed in written)
