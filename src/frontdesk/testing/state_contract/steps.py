"""Fixtures of the contract, and short ways to create states."""

from __future__ import annotations

import asyncio
import time
from itertools import count

import pytest

from frontdesk.messages.ids import new_id
from frontdesk.store import StateKey, StateOwner, StateRow, StateStore, StateWrite

HOUR = 3_600_000_000
MILLISECOND = 1_000
_marks = count(1)


class StateFixtures:
    @pytest.fixture
    def namespace(self) -> str:
        return f"contract-{new_id()}"

    @pytest.fixture
    def key(self, namespace: str) -> StateKey:
        return StateKey(namespace, "chat", "sessions")


def mark() -> str:
    return f"mark-{next(_marks)}"


def written(
    value: str = "{}", mark_: str | None = None, ttl: int | None = None, owner: StateOwner | None = None
) -> StateWrite:
    return StateWrite(value, mark() if mark_ is None else mark_, ttl, owner=owner)


async def make(
    store: StateStore,
    key: StateKey,
    value: str = "{}",
    ttl: int | None = HOUR,
    owner: StateOwner | None = None,
) -> StateRow:
    row = await store.create_state(key, written(value, ttl=ttl, owner=owner))
    assert row is not None
    return row


async def make_expired(store: StateStore, *keys: StateKey, value: str = "{}") -> None:
    """Create states that have expired and were not read since."""
    for key in keys:
        await make(store, key, value, MILLISECOND)
    await pass_time(4 * MILLISECOND)


async def pass_time(microseconds: int) -> None:
    """Wait until the clock has advanced by at least this much."""
    end = time.time_ns() + microseconds * 1000
    left = microseconds * 1000
    while left >= 0:
        await asyncio.sleep(left / 1e9 + 0.0005)
        left = end - time.time_ns()
