"""Random faults between client and Redis. Afterwards what is stored is compared with what each call has reported: done,
not happened, or uncertain.

A failure prints its seed; FRONTDESK_FAULT_SEED=... repeats that one."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from random import Random

import msgspec
import pytest

from frontdesk import SessionManager, States
from frontdesk.errors import ConcurrentChangeError, StoreUnavailableError
from frontdesk.messages import new_id
from tests.servers.proxy import FaultyProxy
from tests.stress.seeds import seeds, seeds_for

WORKERS = 12
COUNTERS = ("a", "b", "c")
KINDS = ("count", "count", "set", "get", "list")


class Count(msgspec.Struct):
    value: int = 0


@dataclass
class Outcomes:
    """What calls reported. `possible` has the values that the state of each worker may have."""

    done: Counter[str] = field(default_factory=Counter)
    uncertain: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    possible: dict[str, set[int | None]] = field(default_factory=dict)


async def work(states: States[Count], worker: str, calls: int, seed: int, seen: Outcomes) -> None:
    """Count in states that all share, and set and read one that no other worker has."""
    random = Random(f"{seed} {worker}")
    possible = seen.possible.setdefault(worker, {None})
    for number in range(calls):
        kind, counter = random.choice(KINDS), random.choice(COUNTERS)
        try:
            if kind == "count":
                await states.update(counter, lambda count: Count(count.value + 1), create=True)
                seen.done[counter] += 1
            elif kind == "set":
                await states.set(worker, Count(number))
                possible.clear()
                possible.add(number)
            elif kind == "get":
                found = await states.get(worker)
                value = None if found is None else found.value
                assert value in possible, f"{worker} read {value}, and not one of {possible}"
            else:
                listed = [info.id for info in (await states.list(prefix=worker)).items]
                assert (worker in listed) or None in possible
        except ConcurrentChangeError:  # a write that had been given up came late, and then the time was over
            seen.failed += 1
        except StoreUnavailableError as error:
            seen.failed += not error.uncertain
            seen.uncertain[counter if kind == "count" else kind] += error.uncertain
            if error.uncertain and kind == "set":
                possible.add(number)


async def check(states: States[Count], seen: Outcomes) -> None:
    for counter in COUNTERS:
        found = await states.get(counter)
        value = 0 if found is None else found.value
        assert seen.done[counter] <= value <= seen.done[counter] + seen.uncertain[counter], counter
    for worker, possible in seen.possible.items():
        found = await states.get(worker)
        assert (None if found is None else found.value) in possible, worker
    assert not seen.uncertain["get"] + seen.uncertain["list"]
    stored = {*COUNTERS, *seen.possible}
    assert {info.id for info in (await states.list()).items} == {id for id in stored if await states.get(id)}


async def interrupt(proxy: FaultyProxy, seed: int) -> None:
    """Now and then no connection is possible, for shorter or longer than calls wait."""
    random = Random(f"{seed} outages")
    while True:
        await asyncio.sleep(random.uniform(0.3, 1.5))
        await proxy.down()
        await asyncio.sleep(random.uniform(0, 2.5))
        await proxy.up()


async def run(url: str, seed: int, calls: int) -> None:
    seen = Outcomes()
    async with SessionManager("memory://", namespace=new_id()) as manager, FaultyProxy(url, seed, every=4_000) as proxy:
        through = manager.states(Count, ttl=None, store=f"redis://127.0.0.1:{proxy.port}/0?timeout=1.5&pool=6")
        outages = asyncio.create_task(interrupt(proxy, seed))
        await asyncio.gather(*(work(through, f"w{worker}", calls, seed, seen) for worker in range(WORKERS)))
        outages.cancel()
        await asyncio.gather(outages, return_exceptions=True)
        await proxy.restore()
        proxy.calm()
        await check(manager.states(Count, ttl=None, store=url), seen)
    print(f"{seen.done.total()} counted, {seen.failed} not, {seen.uncertain.total()} uncertain; faults {proxy.faults}")
    assert sum(proxy.faults.values()) > calls / 4


@pytest.mark.parametrize("seed", seeds(3))
async def test_what_calls_report_is_what_is_stored(redis_url: str, seed: int) -> None:
    await run(redis_url, seed, calls=150)


@pytest.mark.long
async def test_what_calls_report_is_what_is_stored_over_many_seeds(redis_url: str) -> None:
    for seed in seeds_for(200):
        await run(redis_url, seed, calls=200)
