"""Sweeps and recovery: what happens to sessions over time, once for all workers of a namespace."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from frontdesk import Session, SessionKey, SessionManager, Store, SweepReport
from frontdesk.lifecycle.leases import hold_lease, holder
from frontdesk.lifecycle.transitions import COMPACTION_LEASE
from frontdesk.store import TURN, StateKey, StateStore, StateWrite
from tests.public_api.lifecycle import ADA, HOUR, Clock, listed, status
from tests.public_api.steps import path, say, user
from tests.waiting import PATIENCE, eventually

DAY = timedelta(days=1)


async def swept(manager: SessionManager) -> tuple[int, int]:
    """The numbers of sessions that a sweep archived and deleted."""
    report = await manager.sweep()
    assert report.ran
    return report.archived, report.deleted


class Ended:
    """A hook that signals an end."""

    def __init__(self) -> None:
        self.seen = asyncio.Event()

    async def on_session_end(self, session: Session, reason: str) -> None:
        self.seen.set()


class SweepTests:
    @pytest.fixture
    async def short(self, store: Store, namespace: str, clock: Clock) -> Any:
        """A manager that archives sessions after one day and deletes them after another."""
        manager = SessionManager(store, namespace=namespace, clock=clock)
        async with manager.with_lifecycle(archive_after=DAY, delete_after=DAY, every=None):
            yield manager

    async def test_a_sweep_archives_sessions_without_writes_for_a_week(
        self, timed: SessionManager, clock: Clock
    ) -> None:
        await timed.append(ADA, user("m1"))
        await timed.append("suspended", user("m1"))
        await timed.suspend("suspended")
        clock.advance(168 * HOUR - timedelta(seconds=1))
        await timed.append("fresh", user("m1"))
        assert await swept(timed) == (0, 0)
        clock.advance(timedelta(seconds=1))
        assert await swept(timed) == (1, 0)
        assert await status(timed, ADA) == ("archived", "timeout")
        assert (await listed(timed, "suspended"), await listed(timed, "active")) == (["suspended"], ["fresh"])
        assert await swept(timed) == (0, 0)
        clock.advance(10_000 * DAY)
        assert await swept(timed) == (1, 0)
        assert (await timed.stats()).sessions == 3

    async def test_a_returning_user_continues_the_archived_session(self, timed: SessionManager, clock: Clock) -> None:
        await timed.append(ADA, user("m1"))
        clock.advance(8 * DAY)
        await timed.sweep()
        await timed.append(ADA, user("m2"))
        session = timed.session(ADA)
        assert await path(session) == ["m1", "m2"]
        info = await session.info()
        assert (info.status, info.end_reason, info.ended_at, info.key) == ("active", None, None, ADA)
        assert await swept(timed) == (0, 0)

    async def test_ended_sessions_are_deleted_only_if_configured_and_after_the_threshold(
        self, short: SessionManager, timed: SessionManager, clock: Clock
    ) -> None:
        await short.append("timeout", user("m1"))
        await short.append("archived", user("m1"))
        await short.archive("archived")
        clock.advance(DAY)
        assert await swept(short) == (1, 1)
        clock.advance(DAY - timedelta(seconds=1))
        assert await swept(short) == (0, 0)
        clock.advance(timedelta(seconds=1))
        assert await swept(timed) == (0, 0)
        assert await swept(short) == (0, 1)
        assert (await short.stats()).sessions == 0

    async def test_the_thresholds_of_a_session_take_precedence(self, short: SessionManager, clock: Clock) -> None:
        for name in ("pinned", "kept", "quick", "usual"):
            await short.append(name, user("m"))
        await short.session("pinned").set_lifecycle(archive_after=None)
        await short.session("kept").set_lifecycle(delete_after=None)
        await short.session("quick").set_lifecycle(archive_after=HOUR, delete_after=HOUR)
        clock.advance(HOUR)
        assert await swept(short) == (1, 0)
        clock.advance(HOUR)
        assert await swept(short) == (0, 1)
        clock.advance(DAY)
        assert await swept(short) == (2, 0)
        clock.advance(DAY)
        assert await swept(short) == (0, 1)
        assert await listed(short, "archived") == ["kept"]
        await short.session("pinned").set_lifecycle()
        assert await swept(short) == (1, 0)

    async def test_a_fork_and_a_split_keep_thresholds(self, short: SessionManager, clock: Clock) -> None:
        session = short.session("s")
        await say(session, "m1", "m2")
        await session.set_lifecycle(archive_after=None)
        forked = await short.fork("s")
        split = await short.compact_and_split("s", "short")
        clock.advance(10 * DAY)
        await short.sweep()
        assert [await status(short, each.id) for each in (forked, split)] == [("idle", None)] * 2

    async def test_a_sweep_handles_any_number_of_sessions_in_batches(self, short: SessionManager, clock: Clock) -> None:
        await asyncio.gather(*(short.append(f"s{number}", user("m")) for number in range(150)))
        clock.advance(DAY)
        assert await swept(short) == (150, 0)
        clock.advance(DAY)
        assert await swept(short) == (0, 150)

    async def test_only_one_worker_sweeps_at_a_time(
        self, store: Store, namespace: str, timed: SessionManager, short: SessionManager, clock: Clock
    ) -> None:
        for number in range(20):
            await timed.append(f"s{number}", user("m"))
        clock.advance(8 * DAY)
        reports = await asyncio.gather(timed.sweep(), short.sweep(), timed.sweep(), short.sweep())
        assert sum(report.archived for report in reports) == 20
        lease = await store.acquire_lease(namespace, None, "sweep", "another worker", 60_000_000)
        assert lease is not None
        assert await timed.sweep() == SweepReport(ran=False)
        await store.renew_lease(namespace, None, "sweep", lease.number, 0)

    async def test_a_sweep_does_not_affect_other_namespaces(
        self, store: Store, namespace: str, timed: SessionManager, clock: Clock
    ) -> None:
        async with SessionManager(store, namespace=f"{namespace}-other", clock=clock) as other:
            await other.append("s", user("m"))
            clock.advance(8 * DAY)
            assert await swept(timed) == (0, 0)
            assert await swept(other) == (1, 0)

    async def test_a_sweep_does_not_end_a_session_that_is_being_written_to(
        self, timed: SessionManager, clock: Clock
    ) -> None:
        session = timed.session("s")
        await say(session, "m0")
        clock.advance(8 * DAY)
        await asyncio.gather(timed.sweep(), *(session.append(user(f"m{n}")) for n in range(1, 20)))
        assert len(await path(session)) == 20
        assert (await status(timed, "s"))[0] == "active"

    async def test_a_manager_sweeps_in_the_background_and_stops_when_it_is_closed(
        self, store: Store, namespace: str, timed: SessionManager, clock: Clock
    ) -> None:
        await timed.append("s", user("m"))
        clock.advance(8 * DAY)
        manager = SessionManager(store, namespace=namespace, clock=clock)
        ended = Ended()
        manager.register_hook(ended)
        async with manager.with_lifecycle(every=timedelta(milliseconds=20)):
            await manager.list()
            await asyncio.wait_for(ended.seen.wait(), PATIENCE)
        assert await status(timed, "s") == ("archived", "timeout")
        slow = SessionManager(store, namespace=namespace).with_lifecycle(every=timedelta(hours=1))
        async with asyncio.timeout(PATIENCE), slow:
            await slow.list()

    # recovery

    async def test_recover_releases_the_leases_of_dead_processes(self, manager: SessionManager, store: Store) -> None:
        place, pid, process, rest = holder().split("/")
        for name in ("dead", "reused", "elsewhere"):
            await manager.append(name, user("m"))
        holders = {
            "dead": f"{place}/999999999/{process}/{rest}",
            "reused": f"{place}/{pid}/an earlier process/{rest}",
            "elsewhere": f"another machine/999999999/{process}/{rest}",
        }
        for name, who in holders.items():
            await store.acquire_lease(manager.namespace, name, COMPACTION_LEASE, who, 60_000_000)
        await store.acquire_lease(manager.namespace, None, "sweep", holders["dead"], 60_000_000)
        assert await listed(manager, "compacting") == ["elsewhere", "reused", "dead"]
        report = await manager.recover()
        assert (report.leases_freed, report.sessions) == (3, ("dead", "reused"))
        assert await listed(manager, "compacting") == ["elsewhere"]
        assert (await manager.sweep()).ran
        again = await manager.recover()
        assert (again.leases_freed, again.sessions) == (0, ())

    async def test_recover_keeps_the_leases_of_running_processes(self, manager: SessionManager) -> None:
        await manager.append("s", user("m"))
        async with hold_lease(manager._runtime, "s", COMPACTION_LEASE):
            assert (await manager.recover()).leases_freed == 0
            assert await status(manager, "s") == ("compacting", None)

    async def test_recover_recognises_the_holder_of_a_turn(self, manager: SessionManager, store: Store) -> None:
        await manager.append("s", user("m"))
        async with manager.session("s").turn():
            [held] = await store.held_leases(manager.namespace)
            assert (held.session_id, held.lease.name) == ("s", TURN)
            assert held.lease.holder.split("/")[:3] == holder().split("/")[:3]
            assert (await manager.recover()).leases_freed == 0

    # totals

    async def test_stats_show_how_the_namespace_grew(self, timed: SessionManager, clock: Clock) -> None:
        await timed.append_all("old", [user("m1")])
        clock.advance(40 * DAY)
        await timed.append_all("s1", [user("m1"), user("m2")])
        clock.advance(DAY)
        await timed.append_all("s2", [user("m1")])
        await timed.append_all("s3", [user("m1")])
        await timed.new(SessionKey("a", "b", "c"))
        growth = (await timed.stats()).growth
        assert [(each.day.isoformat(), each.sessions, each.messages) for each in growth] == [
            ("2026-02-10", 1, 2),
            ("2026-02-11", 3, 2),
        ]

    async def test_a_sweep_removes_expired_states(self, store: Store, timed: SessionManager, namespace: str) -> None:
        assert isinstance(store, StateStore)
        for number in range(30):
            await store.create_state(StateKey(namespace, str(number), "n"), StateWrite("{}", "mark", 1_000))
        await store.create_state(StateKey(namespace, "0", "kept"), StateWrite("{}", "mark", None))
        await asyncio.sleep(0.01)
        assert (await timed.sweep()).states >= 30
        assert await store.peek_state(StateKey(namespace, "0", "kept")) is not None

    async def test_a_sweep_removes_events_older_than_a_week_once_they_are_indexed(
        self, timed: SessionManager, clock: Clock
    ) -> None:
        await timed.append("chat", user("old"))
        await timed.reindex()
        await timed.append("chat", user("older"))
        clock.advance(8 * DAY)
        assert (await timed.sweep()).events == 2
        assert [hit.message_id for hit in await timed.search("older")] == ["older"]
        await timed.append("chat", user("new"))
        await timed.reindex()
        await timed.sweep()
        reported = [event.message_id async for event in timed.events(after="start", follow=False)]
        assert [message_id for message_id in reported if message_id] == ["new"]
        assert {hit.message_id for hit in await timed.search("old older new")} == {"old", "older", "new"}

    async def test_events_are_kept_for_the_configured_time(self, store: Store, namespace: str, clock: Clock) -> None:
        manager = SessionManager(store, namespace=namespace, clock=clock)
        async with manager.with_lifecycle(keep_events=None, archive_after=None, every=None):
            await manager.append("chat", user("m1"))
            clock.advance(1_000 * DAY)
            assert (await manager.sweep()).events == 0

    async def test_without_sweeps_the_indexer_trims_the_log(self, store: Store, namespace: str, clock: Clock) -> None:
        async with SessionManager(store, namespace=namespace, clock=clock) as manager:
            await manager.append("chat", user("m1"))
            clock.advance(8 * DAY)
            await manager.append("chat", user("m2"))

            async def is_trimmed() -> bool:
                return "m1" not in [event.message_id async for event in manager.events(after="start", follow=False)]

            await eventually(is_trimmed)

    async def test_recovery_continues_the_index_and_reports_how_much_was_missing(
        self, store: Store, namespace: str
    ) -> None:
        async with SessionManager(store, namespace=namespace) as closed_before_it_indexes:
            await closed_before_it_indexes.append_all("chat", [user(f"m{number}") for number in range(5)])
        async with SessionManager(store, namespace=namespace) as fresh:
            assert (await fresh.recover()).unindexed == 5

            async def is_indexed() -> bool:
                return (await fresh.recover()).unindexed == 0

            await eventually(is_indexed)
            assert (await fresh.search_info()).texts == 5
