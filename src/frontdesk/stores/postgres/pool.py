"""The connections of one event loop. It hands them out in the order of the calls that wait, and replaces every
connection whose state is not known. Separate from asyncpg's pool, which costs more than many of our statements, and
waits for a connection that does not answer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import asyncpg

_IDLE_SECONDS = 300.0
_CLOSE_SECONDS = 5.0

if TYPE_CHECKING:
    Driver = asyncpg.Connection[Any]
else:
    Driver = asyncpg.Connection


class Pool:
    """At most `size` connections, each opened by `connect` when it is needed, and closed after a while without use."""

    def __init__(self, connect: Callable[[], Awaitable[Driver]], size: int) -> None:
        self._connect = connect
        self._size = size
        self._idle: list[tuple[Driver, float]] = []
        self._used: set[Driver] = set()
        self._connecting = 0
        self._waiting: deque[asyncio.Future[Driver | None]] = deque()
        self._tasks: set[asyncio.Future[Any]] = set()
        """connections that are being opened or closed"""
        self._reaper: asyncio.TimerHandle | None = None
        self._emptied = asyncio.Event()
        self._closed = False

    async def acquire(self) -> Driver:
        """A connection, which must be released. Raises what `connect` raises, and `InterfaceError` after `close`."""
        if self._closed:
            raise asyncpg.InterfaceError("the pool is closed")
        while self._idle:
            connection, _ = self._idle.pop()
            if not connection.is_closed():
                self._used.add(connection)
                return connection
            connection.terminate()
        if len(self._used) + self._connecting >= self._size:
            handed = await self._wait()
            if handed is not None:
                return handed
        else:
            self._connecting += 1
        return await self._open()

    async def _wait(self) -> Driver | None:
        """A connection that another call has released, or None for the permission to open one."""
        turn: asyncio.Future[Driver | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._pass_on(turn.result())
            raise

    async def _open(self) -> Driver:
        """A new connection. If the call is cancelled meanwhile, it is opened for the next one: the driver leaves
        unhandled exceptions behind when it is interrupted."""
        opening = asyncio.ensure_future(self._connect())
        self._tasks.add(opening)
        opening.add_done_callback(self._tasks.discard)
        try:
            connection = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._adopt)
            raise
        except BaseException:
            self._pass_on(None)
            raise
        self._connecting -= 1
        if self._closed:
            connection.terminate()
            raise asyncpg.InterfaceError("the pool is closed")
        self._used.add(connection)
        return connection

    def _adopt(self, opening: asyncio.Future[Driver]) -> None:
        """Take a connection that nobody waits for any more."""
        if opening.cancelled() or opening.exception() is not None:
            self._pass_on(None)
        elif self._closed:
            self._connecting -= 1
            opening.result().terminate()
        else:
            self._connecting -= 1
            self._used.add(opening.result())
            self._pass_on(opening.result())

    def release(self, connection: Driver, *, reuse: bool) -> None:
        """Take a connection back. It is closed unless `reuse`: a statement that is still running is cancelled."""
        if connection not in self._used:
            return  # `terminate` was first
        if reuse and not self._closed and not connection.is_closed():
            self._pass_on(connection)
            return
        self._used.discard(connection)
        self._dispose(connection)
        self._connecting += 1
        self._pass_on(None)

    def _pass_on(self, connection: Driver | None) -> None:
        """Give a connection, or (None) the permission to open one, to the next call that waits."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(connection)
                return
        if connection is None:
            self._connecting -= 1
        else:
            self._used.discard(connection)
            loop = asyncio.get_running_loop()
            self._idle.append((connection, loop.time()))
            if self._reaper is None:
                self._reaper = loop.call_later(_IDLE_SECONDS, self._reap)
        if self._closed and not self._used:
            self._emptied.set()

    def _reap(self) -> None:
        """Close what was not used for a while. The connection that was released last is the next to be used."""
        loop = asyncio.get_running_loop()
        old = [pair for pair in self._idle if pair[1] <= loop.time() - _IDLE_SECONDS or pair[0].is_closed()]
        self._idle = [pair for pair in self._idle if pair not in old]
        for connection, _ in old:
            self._dispose(connection)
        self._reaper = loop.call_later(_IDLE_SECONDS, self._reap) if self._idle else None

    def _dispose(self, connection: Driver) -> None:
        task = asyncio.get_running_loop().create_task(_close(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait until every connection was released, and close them."""
        self._closed = True
        self._refuse_waiting()
        for connection, _ in self._idle:
            self._dispose(connection)
        self._idle = []
        if self._reaper is not None:
            self._reaper.cancel()
        while self._used:
            self._emptied.clear()
            await self._emptied.wait()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def terminate(self) -> None:
        """Cut all connections at once."""
        self._closed = True
        for connection in [*self._used, *(connection for connection, _ in self._idle)]:
            connection.terminate()
        self._idle, self._used = [], set()
        for task in self._tasks:
            task.cancel()
        self._emptied.set()
        if self._reaper is not None:
            self._reaper.cancel()

    def _refuse_waiting(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(asyncpg.InterfaceError("the pool is closed"))


async def _close(connection: Driver) -> None:
    """Close a connection in whatever state it is."""
    with suppress(Exception):
        await connection.close(timeout=_CLOSE_SECONDS)
    if not connection.is_closed():
        connection.terminate()
