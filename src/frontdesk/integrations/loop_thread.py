"""An event loop in a thread, for integrations whose callers have none, or one of another library."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

R = TypeVar("R")


class LoopThread:
    """An asyncio event loop in a thread, which is started when it is first needed, and again after a fork of the
    process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Callable[[], Awaitable[R]]) -> R:
        """What the work returns or raises. It is called, and awaited, on the loop."""

        async def awaited() -> R:
            return await work()

        with self._lock:
            if self._loop is None or self._process != os.getpid():
                self._process = os.getpid()
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="frontdesk", daemon=True)
                self._thread.start()
        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result()

    def close(self) -> None:
        """End the thread. The next `run` starts another one."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
