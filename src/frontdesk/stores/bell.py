"""`Bell`: wakes tasks that wait for changes when something is written through the same store object. It only shortens
their wait, because it does not notice writes of other processes."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress


class Bell:
    """Wakes waiting tasks, of any event loop, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: set[asyncio.Future[None]] = set()
        self._rings = 0

    def ring(self) -> None:
        """Wake all waiting tasks. Costs nothing if there are none."""
        self._rings += 1
        if not self._waiting:
            return
        with self._lock:
            waiting, self._waiting = self._waiting, set()
        for future in waiting:
            with suppress(RuntimeError):  # its loop was closed meanwhile
                future.get_loop().call_soon_threadsafe(_wake, future)

    async def wait(self, seconds: float, since: int | None = None) -> int:
        """Wait until it rings, for at most this many seconds, and not at all if it has rung since the call that
        returned `since`. Returns how often it has rung."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiting.add(future)
        if since is not None and self._rings != since:
            _wake(future)
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            pass
        finally:
            with self._lock:
                self._waiting.discard(future)
        return self._rings


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
