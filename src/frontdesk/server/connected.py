"""Work that is only worth doing while its caller is there: waiting for a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from fastapi import Request

from frontdesk.server.problems import RefusedError

T = TypeVar("T")


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """The result of some work, which is cancelled when the caller disconnects."""
    await request.body()
    doing, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait([doing, leaving], return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            return doing.result()
        raise RefusedError(499, "disconnected", "the caller has closed the connection", outcome="did not happen")
    finally:
        for task in (doing, leaving):
            task.cancel()
        await asyncio.gather(doing, leaving, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
