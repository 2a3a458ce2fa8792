"""A process that counts: `state_worker.py URL COUNT` increments one state from COUNT concurrent tasks."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, replace

from frontdesk import SessionManager


@dataclass(frozen=True)
class Counter:
    n: int = 0


async def main(url: str, many: int) -> None:
    async with SessionManager("memory://", namespace="count") as manager:
        states = manager.states(Counter, store=url)
        await states.get_or_create("chat")
        await asyncio.gather(*(states.update("chat", lambda it: replace(it, n=it.n + 1)) for _ in range(many)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
