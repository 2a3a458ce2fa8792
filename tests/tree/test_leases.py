"""Who gets a lease and who waits, from rows alone."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from frontdesk.errors import TurnLostError
from frontdesk.store import LeaseAnswer, LeaseRow, LeaseWanted
from frontdesk.testing.store_contract.steps import message
from frontdesk.tree import leases
from frontdesk.tree.leases import Waiter

NOW = 1_000
HELD = LeaseRow("turn", 7, "ann", NOW + 50, NOW - 50)
OVER = replace(HELD, expires_at=NOW)


def wanted(**values: Any) -> LeaseWanted:
    return LeaseWanted(**{"namespace": "n", "session_id": "s", "name": "turn", "holder": "bob", "ttl": 100, **values})


def test_a_lease_ends_at_its_end_and_the_next_one_has_the_next_number() -> None:
    assert leases.held(HELD, NOW) == HELD
    assert leases.held(OVER, NOW) is None
    assert leases.acquire(HELD, "turn", "bob", 100, NOW) is None
    assert leases.acquire(OVER, "turn", "bob", 100, NOW) == LeaseRow("turn", 8, "bob", NOW + 100, NOW)
    assert leases.acquire(None, "turn", "bob", 100, NOW) == LeaseRow("turn", NOW, "bob", NOW + 100, NOW)


def test_only_the_present_holder_can_renew_or_leave() -> None:
    assert leases.renew(HELD, 7, 100, NOW) == replace(HELD, expires_at=NOW + 100)
    assert leases.renew(HELD, 7, 0, NOW) == replace(HELD, expires_at=NOW)
    assert leases.renew(HELD, 6, 100, NOW) is None
    assert leases.renew(OVER, 7, 100, NOW) is None
    assert leases.leave(HELD, "ann", NOW) == replace(HELD, expires_at=NOW)
    assert leases.leave(HELD, "bob", NOW) is None


def test_the_intake_closes_once_nothing_is_queued() -> None:
    assert leases.close_intake(HELD, "s", 7, NOW, is_empty=False) is None
    assert leases.close_intake(HELD, "s", 7, NOW, is_empty=True) == replace(HELD, intake=False)
    for late in (replace(HELD, number=8), OVER, None):
        with pytest.raises(TurnLostError):
            leases.close_intake(late, "s", 7, NOW, is_empty=True)


def test_a_free_lease_is_taken_by_the_first_in_the_queue_only() -> None:
    first, second = Waiter("ann", 1, NOW + 10), Waiter("bob", 2, NOW + 10)
    writes = leases.queue(OVER, [first, second], wanted(patience=30), NOW)
    assert (writes.answer, writes.lease) == (LeaseAnswer(None, 2, 1), None)
    writes = leases.queue(OVER, [first, second], wanted(holder="ann", patience=30), NOW)
    assert writes.lease is not None
    assert (writes.lease.holder, writes.lease.number, writes.leave) == ("ann", 8, ("ann",))


def test_a_place_in_the_queue_is_lost_to_those_who_ask_when_it_has_expired() -> None:
    writes = leases.queue(OVER, [Waiter("ann", 1, NOW), Waiter("bob", 2, NOW)], wanted(), NOW)
    assert writes.lease is not None
    assert (writes.lease.holder, writes.leave) == ("bob", ("ann", "bob"))


def test_a_place_is_written_when_it_is_new_or_has_grown_old() -> None:
    ask = wanted(patience=30)
    assert leases.queue(HELD, [Waiter("cy", 4, NOW + 9)], ask, NOW).place == Waiter("bob", 5, NOW + 30)
    assert leases.queue(HELD, [Waiter("bob", 3, NOW + 19)], ask, NOW).place == Waiter("bob", 3, NOW + 30)
    kept = leases.queue(HELD, [Waiter("bob", 3, NOW + 20)], ask, NOW)
    assert (kept.place, kept.answer) == (None, LeaseAnswer(HELD, 3, 0))


def test_without_patience_there_is_no_place_in_the_queue() -> None:
    writes = leases.queue(HELD, [Waiter("cy", 1, NOW + 9)], wanted(), NOW)
    assert (writes.answer, writes.place) == (LeaseAnswer(HELD, 0, 1), None)


def test_force_takes_the_lease_before_all_others() -> None:
    writes = leases.queue(HELD, [Waiter("cy", 1, NOW + 9)], wanted(force=True), NOW)
    assert writes.lease is not None
    assert (writes.lease.holder, writes.lease.number) == ("bob", 8)


def test_a_message_is_left_for_a_holder_whose_intake_is_open() -> None:
    ask = wanted(message=message("m1"))
    writes = leases.queue(HELD, [], ask, NOW)
    assert (writes.answer, writes.queues_message) == (LeaseAnswer(HELD, queued=True), True)
    closed = replace(HELD, intake=False)
    writes = leases.queue(closed, [], ask, NOW)
    assert (writes.answer, writes.queues_message) == (LeaseAnswer(closed), False)
    writes = leases.queue(OVER, [], ask, NOW)
    assert (writes.lease is not None, writes.queues_message) == (True, True)


def test_the_holder_that_asks_again_has_its_lease_and_nothing_is_written() -> None:
    writes = leases.queue(HELD, [Waiter("cy", 1, NOW)], wanted(holder="ann"), NOW)
    assert writes == leases.QueueWrites(LeaseAnswer(HELD))
