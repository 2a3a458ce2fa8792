"""A process whose summariser never answers: `hanging_worker.py URL` prints `asked` when a compaction is in progress."""

from __future__ import annotations

import asyncio
import sys

from frontdesk import SessionManager


async def hang(_: str) -> str:
    sys.stdout.write("asked\n")
    sys.stdout.flush()
    await asyncio.Event().wait()
    return ""


async def main(url: str) -> None:
    async with SessionManager(url).with_compaction(hang, max_messages=10) as manager:
        for number in range(20):
            role = "assistant" if number % 2 else "user"
            await manager.append("chat", {"id": f"m{number}", "role": role, "content": f"text {number} " * 20})
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
