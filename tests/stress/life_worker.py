"""A process of `test_life`: `life_worker.py URL sweep` sweeps in the background and prints the calls of its end hook,
until its input ends; `life_worker.py URL new KEYS ROUNDS` starts sessions under keys, and prints them."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

from frontdesk import Session, SessionKey, SessionManager


def say(*words: str) -> None:
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


class Ends:
    """A hook that prints its calls."""

    async def on_session_end(self, session: Session, reason: str) -> None:
        say(session.id, reason)


async def sweep(url: str) -> None:
    manager = SessionManager(url).with_lifecycle(
        archive_after=timedelta(milliseconds=1), every=timedelta(milliseconds=20)
    )
    manager.register_hook(Ends())
    async with manager:
        await manager.stats()
        await asyncio.to_thread(sys.stdin.read)


async def begin(url: str, keys: int, rounds: int) -> None:
    async with SessionManager(url) as manager:
        for number in range(rounds):
            key = SessionKey("bot", "web", f"guest-{number % keys}")
            await manager.append(key, {"role": "user", "content": "hello"})
            say((await manager.new(key)).id)


if __name__ == "__main__":
    if sys.argv[2] == "sweep":
        asyncio.run(sweep(sys.argv[1]))
    else:
        asyncio.run(begin(sys.argv[1], int(sys.argv[3]), int(sys.argv[4])))
