"""NOTIFY and LISTEN. They only shorten the wait of readers of the log, which is polled as well.

A transaction that notifies holds a lock of the whole database while it commits. So writes never notify. Instead, a
short transaction without disk writes follows them, at most ten times a second. A listener needs a direct connection."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import asyncpg

from frontdesk.deadlines import not_counted
from frontdesk.errors import FrontdeskError
from frontdesk.stores.bell import Bell
from frontdesk.unattended import sleep

_EVERY = 0.1
_CONNECT_AGAIN = 5.0
_WITHOUT_LISTENER = 0.5
"""seconds"""
NOTIFY = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, '')"


def channel_of(schema: str) -> str:
    return f"frontdesk_{hashlib.sha256(schema.encode()).hexdigest()[:16]}"


class Notices:
    """The notices of one event loop. `connect` returns a direct connection; None where there cannot be one."""

    def __init__(
        self,
        bell: Bell,
        channel: str,
        notify: Callable[[], Awaitable[object]],
        connect: Callable[[], Awaitable[asyncpg.Connection[Any]]] | None,
    ) -> None:
        self._bell = bell
        self._channel = channel
        self._notify = notify
        self._connect = connect
        self._listener: asyncpg.Connection[Any] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._sending: asyncio.Task[None] | None = None
        self._written = False
        self._next_attempt = 0.0
        self._closed = False

    def written(self) -> None:
        """Report a commit to those that wait, here at once and elsewhere soon."""
        self._bell.ring()
        self._written = True
        if not self._closed and (self._sending is None or self._sending.done()):
            with not_counted():
                self._sending = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        while self._written:
            self._written = False
            with suppress(FrontdeskError):
                await self._notify()
            await sleep(_EVERY)

    async def wait(self, seconds: float, since: int | None = None) -> int:
        """Wait for a notice. Without a listener, the caller should poll soon."""
        loop = asyncio.get_running_loop()
        is_deaf = self._listener is None or self._listener.is_closed()
        if self._connect is not None and is_deaf and loop.time() >= self._next_attempt:
            self._next_attempt = loop.time() + _CONNECT_AGAIN
            self._listening = loop.create_task(self._listen(self._connect))
        return await self._bell.wait(min(seconds, _WITHOUT_LISTENER) if is_deaf else seconds, since)

    async def _listen(self, connect: Callable[[], Awaitable[asyncpg.Connection[Any]]]) -> None:
        # Without a listener there is still the poll.
        with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
            connection = await connect()
            try:
                await connection.add_listener(self._channel, lambda *_: self._bell.ring())
                connection.add_termination_listener(lambda *_: self._bell.ring())
            except BaseException:
                connection.terminate()
                raise
            self._listener = connection
            self._bell.ring()

    def terminate(self) -> None:
        if self._listener is not None:
            self._listener.terminate()

    async def close(self) -> None:
        self._closed = True
        tasks = [task for task in (self._sending, self._listening) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.terminate()
        self._bell.ring()
