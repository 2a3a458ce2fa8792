"""Expiry: it slides with use, is exact to the millisecond, and an expired state does not exist, swept or not."""

from __future__ import annotations

import time
from itertools import count
from typing import NamedTuple

from frontdesk.store import StateKey, StateRow, StateStore
from frontdesk.testing.inputs import StoredText
from frontdesk.testing.state_contract.steps import HOUR, MILLISECOND, make, make_expired, pass_time, written


class Clock(NamedTuple):
    """The lead of the store's clock over the clock of this process, at least and at most, in microseconds."""

    least: int
    most: int


class ExpiryContract:
    async def test_reading_extends_the_expiry_and_changes_nothing_else(self, store: StateStore, key: StateKey) -> None:
        made = await make(store, key)
        await pass_time(MILLISECOND)
        read = await store.get_state(key)
        assert read is not None
        assert read.accessed_at > made.accessed_at
        assert read.expires_at == read.accessed_at + HOUR
        assert _unmoved(read) == _unmoved(made)
        assert await store.peek_state(key) == read

    async def test_touching_extends_the_expiry_and_peeking_does_not(self, store: StateStore, key: StateKey) -> None:
        made = await make(store, key)
        await pass_time(MILLISECOND)
        assert await store.peek_state(key) == made
        assert await store.touch_state(key)
        touched = await store.peek_state(key)
        assert touched is not None
        assert touched.accessed_at > made.accessed_at
        assert _unmoved(touched) == _unmoved(made)

    async def test_a_state_keeps_the_ttl_it_was_created_with(self, store: StateStore, key: StateKey) -> None:
        made = await make(store, key, ttl=HOUR + 7)
        read = await store.get_state(key)
        assert read is not None
        replaced = await store.replace_state(key, written(ttl=made.ttl), made.mark)
        assert replaced is not None
        assert read.ttl == replaced.ttl == HOUR + 7

    async def test_a_state_without_a_ttl_does_not_expire(self, store: StateStore, key: StateKey) -> None:
        made = await make(store, key, ttl=None)
        assert made.expires_at is None
        await _sweep(store)
        read = await store.get_state(key)
        assert read is not None
        assert read.ttl is None

    async def test_an_expired_state_does_not_exist_even_before_it_is_swept(
        self, store: StateStore, namespace: str
    ) -> None:
        keys = [StateKey(namespace, f"chat{n}", "sessions") for n in range(5)]
        await make_expired(store, *keys)
        assert await store.get_state(keys[0]) is None
        assert await store.peek_state(keys[0]) is None
        assert not await store.touch_state(keys[1])
        assert not await store.delete_state(keys[2])
        assert await store.delete_states(namespace, keys[3].id) == 0
        assert await store.peek_state(keys[1]) is None, "touching must not bring it back"

    async def test_an_expired_state_cannot_be_replaced_but_can_be_created_again(
        self, store: StateStore, key: StateKey
    ) -> None:
        old = await make(store, key, '"old"', MILLISECOND)
        await pass_time(4 * MILLISECOND)
        assert await store.replace_state(key, written('"changed"'), old.mark) is None
        new = await make(store, key, '"new"', None)
        assert (new.value, new.version, new.ttl) == ('"new"', 1, None)
        assert new.created_at > old.created_at
        await _sweep(store)
        assert await store.peek_state(key) == new

    async def test_expiry_is_exact_to_the_millisecond(self, store: StateStore, namespace: str) -> None:
        """No read that ended before the expiry misses the state, and no read that began after it finds it."""
        clock = await _clock(store, StateKey(namespace, "clock", "sessions"))
        alive = gone = 0
        for number in count():
            if number >= 10 and alive:
                break
            key = StateKey(namespace, f"chat{number}", "sessions")
            # On a busy machine, 20 ms may be over before the first read ends.
            made = await make(store, key, ttl=20 * MILLISECOND * (1 + number // 10))
            used = await store.get_state(key) if number % 2 else None
            expires_at = (used or made).expires_at
            assert expires_at is not None
            while True:
                began = _now()
                row = await store.peek_state(key)
                ended = _now()
                if ended + clock.most < expires_at:
                    assert row is not None, f"gone {expires_at - ended - clock.most} µs too early"
                    alive += 1
                if began + clock.least >= expires_at:
                    assert row is None, f"found {began + clock.least - expires_at} µs too late"
                    gone += 1
                    break
        assert gone >= 10

    async def test_a_sweep_removes_expired_states_and_nothing_else(
        self, store: StateStore, namespace: str, stored_text: StoredText
    ) -> None:
        kept = [StateKey(namespace, f"kept{n}", "sessions") for n in range(2)]
        for key, ttl in zip(kept, (HOUR, None), strict=True):
            await make(store, key, '"kept"', ttl)
        gone = [StateKey(namespace, f"gone{n}", "sessions") for n in range(7)]
        await make_expired(store, *gone[:4], value='"the first secret"')
        await make_expired(store, *(key._replace(namespace=f"{namespace}2") for key in gone[4:]), value='"the second"')
        await _sweep(store, limit=2)
        text = await stored_text()
        assert "the first secret" not in text
        assert "the second" not in text
        assert all([await store.peek_state(key) for key in kept])

    async def test_a_sweep_keeps_a_state_that_was_used_and_removes_it_later(
        self, store: StateStore, key: StateKey, stored_text: StoredText
    ) -> None:
        clock = await _clock(store, key._replace(name="clock"))
        ttl = 200 * MILLISECOND
        await make(store, key, '"the last secret"', ttl)
        await pass_time(ttl // 2)
        used = await store.get_state(key)
        await pass_time(ttl // 2)
        await _sweep(store)
        row = await store.peek_state(key)
        if used is not None and _now() + clock.most < used.accessed_at + ttl:
            assert row == used
        await pass_time(ttl + MILLISECOND)
        await _sweep(store)
        text = await stored_text()
        assert "the last secret" not in text

    async def test_a_sweep_removes_no_more_than_its_limit(self, store: StateStore, namespace: str) -> None:
        await _sweep(store)
        await make_expired(store, *(StateKey(namespace, f"chat{n}", "sessions") for n in range(5)))
        assert (await store.sweep_states(3)).removed <= 3
        await _sweep(store)
        assert await store.sweep_states(3) == (0, False)


async def _sweep(store: StateStore, limit: int = 100) -> int:
    removed, more = 0, True
    while more:
        batch, more = await store.sweep_states(limit)
        removed += batch
    return removed


async def _clock(store: StateStore, key: StateKey) -> Clock:
    """The difference of the clocks, narrowed down by a number of reads."""
    await make(store, key)
    least, most = -HOUR, HOUR
    for _ in range(50):
        began = _now()
        row = await store.get_state(key)
        ended = _now()
        assert row is not None
        least, most = max(least, row.accessed_at - ended), min(most, row.accessed_at - began)
    return Clock(least, max(least, most))


def _unmoved(row: StateRow) -> tuple[object, ...]:
    return row.value, row.mark, row.version, row.ttl, row.created_at


def _now() -> int:
    return time.time_ns() // 1000
