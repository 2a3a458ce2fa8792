"""Random faults between client and PostgreSQL. Afterwards what is stored is compared with what each call has reported:
done, refused or not happened, or uncertain.

A failure prints its seed; FRONTDESK_FAULT_SEED=... repeats that one."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from frontdesk import SessionManager
from frontdesk.errors import StoreUnavailableError
from tests.servers.proxy import FaultyProxy
from tests.stress.outcomes import Outcomes, check, work
from tests.stress.seeds import seeds, seeds_for

WORKERS = 12


async def interrupt(proxy: FaultyProxy, seed: int) -> None:
    """Now and then no connection is possible, for shorter or longer than calls wait: what was sent has no answer."""
    random = Random(f"{seed} outages")
    while True:
        await asyncio.sleep(random.uniform(0.3, 1.5))
        await proxy.down()
        await asyncio.sleep(random.uniform(0, 2.5))
        await proxy.up()


async def run(url: str, seed: int, calls: int) -> None:
    seen = Outcomes()
    direct = SessionManager(url, namespace=f"seed-{seed}")
    async with direct, FaultyProxy(url, seed) as proxy:
        await direct.append("s0", {"role": "user", "content": "warm-up"})
        await direct.session("s0").clear_messages()
        manager = SessionManager(f"{proxy.url}&timeout=1.5&pool=6", namespace=f"seed-{seed}")
        while True:
            try:
                await manager.stats()
                break
            except StoreUnavailableError:
                continue  # the first connection of a process is not waited for
        outages = asyncio.create_task(interrupt(proxy, seed))
        await asyncio.gather(*(work(manager, worker, calls, seed, seen) for worker in range(WORKERS)))
        outages.cancel()
        await asyncio.gather(outages, return_exceptions=True)
        await proxy.restore()
        proxy.calm()
        await manager.close()
        await check(direct, seen)
    print(seen, proxy.faults)
    assert sum(proxy.faults.values()) > calls


@pytest.mark.parametrize("seed", seeds(3))
async def test_what_calls_report_is_what_is_stored(postgres_url: str, seed: int) -> None:
    await run(postgres_url, seed, calls=40)


@pytest.mark.long
async def test_what_calls_report_is_what_is_stored_over_many_seeds(postgres_url: str) -> None:
    for seed in seeds_for(300):
        await run(postgres_url, seed, calls=150)
