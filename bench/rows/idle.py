"""50 managers of one file that follow events while nothing happens: the cost of waiting."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.run import Run
from bench.targets import Outcome, Target
from frontdesk import SessionManager

_MANAGERS = 50
_SECONDS = 60
_FLOOR = 13
"""milliseconds, if none of them follows events"""


async def measure(run: Run) -> Outcome:
    with TemporaryDirectory(dir=run.fast) as directory:
        used = await _idle(Path(directory) / "frontdesk.db", run.size(_SECONDS) if run.quick else _SECONDS)
    text = f"{_MANAGERS} idle managers that follow events, CPU in a minute"
    return Outcome("idle", [], [Target(text, "at most", 60, used, "ms", _FLOOR)])


async def _idle(path: Path, seconds: float) -> float:
    """The milliseconds of CPU time that a minute costs."""
    async with AsyncExitStack() as stack:
        managers = [await stack.enter_async_context(SessionManager(f"sqlite:///{path}")) for _ in range(_MANAGERS)]
        await managers[0].append("s", {"role": "user", "content": "hello"})
        following = [asyncio.create_task(_follow(manager)) for manager in managers]
        await asyncio.sleep(5)  # waits become longer in the first seconds
        before = time.process_time()
        await asyncio.sleep(seconds)
        used = time.process_time() - before
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
    return used * 1000 * 60 / seconds


async def _follow(manager: SessionManager) -> None:
    async for _ in manager.events():
        pass
