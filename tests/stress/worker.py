"""A process that works on sessions and prints what was acknowledged, one line each.

Started by the stress tests, and killed by some of them: `worker.py URL NAMESPACE WORK NAME COUNT`.
"""

from __future__ import annotations

import asyncio
import random
import sys
from itertools import count

from frontdesk import SessionManager

TASKS = 8
SESSIONS = 16


def acknowledge(*words: str) -> None:
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


async def append(manager: SessionManager, name: str, many: int, sessions: int) -> None:
    """Append messages from several concurrent tasks, to one session or to many; endlessly if `many` is 0."""

    async def task(number: int) -> None:
        for n in range(many) if many else count():
            session_id = f"s{(number + n) % sessions}"
            message_id = f"{name}-{number}-{n}"
            await manager.append(session_id, {"id": message_id, "role": "user", "content": f"text {n}"})
            acknowledge(session_id, message_id)

    await asyncio.gather(*(task(number) for number in range(TASKS)))


async def change(manager: SessionManager, name: str) -> None:
    """All other kinds of changes, at random and endlessly."""
    chance = random.Random(name)

    async def task(number: int) -> None:
        session = manager.session(f"{name}-{number}")
        for n in count():
            added = await session.append_all(
                {"id": f"{n}-{m}", "role": "user", "content": "word " * m} for m in range(6)
            )
            acknowledge(session.id, added[-1].message.id)
            old = [f"{chance.randrange(n + 1)}-{chance.randrange(5)}" for _ in range(3)]
            await session.delete_messages(old)
            await session.upsert({"id": f"{n}-5", "role": "user", "content": "changed " * chance.randrange(9)})
            compaction = await session.add_compaction("sum", f"{n}-5", f"{n}-5")
            fork = await manager.fork(session.id, new_id=f"{session.id}-fork-{n}")
            await fork.delete_messages([f"{n}-4", *old])
            await session.undo_compaction(compaction.id)
            await fork.append({"role": "user", "content": "in the fork"}, parent=f"{n}-5")
            if chance.random() < 0.3:
                await manager.delete(f"{session.id}-fork-{chance.randrange(n + 1)}")

    await asyncio.gather(*(task(number) for number in range(4)))


async def index(manager: SessionManager, name: str) -> None:
    """Append messages while the index is brought up to date, and now and then built again."""

    async def appending(number: int) -> None:
        for n in count():
            ids = [f"{name}-{number}-{n}-{m}" for m in range(40)]
            await manager.append_all(f"s{number}", [{"id": id, "role": "user", "content": f"lamp {n}"} for id in ids])
            acknowledge(f"s{number}", ids[-1])
            await asyncio.sleep(0.02)

    async def indexing() -> None:
        while True:
            await manager.reindex()

    await asyncio.gather(appending(0), appending(1), indexing())


async def main(url: str, namespace: str, work: str, name: str, many: int) -> None:
    async with SessionManager(url, namespace=namespace) as manager:
        if work == "change":
            await change(manager, name)
        elif work == "index":
            await index(manager, name)
        else:
            await append(manager, name, many, 1 if work == "one" else SESSIONS)


if __name__ == "__main__":
    given_url, given_namespace, given_work, given_name, given_count = sys.argv[1:]
    asyncio.run(main(given_url, given_namespace, given_work, given_name, int(given_count)))
