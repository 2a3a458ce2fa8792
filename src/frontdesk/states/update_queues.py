"""Queues for updates of the same state on one event loop. They save round trips and conflicts: each update starts from
the row that the one before it read or wrote."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakValueDictionary

from frontdesk.deadlines import leave_out, not_counted
from frontdesk.errors import InvalidInputError
from frontdesk.store import StateKey, StateRow

_MAX_CACHED_ROWS = 256
_MAX_CACHED_VALUE = 16_384
_PATIENCE = 0.05
_MOST_PATIENCE = 5.0


class UpdateQueue:
    """The updates that wait for one state, and the row that the last one handed on.

    An update may start from a row if it was already waiting when the store was asked for that row: the row was current
    at some moment of its own call, as if it had read the row itself."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self._ticks = 0
        self._row: StateRow | None = None
        self._asked_at = 0
        self.in_functions = 0.0
        """seconds for which the queue has waited for update functions"""

    def tick(self) -> int:
        """A moment that is later than all moments before it."""
        self._ticks += 1
        return self._ticks

    def hand_on(self, row: StateRow | None, asked_at: int) -> None:
        """Leave a row, asked for at a moment, to the updates that were waiting then."""
        self._row, self._asked_at = row, asked_at

    def row_for(self, waiting_since: int) -> StateRow | None:
        """The row that was handed on, if it was asked for after that moment."""
        return self._row if self._asked_at > waiting_since else None


class QueuedUpdate:
    """An update at the front of its queue. `row` is the row to start from, if one was handed on."""

    def __init__(self, queue: UpdateQueue) -> None:
        self.queue = queue
        self.row: StateRow | None = None
        self._is_first = False
        self._patience = _PATIENCE

    async def enter(self) -> None:
        waiting_since, in_functions = self.queue.tick(), self.queue.in_functions
        await self.queue.lock.acquire()
        leave_out(self.queue.in_functions - in_functions)
        self._is_first = True
        self.row = self.queue.row_for(waiting_since)

    def leave(self) -> None:
        if self._is_first:
            self._is_first = False
            self.queue.lock.release()

    async def run(self, function: Callable[[Any], Any], value: Any) -> Any:
        """The result of an update function. If an async one takes long, other updates of the state continue meanwhile.

        If the update loses to them, they wait longer for its next attempt, so that it is not overtaken forever."""
        with not_counted():
            began = time.monotonic()
            result = function(value)
            if not inspect.isawaitable(result):
                self.queue.in_functions += time.monotonic() - began
                return result
            task = asyncio.ensure_future(result)
            try:
                await asyncio.wait([task], timeout=self._patience)
                self.queue.in_functions += time.monotonic() - began
                if not task.done():
                    self.leave()
                    await asyncio.wait([task])
                    self._patience = min(2 * (time.monotonic() - began), _MOST_PATIENCE)
                    await self.enter()
            except asyncio.CancelledError:
                task.cancel()
                await asyncio.wait([task])
                raise
            return await task


_running_updates: ContextVar[frozenset[UpdateQueue]] = ContextVar("frontdesk_running_updates", default=frozenset())


class UpdateQueues:
    """A queue for each state that is being updated, and a cache of the rows that were written last.

    An update starts from the cached row if there is one, which saves a read. If the state was changed elsewhere since,
    the write is refused, and the update reads the state after all."""

    def __init__(self) -> None:
        self._written: OrderedDict[tuple[int, StateKey], StateRow] = OrderedDict()
        self._guard = threading.Lock()
        self._queues: WeakValueDictionary[tuple[Any, int, StateKey], UpdateQueue] = WeakValueDictionary()

    def take_cached(self, store: object, key: StateKey) -> StateRow | None:
        """Remove the row that was written last from the cache and return it."""
        with self._guard:
            return self._written.pop((id(store), key), None)

    def cache(self, store: object, key: StateKey, row: StateRow) -> None:
        """Keep the row that was written last, unless it is large."""
        if len(row.value) > _MAX_CACHED_VALUE:
            return
        with self._guard:
            self._written[id(store), key] = row
            if len(self._written) > _MAX_CACHED_ROWS:
                self._written.popitem(last=False)

    @asynccontextmanager
    async def join(self, store: object, key: StateKey) -> AsyncIterator[QueuedUpdate]:
        """Wait in the queue of a state.

        Raises `InvalidInputError` inside an update of the same state, which would wait for itself."""
        queue = self._queues.setdefault((asyncio.get_running_loop(), id(store), key), UpdateQueue())
        if queue in (running := _running_updates.get()):
            raise InvalidInputError(f"the state {key.id!r} is updated inside its own update: return the new value")
        update = QueuedUpdate(queue)
        token = _running_updates.set(running | {queue})
        try:
            await update.enter()
            yield update
        finally:
            update.leave()
            _running_updates.reset(token)
