"""`/new`: one session follows another under a key. It waits for the turn, nothing that was said is lost, and callers
that wait by key continue in the new session."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from frontdesk import (
    InvalidInputError,
    InvalidKeyError,
    Session,
    SessionEndedError,
    SessionKey,
    SessionManager,
    Store,
    TurnBusyError,
    TurnLostError,
)
from frontdesk.store import TURN, LeaseWanted
from tests.public_api.steps import path, say, user
from tests.waiting import PATIENCE, eventually

ADA = SessionKey("bot", "web", "ada")


async def waits_in_queue(store: Store, manager: SessionManager, session_id: str, count: int = 1) -> None:
    """Wait until callers wait for the turn of a session."""
    looks = LeaseWanted(namespace=manager.namespace, session_id=session_id, name=TURN, holder="looks", ttl=1)

    async def is_long() -> bool:
        return (await store.queue_lease(looks)).ahead >= count

    await eventually(is_long)


class SuccessionTests:
    async def test_new_waits_for_the_holder_of_the_turn(self, store: Store, manager: SessionManager) -> None:
        async with manager.session(ADA).turn() as turn:
            await turn.append(user("question"))
            new = asyncio.create_task(manager.new(ADA))
            await waits_in_queue(store, manager, turn.id)
            await turn.append(user("answer"))
            assert not new.done()
        second = await new
        assert await path(manager.session(turn.id)) == ["question", "answer"]
        assert (await manager.session(turn.id).info()).end_reason == "new"
        assert await path(second) == []
        async with manager.session(ADA).turn(on_busy="reject") as later:
            assert later.id == second.id

    async def test_a_caller_that_waits_for_a_turn_by_key_continues_in_the_new_session(
        self, store: Store, manager: SessionManager
    ) -> None:
        bound = manager.session(ADA)
        await say(bound, "first")

        async def ask(session: Session, name: str) -> str:
            async with session.turn(wait=PATIENCE) as turn:
                await turn.append(user(name))
                assert await path(turn) == await path(manager.session(ADA))
                return turn.id

        async with bound.turn() as turn:
            new = asyncio.create_task(manager.new(ADA))
            await waits_in_queue(store, manager, turn.id)
            asked = [asyncio.create_task(ask(manager.session(ADA), "by key")), asyncio.create_task(ask(bound, "bound"))]
            await waits_in_queue(store, manager, turn.id, 3)
        second = await new
        assert set(await asyncio.gather(*asked)) == {second.id}
        assert sorted(await path(second)) == ["bound", "by key"]
        assert await path(manager.session(turn.id)) == ["first"]

    async def test_a_handle_stays_with_its_session_and_one_made_afterwards_finds_the_new_one(
        self, manager: SessionManager
    ) -> None:
        bound, unbound = manager.session(ADA), manager.session(ADA)
        await say(bound, "first")
        second = await manager.new(ADA)
        with pytest.raises(SessionEndedError):
            await say(bound, "late")
        assert await path(bound) == ["first"]
        await say(unbound, "second")
        assert await path(second) == await path(manager.session(ADA)) == ["second"]

    async def test_new_can_be_rejected_or_limited_or_interrupt_the_holder(self, manager: SessionManager) -> None:
        async with manager.session(ADA).turn() as turn:
            for options in ({"on_busy": "reject"}, {"wait": 0}, {"wait": timedelta(milliseconds=20)}):
                with pytest.raises(TurnBusyError) as busy:
                    await manager.new(ADA, **options)
                assert busy.value.session_id == turn.id
            await turn.append(user("still mine"))
            second = await manager.new(ADA, on_busy="interrupt")
            with pytest.raises(TurnLostError):
                await turn.append(user("late"))
        assert await path(manager.session(turn.id)) == ["still mine"]
        assert (await manager.session(ADA).info()).id == second.id
        for wrong in ({"on_busy": "queue"}, {"on_busy": "hope"}, {"wait": -1}, {"wait": "long"}):
            with pytest.raises(InvalidInputError):
                await manager.new(ADA, **wrong)

    async def test_new_carries_over_the_settings_of_a_session_and_not_what_was_said(
        self, manager: SessionManager
    ) -> None:
        first = await manager.create(
            *("Trip",), key=ADA, model="large", source="web", max_tokens=900, tags=["b", "a"], metadata={"n": 1}
        )
        await say(first, "m1", "m2")
        await first.set_summary("short")
        await first.set_system_prompt("Speak like a pirate.")
        await first.set_system_prompt("Speak like a poet.")
        await first.set_lifecycle(archive_after=timedelta(hours=1), delete_after=None)
        for second in (await manager.new(ADA), await manager.new(ADA)):
            info = await second.info()
            assert (info.key, info.model, info.source, info.max_tokens) == (ADA, "large", "web", 900)
            assert info.tags == ("b", "a")
            assert (info.name, info.metadata, info.summary, info.message_count) == ("", {}, None, 0)
            assert info.parent_session_id is None
            assert "Speak like a poet." in await second.freeze_system_prompt()
            assert [version.content for version in await second.block_history("system")] == ["Speak like a poet."]
        assert len(await manager.list(tag="a", status="active")) == 1

    async def test_times_of_the_life_cycle_carry_over(self, store: Store, manager: SessionManager) -> None:
        first = await manager.create(key=ADA)
        await first.set_lifecycle(idle_after=timedelta(hours=1), archive_after=timedelta(hours=2), delete_after=None)
        second = await manager.new(ADA)
        rows = [await store.get(manager.namespace, session.id) for session in (first, second)]
        times = [(row.idle_after, row.archive_after, row.delete_after) for row in rows if row is not None]
        assert times[0] == times[1] != (None, None, None)

    async def test_hooks_and_events_of_new_are_in_order(self, manager: SessionManager) -> None:
        calls: list[tuple[str, str, str]] = []

        class Listener:
            async def on_session_start(self, session: Session) -> None:
                calls.append(("start", session.id, (await session.info()).status))

            async def on_session_end(self, session: Session, reason: str) -> None:
                calls.append((reason, session.id, (await session.info()).status))

        first = await manager.create(key=ADA)
        position = [event.position async for event in manager.events(after="start", follow=False)][-1]
        manager.register_hook(Listener())
        second = await manager.new(ADA)
        await manager.append(ADA, user("hello"))
        await manager.archive(second.id)
        assert calls == [
            ("new", first.id, "active"),
            ("start", second.id, "active"),
            ("archive", second.id, "active"),
        ]
        events = [event async for event in manager.events(after=position, follow=False)]
        assert [(event.kind, event.session_id) for event in events] == [
            ("session.changed", first.id),
            ("session.created", second.id),
            ("message.appended", second.id),
            ("session.changed", second.id),
        ]
        assert events[0].data["end_reason"] == "new"

    # in one's own turn

    async def test_the_holder_of_a_turn_starts_a_new_session_and_keeps_the_turn(
        self, store: Store, manager: SessionManager
    ) -> None:
        session = manager.session(ADA)
        async with session.turn() as turn:
            await turn.append(user("old"))
            waiting = asyncio.create_task(self._say_in_turn(manager, "waited"))
            await waits_in_queue(store, manager, turn.id)
            following = await turn.new()
            assert (turn.lost, turn.interrupted, following.lost) == (True, False, False)
            assert following.id != turn.id
            for late in (turn.append(user("late")), turn.new()):
                with pytest.raises(TurnLostError):
                    await late
            with pytest.raises(TurnBusyError):
                async with manager.session(ADA).turn(on_busy="reject"):
                    pass
            await following.append(user("new"))
            assert await path(following) == ["new"]
            again = await following.new()
            await again.append(user("newest"))
            assert (following.lost, again.lost) == (True, False)
        assert again.lost
        await waiting
        assert await path(manager.session(ADA)) == ["newest", "waited"]
        assert [await path(manager.session(each.id)) for each in (turn, following)] == [["old"], ["new"]]

    async def _say_in_turn(self, manager: SessionManager, text: str) -> None:
        async with manager.session(ADA).turn(wait=PATIENCE) as turn:
            await turn.append(user(text))

    async def test_a_new_session_in_a_turn_has_the_blocks_of_the_handle(self, manager: SessionManager) -> None:
        session = manager.session(ADA)
        session.add_context("mood", default_content="calm")
        async with session.turn() as turn:
            await turn.set_system_prompt("Be brief.")
            following = await turn.new()
            assert (await following.context_block("mood")).content == "calm"
            prompt = await following.freeze_system_prompt()
            assert "Be brief." in prompt
            assert "calm" in prompt

    async def test_a_session_without_a_current_key_has_no_successor(self, manager: SessionManager) -> None:
        ends: list[str] = []

        class Listener:
            async def on_session_end(self, session: Session, reason: str) -> None:
                ends.append(session.id)

        async with manager.session("plain").turn() as turn:
            with pytest.raises(InvalidKeyError):
                await turn.new()
            await turn.append(user("still open"))
        first = await manager.create(key=ADA)
        await manager.new(ADA)
        manager.register_hook(Listener())
        async with first.turn() as turn:
            with pytest.raises(InvalidKeyError):
                await turn.new()
        assert ends == []

    async def test_a_lost_turn_starts_no_session(self, manager: SessionManager) -> None:
        async with manager.session(ADA).turn() as turn, manager.session(ADA).turn(on_busy="interrupt"):
            with pytest.raises(TurnLostError):
                await turn.new()
        assert len(await manager.list()) == 1

    async def test_queued_messages_go_to_the_new_session(self, manager: SessionManager) -> None:
        async with manager.session(ADA).turn() as turn:
            for name in ("q1", "q2"):
                async with manager.session(ADA).turn(on_busy="queue", message=user(name)) as queued:
                    assert queued is None
            following = await turn.new()
            taken = await following.take_queued()
            assert taken is not None
            assert taken.id == "q1"
        second = await manager.new(ADA)
        async with manager.session(ADA).turn() as turn:
            taken = await turn.take_queued()
            assert taken is not None
            assert (taken.id, turn.id) == ("q2", second.id)
        assert await path(manager.session(following.id)) == ["q1"]

    async def test_a_message_queued_for_an_ended_session_goes_to_the_current_one(
        self, store: Store, manager: SessionManager
    ) -> None:
        first = await manager.create(key=ADA)
        await first.append(user("a"))

        async def ask() -> str:
            async with manager.session(ADA).turn(on_busy="queue", message=user("b")) as turn:
                assert turn is not None
                taken = await turn.take_queued()
                assert taken is not None
                return turn.id

        async with manager.session(ADA).turn() as turn:
            assert await turn.take_queued() is None  # from now on, callers wait for their own turn
            new = asyncio.create_task(manager.new(ADA))
            await waits_in_queue(store, manager, turn.id)
            asked = asyncio.create_task(ask())
            await waits_in_queue(store, manager, turn.id, 2)
        second = await new
        assert await asked == second.id
        assert (await path(first), await path(second)) == (["a"], ["b"])

    async def test_new_that_is_cancelled_leaves_the_turn_free(self, store: Store, manager: SessionManager) -> None:
        async with manager.session(ADA).turn() as turn:
            new = asyncio.create_task(manager.new(ADA))
            await waits_in_queue(store, manager, turn.id)
            new.cancel()
            with pytest.raises(asyncio.CancelledError):
                await new
        async with manager.session(ADA).turn(on_busy="reject") as later:
            assert later.id == turn.id

    async def test_everything_at_once_loses_nothing_and_leaves_one_current_session(
        self, store: Store, manager: SessionManager
    ) -> None:
        """Workers append by key, take turns, queue messages and start new sessions, all under one key."""
        managers = [manager, *(SessionManager(store, namespace=manager.namespace) for _ in range(3))]
        chance = random.Random(7)
        said: list[str] = []

        async def drain(turn: Any) -> None:
            while await turn.take_queued() is not None:
                pass

        async def work(number: int) -> None:
            desk = managers[number % 4]
            for step in range(8):
                name = f"{number}-{step}"
                what = chance.randrange(6)
                if what == 0:
                    await desk.new(ADA, on_busy="wait")
                    continue
                said.append(name)
                if what == 1:
                    await desk.append(ADA, user(name))
                elif what == 2:
                    async with desk.session(ADA).turn(on_busy="queue", message=user(name)) as turn:
                        if turn is not None:
                            await drain(turn)
                else:
                    async with desk.session(ADA).turn() as turn:
                        await turn.append(user(name))
                        if what == 3:
                            turn = await turn.new()
                            said.append(f"{name}-after")
                            await turn.append(user(f"{name}-after"))
                        await drain(turn)

        async with asyncio.timeout(PATIENCE * 4):
            await asyncio.gather(*(work(number) for number in range(12)))
        async with manager.session(ADA).turn() as turn:
            await drain(turn)
        found = Counter([name async for info in manager.iterate() for name in await path(manager.session(info.id))])
        assert found == Counter(said)
        sessions = [info async for info in manager.iterate()]
        assert [info.id for info in sessions if info.status != "archived"] == [(await manager.session(ADA).info()).id]
        assert {info.end_reason for info in sessions if info.status == "archived"} == {"new"}
