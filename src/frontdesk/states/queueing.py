"""Who wants to change the same state on one event loop stands in line: tasks do not retry against each other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakValueDictionary

from frontdesk.errors import InvalidInputError
from frontdesk.store import StateKey, StateRow


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
    """A line for each state that somebody changes now."""

    def __init__(self) -> None:
        self._lines: WeakValueDictionary[tuple[Any, int, StateKey], Line] = WeakValueDictionary()

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
