"""Background work: tasks, timers and pauses that end when their manager is closed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from frontdesk.deadlines import not_counted
from frontdesk.unattended import log_failure

_log = logging.getLogger("frontdesk.unattended")
GRACE = 2.0
"""seconds that background work has to finish when its manager is closed; then it is cancelled"""
_LAST_GRACE = 1.0
"""seconds that cancelled work has to end; work that ignores its cancellation is abandoned"""


def may_run(task: asyncio.Task[None] | None) -> bool:
    """Whether a task (None: one that is being started) is still going to do its work. An event loop that ends cancels
    its tasks, even those that have not begun: code that relies on a task to tidy up asks here first."""
    return task is None or not (task.done() or task.get_loop().is_closed())


class Background:
    """The tasks and timers of one manager while it is open, on any number of event loops."""

    def __init__(self) -> None:
        self.closing = False
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._endless: set[str] = set()
        self._woken: dict[asyncio.AbstractEventLoop, asyncio.Event] = {}
        self._timers: dict[str, tuple[asyncio.AbstractEventLoop, asyncio.TimerHandle]] = {}

    def spawn(self, work: Coroutine[Any, Any, None], name: str, *, endless: bool = False) -> asyncio.Task[None]:
        """Start a task, unless one with this name is running; returns the one that runs. `close` cancels a task that is
        `endless`.

        What a task raises is logged under its name."""
        running = self._tasks.get(name)
        if running is not None and not running.get_loop().is_closed():
            work.close()
            return running
        with not_counted():  # a task inherits what holds where it is started
            task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[name] = task
        if endless:
            self._endless.add(name)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task.get_name(), None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log_failure(_log, error, "background task %r failed", task.get_name())

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
        """Stop timers and endless tasks, give the other tasks `GRACE` seconds to finish, and cancel what is left."""
        self.closing = True
        for loop, woken in [*self._woken.items()]:
            _call_in(loop, woken.set)
        for loop, timer in [*self._timers.values()]:
            _call_in(loop, timer.cancel)
        self._timers.clear()
        for name in self._endless & self._tasks.keys():
            _call_in(self._tasks[name].get_loop(), self._tasks[name].cancel)
        here = asyncio.get_running_loop()
        elsewhere = [
            asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._finish(loop), loop))
            for loop in {task.get_loop() for task in self._tasks.values()}
            if loop is not here and loop.is_running()
        ]
        await self._finish(here)
        if elsewhere:
            await asyncio.wait(elsewhere, timeout=_LAST_GRACE)

    async def _finish(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait for the tasks of the running loop, including those that are started meanwhile, and then cancel them."""
        deadline = loop.time() + GRACE
        while (tasks := self._tasks_of(loop)) and loop.time() < deadline:
            await asyncio.wait(tasks, timeout=deadline - loop.time())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_GRACE)

    def _tasks_of(self, loop: asyncio.AbstractEventLoop) -> list[asyncio.Task[None]]:
        current = asyncio.current_task()
        return [task for task in self._tasks.values() if task.get_loop() is loop and task is not current]


def _call_in(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    """Call a function in the thread of a loop, unless that is closed."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(function)
