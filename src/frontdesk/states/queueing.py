"""What spares changes of states a round trip or a conflict: tasks of one event loop stand in line for the same state,
and begin with what the one before them left."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakValueDictionary

from frontdesk.errors import InvalidInputError
from frontdesk.store import StateKey, StateRow

_MOST_REMEMBERED = 256
_LARGEST_REMEMBERED = 16_384


class Line:
    """Those who wait for one state, and what the one before them left.

    A row may be taken over by who was already waiting when the store was asked for it: it was current at some moment of
    their own call, just as if they had read it themselves."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self._clock = 0
        self._row: StateRow | None = None
        self._asked_at = 0

    def now(self) -> int:
        self._clock += 1
        return self._clock

    def leave(self, row: StateRow | None, asked_at: int) -> None:
        self._row, self._asked_at = row, asked_at

    def left_for(self, came_at: int) -> StateRow | None:
        return self._row if self._asked_at > came_at else None


_inside: ContextVar[frozenset[Line]] = ContextVar("frontdesk_states_inside", default=frozenset())


class Lines:
    """A line for each state that somebody changes now, and the rows that were written last.

    Who changes a state again begins with what it wrote the last time, which saves reading it: if that is not what is
    there any more, the write is refused, and it is read after all."""

    def __init__(self) -> None:
        self._written: OrderedDict[tuple[int, StateKey], StateRow] = OrderedDict()
        self._guard = threading.Lock()
        self._lines: WeakValueDictionary[tuple[Any, int, StateKey], Line] = WeakValueDictionary()

    def recall(self, store: object, key: StateKey) -> StateRow | None:
        """What was written last, once."""
        with self._guard:
            return self._written.pop((id(store), key), None)

    def remember(self, store: object, key: StateKey, row: StateRow) -> None:
        if len(row.value) > _LARGEST_REMEMBERED:
            return
        with self._guard:
            self._written[id(store), key] = row
            if len(self._written) > _MOST_REMEMBERED:
                self._written.popitem(last=False)

    @asynccontextmanager
    async def stand(self, store: object, key: StateKey) -> AsyncIterator[tuple[Line, StateRow | None]]:
        """Wait for one's turn; gives the line, and the row that can be taken over, if there is one.

        Raises `InvalidInputError` inside of a change of the same state, which would wait for itself."""
        line = self._lines.setdefault((asyncio.get_running_loop(), id(store), key), Line())
        if line in (inside := _inside.get()):
            raise InvalidInputError(f"the state {key.id!r} is changed inside of its own change: return the new value")
        came_at = line.now()
        async with line.lock:
            token = _inside.set(inside | {line})
            try:
                yield line, line.left_for(came_at)
            finally:
                _inside.reset(token)
