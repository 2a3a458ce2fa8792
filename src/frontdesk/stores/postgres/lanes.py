"""What belongs to one event loop, and how it ends with the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress

from frontdesk.stores.postgres.pool import Pool
from frontdesk.unattended import sleep


class Lane:
    """The pool of an event loop, whether the schema was checked, and what has to be done when the loop ends.

    `on_close` is awaited before the pool is closed; `on_cut` is called when the loop ends without that."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: Pool) -> None:
        self.loop = loop
        self.pool = pool
        self.opening = asyncio.Lock()
        self.is_open = False
        self.on_close: list[Callable[[], Awaitable[None]]] = []
        self.on_cut: list[Callable[[], None]] = []
        self._keeper = self._keep()
        self._kept = False

    async def open(self) -> None:
        if not self._kept:
            await anext(self._keeper)
            self._kept = True

    async def _keep(self) -> AsyncGenerator[None]:
        """Cuts the connections when the loop ends without `close`: a loop finishes its generators as its last act."""
        try:
            yield
        finally:
            self.pool.terminate()
            for cut in self.on_cut:
                cut()
            await sleep(0)

    async def close(self, seconds: float) -> None:
        for finish in self.on_close:
            await finish()
        try:
            async with asyncio.timeout(seconds):
                await self.pool.close()
        except TimeoutError:
            self.pool.terminate()
        await self._keeper.aclose()

    def abandon(self) -> None:
        """Release the connections of a loop that does not run any more."""
        with suppress(RuntimeError):
            self.pool.terminate()
