"""Closing a manager, and opening it again."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from frontdesk import ConfigurationError, Session, SessionManager, Store, StoreClosedError
from frontdesk.config import background
from tests.public_api.scripted_models import Scripted, compacting, said
from tests.public_api.steps import say, user, view
from tests.waiting import PATIENCE, eventually


@dataclass
class Counter:
    count: int = 0


class ClosingTests:
    @pytest.fixture
    def short_grace(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(background, "GRACE", 0.05)

    async def test_a_manager_can_be_opened_again(self, store: Store, namespace: str) -> None:
        manager = SessionManager(store, namespace=namespace).with_context("soul", default_content="Be kind.")
        session = manager.session("chat")
        async with manager:
            await say(session, "m1")
        for work in (manager.list, manager.position, session.history, lambda: session.append(user("m2"))):
            with pytest.raises(StoreClosedError, match="async with"):
                await work()
        for number in (2, 3):
            async with manager:
                await say(session, f"m{number}")
                assert await view(session) == [f"m{each}" for each in range(1, number + 1)]
                assert "Be kind." in await session.freeze_system_prompt()
                with pytest.raises(ConfigurationError):
                    manager.with_context("more")

    async def test_a_session_without_a_manager_can_be_opened_again(self, store: Store) -> None:
        session = Session.create(store).for_session(f"chat-{id(store)}")
        async with session:
            await say(session, "m1")
        with pytest.raises(StoreClosedError):
            await session.history()
        async with session:
            assert await view(session) == ["m1"]
            await session.clear_messages()

    async def test_background_work_runs_again_after_opening_again(self, store: Store, namespace: str) -> None:
        model = Scripted()
        started: list[str] = []

        class Hook:
            def on_session_start(self, session: Session) -> None:
                started.append(session.id)

        manager = SessionManager(store, namespace=namespace).with_token_counter(len)
        manager.with_compaction(model, max_tokens=1000, protect_head=1, tail_tokens=200)
        manager.with_lifecycle(archive_after=timedelta(days=1), every=timedelta(milliseconds=10))
        manager.register_hook(Hook())
        for number in (1, 2):
            async with manager:
                await manager.session(f"chat{number}").append_all([said(each) for each in range(1, 10)])
                await model.asked(number)
                await eventually(lambda number=number: len(started) == number)  # type: ignore[misc]
                assert "sweep" in {task.get_name() for task in asyncio.all_tasks()}
        assert started == ["chat1", "chat2"]

    @pytest.mark.usefixtures("short_grace")
    async def test_closing_cancels_a_model_that_hangs(self, store: Store, namespace: str) -> None:
        hanging = Scripted()
        hanging.hold()
        async with asyncio.timeout(PATIENCE):
            async with compacting(store, namespace, hanging) as manager:
                await manager.session("chat").append_all([said(each) for each in range(1, 10)])
                await hanging.asked()
        async with SessionManager(store, namespace=namespace) as manager:
            events = [event async for event in manager.events(after="start", follow=False)]
            assert [event.data.get("error") for event in events if event.kind == "compaction.failed"] == [
                "CancelledError"
            ]
            assert [message.id for message in await manager.session("chat").history()][-1] == "m9"
            info = await manager.get("chat")
            assert info is not None
            assert info.status == "active"  # the lease was released

    @pytest.mark.usefixtures("short_grace")
    async def test_closing_does_not_wait_for_work_that_ignores_its_cancellation(
        self, store: Store, namespace: str
    ) -> None:
        stop = asyncio.Event()
        asked = asyncio.Event()

        async def stubborn(prompt: str) -> str:
            asked.set()
            while not stop.is_set():
                try:
                    await stop.wait()
                except asyncio.CancelledError:
                    pass
            return "late"

        async with asyncio.timeout(PATIENCE):
            async with compacting(store, namespace, stubborn) as manager:
                await manager.session("chat").append_all([said(each) for each in range(1, 10)])
                await asked.wait()
        stop.set()
        await eventually(lambda: not [task for task in asyncio.all_tasks() if task.get_name().startswith("compact ")])

    async def test_what_can_finish_in_time_finishes(self, store: Store, namespace: str) -> None:
        model = Scripted()
        model.hold()
        async with compacting(store, namespace, model) as manager:
            session = manager.session("chat")
            await session.append_all([said(each) for each in range(1, 10)])
            await model.asked()
            closing = asyncio.create_task(manager.close())
            await asyncio.sleep(0)
            model.release()
            await closing
        async with SessionManager(store, namespace=namespace) as again:
            assert len(await again.session("chat").compactions()) == 1

    async def test_closing_leaves_no_task(self, store: Store, namespace: str) -> None:
        before = asyncio.all_tasks()
        manager = SessionManager(store, namespace=namespace).with_lifecycle(archive_after=timedelta(days=1))
        async with manager:
            await say(manager.session("chat"), "m1")
            await manager.states(Counter).create("chat")
            await manager.search("m1")
            stream: Any = manager.events()
            reading = asyncio.create_task(anext(stream, None))
            number = 2
            while not reading.done():
                await say(manager.session("chat"), f"m{number}")
                number += 1
                await asyncio.sleep(0.01)
        await stream.aclose()
        await store.close()  # PostgreSQL notifies in a task of its own
        await eventually(lambda: asyncio.all_tasks() == before)
