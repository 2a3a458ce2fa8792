"""Events across processes: a reader here, writers elsewhere; every event exactly once, in the order of each session."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest

from frontdesk import Event, SessionManager
from tests.stress.proof import check_namespace, working
from tests.stress.worker import SESSIONS, TASKS

PROCESSES = 2
EACH = 20


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A durable store that several processes can share."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/events.db"
    postgres_url: str = request.getfixturevalue("postgres_url")
    return postgres_url


async def read(manager: SessionManager, many: int) -> list[Event]:
    """The first events, by readers that stop now and then and are continued by others."""
    events: list[Event] = []
    while len(events) < many:
        async for event in manager.events(after=events[-1].position if events else "start"):
            events.append(event)
            if len(events) == many or len(events) % 97 == 0:
                break
    return events


async def test_a_reader_gets_every_event_of_other_processes_once_and_in_order(url: str) -> None:
    many = SESSIONS + PROCESSES * TASKS * EACH
    async with SessionManager(url) as manager:
        reading = asyncio.create_task(read(manager, many))
        with ExitStack() as stack:
            workers = [stack.enter_context(working(url, "default", "many", f"w{n}", EACH)) for n in range(PROCESSES)]
            outputs = await asyncio.gather(*(asyncio.to_thread(worker.communicate) for worker in workers))
        acknowledged = sorted(line for lines, _ in outputs for line in lines.splitlines())
        events = await reading
        told = [event for event in events if event.kind == "message.appended"]
        assert sorted(f"{event.session_id} {event.message_id}" for event in told) == acknowledged
        assert sorted(event.kind for event in events if event not in told) == ["session.created"] * SESSIONS
        for session_id, path in (await check_namespace(manager)).items():
            assert [event.message_id for event in told if event.session_id == session_id] == path
        rest = [event async for event in manager.events(after=events[-1].position, follow=False)]
        assert rest == []
