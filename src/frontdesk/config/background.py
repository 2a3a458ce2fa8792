"""Background work: tasks, timers and pauses that end when their manager is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

_GRACE = 10.0
"""seconds that background work has to finish when its manager is closed"""


class Background:
    """The tasks and timers of one manager, on any number of event loops."""

    def __init__(self) -> None:
        self.closing = False
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._endless: set[str] = set()
        self._woken: dict[asyncio.AbstractEventLoop, asyncio.Event] = {}
        self._timers: dict[str, tuple[asyncio.AbstractEventLoop, asyncio.TimerHandle]] = {}

    def spawn(self, work: Coroutine[Any, Any, None], name: str, *, endless: bool = False) -> None:
        """Start a task, unless one with this name is running. `close` cancels a task that is `endless`."""
        running = self._tasks.get(name)
        if running is not None and not running.get_loop().is_closed():
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[name] = task
        if endless:
            self._endless.add(name)
        task.add_done_callback(lambda _: self._tasks.pop(name, None))

    async def pause(self, seconds: float) -> bool:
        """Wait. Returns False, immediately, if the manager is being closed."""
        woken = self._woken.setdefault(asyncio.get_running_loop(), asyncio.Event())
        if not self.closing:
            try:
                await asyncio.wait_for(woken.wait(), seconds)
            except TimeoutError:
                pass
        return not self.closing

    def later(self, seconds: float, work: Callable[[], None], name: str) -> None:
        """Call a function after some seconds, unless a call with this name is pending or the manager is closing."""
        loop = asyncio.get_running_loop()
        waiting = self._timers.get(name)
        if (waiting is not None and waiting[0] is loop) or self.closing:
            return

        def fire() -> None:
            self._timers.pop(name, None)
            work()

        self._timers[name] = loop, loop.call_later(seconds, fire)

    async def close(self) -> None:
        """Stop timers and endless tasks, and give the other tasks some seconds to finish."""
        self.closing = True
        for loop, woken in list(self._woken.items()):
            loop.call_soon_threadsafe(woken.set)
        here = asyncio.get_running_loop()
        for name in self._endless & self._tasks.keys():
            _cancel(self._tasks[name], here)
        for loop, timer in self._timers.values():
            if loop is here:
                timer.cancel()
        self._timers.clear()
        tasks = [task for task in self._tasks.values() if task.get_loop() is here]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_GRACE)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


def _cancel(task: asyncio.Task[None], here: asyncio.AbstractEventLoop) -> None:
    loop = task.get_loop()
    if loop is here:
        task.cancel()
    elif not loop.is_closed():
        loop.call_soon_threadsafe(task.cancel)
