"""Waiting for conditions. A test passes as soon as its condition holds, however slow the machine is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

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
