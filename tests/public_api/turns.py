"""Turns: one holder at a time, in order; renewed, lost and interrupted; and messages queued for the holder."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from frontdesk import (
    InvalidInputError,
    Message,
    Session,
    SessionKey,
    SessionManager,
    Store,
    Turn,
    TurnBusyError,
    TurnLostError,
)
from frontdesk.session import turns
from frontdesk.store import TURN, LeaseWanted
from tests.public_api.steps import ids, path, say, user, view
from tests.waiting import PATIENCE, eventually


async def lets_wait(task: asyncio.Task[None], session: Session, store: Store, namespace: str, ahead: int) -> None:
    """Wait until a task is in the queue after `ahead` others."""
    async with asyncio.timeout(PATIENCE):
        while not task.done():
            wanted = LeaseWanted(namespace=namespace, session_id=session.id, name=TURN, holder="looks", ttl=1)
            if (await store.queue_lease(wanted)).ahead > ahead:
                return
            await asyncio.sleep(0.005)
    raise AssertionError("it did not wait")


async def die(store: Store, namespace: str, session: Session) -> int:
    """Take the turn of a session like a worker that then does nothing; returns the number of the lease."""
    await session.add_tags()
    wanted = LeaseWanted(namespace=namespace, session_id=session.id, name=TURN, holder="dead", ttl=3_600_000_000)
    lease = (await store.queue_lease(wanted)).lease
    assert lease is not None
    return lease.number


async def expire(store: Store, namespace: str, session: Session, number: int) -> None:
    """Let the turn with this number expire within a microsecond, as if its holder had died."""
    assert await store.renew_lease(namespace, session.id, TURN, number, 1)


class TurnTests:
    # one at a time

    async def test_a_turn_is_the_session_and_creates_it_if_needed(self, session: Session) -> None:
        async with session.turn() as turn:
            assert isinstance(turn, Session)
            assert turn.id == "chat"
            assert not turn.lost
            await turn.append(user("a"))
            await turn.append_all([user("b"), user("c")])
            await turn.upsert(user("b", "changed"))
            await turn.rename("named")
            assert await view(turn) == ["a", "changed", "c"]
        assert await view(session) == ["a", "changed", "c"]
        assert (await session.info()).name == "named"
        async with session.turn() as later:
            assert later.number > turn.number

    async def test_a_turn_by_key_belongs_to_the_current_session(self, manager: SessionManager) -> None:
        key = SessionKey("agent", "web", "ana")
        async with manager.session(key).turn() as turn:
            await turn.append(user("a"))
        assert await path(manager.session(key)) == ["a"]

    async def test_turns_are_never_interleaved_and_run_in_order_of_arrival(
        self, store: Store, namespace: str, session: Session
    ) -> None:
        order: list[int] = []

        async def work(manager: SessionManager, n: int) -> None:
            async with manager.session("chat").turn(wait=timedelta(seconds=PATIENCE * 2)) as turn:
                order.append(n)
                before = await path(turn)
                await turn.append(user(f"{n} asks"))
                await asyncio.sleep(0)
                await turn.append(user(f"{n} is answered"))
                assert await path(turn) == [*before, f"{n} asks", f"{n} is answered"]

        managers = [SessionManager(store, namespace=namespace) for _ in range(3)]
        tasks = []
        async with session.turn() as first:
            for n in range(20):
                tasks.append(asyncio.create_task(work(managers[n % 3], n)))
                await lets_wait(tasks[-1], session, store, namespace, n)
            await first.append(user("first"))
            assert order == []
        await asyncio.gather(*tasks)
        assert order == list(range(20))

    async def test_a_handover_within_a_process_does_not_wait_for_the_next_poll(
        self, session: Session, store: Store, namespace: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for seconds_between_looks in ("_FIRST_LOOK", "_NEXT_LOOK", "_FAR_LOOK"):
            monkeypatch.setattr(turns, seconds_between_looks, 3600.0)
        async with session.turn():
            tasks = [asyncio.create_task(self._pass_through(session, wait=3600)) for _ in range(20)]
            await lets_wait(tasks[-1], session, store, namespace, 19)
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*tasks)

    async def test_turns_of_different_sessions_do_not_wait_for_each_other(self, manager: SessionManager) -> None:
        async with manager.session("a").turn(), manager.session("b").turn(on_busy="reject") as turn:
            assert not turn.lost

    async def test_a_turn_ends_when_its_body_raises(self, session: Session) -> None:
        with pytest.raises(ZeroDivisionError):
            async with session.turn():
                raise ZeroDivisionError
        async with session.turn(on_busy="reject"):
            pass

    async def test_a_write_without_a_turn_is_allowed_during_the_turn_of_another(self, session: Session) -> None:
        async with session.turn() as turn:
            await say(session, "plain")
            await turn.append(user("fenced"))
        assert await path(session) == ["plain", "fenced"]

    async def test_a_turn_inside_a_turn_is_the_same_turn(self, session: Session) -> None:
        async with session.turn() as turn:
            async with turn.turn(on_busy="reject") as inner:
                assert inner is turn
                await inner.append(user("a"))
            assert not turn.lost
            await turn.append(user("b"))
            async with turn.turn(on_busy="queue", message=user("c")) as queued:
                assert queued is None
            taken = await turn.take_queued()
            assert taken is not None
            assert taken.text == "c"
        assert [message.text for message in await session.history()] == ["a", "b", "c"]
        with pytest.raises(TurnLostError):
            async with turn.turn():
                pass

    async def test_invalid_requests_for_a_turn_are_refused(self, session: Session) -> None:
        for wrong in (
            {"on_busy": "hope"},
            {"on_busy": "queue"},
            {"message": user("a")},
            {"wait": -1},
            {"wait": "long"},
            {"ttl": 0},
            {"ttl": float("inf")},
            {"ttl": None},
        ):
            with pytest.raises(InvalidInputError):
                session.turn(**wrong)

    async def test_a_turn_has_the_blocks_and_the_prompt_of_its_handle(self, session: Session) -> None:
        session.add_context("notes", default_content="of this handle")
        prompt = await session.freeze_system_prompt()
        async with session.turn() as turn:
            assert await turn.freeze_system_prompt() == prompt
            await turn.replace_context_block("notes", "written in the turn")
        assert (await session.context_block("notes")).content == "written in the turn"

    async def test_background_work_started_by_an_append_outlives_the_turn(self, store: Store, namespace: str) -> None:
        ended = asyncio.Event()
        failures: list[str] = []

        async def summarise(_: str) -> str:
            await ended.wait()
            return "what was said in the turn"

        async with SessionManager(store, namespace=namespace).with_compaction(
            summarise, max_messages=20, on_error=lambda session_id, error: failures.append(repr(error))
        ) as manager:
            session = manager.session("chat")
            async with session.turn() as turn:
                said = [user(f"m{n}", f"text {n} " * 20) for n in range(40)]
                await turn.append_all([{**each, "role": ("user", "assistant")[n % 2]} for n, each in enumerate(said)])
            ended.set()
        assert failures == []
        async with SessionManager(store, namespace=namespace) as manager:
            assert len(await manager.session("chat").compactions()) == 1

    # lost turns

    @pytest.mark.parametrize(
        "write",
        [
            lambda turn: turn.append(user("late")),
            lambda turn: turn.append_all([user("late"), user("later")]),
            lambda turn: turn.append(user("late"), parent=None),
            lambda turn: turn.append(user("a")),
            lambda turn: turn.upsert(user("a", "late")),
            lambda turn: turn.upsert(user("late")),
            lambda turn: turn.update_message(user("a", "late")),
            lambda turn: turn.delete_messages(["a"]),
            lambda turn: turn.clear_messages(),
            lambda turn: turn.switch("a"),
            lambda turn: turn.switch(None),
            lambda turn: turn.pop(),
            lambda turn: turn.replace_messages([user("late")]),
            lambda turn: turn.remove_tags("late"),
            lambda turn: turn.set_lifecycle(idle_after=timedelta(days=1)),
            lambda turn: turn.set_system_prompt("late"),
            lambda turn: turn.rename("late"),
            lambda turn: turn.add_tags("late"),
            lambda turn: turn.set_metadata(late=True),
            lambda turn: turn.set_summary("late"),
            lambda turn: turn.add_compaction("late", "a", "b"),
            lambda turn: turn.take_queued(),
        ],
    )
    async def test_nothing_can_be_written_in_a_turn_that_has_ended(
        self, session: Session, write: Callable[[Turn], Awaitable[object]]
    ) -> None:
        await say(session, "a", "b")
        async with session.turn() as turn:
            pass
        before = await session.info()
        assert turn.lost
        assert not turn.interrupted
        async with session.turn() as other:
            with pytest.raises(TurnLostError, match="take another turn") as refused:
                await write(turn)
            assert (refused.value.session_id, refused.value.number) == ("chat", turn.number)
            assert not other.lost
        assert await session.info() == before
        assert await view(session) == ["a", "b"]

    async def test_a_lost_turn_neither_compacts_nor_undoes_a_compaction(self, store: Store, namespace: str) -> None:
        async def summarise(_: str) -> str:
            return "in short"

        async with SessionManager(store, namespace=namespace).with_compaction(summarise, auto=False) as manager:
            session = manager.session("chat")
            said = [user(f"m{n}", f"text {n} " * 200) for n in range(60)]
            await session.append_all([{**each, "role": ("user", "assistant")[n % 2]} for n, each in enumerate(said)])
            laid = await session.add_compaction("by hand", "m0", "m1")
            async with session.turn() as turn, session.turn(on_busy="interrupt"):
                for write in (turn.compact(), turn.undo_compaction(laid.id)):
                    with pytest.raises(TurnLostError):
                        await write
            assert [each.id for each in await session.compactions()] == [laid.id]
            async with session.turn() as turn:
                assert await turn.compact() is not None

    async def test_a_dead_holder_is_replaced_when_its_lease_expires(
        self, session: Session, store: Store, namespace: str
    ) -> None:
        dead = await die(store, namespace, session)
        with pytest.raises(TurnBusyError):
            async with session.turn(on_busy="reject"):
                pass
        waits = asyncio.create_task(self._pass_through(session))
        await lets_wait(waits, session, store, namespace, 0)
        await expire(store, namespace, session, dead)
        async with asyncio.timeout(PATIENCE):
            await waits
        async with session.turn(on_busy="reject") as turn:
            assert turn.number > dead

    async def test_a_dead_waiter_does_not_block_the_queue(self, session: Session, store: Store, namespace: str) -> None:
        async with session.turn():
            gone = LeaseWanted(
                namespace=namespace, session_id="chat", name=TURN, holder="gone", ttl=1, patience=300_000
            )
            await store.queue_lease(gone)
        async with asyncio.timeout(PATIENCE), session.turn():
            pass

    async def _pass_through(self, session: Session, **options: float) -> None:
        async with session.turn(**options):  # type: ignore[call-overload]
            pass

    async def test_a_turn_is_renewed_while_the_work_runs(self, session: Session, store: Store, namespace: str) -> None:
        async with session.turn(ttl=6) as turn:
            waits = asyncio.create_task(self._pass_through(session))
            await lets_wait(waits, session, store, namespace, 0)
            [taken] = await store.held_leases(namespace, TURN)

            async def is_renewed() -> bool:
                [held] = await store.held_leases(namespace, TURN)
                return held.lease.expires_at > taken.lease.expires_at

            await eventually(is_renewed)
            assert not waits.done()
            assert not turn.lost
            await turn.append(user("after a long time"))
        await waits

    async def test_a_holder_whose_event_loop_was_blocked_for_too_long_loses_its_turn(self, session: Session) -> None:
        async with session.turn(ttl=0.1) as turn:
            time.sleep(0.3)
            assert turn.lost
            with pytest.raises(TurnLostError):
                await turn.append(user("late"))
        assert await path(session) == []

    async def test_a_turn_does_not_recreate_a_deleted_session(self, session: Session, manager: SessionManager) -> None:
        async with session.turn() as turn:
            await turn.append(user("a"))
            await manager.delete("chat")
            for write in (turn.append(user("b")), turn.rename("late"), turn.take_queued(), turn.upsert(user("a"))):
                with pytest.raises(TurnLostError):
                    await write
            assert await manager.get("chat") is None
            await say(session, "again")
            async with session.turn(on_busy="reject"):
                with pytest.raises(TurnLostError):
                    await turn.append(user("late"))
        assert await path(session) == ["again"]

    # reject and timeouts

    async def test_reject_raises_at_once_and_names_the_holder(self, session: Session) -> None:
        before = datetime.now(UTC) - timedelta(seconds=2)
        async with session.turn():
            for options in ({"on_busy": "reject"}, {"wait": 0}, {"wait": 0.05}):
                with pytest.raises(TurnBusyError) as busy:
                    async with session.turn(**options):
                        pass
                assert busy.value.session_id == "chat"
                assert busy.value.since is not None
                assert before < busy.value.since < datetime.now(UTC) + timedelta(seconds=2)
                assert str(busy.value.holder) in str(busy.value)
        async with session.turn(on_busy="reject"):
            pass

    async def test_reject_does_not_overtake_waiters(self, session: Session, store: Store, namespace: str) -> None:
        async with session.turn():
            first = LeaseWanted(
                namespace=namespace, session_id="chat", name=TURN, holder="first", ttl=1, patience=60_000_000
            )
            await store.queue_lease(first)
        with pytest.raises(TurnBusyError, match="others are waiting") as busy:
            async with session.turn(on_busy="reject"):
                pass
        assert busy.value.holder is None

    async def test_a_waiter_that_timed_out_or_was_cancelled_leaves_the_queue(
        self, session: Session, store: Store, namespace: str
    ) -> None:
        async with session.turn():
            cancelled = asyncio.create_task(self._pass_through(session))
            await lets_wait(cancelled, session, store, namespace, 0)
            stays = asyncio.create_task(self._pass_through(session))
            await lets_wait(stays, session, store, namespace, 1)
            with pytest.raises(TurnBusyError):
                await self._pass_through(session, wait=0.1)
            looks = LeaseWanted(namespace=namespace, session_id="chat", name=TURN, holder="looks", ttl=1)
            assert (await store.queue_lease(looks)).ahead == 2
            cancelled.cancel()
            with suppress(asyncio.CancelledError):
                await cancelled
            assert (await store.queue_lease(looks)).ahead == 1
        async with asyncio.timeout(PATIENCE):
            await stays

    # interrupt

    async def test_interrupt_takes_over_at_once_and_before_waiters(
        self, session: Session, store: Store, namespace: str
    ) -> None:
        async def wait() -> None:
            async with session.turn() as turn:
                await turn.append(user("waited"))

        async with session.turn() as old:
            await old.append(user("before"))
            waits = asyncio.create_task(wait())
            await lets_wait(waits, session, store, namespace, 0)
            async with session.turn(on_busy="interrupt") as new:
                with pytest.raises(TurnLostError):
                    await old.run(asyncio.sleep(PATIENCE))
                assert old.lost
                assert old.interrupted
                with pytest.raises(TurnLostError):
                    await old.append(user("late"))
                await new.append(user("new"))
                assert not new.lost
        await waits
        assert await path(session) == ["before", "new", "waited"]

    async def test_interrupt_is_a_plain_turn_if_there_is_no_holder(self, session: Session) -> None:
        async with session.turn(on_busy="interrupt") as turn:
            await turn.append(user("a"))

    async def test_work_run_in_a_turn_is_cancelled_when_another_manager_interrupts_it(
        self, session: Session, store: Store, namespace: str
    ) -> None:
        stopped = asyncio.Event()
        started = asyncio.Event()

        async def think() -> str:
            started.set()
            try:
                await asyncio.sleep(PATIENCE)
            finally:
                stopped.set()
            return "too late"

        async def answer() -> None:
            async with session.turn() as turn:
                assert await turn.run(asyncio.sleep(0, "quick")) == "quick"
                with pytest.raises(ZeroDivisionError):
                    await turn.run(self._fail())
                await turn.append(user(await turn.run(think())))

        answering = asyncio.create_task(answer())
        await started.wait()
        other = SessionManager(store, namespace=namespace).session("chat")
        async with other.turn(on_busy="interrupt"), asyncio.timeout(PATIENCE / 2):
            with pytest.raises(TurnLostError):
                await answering
        assert stopped.is_set()
        assert await path(session) == []

    async def _fail(self) -> None:
        raise ZeroDivisionError

    # queued messages

    async def test_a_queued_message_is_delivered_to_the_holder(self, session: Session) -> None:
        async with session.turn() as holder:
            await holder.append(user("first"))
            for name in ("second", "third"):
                async with session.turn(on_busy="queue", message=user(name)) as turn:
                    assert turn is None
            assert await path(session) == ["first"], "it is not in the conversation before it is taken"
            taken = [await holder.take_queued(), await holder.take_queued(), await holder.take_queued()]
            assert [message and message.id for message in taken] == ["second", "third", None]
            assert taken[1] is not None
            assert taken[1].parent_id == "second"
        assert await path(session) == ["first", "second", "third"]

    async def test_queueing_without_a_holder_takes_the_turn_with_its_own_message(self, session: Session) -> None:
        async with session.turn(on_busy="queue", message=user("mine")) as turn:
            assert turn is not None
            message = await turn.take_queued()
            assert message is not None
            assert message.id == "mine"
            await turn.append(user("answer"))
        assert await path(session) == ["mine", "answer"]

    async def test_no_message_is_lost_if_it_is_queued_while_the_holder_ends(
        self, session: Session, store: Store, namespace: str
    ) -> None:
        """Each message is answered once, right after it was asked."""

        async def arrive(manager: SessionManager, n: int) -> None:
            await asyncio.sleep(n * 0.003)
            async with manager.session("chat").turn(on_busy="queue", message=user(f"q{n}")) as turn:
                while turn is not None and (message := await turn.take_queued()) is not None:
                    await turn.append(user(f"answer to {message.id}"))

        async with SessionManager(store, namespace=namespace) as other:
            managers = [SessionManager(store, namespace=namespace), other]
            await asyncio.gather(*(arrive(managers[n % 2], n) for n in range(40)))
        said = await path(session)
        assert sorted(said[::2]) == sorted(f"q{n}" for n in range(40))
        assert said[1::2] == [f"answer to {question}" for question in said[::2]]

    async def test_messages_that_a_holder_left_in_the_queue_go_to_the_next_holder(
        self, session: Session, store: Store, namespace: str
    ) -> None:
        async with session.turn(), session.turn(on_busy="queue", message=user("a")) as turn:
            assert turn is None
        dead = await die(store, namespace, session)
        async with session.turn(on_busy="queue", message=user("b")) as turn:
            assert turn is None
        await expire(store, namespace, session, dead)
        async with session.turn() as turn:
            taken = [message async for message in self._all(turn)]
        assert ids(taken) == ["a", "b"]

    async def _all(self, turn: Turn):  # type: ignore[no-untyped-def]
        while (message := await turn.take_queued()) is not None:
            yield message

    async def test_a_message_that_is_already_in_the_session_is_not_delivered_again(self, session: Session) -> None:
        async with session.turn() as turn:
            await turn.append(user("a"))
            for name in ("a", "b", "b"):
                async with session.turn(on_busy="queue", message=user(name)) as other:
                    assert other is None
            taken: list[Message] = [message async for message in self._all(turn)]
        assert ids(taken) == ["b"]
        assert await path(session) == ["a", "b"]

    async def test_a_message_for_a_holder_that_found_the_queue_empty_waits_for_the_next_turn(
        self, session: Session, store: Store, namespace: str
    ) -> None:
        async def ask() -> None:
            async with session.turn(on_busy="queue", message=user("late")) as turn:
                assert turn is not None
                assert await turn.take_queued() is not None

        async with session.turn() as turn:
            assert await turn.take_queued() is None
            asks = asyncio.create_task(ask())
            await lets_wait(asks, session, store, namespace, 0)
            await turn.append(user("still mine"))
        await asks
        assert await path(session) == ["still mine", "late"]

    async def test_a_queued_message_is_checked_at_once(self, session: Session) -> None:
        with pytest.raises(InvalidInputError):
            session.turn(on_busy="queue", message={"role": 3})
