"""Background work: what its loops wait with, and that nothing is left of it when a manager is closed."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from unittest.mock import AsyncMock

import asyncpg
import pytest

from frontdesk import Message, Session, SessionManager, States, StoreClosedError, TurnBusyError, sync
from frontdesk.config import background
from frontdesk.lifecycle.transitions import COMPACTION_LEASE
from frontdesk.stores import open_url
from tests.waiting import PATIENCE, eventually


@dataclass
class Counter:
    count: int = 0


async def test_a_replaced_sleep_makes_no_loop_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    replaced = AsyncMock()
    async with SessionManager("memory://").with_lifecycle(archive_after=timedelta(days=1)) as manager:
        with monkeypatch.context() as patched:
            patched.setattr(asyncio, "sleep", replaced)
            await manager.states(Counter).create("a")  # starts the sweep of states
            session = manager.session("a")
            async with session.turn():  # watches its lease
                with pytest.raises(TurnBusyError):
                    async with manager.session("a").turn(wait=0.1):
                        pass
        assert replaced.await_count == 0


async def use(manager: SessionManager, name: str) -> None:
    """A little of everything that starts tasks, threads or connections."""
    async with manager:
        session = manager.session("chat")
        await session.append({"id": name, "role": "user", "content": name})
        await manager.states(Counter).get_or_create("chat")
        await manager.search(name)
        async for event in manager.events(after="start"):
            if event.message_id == name:
                break
        assert [message.id for message in await session.history()][-1] == name


async def test_a_closed_manager_leaves_no_thread_and_no_task(tmp_path: Path) -> None:
    manager = SessionManager(f"sqlite:///{tmp_path}/agents.db")
    tasks = asyncio.all_tasks()
    for name in ("m1", "m2"):
        await use(manager, name)
        assert [thread.name for thread in threading.enumerate() if thread.name.startswith("frontdesk-")] == []
        await eventually(lambda: asyncio.all_tasks() == tasks)


async def test_a_closed_manager_leaves_no_connection(postgres_url: str) -> None:
    manager = SessionManager(f"{postgres_url}?application_name=desk")
    watcher = await asyncpg.connect(postgres_url)

    async def is_alone() -> bool:
        query = "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'desk'"
        return bool(await watcher.fetchval(query))

    for name in ("m1", "m2"):
        await use(manager, name)
        await eventually(is_alone)
    await watcher.close()


def test_a_manager_can_be_opened_again_on_another_event_loop(tmp_path: Path, postgres_url: str, redis_url: str) -> None:
    for url in ("memory://", f"sqlite:///{tmp_path}/agents.db", postgres_url):
        manager = SessionManager(url)
        states = manager.states(Counter, store=redis_url)

        async def count(manager: SessionManager = manager, states: States[Counter] = states, url: str = url) -> int:
            async with manager:
                await use_states(states, url)
                await manager.append("chat", {"role": "user", "content": "Hi"})
                return len(await manager.history("chat"))

        assert [asyncio.run(count()) for _ in range(3)] == [1, 2, 3]


async def use_states(states: States[Counter], id: str) -> None:
    await states.get_or_create(id)
    await states.delete(id)


def test_the_sync_manager_closes_when_a_model_hangs_and_can_be_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "GRACE", 0.05)
    asked = threading.Event()

    async def hang(prompt: str) -> str:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    manager = sync.SessionManager("memory://").with_token_counter(len)
    manager.with_compaction(hang, max_tokens=100, protect_head=1, tail_tokens=20)
    messages = [{"id": f"m{number}", "role": "user", "content": "x" * 20} for number in range(10)]
    with manager:
        manager.append_all("chat", messages)
        assert asked.wait(PATIENCE)
        stream = manager.events(after="start")
        assert next(stream).kind == "session.created"
    with pytest.raises(StoreClosedError):
        manager.list()
    assert {event.kind for event in stream} <= {"message.appended", "compaction.started", "compaction.failed"}
    with manager:
        assert len(list(manager.session("chat").transcript())) == 10


async def test_a_task_that_raises_is_logged_with_its_name_and_without_text(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise LookupError("PIN " + "4929")

    work = background.Background()
    work.spawn(fail(), "index")
    await eventually(lambda: bool(caplog.records))
    await work.close()
    assert "background task 'index' failed: LookupError" in caplog.text
    assert "in fail" in caplog.text
    assert "4929" not in caplog.text.replace('"4929"', "")  # only in the line of code that is shown


def test_an_event_loop_that_ends_before_background_work_begins_does_not_stop_later_work() -> None:
    store = open_url("memory://")
    heard: list[str] = []

    class Listener:
        async def on_message(self, session: Session, message: Message) -> None:
            heard.append(message.id)

    async def summarise(prompt: str) -> str:
        return "what was said so far"

    manager = SessionManager(store).with_compaction(summarise, max_messages=6)
    manager.register_hook(Listener())

    def message(number: int, text: str) -> dict[str, str]:
        role = "assistant" if number % 2 else "user"
        return {"id": f"m{number}", "role": role, "content": text + " word" * 30}

    async def say(number: int) -> None:
        await manager.append("chat", message(number, f"message {number}"))

    async def edit_and_say(number: int) -> None:
        await manager.session("chat").update_message(message(0, f"edit {number}"))
        await say(number)

    async def is_done() -> bool:
        return len(await manager.history("chat")) <= 6 and "m40" in heard

    async def go_on() -> None:
        await say(40)
        await eventually(is_done)

    for number in range(20):
        asyncio.run(say(number))  # when it ends, the loop cancels what it has started
        assert asyncio.run(store.get_lease("default", "chat", COMPACTION_LEASE)) is None
    for number in range(20, 40):
        asyncio.run(edit_and_say(number))
    asyncio.run(go_on())
