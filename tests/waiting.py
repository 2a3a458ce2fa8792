"""Waiting for conditions. A test passes as soon as its condition holds, however slow the machine is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

PATIENCE = 60.0
"""seconds that are more than enough on a busy machine for anything that is to happen soon"""


async def eventually(holds: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait until a condition holds; one that never does fails the test."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = holds()
        if found if isinstance(found, bool) else await found:
            return
        assert time.monotonic() < deadline, "this never came true"
        await asyncio.sleep(0.005)


_GRACE = 0.4
"""seconds of a running event loop in which an error reaches its caller, after a loop that stood still too"""


async def results_within(seconds: float, calls: Iterable[Awaitable[Any]]) -> list[Any]:
    """The results or errors of calls that wait for timers of this event loop, `seconds` and a bit at the most. A busy
    machine delays this timer as much as theirs."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    await asyncio.sleep(seconds)
    _, late = await asyncio.wait(tasks, timeout=_GRACE)
    assert not late, f"{len(late)} of {len(tasks)} took longer than {seconds} seconds"
    return [task.exception() or task.result() for task in tasks]
