"""Turns: fences, the queue for a lease, and the messages queued for its holder."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from frontdesk.errors import HeadMovedError, SessionNotFoundError, TurnLostError
from frontdesk.store import (
    TURN,
    Append,
    DocumentName,
    DocumentRow,
    LeaseAnswer,
    LeaseRow,
    LeaseWanted,
    Owner,
    Plan,
    Store,
)
from frontdesk.testing.store_contract.steps import (
    NAMESPACE,
    NOW,
    add,
    delete_session,
    message,
    new,
    path,
    row,
    tree,
)
from frontdesk.tree import forks, plans

MINUTE = 60_000_000


def wish(holder: str, session_id: str = "s", **values: object) -> LeaseWanted:
    given = {"patience": MINUTE, "ttl": MINUTE, **values}
    return LeaseWanted(namespace=NAMESPACE, session_id=session_id, name=TURN, holder=holder, **given)  # type: ignore[arg-type]


def has_it(answer: LeaseAnswer, holder: str) -> bool:
    return answer.lease is not None and answer.lease.holder == holder


async def turn(store: Store, holder: str, session_id: str = "s", **values: object) -> LeaseRow:
    """Take the turn of a session that has no holder."""
    answer = await store.queue_lease(wish(holder, session_id, **values))
    assert answer.lease is not None
    assert has_it(answer, holder)
    return answer.lease


async def end(store: Store, lease: LeaseRow) -> None:
    assert await store.renew_lease(NAMESPACE, "s", TURN, lease.number, 0)


def write(*ids: str, fence: int | None, **values: object) -> Append:
    messages = tuple(message(id) for id in ids)
    return Append(
        namespace=NAMESPACE,
        session_id="s",
        messages=messages,
        fresh=(False,) * len(ids),
        now=NOW,
        fence=fence,
        **values,  # type: ignore[arg-type]
    )


async def rename(store: Store, fence: int) -> Plan:
    plan = plans.change_row(await row(store, "s"), NOW, name="changed")
    return msgspec.structs.replace(plan, fence=fence)


class TurnContract:
    # fences

    async def test_callers_that_wait_are_listed_in_their_order(self, store: Store) -> None:
        await store.create(new("s"))
        await turn(store, "ana")
        for holder in ("ben", "cleo"):
            await store.queue_lease(wish(holder))
        await store.queue_lease(wish("late", patience=1))
        await store.queue_lease(wish("ben"))
        assert (await store.lease_queue(NAMESPACE, "s", TURN))[:2] == ["ben", "cleo"]
        await store.leave_lease(NAMESPACE, "s", TURN, "ben")
        assert (await store.lease_queue(NAMESPACE, "s", TURN))[:1] == ["cleo"]
        assert await store.lease_queue(NAMESPACE, "missing", TURN) == []

    async def test_a_fenced_append_is_written_while_the_turn_is_held(self, store: Store) -> None:
        await store.create(new("s"))
        lease = await turn(store, "ana")
        result = await store.append(write("a", "b", fence=lease.number))
        assert [made.inserted for made in result.rows] == [True, True]
        assert await path(store, "s") == ["a", "b"]
        assert await store.apply(await rename(store, lease.number))
        assert (await row(store, "s")).name == "changed"

    async def test_an_invalid_fence_refuses_appends_and_plans(self, store: Store) -> None:
        await store.create(new("s"))
        first = await turn(store, "ana")
        await end(store, first)
        second = await turn(store, "ben")
        assert second.number > first.number
        for fence in (first.number, second.number + 1, 0):
            with pytest.raises(TurnLostError, match="take another turn") as refused:
                await store.append(write("a", fence=fence))
            assert (refused.value.session_id, refused.value.number) == ("s", fence)
            with pytest.raises(TurnLostError):
                await store.apply(await rename(store, fence))
        assert await path(store, "s") == []
        assert (await row(store, "s")).name == ""

    async def test_an_expired_turn_is_refused_even_if_nobody_else_has_taken_it(self, store: Store) -> None:
        await store.create(new("s"))
        late = await turn(store, "ana", ttl=-1)
        with pytest.raises(TurnLostError):
            await store.append(write("a", fence=late.number))
        with pytest.raises(TurnLostError):
            await store.apply(await rename(store, late.number))

    async def test_the_fence_is_checked_before_everything_else(self, store: Store) -> None:
        await add(store, "s", "a")
        stale = await rename(store, 1)
        await store.apply(plans.change_row(await row(store, "s"), NOW, name="other"))
        for refused in (write("a", fence=1), write("b", fence=1, expected_head="x"), write("b", fence=1, parent="x")):
            with pytest.raises(TurnLostError):
                await store.append(refused)
        with pytest.raises(TurnLostError):
            await store.apply(stale)
        lease = await turn(store, "ana")
        with pytest.raises(HeadMovedError):
            await store.append(write("b", fence=lease.number, expected_head="x"))
        assert not (await store.append(write("a", fence=lease.number))).rows[0].inserted

    async def test_a_fence_creates_no_session_and_is_invalid_in_a_recreated_one(self, store: Store) -> None:
        with pytest.raises(TurnLostError):
            await store.append(write("a", fence=1))
        assert await store.get(NAMESPACE, "s") is None
        await store.create(new("s"))
        before = await turn(store, "ana")
        await delete_session(store, "s")
        await store.create(new("s"))
        assert (await turn(store, "ben")).number > before.number
        with pytest.raises(TurnLostError):
            await store.append(write("a", fence=before.number))

    async def test_a_refused_append_does_not_affect_concurrent_ones(self, store: Store) -> None:
        await store.create(new("s"))
        lease = await turn(store, "ana")
        fences = [lease.number, 1, None, 2, lease.number, None, 3, None]
        outcomes = await asyncio.gather(
            *(store.append(write(f"m{n}", fence=fence)) for n, fence in enumerate(fences)), return_exceptions=True
        )
        refused = [isinstance(outcome, TurnLostError) for outcome in outcomes]
        assert refused == [fence not in (lease.number, None) for fence in fences]
        assert await path(store, "s") == [f"m{n}" for n, lost in enumerate(refused) if not lost]

    async def test_writes_concurrent_with_a_takeover_come_before_it_or_are_refused(self, store: Store) -> None:
        await add(store, "s", "first")
        holder = await turn(store, "ana")

        async def late(n: int) -> None:
            await store.append(write(f"old{n}", fence=holder.number))

        async def takeover() -> None:
            lease = (await store.queue_lease(wish("ben", force=True))).lease
            assert lease is not None
            await store.append(write("new", fence=lease.number))

        works = [late(n) for n in range(20)]
        outcomes = await asyncio.gather(*works[:10], takeover(), *works[10:], return_exceptions=True)
        assert all(outcome is None or isinstance(outcome, TurnLostError) for outcome in outcomes)
        written = [f"old{n}" for n, outcome in enumerate(outcomes[:10] + outcomes[11:]) if outcome is None]
        messages = await path(store, "s")
        assert sorted(messages[1:-1]) == sorted(written)
        assert messages[-1] == "new"

    # the queue

    async def test_the_queue_is_served_in_order_of_arrival(self, store: Store) -> None:
        await store.create(new("s"))
        holder = await turn(store, "ana")
        for place, name in enumerate(["ben", "cid", "dan"]):
            answer = await store.queue_lease(wish(name))
            assert (answer.lease, answer.ahead) == (holder, place)
        for place, name in enumerate(["ben", "cid", "dan"]):
            assert (await store.queue_lease(wish(name))).ahead == place
        await end(store, holder)
        late = await store.queue_lease(wish("dan"))
        assert (late.lease, late.ahead) == (None, 2)
        assert (await store.queue_lease(wish("eve", patience=0))).ahead == 3
        for name in ("ben", "cid", "dan"):
            holder = await turn(store, name)
            await end(store, holder)
        await turn(store, "eve")

    async def test_a_repeated_request_returns_the_same_ticket_and_the_same_lease(self, store: Store) -> None:
        await store.create(new("s"))
        lease = await turn(store, "ana")
        assert (await store.queue_lease(wish("ana"))).lease == lease
        waits = await store.queue_lease(wish("ben"))
        assert waits.ticket > 0
        assert await store.queue_lease(wish("ben")) == waits
        assert (await store.queue_lease(wish("cid"))).ticket > waits.ticket

    async def test_a_waiter_that_stopped_asking_is_skipped(self, store: Store) -> None:
        await store.create(new("s"))
        holder = await turn(store, "ana")
        await store.queue_lease(wish("dead", patience=1))
        await store.queue_lease(wish("ben"))
        await asyncio.sleep(0.001)
        await end(store, holder)
        await turn(store, "ben")

    async def test_leaving_the_queue_gives_up_the_place_or_the_lease(self, store: Store) -> None:
        await store.create(new("s"))
        await turn(store, "ana")
        await store.queue_lease(wish("ben"))
        await store.queue_lease(wish("cid"))
        await store.leave_lease(NAMESPACE, "s", TURN, "ben")
        assert (await store.queue_lease(wish("cid"))).ahead == 0
        await store.leave_lease(NAMESPACE, "s", TURN, "ana")
        assert await store.get_lease(NAMESPACE, "s", TURN) is None
        await turn(store, "cid")
        for other in ("ana", "ben"):
            await store.leave_lease(NAMESPACE, "s", TURN, other)
        await store.leave_lease(NAMESPACE, "nowhere", TURN, "ana")
        held = await store.get_lease(NAMESPACE, "s", TURN)
        assert held is not None
        assert held.holder == "cid"

    async def test_force_takes_the_lease_before_all_waiters(self, store: Store) -> None:
        await store.create(new("s"))
        holder = await turn(store, "ana")
        await store.queue_lease(wish("ben"))
        taken = await store.queue_lease(wish("cid", force=True))
        assert has_it(taken, "cid")
        assert not await store.renew_lease(NAMESPACE, "s", TURN, holder.number, MINUTE)
        assert (await store.queue_lease(wish("ben"))).lease == taken.lease

    async def test_of_many_concurrent_requests_one_gets_the_lease_and_the_others_are_queued(self, store: Store) -> None:
        await store.create(new("s"))
        names = [f"n{n}" for n in range(16)]
        answers = await asyncio.gather(*(store.queue_lease(wish(name)) for name in names))
        waiting = sorted((answer.ticket, answer.ahead) for answer in answers if answer.ticket)
        assert [ahead for _, ahead in waiting] == list(range(15))
        assert len({ticket for ticket, _ in waiting}) == 15

    async def test_each_session_and_name_has_its_own_queue(self, store: Store) -> None:
        for session_id in ("s", "t"):
            await store.create(new(session_id))
            await turn(store, "ana", session_id)
        other = msgspec.structs.replace(wish("ben"), name="other")
        assert has_it(await store.queue_lease(other), "ben")
        with pytest.raises(SessionNotFoundError):
            await store.queue_lease(wish("ana", "nowhere"))

    async def test_a_lease_contains_the_time_since_when_it_is_held(self, store: Store) -> None:
        await store.create(new("s"))
        lease = await turn(store, "ana")
        assert await store.renew_lease(NAMESPACE, "s", TURN, lease.number, 2 * MINUTE)
        held = await store.get_lease(NAMESPACE, "s", TURN)
        assert held is not None
        assert held.expires_at - held.taken_at > MINUTE
        assert held.taken_at == lease.taken_at == lease.expires_at - MINUTE

    # queued messages

    async def test_queued_messages_come_in_order_and_stay_until_they_are_appended(self, store: Store) -> None:
        await store.create(new("s"))
        lease = await turn(store, "ana")
        for name in ("a", "b", "a"):
            answer = await store.queue_lease(wish(name, message=message(name)))
            assert answer.queued
            assert answer.ticket == 0
        for name in ("a", "b"):
            for _ in range(2):
                assert await store.next_queued(NAMESPACE, "s", TURN, lease.number) == message(name)
            await store.append(write(name, fence=lease.number, dequeue=True))
        assert await path(store, "s") == ["a", "b"]
        assert await store.next_queued(NAMESPACE, "s", TURN, lease.number) is None

    async def test_a_message_queue_found_empty_is_closed_until_the_next_holder(self, store: Store) -> None:
        await store.create(new("s"))
        lease = await turn(store, "ana")
        assert await store.next_queued(NAMESPACE, "s", TURN, lease.number) is None
        answer = await store.queue_lease(wish("ben", message=message("b")))
        assert (answer.queued, answer.ahead) == (False, 0)
        await end(store, lease)
        lease = await turn(store, "ben", message=message("b"))
        assert (await store.queue_lease(wish("cid", message=message("c")))).queued
        assert await store.next_queued(NAMESPACE, "s", TURN, lease.number) == message("b")

    async def test_queued_messages_outlive_the_holder_and_are_deleted_with_the_session(self, store: Store) -> None:
        await store.create(new("s"))
        lease = await turn(store, "ana")
        await store.queue_lease(wish("ben", message=message("b")))
        assert await store.renew_lease(NAMESPACE, "s", TURN, lease.number, 0)
        with pytest.raises(TurnLostError):
            await store.next_queued(NAMESPACE, "s", TURN, lease.number)
        lease = await turn(store, "cid")
        assert await store.next_queued(NAMESPACE, "s", TURN, lease.number) == message("b")
        await delete_session(store, "s")
        with pytest.raises(TurnLostError):
            await store.next_queued(NAMESPACE, "s", TURN, lease.number)
        await store.create(new("s"))
        lease = await turn(store, "cid")
        assert await store.next_queued(NAMESPACE, "s", TURN, lease.number) is None

    async def test_queued_messages_are_listed_and_removed_by_id(self, store: Store) -> None:
        for session_id in ("s", "other"):
            await store.create(new(session_id))
            await turn(store, "ana", session_id)
            for name in ("a", "b", "c"):
                await store.queue_lease(wish("ben", session_id, message=message(name)))
        assert await store.queued_messages(NAMESPACE, "s", TURN) == [message("a"), message("b"), message("c")]
        await store.remove_queued(NAMESPACE, "s", TURN, ["c", "missing", "a"])
        assert await store.queued_messages(NAMESPACE, "s", TURN) == [message("b")]
        assert len(await store.queued_messages(NAMESPACE, "other", TURN)) == 3
        assert await store.queued_messages(NAMESPACE, "missing", TURN) == []
        await store.remove_queued(NAMESPACE, "missing", TURN, ["b"])

    async def test_a_refused_append_leaves_the_queue_unchanged(self, store: Store) -> None:
        await store.create(new("s"))
        lease = await turn(store, "ana", message=message("a"))
        with pytest.raises(TurnLostError):
            await store.append(write("a", fence=lease.number - 1, dequeue=True))
        assert await store.next_queued(NAMESPACE, "s", TURN, lease.number) == message("a")

    async def test_an_append_without_a_fence_also_removes_its_messages_from_the_queue(self, store: Store) -> None:
        await add(store, "s", "m1")
        lease = await turn(store, "first")
        for id in ("q1", "q2"):
            await store.queue_lease(wish("second", message=message(id)))
        await store.append(write("q1", fence=None, dequeue=True))
        queued = await store.next_queued(NAMESPACE, "s", TURN, lease.number)
        assert queued is not None
        assert queued.id == "q2"

    async def test_a_holder_that_takes_every_queued_message_leaves_none_behind(self, store: Store) -> None:
        """A message reported as queued was queued before the holder found the queue empty."""
        await store.create(new("s"))
        lease = await turn(store, "ana")
        queued: list[str] = []
        refused: list[str] = []
        taken: list[str] = []

        async def leave(name: str) -> None:
            answer = await store.queue_lease(wish(name, message=message(name), patience=0))
            (queued if answer.queued else refused).append(name)

        async def take() -> None:
            while (found := await store.next_queued(NAMESPACE, "s", TURN, lease.number)) is not None:
                await store.append(write(found.id, fence=lease.number, dequeue=True))
                taken.append(found.id)

        await leave("first")
        await asyncio.gather(take(), *(leave(f"m{n}") for n in range(40)))
        assert sorted(taken) == sorted(queued)
        assert len(queued) + len(refused) == 41

    async def test_messages_of_concurrent_first_callers_are_each_queued_once(self, store: Store) -> None:
        """Nobody has held the lease before, so that there is no row yet that a caller could lock."""
        names = [f"m{n}" for n in range(6)]
        for session_id in (f"s{n}" for n in range(12)):
            await store.create(new(session_id))
            answers = await asyncio.gather(
                *(
                    store.queue_lease(wish(f"{name} {n}", session_id, message=message(name)))
                    for name in names
                    for n in "ab"
                )
            )
            leases = {answer.lease.number for answer in answers if answer.lease is not None}
            assert [answer.queued for answer in answers].count(False) == len(leases) == 1
            found = []
            while (queued := await store.next_queued(NAMESPACE, session_id, TURN, *leases)) is not None:
                found.append(queued.id)
                await store.append(
                    msgspec.structs.replace(write(queued.id, fence=None, dequeue=True), session_id=session_id)
                )
            assert sorted(found) == names

    # sessions that follow one another under a key

    async def test_a_plan_hands_the_turn_and_the_queue_over_to_the_session_that_it_creates(self, store: Store) -> None:
        old, _ = await store.create(new("s", agent="a", channel="c", peer="p"))
        await store.create(new("other"))
        held = await turn(store, "ann")
        await store.queue_lease(wish("bob", message=message("q1")))
        await store.queue_lease(wish("eve"))
        await turn(store, "zoe", "other")
        await store.queue_lease(wish("bob", "other", message=message("q2")))
        plan = Plan(
            guards=((old.number, old.revision),),
            now=NOW,
            fence=held.number,
            set={"key_current": False},
            create=new("next", agent="a", channel="c", peer="p"),
            hand_over=("system",),
        )
        assert await store.apply(plan)
        assert await store.get_lease(NAMESPACE, "s", TURN) is None
        assert await store.get_lease(NAMESPACE, "next", TURN) == held
        queued = await store.next_queued(NAMESPACE, "next", TURN, held.number)
        assert queued is not None
        assert queued.id == "q1"
        with pytest.raises(TurnLostError):
            await store.append(write("late", fence=held.number))
        assert (await turn(store, "zoe", "other")).holder == "zoe"
        assert await store.renew_lease(NAMESPACE, "next", TURN, held.number, 0)
        assert (await turn(store, "eve", "next")).number > held.number

    async def test_a_fork_can_take_over_the_turn_and_the_queue(self, store: Store) -> None:
        await add(store, "s", "m1")
        held = await turn(store, "ann")
        await store.queue_lease(wish("bob", message=message("q1")))
        plan = forks.split(await tree(store, "s"), new("next"), "compaction", NOW)
        assert await store.apply(msgspec.structs.replace(plan, fence=held.number))
        assert await store.get_lease(NAMESPACE, "s", TURN) is None
        assert await store.get_lease(NAMESPACE, "next", TURN) == held
        assert await store.queued_messages(NAMESPACE, "next", TURN) == [message("q1")]
        assert await store.queued_messages(NAMESPACE, "s", TURN) == []
        assert await path(store, "next") == ["m1"]

    async def test_only_named_documents_are_handed_over(self, store: Store) -> None:
        old, _ = await store.create(new("s", agent="a", channel="c", peer="p"))
        owner, following = Owner("session", "s"), Owner("session", "next")
        for label, version in (("system", 1), ("system", 2), ("memory", 1)):
            document = DocumentRow(label=label, version=version, content=f"{label} {version}", created_at=NOW)
            assert await store.put_document(NAMESPACE, owner, document)
        plan = Plan(
            guards=((old.number, old.revision),),
            now=NOW,
            set={"key_current": False},
            create=new("next", agent="a", channel="c", peer="p"),
            hand_over=("system", "unknown"),
        )
        assert await store.apply(plan)
        [system] = await store.document_versions(NAMESPACE, DocumentName(following, "system", ""))
        assert system.content == "system 2"
        assert await store.document_versions(NAMESPACE, DocumentName(following, "memory", "")) == []

    async def test_a_lease_wanted_by_key_is_only_that_of_the_current_session(self, store: Store) -> None:
        old, _ = await store.create(new("s", agent="a", channel="c", peer="p"))
        held = await turn(store, "ann", by_key=True)
        waiting = await store.queue_lease(wish("bob", by_key=True))
        assert (waiting.moved, waiting.ticket) == (False, 1)
        assert await store.apply(plans.change_row(old, NOW, key_current=False))
        for holder in ("bob", "cy"):
            answer = await store.queue_lease(wish(holder, by_key=True, message=message(f"of {holder}")))
            assert answer == LeaseAnswer(None, moved=True)
        await end(store, held)
        taken = await turn(store, "zoe")  # nobody is left in the queue
        assert await store.next_queued(NAMESPACE, "s", TURN, taken.number) is None
        await end(store, taken)
        assert (await store.queue_lease(wish("bob", by_key=True))).moved
        assert (await store.queue_lease(wish("bob", by_key=True, force=True))).moved

    async def test_no_message_is_queued_for_a_holder_without_intake(self, store: Store) -> None:
        await store.create(new("s"))
        await turn(store, "ann", intake=False)
        answer = await store.queue_lease(wish("bob", message=message("q")))
        assert (answer.queued, answer.ticket) == (False, 1)
