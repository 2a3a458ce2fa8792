"""A process that writes to the sessions of an agent as fast as it can, until its input ends: to the sessions of known
guests, and under new keys. `busy_worker.py URL NAMESPACE NAME GUESTS`."""

from __future__ import annotations

import asyncio
import random
import sys
from itertools import count

from frontdesk import SessionKey, SessionManager

TASKS = 4


def key_of(peer: str) -> SessionKey:
    return SessionKey("bot", "web", peer)


async def main(url: str, namespace: str, name: str, guests: int) -> None:
    ended = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
    chance = random.Random(name)

    async def write(number: int) -> None:
        for n in count():
            peer = f"guest-{chance.randrange(guests)}" if n % 20 else f"{name}-{number}-{n}"
            await manager.append(key_of(peer), {"role": "user", "content": "busy"})
            if n == 5:
                sys.stdout.write("writing\n")
                sys.stdout.flush()
            if ended.done():
                return

    async with SessionManager(url, namespace=namespace) as manager:
        await asyncio.gather(*(write(number) for number in range(TASKS)))


if __name__ == "__main__":
    given_url, given_namespace, given_name, given_guests = sys.argv[1:]
    asyncio.run(main(given_url, given_namespace, given_name, int(given_guests)))
