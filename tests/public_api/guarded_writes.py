"""Writes that are bound to the head: guarded removals and moves, and `pop`, also by many workers at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from frontdesk import HeadMovedError, InvalidIdError, Session, SessionManager, TurnLostError
from tests.public_api.steps import call, ids, path, result, say, user, view

Guarded = Callable[[Session, str | None], Awaitable[object]]
GUARDED: list[Guarded] = [
    lambda session, head: session.delete_messages(["m1"], expected_head=head),
    lambda session, head: session.delete_messages(["unknown"], expected_head=head),
    lambda session, head: session.pop(expected_head=head),
    lambda session, head: session.clear_messages(expected_head=head),
    lambda session, head: session.switch("m1", expected_head=head),
    lambda session, head: session.switch("m3", expected_head=head),
    lambda session, head: session.switch(None, expected_head=head),
]
NAMES = ["delete", "delete nothing", "pop", "clear", "switch", "switch to the head", "switch to none"]


class GuardedWriteTests:
    @pytest.mark.parametrize("write", GUARDED, ids=NAMES)
    async def test_a_call_is_refused_if_the_head_is_not_the_expected_one(
        self, session: Session, write: Guarded
    ) -> None:
        await say(session, "m1", "m2", "m3")
        before = await session.info()
        for expected in ("m2", "unknown", None):
            with pytest.raises(HeadMovedError) as caught:
                await write(session, expected)
            assert (caught.value.expected, caught.value.head) == (expected, "m3")
            assert caught.value.session_id == "chat"
        assert await session.info() == before
        assert await view(session) == ["m1", "m2", "m3"]
        await write(session, "m3")

    @pytest.mark.parametrize("write", [*GUARDED[:4], GUARDED[6]], ids=[*NAMES[:4], NAMES[6]])
    async def test_a_session_without_messages_has_no_head_to_expect(
        self, manager: SessionManager, session: Session, write: Guarded
    ) -> None:
        for _ in range(2):  # without a session, and with one that is empty
            with pytest.raises(HeadMovedError) as caught:
                await write(session, "m3")
            assert (caught.value.expected, caught.value.head) == ("m3", None)
            await write(session, None)
            await session.rename("empty")

    @pytest.mark.parametrize("write", GUARDED, ids=NAMES)
    async def test_an_expected_head_that_is_no_id_is_refused(self, session: Session, write: Guarded) -> None:
        await say(session, "m1", "m2", "m3")
        for bad in (7, "", b"m3"):
            with pytest.raises(InvalidIdError):
                await write(session, bad)  # type: ignore[arg-type]

    async def test_an_edited_or_inherited_head_is_still_the_head(
        self, manager: SessionManager, session: Session
    ) -> None:
        await say(session, "m1", "m2", "m3")
        fork = await manager.fork("chat")
        await fork.update_message(user("m3", "edited"))
        await fork.switch("m1", expected_head="m3")
        await fork.switch("m3", expected_head="m1")
        popped = await fork.pop(expected_head="m3")
        assert popped is not None
        assert popped.text == "edited"
        assert await view(fork) == ["m1", "m2"]
        assert await view(session) == ["m1", "m2", "m3"]

    async def test_guards_hold_by_id_and_by_key_through_the_manager(
        self, manager: SessionManager, session: Session
    ) -> None:
        await say(session, "m1", "m2")
        with pytest.raises(HeadMovedError):
            await manager.delete_messages("chat", ["m1"], expected_head="m1")
        assert await manager.delete_messages("chat", ["m2"], expected_head="m2") == 1
        with pytest.raises(HeadMovedError):
            await manager.clear_messages("chat", expected_head="m2")
        await manager.clear_messages("chat", expected_head="m1")
        assert await view(session) == []

    # pop

    async def test_pop_removes_the_head_and_returns_it(self, manager: SessionManager, session: Session) -> None:
        await say(session, "m1", "m2", "m3")
        popped = await session.pop()
        assert popped is not None
        assert (popped.id, popped.text, popped.parent_id) == ("m3", "m3", "m2")
        assert await view(session) == ["m1", "m2"]
        assert (await session.info()).message_count == 2
        assert len(await session.search("m3")) == 0
        kinds = [(event.kind, event.message_id) async for event in manager.events(after="start", follow=False)]
        assert kinds[-1] == ("message.deleted", "m3")
        await say(session, "m4")
        assert await path(session) == ["m1", "m2", "m4"]

    async def test_pop_returns_none_once_nothing_is_left(self, session: Session) -> None:
        assert await session.pop() is None
        await say(session, "m1")
        assert await session.pop() is not None
        assert await session.pop() is None
        assert await session.head() is None
        await say(session, "m2")
        assert await view(session) == ["m2"]

    async def test_pop_of_a_branch_goes_back_to_where_it_began(self, session: Session) -> None:
        await say(session, "m1", "m2")
        await session.append(user("b2"), parent="m1")
        assert [popped.id for _ in range(2) if (popped := await session.pop())] == ["b2", "m1"]
        assert await session.head() is None
        assert await view(session, leaf="m2") == ["m2"]

    async def test_pop_of_a_tool_result_leaves_its_call(self, session: Session) -> None:
        await session.append_all([user("m1"), call("m2", "c1"), result("m3", "c1")])
        assert (await session.pop()) is not None
        assert ids(await session.history()) == ["m1", "m2"]
        assert [message["role"] for message in await session.history(format="openai")] == ["user", "assistant", "tool"]

    async def test_pop_under_a_compaction_takes_the_message_out_of_it(self, session: Session) -> None:
        await say(session, "m1", "m2")
        compaction = await session.add_compaction("sum", "m1", "m2")
        assert (await session.pop()) is not None
        assert [message.id async for message in session.expand(compaction.id)] == ["m1"]
        assert (await session.pop()) is not None
        assert await session.compactions() == []
        assert await session.history() == []

    async def test_concurrent_pops_never_return_the_same_message(self, session: Session) -> None:
        names = [f"m{n}" for n in range(20)]
        await say(session, *names)
        popped = await asyncio.gather(*(session.pop() for _ in range(25)))
        found = [message.id for message in popped if message is not None]
        assert sorted(found) == sorted(names)
        assert (await session.info()).message_count == 0

    async def test_a_pop_in_a_turn_that_is_over_is_refused(self, session: Session) -> None:
        await say(session, "m1")
        async with session.turn() as turn:
            assert (await turn.pop()) is not None
            await turn.append(user("m2"))
        with pytest.raises(TurnLostError):
            await turn.pop()
        assert await view(session) == ["m2"]

    async def test_workers_that_push_and_pop_lose_and_duplicate_nothing(self, session: Session) -> None:
        pushed: list[str] = []
        popped: list[str] = []

        async def work(worker: int) -> None:
            chance = random.Random(worker)
            for step in range(15):
                if chance.random() < 0.6:
                    name = f"w{worker}-{step}"
                    await session.append(user(name))
                    pushed.append(name)
                elif (message := await session.pop()) is not None:
                    popped.append(message.id)

        await asyncio.gather(*(work(worker) for worker in range(4)))
        left = await path(session)
        assert len(popped) == len(set(popped))
        assert sorted(popped + left) == sorted(pushed)

    async def test_guarded_workers_write_as_if_one_came_after_the_other(self, session: Session) -> None:
        """Each reads the head, and then appends, pops or switches only if it is still the same: what the winners did,
        in the order of their calls, is what is there."""
        await say(session, "root")
        log: list[tuple[str | None, str, str | None]] = []

        async def work(worker: int) -> None:
            chance = random.Random(worker)
            for step in range(12):
                message = await session.head()
                head, before = (None, None) if message is None else (message.id, message.parent_id)
                done: str | None = before
                kind = chance.choice(["append", "append", "pop", "switch"])
                try:
                    if kind == "append":
                        done = (await session.append(user(f"w{worker}-{step}"), expected_head=head)).message.id
                    elif kind == "pop":
                        popped = await session.pop(expected_head=head)
                        assert (popped and popped.id) == head
                        done = None if popped is None else popped.parent_id
                    else:
                        await session.switch(before, expected_head=head)
                except HeadMovedError:
                    continue
                log.append((head, kind, done))

        await asyncio.gather(*(work(worker) for worker in range(3)))
        appended = [done for _, kind, done in log if kind == "append"]
        removed = [head for head, kind, _ in log if kind == "pop" and head is not None]
        assert len(set(appended)) == len(appended)
        assert len(set(removed)) == len(removed)
        assert (await session.info()).message_count == 1 + len(appended) - len(removed)
        # The calls that won form a chain: each began at the head that another one left.
        begun = sorted(str(head) for head, _, done in log if head != done)
        left = sorted(str(done) for head, _, done in log if head != done)
        head = await session.head()
        assert sorted([*begun, str(None if head is None else head.id)]) == sorted([*left, "root"])
