"""A Redis cluster whose slots move, and whose primary is killed, while states are counted up. What was acknowledged is
there afterwards, as far as Redis can promise that: a write that no replica had when its primary was killed is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from redis.crc import key_slot

from frontdesk import SessionManager, States
from frontdesk.errors import StoreUnavailableError
from tests.servers.redis import RedisCluster, RedisServer
from tests.waiting import eventually

IDS = [f"chat{number}" for number in range(12)]
WORKERS = 4


class Count(msgspec.Struct):
    value: int = 0


class Load:
    """Workers that count up one state after the other, and what they were told."""

    def __init__(self, states: States[Count]) -> None:
        self.states = states
        self.done: Counter[str] = Counter()
        self.uncertain: Counter[str] = Counter()
        self._finished = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        workers = [asyncio.create_task(self._work(number)) for number in range(WORKERS)]
        try:
            yield
        finally:
            self._finished = True
            await asyncio.gather(*workers)

    async def _work(self, number: int) -> None:
        while not self._finished:
            for id in IDS[number:] + IDS[:number]:
                try:
                    await self.states.update(id, lambda count: Count(count.value + 1), create=True)
                    self.done[id] += 1
                except StoreUnavailableError as error:
                    self.uncertain[id] += error.uncertain

    async def some_more(self, count: int = 10) -> None:
        """Wait until every state was counted up a few times more."""
        before = Counter(self.done)
        await eventually(lambda: all(self.done[id] >= before[id] + count for id in IDS))

    async def assert_kept(self, least: Counter[str]) -> None:
        for id in IDS:
            found = await self.states.get(id)
            assert found is not None
            assert least[id] <= found.value <= self.done[id] + self.uncertain[id], id


@pytest.fixture
def cluster() -> Iterator[RedisCluster]:
    with RedisCluster() as cluster:
        yield cluster


def slot_of(id: str) -> int:
    return int(key_slot(f"{{default:{id}}}".encode()))


async def test_no_update_is_lost_while_slots_move(cluster: RedisCluster) -> None:
    async with SessionManager("memory://") as manager:
        load = Load(manager.states(Count, store=cluster.url))
        async with load.running():
            await load.some_more()
            for id in IDS[:4]:
                await asyncio.to_thread(move, cluster, slot_of(id))
                await load.some_more()
        assert not load.uncertain
        await load.assert_kept(load.done)


def move(cluster: RedisCluster, slot: int) -> None:
    """Move a slot to the next primary, key by key, as `redis-cli --cluster reshard` does."""
    names = {node: node.ask("CLUSTER", "MYID") for node in cluster.primaries}
    here = next(node for node in cluster.primaries if node.ask("CLUSTER", "COUNTKEYSINSLOT", slot))
    there = cluster.primaries[(cluster.primaries.index(here) + 1) % len(cluster.primaries)]
    there.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", names[here])
    here.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", names[there])
    while keys := here.ask("CLUSTER", "GETKEYSINSLOT", slot, 10):
        here.ask("MIGRATE", "127.0.0.1", there.port, "", 0, 5000, "KEYS", *keys)
    others = [node for node in cluster.primaries if node not in (here, there)]
    for node in (there, here, *others):
        node.ask("CLUSTER", "SETSLOT", slot, "NODE", names[there])


async def test_no_update_that_a_replica_has_is_lost_with_its_primary(cluster: RedisCluster) -> None:
    killed: RedisServer = cluster.primaries[0]
    theirs = {id for id in IDS if slot_of(id) < 16_384 // 3}
    assert theirs
    assert theirs != set(IDS)
    async with SessionManager("memory://") as manager:
        load = Load(manager.states(Count, store=cluster.url))
        async with load.running():
            await load.some_more()
            acknowledged = Counter(load.done)
            await asyncio.to_thread(cluster.settle)
            killed.kill()
            await load.some_more()
        least = Counter({id: acknowledged[id] if id in theirs else load.done[id] for id in IDS})
        await load.assert_kept(least)
