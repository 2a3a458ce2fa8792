"""The life cycle of sessions: reactivation by an append, idle, leased and due sessions, and keys that move."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from frontdesk.errors import HeadMovedError, SessionEndedError, SessionExistsError
from frontdesk.lifecycle import transitions
from frontdesk.store import NEVER, Columns, DueQuery, Plan, SessionQuery, SessionRow, StatsQuery, Store
from frontdesk.testing.store_contract.steps import NAMESPACE, NOW, add, new, path, row
from frontdesk.tree import plans

MINUTE = 60_000_000
KEY = {"agent": "support", "channel": "web", "peer": "ann"}
PARTS = ("support", "web", "ann", None)
ENDED: Columns = {"status": "archived", "end_reason": "new", "ended_at": NOW}
ENDED_WITHOUT_KEY: Columns = {**ENDED, "key_current": False}


async def set_row(store: Store, session_id: str, **values: Any) -> SessionRow:
    assert await store.apply(plans.change_row(await row(store, session_id), NOW, **values))
    return await row(store, session_id)


async def ids(store: Store, **wanted: Any) -> list[str]:
    query = SessionQuery(namespace=NAMESPACE, limit=100, **wanted)
    return [found.id for found in await store.page(query)]


async def due(store: Store, **wanted: Any) -> list[str]:
    query = DueQuery(namespace=NAMESPACE, **{"limit": 100, "threshold": None, **wanted})
    return [found.id for found in await store.due(query)]


class LifecycleContract:
    async def test_an_append_reports_whether_it_created_the_session(self, store: Store) -> None:
        assert (await add(store, "s", "m1")).created
        assert not (await add(store, "s", "m2")).created
        assert not (await add(store, "s", "m1")).created
        await store.create(new("t"))
        assert not (await add(store, "t", "m1")).created

    async def test_an_append_reactivates_a_session_that_timed_out(self, store: Store) -> None:
        await add(store, "s", "m1")
        ended = await set_row(store, "s", **{**ENDED, "end_reason": "timeout"})
        woken = (await add(store, "s", "m2", now=NOW + 5)).session
        assert (woken.status, woken.end_reason, woken.ended_at) == ("active", None, None)
        assert (woken.last_active_at, woken.message_count) == (NOW + 5, 2)
        assert woken.revision > ended.revision
        assert await row(store, "s") == woken

    @pytest.mark.parametrize(
        "ended",
        [ENDED, {**ENDED, "end_reason": "archive"}, {"status": "suspended"}],
        ids=["new", "archive", "suspended"],
    )
    async def test_an_append_to_an_explicitly_ended_session_is_refused_unless_it_reopens_it(
        self, store: Store, ended: dict[str, Any]
    ) -> None:
        await add(store, "s", "m1")
        before = await set_row(store, "s", **ended)
        with pytest.raises(SessionEndedError) as refused:
            await add(store, "s", "m2")
        assert (refused.value.session_id, refused.value.status) == ("s", ended["status"])
        assert refused.value.end_reason == ended.get("end_reason")
        assert await row(store, "s") == before
        woken = (await add(store, "s", "m2", reopen=True)).session
        assert (woken.status, woken.end_reason, woken.ended_at) == ("active", None, None)
        assert await path(store, "s") == ["m1", "m2"]

    async def test_a_retried_append_to_an_ended_session_changes_nothing(self, store: Store) -> None:
        await add(store, "s", "m1")
        before = await set_row(store, "s", **ENDED)
        assert [made.inserted for made in (await add(store, "s", "m1")).rows] == [False]
        assert [made.inserted for made in (await add(store, "s", "m1", reopen=True)).rows] == [False]
        assert await row(store, "s") == before

    async def test_an_append_that_is_refused_for_another_reason_reactivates_nothing(self, store: Store) -> None:
        await add(store, "s", "m1")
        before = await set_row(store, "s", **{**ENDED, "end_reason": "timeout"})
        with pytest.raises(HeadMovedError):
            await add(store, "s", "m2", expected_head="other")
        assert await row(store, "s") == before

    async def test_an_empty_session_that_ended_can_be_reopened(self, store: Store) -> None:
        await store.create(new("s"))
        await set_row(store, "s", **ENDED)
        with pytest.raises(SessionEndedError):
            await add(store, "s", "m1")
        assert (await add(store, "s", "m1", reopen=True)).session.status == "active"

    async def test_an_append_without_messages_succeeds_and_reactivates_nothing(self, store: Store) -> None:
        await add(store, "s", "m1")
        assert await store.apply(transitions.end(await row(store, "s"), "done", NOW))
        ended = await row(store, "s")
        assert (await add(store, "s", parent="unknown", expected_head="another")).rows == ()
        assert (await add(store, "s", reopen=True)).session == ended
        assert await row(store, "s") == ended

    async def test_many_concurrent_appends_reactivate_a_session_once(self, store: Store) -> None:
        await add(store, "s", "m")
        await set_row(store, "s", **{**ENDED, "end_reason": "timeout"})
        await asyncio.gather(*(add(store, "s", f"m{number}") for number in range(16)))
        woken = await row(store, "s")
        assert (woken.status, woken.message_count) == ("active", 17)
        details = [entry.detail for entry in await store.changes(NAMESPACE, None, 100, settled=False)]
        assert sum('"status":"active"' in detail for detail in details) == 1

    # keys

    async def test_a_reopened_session_gets_its_key_back_if_the_key_is_free(self, store: Store) -> None:
        await store.create(new("s", **KEY))
        await set_row(store, "s", **ENDED, key_current=False)
        assert (await add(store, "s", "m", reopen=True)).session.key_current
        current = await store.get_current(NAMESPACE, PARTS)
        assert current is not None
        assert current.id == "s"

    async def test_a_reopened_session_leaves_its_key_to_the_session_that_has_it_now(self, store: Store) -> None:
        await store.create(new("s", **KEY))
        await set_row(store, "s", **ENDED, key_current=False)
        await store.create(new("t", **KEY))
        woken = (await add(store, "s", "m", reopen=True)).session
        assert (woken.status, woken.key_current) == ("active", False)
        current = await store.get_current(NAMESPACE, PARTS)
        assert current is not None
        assert current.id == "t"

    async def test_of_sessions_reopened_concurrently_one_gets_the_key(self, store: Store) -> None:
        for number in range(8):
            await store.create(new(f"s{number}", **KEY))
            await set_row(store, f"s{number}", **ENDED, key_current=False)
        results = await asyncio.gather(*(add(store, f"s{number}", "m", reopen=True) for number in range(8)))
        assert sum(result.session.key_current for result in results) == 1
        assert sum([(await row(store, f"s{number}")).key_current for number in range(8)]) == 1

    async def test_a_plan_takes_a_key_only_if_it_is_free(self, store: Store) -> None:
        await store.create(new("s", **KEY))
        await set_row(store, "s", key_current=False)
        first = await row(store, "s")
        assert await store.apply(Plan(guards=((first.number, first.revision),), now=NOW, take_key=True))
        assert (await row(store, "s")).key_current
        await set_row(store, "s", key_current=False)
        await store.create(new("t", **KEY))
        second = await row(store, "s")
        assert await store.apply(Plan(guards=((second.number, second.revision),), now=NOW, take_key=True))
        assert not (await row(store, "s")).key_current
        keyless, _ = await store.create(new("keyless"))
        assert await store.apply(Plan(guards=((keyless.number, keyless.revision),), now=NOW, take_key=True))
        assert not (await row(store, "keyless")).key_current

    async def test_a_plan_can_create_a_session_that_takes_over_the_key(self, store: Store) -> None:
        old, _ = await store.create(new("old", **KEY))
        plan = plans.change_row(old, NOW, **ENDED_WITHOUT_KEY)
        made = Plan(guards=plan.guards, now=NOW, set=plan.set, create=new("new", **KEY))
        assert await store.apply(made)
        fresh, ended = await row(store, "new"), await row(store, "old")
        assert (fresh.key_current, ended.key_current, ended.status) == (True, False, "archived")
        assert fresh.family != ended.family
        assert await store.get_current(NAMESPACE, PARTS) == fresh
        assert not await store.apply(made)

    async def test_a_plan_that_would_create_an_existing_session_changes_nothing(self, store: Store) -> None:
        await store.create(new("taken"))
        old, _ = await store.create(new("old", **KEY))
        plan = plans.change_row(old, NOW, **ENDED_WITHOUT_KEY)
        with pytest.raises(SessionExistsError):
            await store.apply(Plan(guards=plan.guards, now=NOW, set=plan.set, create=new("taken", **KEY)))
        other = plans.change_row(await row(store, "taken"), NOW, name="renamed")
        with pytest.raises(SessionExistsError):
            await store.apply(Plan(guards=other.guards, now=NOW, set=other.set, create=new("new", **KEY)))
        assert await row(store, "old") == old
        assert (await row(store, "taken")).name == ""

    # pages

    async def test_a_page_of_idle_or_active_sessions_respects_the_threshold_of_each_session(self, store: Store) -> None:
        for number in range(6):
            await store.create(new(f"s{number}", now=NOW - number * MINUTE, agent="ab"[number % 2], peer=str(number)))
        await set_row(store, "s1", idle_after=MINUTE // 2)
        await set_row(store, "s5", idle_after=NEVER)
        await set_row(store, "s4", status="suspended")
        idle = {"status": "active", "now": NOW, "idle_after": 2 * MINUTE}
        assert await ids(store, **idle, idle=True) == ["s1", "s2", "s3"]
        assert await ids(store, **idle, idle=False) == ["s0", "s5"]
        assert await ids(store, **idle, idle=True, agent="b") == ["s1", "s3"]
        assert await ids(store, **idle, idle=False, agent="b") == ["s5"]
        assert await ids(store, **idle, idle=True, peer="1") == ["s1"]

    async def test_pages_over_every_status_are_ordered_by_activity(self, store: Store) -> None:
        statuses = ["active", "archived", "suspended"]
        for number in range(9):
            await store.create(new(f"s{number}", now=NOW + number))
            await set_row(store, f"s{number}", status=statuses[number % 3])
        assert await ids(store) == [f"s{number}" for number in range(8, -1, -1)]
        for number, status in enumerate(statuses):
            assert await ids(store, status=status) == [f"s{number + 6}", f"s{number + 3}", f"s{number}"]

    async def test_a_page_of_leased_sessions_contains_those_whose_lease_is_held(self, store: Store) -> None:
        for number in range(4):
            await store.create(new(f"s{number}"))
        await store.acquire_lease(NAMESPACE, "s1", "work", "me", MINUTE)
        await store.acquire_lease(NAMESPACE, "s2", "other", "me", MINUTE)
        await store.acquire_lease(NAMESPACE, "s3", "work", "me", 0)
        assert await ids(store, leased="work") == ["s1"]
        assert await ids(store, unleased="work") == ["s3", "s2", "s0"]

    async def test_a_page_shows_whose_lease_is_held(self, store: Store) -> None:
        statuses = ["active", "suspended", "archived"]
        for number in range(6):
            await store.create(new(f"s{number}", now=NOW + number, agent="bot", peer=f"p{number}", tags='["x"]'))
            await set_row(store, f"s{number}", status=statuses[number % 3])
        for number in (0, 4):
            await store.acquire_lease(NAMESPACE, f"s{number}", "work", "me", MINUTE)
        await store.acquire_lease(NAMESPACE, "s1", "other", "me", MINUTE)
        await store.acquire_lease(NAMESPACE, "s2", "work", "me", 0)
        await store.acquire_lease(NAMESPACE, None, "work", "me", MINUTE)
        selections: list[dict[str, Any]] = [{}, {"agent": "bot"}, {"tag": "x"}, {"order": "created"}]
        for filters in selections:
            query = SessionQuery(namespace=NAMESPACE, limit=100, shown_lease="work", **filters)
            shown = [(found.id, found.is_leased) for found in await store.page(query)]
            assert shown == [(f"s{number}", number in (0, 4)) for number in range(5, -1, -1)], filters
            assert not any(found.is_leased for found in await store.page(replace(query, shown_lease=None)))

    async def test_held_leases_are_listed_with_their_sessions(self, store: Store) -> None:
        await store.create(new("s"))
        await store.create(new("s", namespace="there"))
        held_one = await store.acquire_lease(NAMESPACE, "s", "work", "me", MINUTE)
        await store.acquire_lease(NAMESPACE, None, "sweep", "you", MINUTE)
        await store.acquire_lease(NAMESPACE, "s", "gone", "me", 0)
        await store.acquire_lease("there", "s", "work", "they", MINUTE)
        every = sorted(
            (held.session_id or "", held.lease.name, held.lease.holder) for held in await store.held_leases(NAMESPACE)
        )
        assert every == [("", "sweep", "you"), ("s", "work", "me")]
        assert [held.lease for held in await store.held_leases(NAMESPACE, "work")] == [held_one]
        assert await store.held_leases(NAMESPACE, "nothing") == []

    # due sessions

    async def test_active_sessions_are_due_by_their_last_activity(self, store: Store) -> None:
        for number in range(6):
            await store.create(new(f"s{number}", now=NOW - number * MINUTE))
        await set_row(store, "s3", status="suspended")
        await set_row(store, "s4", archive_after=NEVER)
        await set_row(store, "s1", archive_after=MINUTE)
        await store.create(new("there", namespace="there", now=1))
        common = {"what": "archive", "now": NOW}
        assert await due(store, **common, threshold=2 * MINUTE) == ["s5", "s2"]
        assert await due(store, **common, threshold=2 * MINUTE, limit=1) == ["s5"]
        last = await row(store, "s5")
        assert await due(store, **common, threshold=2 * MINUTE, after=(last.last_active_at, last.number)) == ["s2"]
        assert await due(store, **common) == ["s1"]
        own = await row(store, "s1")
        assert await due(store, **common, after=(own.last_active_at + MINUTE, own.number)) == []

    async def test_archived_sessions_are_due_by_their_end(self, store: Store) -> None:
        for number in range(5):
            await store.create(new(f"s{number}"))
            await set_row(store, f"s{number}", status="archived", ended_at=NOW - number * MINUTE)
        await set_row(store, "s0", status="active")
        await set_row(store, "s4", delete_after=NEVER)
        await set_row(store, "s1", delete_after=MINUTE)
        assert await due(store, what="delete", now=NOW, threshold=2 * MINUTE) == ["s3", "s2"]
        assert await due(store, what="delete", now=NOW) == ["s1"]

    async def test_a_plan_with_an_expected_head_does_not_end_a_session_that_was_just_written_to(
        self, store: Store
    ) -> None:
        seen = (await add(store, "s", "m1")).session
        await add(store, "s", "m2")
        plan = plans.change_row(seen, NOW, **ENDED)
        assert not await store.apply(Plan(guards=plan.guards, now=NOW, head=seen.head, set=plan.set))
        assert (await row(store, "s")).status == "active"

    # totals

    async def test_stats_contain_idle_and_leased_sessions_and_counts_by_day(self, store: Store) -> None:
        day = 24 * 60 * MINUTE
        await add(store, "idle", "m1", "m2", now=NOW - 2 * day)
        await add(store, "busy", "m1", now=NOW - day)
        await add(store, "fresh", "m1", now=NOW)
        await add(store, "ended", "m1", now=NOW - day)
        await set_row(store, "ended", **ENDED)
        await store.acquire_lease(NAMESPACE, "busy", "work", "me", MINUTE)
        query = StatsQuery(namespace=NAMESPACE, now=NOW, idle_after=MINUTE, leased="work", since=NOW - day)
        stats = await store.stats(query)
        assert stats.sessions == {"active": 1, "archived": 1, "compacting": 1, "idle": 1}
        assert (stats.messages, stats.days) == (5, {"2023-11-13": (2, 2), "2023-11-14": (1, 1)})
