"""The life cycle of a session: status, archive, suspend, resume, reset, keys, and writes after the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from frontdesk import (
    EndReason,
    InvalidInputError,
    InvalidKeyError,
    InvalidTransitionError,
    SessionEndedError,
    SessionKey,
    SessionManager,
    SessionNotFoundError,
    SessionStatus,
    Store,
)
from frontdesk.lifecycle.transitions import COMPACTION_LEASE, TRANSITIONS
from tests.public_api.steps import path, say, system, user, view

ADA = SessionKey("bot", "web", "ada")
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


class Clock:
    """A clock that moves only when the test advances it."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def advance(self, span: timedelta) -> None:
        self.time += span


class ClockFixtures:
    """A manager with a clock that the test advances."""

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    async def timed(self, store: Store, namespace: str, clock: Clock) -> AsyncIterator[SessionManager]:
        async with SessionManager(store, namespace=namespace, clock=clock) as manager:
            yield manager


async def status(manager: SessionManager, ref: str | SessionKey) -> tuple[SessionStatus, EndReason | None]:
    info = await manager.get(ref)
    assert info is not None
    return info.status, info.end_reason


async def listed(manager: SessionManager, status: Any) -> list[str]:
    return [info.id for info in await manager.list(status=status)]


class LifecycleTests:
    # status

    async def test_a_session_becomes_idle_without_writes_and_active_again_with_the_next_write(
        self, timed: SessionManager, clock: Clock
    ) -> None:
        await timed.append("s", user("m1"))
        clock.advance(30 * MINUTE - timedelta(microseconds=1))
        assert await status(timed, "s") == ("active", None)
        clock.advance(timedelta(microseconds=1))
        assert await status(timed, "s") == ("idle", None)
        await timed.append("s", user("m2"))
        assert await status(timed, "s") == ("active", None)

    async def test_a_session_is_compacting_while_the_lease_is_held(
        self, timed: SessionManager, store: Store, clock: Clock
    ) -> None:
        await timed.append("s", user("m1"))
        await timed.append("t", user("m1"))
        lease = await store.acquire_lease(timed.namespace, "s", COMPACTION_LEASE, "me", 60_000_000)
        assert lease is not None
        assert await status(timed, "s") == ("compacting", None)
        clock.advance(HOUR)
        assert (await listed(timed, "compacting"), await listed(timed, "idle")) == (["s"], ["t"])
        assert {info.id: info.status for info in await timed.list()} == {"s": "compacting", "t": "idle"}
        await timed.suspend("s")
        assert (await listed(timed, "compacting"), await listed(timed, "suspended")) == ([], ["s"])
        await timed.resume("s")
        await store.renew_lease(timed.namespace, "s", COMPACTION_LEASE, lease.number, 0)
        assert (await listed(timed, "compacting"), await listed(timed, "active")) == ([], ["s"])

    async def test_lists_by_status_agree_with_the_status_of_each_session(
        self, timed: SessionManager, clock: Clock
    ) -> None:
        for number in range(12):
            await timed.append(f"s{number}", user("m"))
            clock.advance(5 * MINUTE)
        await timed.archive("s1")
        await timed.suspend("s2")
        await timed.session("s3").set_lifecycle(idle_after=None)
        await timed.session("s11").set_lifecycle(idle_after=MINUTE)
        await timed.session("s4").set_lifecycle(idle_after=2 * HOUR)
        said = {f"s{number}": (await status(timed, f"s{number}"))[0] for number in range(12)}
        assert (said["s0"], said["s3"], said["s4"], said["s11"], said["s10"]) == (
            "idle",
            "active",
            "active",
            "idle",
            "active",
        )
        for each in SessionStatus:
            paged = [info.id async for info in timed.iterate(status=each, limit=2)]
            assert sorted(paged) == sorted(id for id, is_now in said.items() if is_now == each)
            assert paged == await listed(timed, each)
        assert (await timed.stats()).by_status == {"active": 6, "archived": 1, "idle": 4, "suspended": 1}

    async def test_only_writes_count_as_activity(self, timed: SessionManager, clock: Clock) -> None:
        session = timed.session("s")
        await say(session, "m1", "m2", "m3")
        before = (await session.info()).last_active_at
        clock.advance(HOUR)
        await session.history()
        await session.search("m1")
        await session.rename("other")
        await session.add_tags("t")
        await session.add_compaction("short", "m1", "m2")
        await session.update_message(user("m3", "changed"))
        await timed.add_usage("s", input_tokens=1)
        await timed.reset("s")
        await timed.fork("s")
        await timed.sweep()
        assert (await session.info()).last_active_at == before
        await session.append(user("m3"))
        assert (await session.info()).last_active_at == before
        await session.append(user("m4"))
        assert (await session.info()).last_active_at == before + HOUR

    # transitions

    @pytest.mark.parametrize("before", ["active", "idle", "suspended", "archived"])
    async def test_only_the_documented_transitions_are_possible(
        self, timed: SessionManager, clock: Clock, before: str
    ) -> None:
        ways = {"archived": timed.archive, "suspended": timed.suspend, "active": timed.resume}
        for wanted, way in ways.items():
            name = f"{before}-{wanted}"
            await timed.append(name, user("m"))
            if before == "idle":
                clock.advance(HOUR)
            elif before != "active":
                await ways[before](name)
            assert (await status(timed, name))[0] == before
            if wanted in TRANSITIONS[SessionStatus(before)]:
                await way(name)
                assert (await status(timed, name))[0] == wanted
                continue
            with pytest.raises(InvalidTransitionError) as refused:
                await way(name)
            error = refused.value
            assert (error.session_id, error.status, error.wanted) == (name, before, wanted)
            assert error.allowed == TRANSITIONS[SessionStatus(before)]
            assert (await status(timed, name))[0] == before

    async def test_calls_for_a_missing_session_raise(self, manager: SessionManager) -> None:
        for way in (manager.archive, manager.suspend, manager.resume, manager.reset):
            for ref in ("nobody", ADA):
                with pytest.raises(SessionNotFoundError):
                    await way(ref)
        assert (await manager.stats()).sessions == 0

    async def test_an_archived_session_keeps_everything_and_its_key(self, manager: SessionManager) -> None:
        session = await manager.create("Trip", id="s", key=ADA)
        await say(session, "walrus", "m2")
        await manager.archive(ADA)
        info = await session.info()
        assert (info.status, info.end_reason, info.key) == ("archived", "archive", ADA)
        assert info.ended_at is not None
        assert await path(session) == ["walrus", "m2"]
        assert [hit.session_id for hit in await manager.search("walrus")] == ["s"]
        found = await manager.get(ADA)
        assert found is not None
        assert found.id == "s"

    async def test_resume_makes_a_session_active_as_of_now(self, timed: SessionManager, clock: Clock) -> None:
        await timed.append("s", user("m1"))
        await timed.archive("s")
        clock.advance(HOUR)
        await timed.resume("s")
        info = await timed.session("s").info()
        assert (info.status, info.end_reason, info.ended_at) == ("active", None, None)
        assert info.last_active_at == clock()
        await timed.append("s", user("m2"))

    async def test_of_many_concurrent_archive_calls_one_takes_effect(self, manager: SessionManager) -> None:
        await manager.append("s", user("m"))
        outcome = await asyncio.gather(*(manager.archive("s") for _ in range(8)), return_exceptions=True)
        assert sorted(type(each).__name__ for each in outcome) == ["InvalidTransitionError"] * 7 + ["NoneType"]

    # writes to an ended session

    async def test_an_append_to_an_explicitly_ended_session_raises_and_says_what_to_do(
        self, manager: SessionManager
    ) -> None:
        session = manager.session("s")
        await say(session, "m1")
        await manager.archive("s")
        with pytest.raises(SessionEndedError, match="reopen=True") as refused:
            await session.append(user("m2"))
        assert (refused.value.session_id, refused.value.status, refused.value.end_reason) == (
            "s",
            "archived",
            "archive",
        )
        with pytest.raises(SessionEndedError):
            await session.append_all([user("m2"), user("m3")])
        with pytest.raises(SessionEndedError):
            await manager.upsert("s", user("m2"))
        assert await path(session) == ["m1"]
        assert not (await session.append(user("m1"))).inserted
        await session.upsert(user("m1", "changed"))
        await manager.append("s", user("m2"), reopen=True)
        assert await status(manager, "s") == ("active", None)
        await manager.suspend("s")
        with pytest.raises(SessionEndedError, match="suspended"):
            await manager.append_all("s", [user("m3")])
        await manager.upsert("s", user("m3"), reopen=True)
        await manager.archive("s")
        await manager.append_all("s", [user("m4")], reopen=True)
        assert await path(session) == ["m1", "m2", "m3", "m4"]

    async def test_an_ended_session_allows_everything_except_appends(self, manager: SessionManager) -> None:
        session = manager.session("s")
        await say(session, "m1", "m2", "m3")
        await manager.archive("s")
        await session.update_message(user("m1", "changed"))
        await session.add_compaction("short", "m1", "m2")
        await session.add_tags("old")
        await session.rename("Old")
        await manager.add_usage("s", input_tokens=3)
        await session.delete_messages(["m3"])
        forked = await manager.fork("s")
        await forked.append(user("n1"))
        assert await status(manager, "s") == ("archived", "archive")
        assert await status(manager, forked.id) == ("active", None)

    # keys

    async def test_new_ends_the_current_session_and_starts_the_next(self, manager: SessionManager) -> None:
        first = manager.session(ADA)
        await say(first, "walrus")
        second = await manager.new(ADA)
        assert second.id != first.id
        assert await status(manager, first.id) == ("archived", "new")
        assert await view(second) == []
        await manager.append(ADA, user("m2"))
        assert (await path(second), await path(first)) == (["m2"], ["walrus"])
        assert [hit.session_id for hit in await manager.search("walrus")] == [first.id]
        assert {info.id for info in await manager.list(peer="ada")} == {first.id, second.id}
        with pytest.raises(SessionEndedError, match="`new`"):
            await first.append(user("m3"))

    async def test_new_under_an_unused_key_starts_a_session(self, manager: SessionManager) -> None:
        made = await manager.new(ADA)
        assert await status(manager, ADA) == ("active", None)
        assert (await made.info()).key == ADA
        with pytest.raises(InvalidKeyError):
            await manager.new("bot:web:ada")  # type: ignore[arg-type]

    async def test_new_keeps_the_end_reason_of_a_session_that_had_already_ended(self, manager: SessionManager) -> None:
        first = manager.session(ADA)
        await say(first, "m1")
        await manager.archive(ADA)
        ended_at = (await first.info()).ended_at
        second = await manager.new(ADA)
        info = await first.info()
        assert (info.end_reason, info.ended_at) == ("archive", ended_at)
        third = await manager.new(ADA)
        assert await status(manager, second.id) == ("archived", "new")
        await manager.suspend(ADA)
        await manager.new(ADA)
        assert await status(manager, third.id) == ("archived", "new")

    async def test_many_concurrent_new_calls_leave_one_current_session(self, manager: SessionManager) -> None:
        await manager.append(ADA, user("m"))
        made = await asyncio.gather(*(manager.new(ADA) for _ in range(12)))
        assert len({session.id for session in made}) == 12
        assert len(await listed(manager, "archived")) == 12
        (current,) = await listed(manager, "active")
        found = await manager.get(ADA)
        assert found is not None
        assert found.id == current

    async def test_messages_under_a_key_go_to_its_current_session_while_it_changes(
        self, manager: SessionManager
    ) -> None:
        await manager.append(ADA, user("first"))

        async def write(number: int) -> None:
            await manager.append(ADA, user(f"m{number}"))

        await asyncio.gather(*(write(number) for number in range(16)), *(manager.new(ADA) for _ in range(4)))
        written = [id for info in await manager.list() for id in await path(manager.session(info.id))]
        assert sorted(written) == sorted(["first", *(f"m{number}" for number in range(16))])

    async def test_a_reopened_session_gets_its_key_back_only_if_the_key_is_free(self, manager: SessionManager) -> None:
        first = manager.session(ADA)
        await say(first, "m1")
        second = await manager.new(ADA)
        await first.append(user("m2"), reopen=True)
        found = await manager.get(ADA)
        assert found is not None
        assert found.id == second.id
        await manager.archive(first.id)
        await manager.delete(second.id)
        await first.append(user("m3"), reopen=True)
        found = await manager.get(ADA)
        assert found is not None
        assert found.id == first.id

    async def test_isolation_decides_which_parts_of_a_key_distinguish_sessions(
        self, store: Store, namespace: str
    ) -> None:
        async with SessionManager(store, namespace=namespace).with_isolation("peer", "agent") as manager:
            web = manager.session(SessionKey("bot", "web", "ada"))
            await web.append(user("m1"))
            await manager.append(SessionKey("bot", "mail", "ada", "thread"), user("m2"))
            assert await path(web) == ["m1", "m2"]
            assert (await web.info()).key == SessionKey("bot", "*", "ada")
            made = await manager.create(key=SessionKey("bot", "web", "bob"))
            assert (await manager.get_or_create(SessionKey("bot", "mail", "bob"))).id == made.id
            await manager.append(SessionKey("other", "web", "ada"), user("m3"))
            assert len(await manager.list()) == 3
            assert [info.id for info in await manager.list(peer="ada", agent="bot")] == [web.id]
            fresh = await manager.new(SessionKey("bot", "phone", "ada"))
            assert await manager.session(SessionKey("bot", "web", "ada")).history() == []
            assert (await fresh.info()).key == SessionKey("bot", "*", "ada")

    # reset

    async def test_reset_empties_the_view_and_keeps_everything_else(self, store: Store, namespace: str) -> None:
        manager = SessionManager(store, namespace=namespace).with_context("memory").with_cached_prompt()
        async with manager:
            session = manager.session("s")
            await session.append_all([system("r1"), system("r2"), user("walrus"), user("m2")])
            await session.replace_context_block("memory", "likes tea")
            prompt = await session.freeze_system_prompt()
            await manager.reset("s")
            assert await view(session) == ["rule r1", "rule r2"]
            assert await path(session) == ["r1", "r2", "walrus", "m2"]
            assert [hit.message_id for hit in await session.search("walrus")] == ["walrus"]
            assert await session.freeze_system_prompt() == prompt
            assert (await session.context_block("memory")).content == "likes tea"
            info = await session.info()
            assert (info.status, info.end_reason, info.message_count, info.compacted_at) == ("active", None, 4, None)
            await say(session, "m3")
            assert await view(session) == ["rule r1", "rule r2", "m3"]
            (overlay,) = await session.compactions()
            assert (overlay.kind, overlay.from_id, overlay.to_id) == ("reset", "walrus", "m2")
            await session.undo_compaction(overlay.id)
            assert await view(session) == ["rule r1", "rule r2", "walrus", "m2", "m3"]

    async def test_a_second_reset_covers_the_messages_since_the_first(self, manager: SessionManager) -> None:
        session = manager.session("s")
        await say(session, "m1", "m2")
        await manager.reset("s")
        await manager.reset("s")
        assert len(await session.compactions()) == 1
        await say(session, "m3")
        await manager.reset("s")
        assert await view(session) == []
        newest = (await session.compactions())[-1]
        await session.undo_compaction(newest.id)
        assert await view(session) == ["m3"]

    async def test_reset_of_an_empty_session_or_of_system_messages_does_nothing(self, manager: SessionManager) -> None:
        await manager.create(id="empty")
        await manager.reset("empty")
        await manager.append("s", system("r1"))
        await manager.reset("s")
        assert await view(manager.session("s")) == ["rule r1"]
        assert await manager.session("s").compactions() == []

    async def test_reset_hides_a_summary_and_leaves_other_branches_alone(self, manager: SessionManager) -> None:
        session = manager.session("s")
        await say(session, "m1", "m2", "m3", "m4")
        await session.add_compaction("short", "m1", "m2")
        await session.append(user("b1"), parent="m3")
        await manager.reset("s")
        assert await view(session) == []
        await session.switch("m4")
        assert await view(session) == ["short", "m3", "m4"]

    async def test_a_message_appended_during_a_reset_stays_visible(self, manager: SessionManager) -> None:
        session = manager.session("s")
        await say(session, "m0")
        await asyncio.gather(manager.reset("s"), *(session.append(user(f"n{number}")) for number in range(10)))
        shown, written = await view(session), await path(session)
        assert sorted(written) == sorted(["m0", *(f"n{number}" for number in range(10))])
        assert shown == written[len(written) - len(shown) :]

    async def test_a_fork_of_a_reset_session_starts_with_its_view(self, manager: SessionManager) -> None:
        session = manager.session("s")
        await say(session, "m1", "m2")
        await manager.reset("s")
        await say(session, "m3")
        forked = await manager.fork("s")
        assert await view(forked) == ["m3"]
        await manager.reset(forked.id)
        assert (await view(forked), await view(session)) == ([], ["m3"])

    # thresholds of a session

    async def test_thresholds_must_be_durations(self, manager: SessionManager) -> None:
        for wrong in (timedelta(0), timedelta(-1), 5, "1h"):
            with pytest.raises(InvalidInputError):
                await manager.session("s").set_lifecycle(idle_after=wrong)  # type: ignore[arg-type]
            with pytest.raises(InvalidInputError):
                SessionManager("memory://").with_lifecycle(archive_after=wrong)  # type: ignore[arg-type]
            with pytest.raises(InvalidInputError):
                SessionManager("memory://").with_lifecycle(every=wrong)  # type: ignore[arg-type]
        assert await manager.get("s") is None
