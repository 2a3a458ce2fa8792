"""Ending streams of events that wait: when their manager is closed, or a server shuts down."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any
from weakref import WeakSet


class StreamEnd:
    """Whether a stream should end. It can be set from any thread."""

    def __init__(self) -> None:
        self.is_set = False
        self._waiting: asyncio.Future[None] | None = None

    def set(self) -> None:
        self.is_set = True
        waiting = self._waiting
        if waiting is not None:
            with suppress(RuntimeError):  # its loop was closed meanwhile
                waiting.get_loop().call_soon_threadsafe(_resolve, waiting)

    async def wait(self, work: Coroutine[Any, Any, None]) -> None:
        """Await some work. If the stream should end, the work is cancelled."""
        task = asyncio.ensure_future(work)
        ended = self._waiting = asyncio.get_running_loop().create_future()
        try:
            if not self.is_set:
                await asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiting = None
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        if not task.cancelled():
            task.result()


class OpenStreams:
    """The streams of a manager that may still return events."""

    def __init__(self) -> None:
        self._ends: WeakSet[StreamEnd] = WeakSet()
        self._lock = threading.Lock()

    def open(self) -> StreamEnd:
        end = StreamEnd()
        with self._lock:
            self._ends.add(end)
        return end

    def end_all(self) -> None:
        with self._lock:
            ends = [*self._ends]
        for end in ends:
            end.set()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
