"""Hooks: when and in which order they are called, and that their failures do not affect the operation."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import timedelta
from typing import Any

import pytest

from frontdesk import Compaction, ConfigurationError, EndReason, Message, Session, SessionManager
from tests.public_api.lifecycle import ADA, Clock, status
from tests.public_api.steps import path, say, user, view
from tests.waiting import PATIENCE, eventually


class Diary:
    """A hook that records its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def on_session_start(self, session: Session) -> None:
        self.calls.append(f"start {session.id}")

    async def on_message(self, session: Session, message: Message) -> None:
        self.calls.append(f"message {session.id} {message.id}")

    async def on_compaction(self, session: Session, compaction: Compaction) -> None:
        self.calls.append(f"compaction {session.id} {compaction.summary}")

    async def on_session_end(self, session: Session, reason: str) -> None:
        self.calls.append(f"end {session.id} {reason}")

    def ends(self) -> list[str]:
        return [call for call in self.calls if call.startswith("end")]


class Ends:
    """A hook that reads the session when it ends."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, list[str]]] = []

    async def on_session_end(self, session: Session, reason: str) -> None:
        self.seen.append((reason, (await session.info()).status, await view(session)))


SECRET = "secret words"


class Failing:
    """A hook whose methods all fail, each in its own way."""

    def on_session_start(self, session: Session) -> None:
        raise SystemExit(SECRET)

    async def on_message(self, session: Session, message: Message) -> None:
        raise asyncio.CancelledError(SECRET)

    async def on_compaction(self, session: Session, compaction: Compaction) -> None:
        raise StopAsyncIteration(SECRET)

    def on_session_end(self, session: Session, reason: str) -> None:
        raise ValueError(SECRET)


class HookTests:
    async def test_a_hook_can_write_to_the_session_after_the_turn_that_triggered_it(
        self, manager: SessionManager
    ) -> None:
        over, done = asyncio.Event(), asyncio.Event()

        class Late:
            async def on_message(self, session: Session, message: Message) -> None:
                await over.wait()
                await session.set_metadata(seen=message.id)
                done.set()

        manager.register_hook(Late())
        session = manager.session("s")
        async with session.turn() as turn:
            await turn.append(user("m1"))
        over.set()
        await asyncio.wait_for(done.wait(), PATIENCE)
        assert (await session.info()).metadata == {"seen": "m1"}

    async def test_hooks_are_called_for_everything_in_a_session_in_order(self, manager: SessionManager) -> None:
        diary = Diary()
        manager.register_hook(diary)
        session = manager.session("s")
        await session.append_all([user("m1"), user("m2")])
        await session.append(user("m2"))
        await session.add_compaction("short", "m1", "m1")
        await session.append(user("m3"))
        await manager.archive("s")
        assert diary.calls == [
            "start s",
            "message s m1",
            "message s m2",
            "compaction s short",
            "message s m3",
            "end s archive",
        ]

    async def test_every_way_to_start_a_session_calls_the_hook_once(self, manager: SessionManager) -> None:
        diary = Diary()
        manager.register_hook(diary)
        await asyncio.gather(*(manager.append("appended", user(f"m{number}")) for number in range(8)))
        await manager.create(id="created")
        await manager.get_or_create("got")
        await manager.get_or_create("got")
        await manager.session("tagged").add_tags("t")
        forked = await manager.fork("appended")
        split = await manager.compact_and_split("appended", "short")
        begun = await manager.new(ADA)
        again = await manager.new(ADA)
        await manager.close()
        starts = [call.removeprefix("start ") for call in diary.calls if call.startswith("start")]
        made = ["appended", "created", "got", "tagged", forked.id, split.id, begun.id, again.id]
        assert sorted(starts) == sorted(made)
        assert sorted(diary.ends()) == sorted(["end appended compaction", f"end {begun.id} new"])

    async def test_the_end_hook_is_called_before_anything_changes(self, timed: SessionManager, clock: Clock) -> None:
        hook = Ends()
        timed.register_hook(hook)
        for way in (timed.reset, timed.archive, timed.delete):
            name = way.__name__
            await timed.append(name, user("m1"))
            await way(name)
        await timed.append("split", user("m1"))
        await timed.compact_and_split("split", "short")
        await timed.append(ADA, user("m1"))
        await timed.new(ADA)
        await timed.append("timeout", user("m1"))
        clock.advance(timedelta(days=8))
        await timed.sweep()
        known = {reason: (is_now, shown) for reason, is_now, shown in hook.seen}
        assert known["timeout"][0] == "idle"
        known.pop("timeout")
        assert known == dict.fromkeys(["reset", "archive", "delete", "compaction", "new"], ("active", ["m1"]))

    async def test_deleting_an_ended_session_does_not_call_the_end_hook_again(self, manager: SessionManager) -> None:
        diary = Diary()
        manager.register_hook(diary)
        await manager.append("s", user("m1"))
        await manager.archive("s")
        await manager.delete("s")
        assert not await manager.delete("s")
        assert diary.ends() == ["end s archive"]

    async def test_the_end_hook_is_called_once_however_many_tasks_end_the_session(
        self, manager: SessionManager
    ) -> None:
        diary = Diary()
        manager.register_hook(diary)
        session = manager.session(ADA)
        await session.append(user("m"))
        made = await asyncio.gather(*(manager.new(ADA) for _ in range(6)))
        assert len(diary.ends()) == len(set(diary.ends())) == 6
        assert len({session.id for session in made}) == 6
        await manager.append("s", user("m"))
        await asyncio.gather(*(manager.archive("s") for _ in range(6)), return_exceptions=True)
        assert diary.ends()[6:] == ["end s archive"]

    async def test_a_reset_of_an_empty_view_and_a_refused_call_do_not_call_hooks(self, manager: SessionManager) -> None:
        diary = Diary()
        manager.register_hook(diary)
        await manager.create(id="s")
        await manager.reset("s")
        await manager.suspend("s")
        with pytest.raises(Exception, match="cannot become"):
            await manager.suspend("s")
        await manager.resume("s")
        assert diary.ends() == []

    async def test_hooks_are_called_in_order_of_registration_and_sync_hooks_off_the_event_loop(
        self, manager: SessionManager
    ) -> None:
        calls: list[tuple[str, bool]] = []
        loop_thread = threading.current_thread()

        class Plain:
            def on_session_end(self, session: Session, reason: str) -> None:
                calls.append(("sync", threading.current_thread() is loop_thread))

        class Coroutine:
            async def on_session_end(self, session: Session, reason: str) -> None:
                calls.append(("async", threading.current_thread() is loop_thread))

        for hook in (Plain(), Coroutine(), Plain()):
            manager.register_hook(hook)
        await manager.append("s", user("m"))
        await manager.archive("s")
        assert calls == [("sync", False), ("async", True), ("sync", False)]

    async def test_hooks_can_be_added_and_removed_at_any_time(self, manager: SessionManager) -> None:
        diary = Diary()
        await manager.append("s", user("m1"))
        manager.register_hook(diary)
        with pytest.raises(ConfigurationError, match="already"):
            manager.register_hook(diary)
        await manager.archive("s")
        assert manager.unregister_hook(diary)
        assert not manager.unregister_hook(diary)
        await manager.append("s", user("m2"), reopen=True)
        await manager.archive("s")
        assert diary.calls == ["end s archive"]
        with pytest.raises(ConfigurationError, match="on_session_end"):
            manager.register_hook(object())
        for wrong in (0, -1, "1", True, None):
            with pytest.raises(ConfigurationError, match="timeout"):
                manager.register_hook(diary, timeout=wrong)  # type: ignore[arg-type]

    async def test_a_hook_that_raises_is_counted_and_logged_without_message_content(
        self, manager: SessionManager, caplog: pytest.LogCaptureFixture
    ) -> None:
        diary = Diary()
        manager.register_hook(Failing())
        manager.register_hook(diary)
        session = manager.session("s")
        with caplog.at_level(logging.DEBUG):
            await session.append(user("m1", "secret words"))
            await session.add_compaction("secret words", "m1", "m1")
            await manager.archive("s")
        assert diary.calls == ["start s", "message s m1", "compaction s secret words", "end s archive"]
        assert (await manager.stats()).hook_failures == 4
        assert "secret" not in caplog.text
        assert caplog.text.count("hook Failing failed") == 4
        assert await status(manager, "s") == ("archived", "archive")

    async def test_a_hook_that_hangs_times_out(self, manager: SessionManager) -> None:
        released = threading.Event()

        class Hanging:
            def on_session_end(self, session: Session, reason: str) -> None:
                released.wait(2 * PATIENCE)

        class Deaf:
            async def on_session_end(self, session: Session, reason: str) -> None:
                while not released.is_set():
                    try:
                        await asyncio.sleep(0.05)
                    except asyncio.CancelledError:
                        continue

        diary = Diary()
        manager.register_hook(Hanging(), timeout=0.05)
        manager.register_hook(Deaf(), timeout=0.05)
        manager.register_hook(diary)
        await manager.append("s", user("m"))
        await asyncio.wait_for(manager.archive("s"), PATIENCE)
        released.set()
        assert await status(manager, "s") == ("archived", "archive")
        assert (await manager.stats()).hook_failures == 2
        assert diary.ends() == ["end s archive"]

    async def test_an_append_does_not_wait_for_hooks_but_an_end_waits_for_earlier_hook_calls(
        self, manager: SessionManager
    ) -> None:
        go = asyncio.Event()
        calls: list[str] = []

        class Slow:
            async def on_message(self, session: Session, message: Message) -> None:
                await go.wait()
                calls.append(message.id)

            async def on_session_end(self, session: Session, reason: str) -> None:
                calls.append(reason)

        manager.register_hook(Slow())
        await say(manager.session("s"), "m1", "m2")
        await manager.append("t", user("n1"))
        assert calls == []
        ending = asyncio.create_task(manager.archive("s"))
        await asyncio.sleep(0)
        go.set()
        await ending
        assert [call for call in calls if call != "n1"] == ["m1", "m2", "archive"]

    async def test_hooks_may_use_their_session(self, manager: SessionManager) -> None:
        class Busy:
            def __init__(self) -> None:
                self.ends = 0

            async def on_message(self, session: Session, message: Message) -> None:
                if message.text == "/stop":
                    await manager.archive(session.id)

            async def on_session_end(self, session: Session, reason: str) -> None:
                self.ends += 1
                await session.add_tags("ended")
                if reason == "archive":
                    await manager.archive(session.id)

        busy = Busy()
        manager.register_hook(busy)
        await manager.append("s", user("m1", "/stop"))
        await eventually(lambda: busy.ends > 0)
        await manager.close()
        assert busy.ends == 1

    async def test_a_hook_that_changes_a_session_does_not_keep_it_from_timing_out(
        self, timed: SessionManager, clock: Clock
    ) -> None:
        class Tagging:
            async def on_session_end(self, session: Session, reason: EndReason) -> None:
                await session.add_tags(reason.value)

        timed.register_hook(Tagging())
        session = timed.session("s")
        await say(session, "m1")
        clock.advance(timedelta(days=8))
        assert (await timed.sweep()).archived == 1
        info = await session.info()
        assert (info.status, info.tags) == ("archived", ("timeout",))

    async def test_close_lets_hooks_finish(self, manager: SessionManager) -> None:
        calls: list[str] = []

        class Slow:
            async def on_message(self, session: Session, message: Message) -> None:
                await asyncio.sleep(0.01)
                calls.append(message.id)

        manager.register_hook(Slow())
        await say(manager.session("s"), *(f"m{number}" for number in range(5)))
        await manager.close()
        assert calls == [f"m{number}" for number in range(5)]

    async def test_the_message_hook_is_called_once_for_each_message_of_many_writers(
        self, manager: SessionManager
    ) -> None:
        diary = Diary()
        manager.register_hook(diary)
        session = manager.session("s")
        await asyncio.gather(*(session.append(user(f"m{number % 10}")) for number in range(30)))
        await manager.archive("s")
        calls = [call.split()[-1] for call in diary.calls if call.startswith("message")]
        assert sorted(calls) == sorted(await path(session))

    async def test_a_manager_can_end_a_session_that_it_never_used(self, store: Any, manager: SessionManager) -> None:
        await manager.append(ADA, user("m1"))
        await manager.append("s", user("m1"))
        hook = Ends()
        async with SessionManager(store, namespace=manager.namespace) as fresh:
            fresh.register_hook(hook)
            await fresh.new(ADA)
            await fresh.reset("s")
            await fresh.archive("s")
        assert [reason for reason, _, _ in hook.seen] == ["new", "reset", "archive"]
        assert [shown for _, _, shown in hook.seen] == [["m1"], ["m1"], []]

    async def test_a_hook_is_not_called_for_other_managers(self, store: Any, manager: SessionManager) -> None:
        diary = Diary()
        manager.register_hook(diary)
        async with SessionManager(store, namespace=manager.namespace) as other:
            await other.append("s", user("m"))
            await other.archive("s")
        assert diary.calls == []
