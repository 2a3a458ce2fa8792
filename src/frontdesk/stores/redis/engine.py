"""Sending commands from any event loop, and handling failures: a retry where that is safe, or a typed error."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncGenerator, Awaitable
from contextlib import suppress
from typing import Any

from redis import exceptions as redis_errors

from frontdesk.errors import (
    StoreClosedError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from frontdesk.pauses import sleep
from frontdesk.stores.redis.clients import Clients, client_factory
from frontdesk.stores.redis.scripts import DAMAGED, Script
from frontdesk.stores.redis.url import RedisAddress

_RETRY_SECONDS = 0.5
"""how long commands are retried if a single server cannot be reached; a cluster gets the whole timeout, to replace a
node"""
_CONNECTION_LOST = (redis_errors.ConnectionError, redis_errors.TimeoutError, OSError)
_CLUSTER_CHANGING = (redis_errors.ClusterDownError, redis_errors.TryAgainError, redis_errors.MovedError)
_FORBIDDEN = (
    redis_errors.AuthenticationError,
    redis_errors.AuthorizationError,
    redis_errors.NoPermissionError,
    redis_errors.AuthenticationWrongNumberOfArgsError,
)


class LoopClients:
    """The clients of one event loop, closed when the loop ends."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clients: Clients) -> None:
        self.loop = loop
        self.clients = clients
        self._cleanup = self._close_with_loop()
        self._entered = False

    async def enter(self) -> None:
        if not self._entered:
            self._entered = True
            await anext(self._cleanup)

    async def _close_with_loop(self) -> AsyncGenerator[None]:
        """Closes the connections if the loop ends without `close`: a loop closes its async generators when it ends."""
        try:
            yield
        finally:
            with suppress(*_CONNECTION_LOST, RuntimeError):
                await self.clients.close()

    async def close(self) -> None:
        await self.enter()
        await self._cleanup.aclose()


class RedisEngine:
    """Sends commands and scripts to the servers of their keys."""

    def __init__(self, address: RedisAddress, *, pool: int, timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._make = client_factory(address, pool, timeout)
        self._retry_seconds = timeout if address.cluster else min(_RETRY_SECONDS, timeout)
        self._by_loop: dict[asyncio.AbstractEventLoop, LoopClients] = {}
        self._guard = threading.Lock()
        self._closed = False

    async def run(self, script: Script, keys: list[str], arguments: list[Any], *, repeatable: bool) -> Any:
        """Run a script and return its result. After a lost connection, a `repeatable` script is sent again; for others
        `StoreUnavailableError` says that the change may have happened."""
        rest = (len(keys), *keys, *arguments)
        try:
            return await self.send(keys[0], "EVALSHA", script.digest, *rest, repeatable=repeatable)
        except redis_errors.NoScriptError:
            return await self.send(keys[0], "EVAL", script.text, *rest, repeatable=repeatable)

    async def send(self, key: str, *command: Any, repeatable: bool) -> Any:
        """Send a command that concerns a key, with the same handling of failures as `run`."""
        deadline = time.monotonic() + self._retry_seconds
        pause = 0.01
        while True:
            current = self._loop_clients()
            await current.enter()
            refreshes = current.clients.refreshes
            try:
                return await _honour_cancellation(_send(current.clients, key, command))
            except redis_errors.NoScriptError:
                raise
            except (redis_errors.RedisError, OSError) as error:
                self.check_open()
                if not self._can_retry(error, repeatable) or time.monotonic() >= deadline:
                    uncertain = not repeatable and isinstance(error, _CONNECTION_LOST) and not _was_never_sent(error)
                    raise translate(error, str(self._address), uncertain=uncertain) from None
                if not isinstance(error, redis_errors.MovedError):
                    await sleep(pause)
                    pause = min(2 * pause, 0.25)
            with suppress(redis_errors.RedisError, OSError):
                await current.clients.refresh_slots(refreshes)

    def _can_retry(self, error: BaseException, repeatable: bool) -> bool:
        """Whether sending again may help, and can do no harm."""
        if isinstance(error, _FORBIDDEN):
            return False
        if isinstance(error, _CLUSTER_CHANGING) or (
            self._address.cluster and isinstance(error, redis_errors.ReadOnlyError)
        ):
            return True
        return isinstance(error, _CONNECTION_LOST) and (repeatable or _was_never_sent(error))

    def reopen(self) -> None:
        """Allow commands again after `close`."""
        self._closed = False

    def check_open(self) -> None:
        """Raises `StoreClosedError` after `close`."""
        if self._closed:
            raise StoreClosedError("the Redis store was closed: open it again")

    def _loop_clients(self) -> LoopClients:
        loop = asyncio.get_running_loop()
        current = self._by_loop.get(loop)
        if current is None or self._closed:
            with self._guard:
                self.check_open()
                for ended in [other for other in self._by_loop if other.is_closed()]:
                    del self._by_loop[ended]
                current = self._by_loop[loop] = LoopClients(loop, Clients(self._address, self._make))
        return current

    async def close(self) -> None:
        """Close all connections, also those of other loops. Idempotent."""
        with self._guard:
            self._closed = True
            open_clients, self._by_loop = list(self._by_loop.values()), {}
        here = asyncio.get_running_loop()
        for each in open_clients:
            if each.loop is here:
                await each.close()
            elif each.loop.is_running():
                there = asyncio.run_coroutine_threadsafe(each.close(), each.loop)
                with suppress(TimeoutError, asyncio.CancelledError):
                    await asyncio.wait_for(asyncio.wrap_future(there), self._timeout)


async def _send(clients: Clients, key: str, command: tuple[Any, ...]) -> Any:
    client = await clients.for_key(key)
    try:
        return await client.execute_command(*command)
    except redis_errors.MovedError:
        raise
    except redis_errors.AskError as error:
        # The slot is being moved to another node, and the key is already there. Until the move is complete, that node
        # accepts the command only after ASKING.
        async with clients.for_node((error.host, error.port)).pipeline(transaction=False) as pipeline:
            pipeline.execute_command("ASKING").execute_command(*command)
            return (await pipeline.execute())[1]


async def _honour_cancellation(work: Awaitable[Any]) -> Any:
    """Await the driver, and raise the cancellation that it sometimes takes for one of its own timeouts and swallows."""
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    result = await work
    if task.cancelling() > before:
        raise asyncio.CancelledError
    return result


def _was_never_sent(error: BaseException) -> bool:
    """Whether there was no connection to send the command on."""
    return isinstance(error.__cause__ or error.__context__, ConnectionRefusedError | socket.gaierror)


def translate(error: BaseException, address: str, *, uncertain: bool = False) -> StoreError:
    """The typed error for an error of the driver. Its text contains no keys, values or passwords."""
    happened = "; the change may have happened: check before trying again" if uncertain else ""
    name = type(error).__name__
    if isinstance(error, _FORBIDDEN):
        return StoreError(f"Redis denied access ({name}): check user, password and permissions")
    if isinstance(error, redis_errors.OutOfMemoryError):
        return StoreFullError("Redis has reached its memory limit: nothing was written")
    if isinstance(error, redis_errors.ReadOnlyError):
        return StoreReadOnlyError("this Redis server is a read-only replica: use the URL of its primary")
    if isinstance(error, redis_errors.TimeoutError | TimeoutError):
        return StoreUnavailableError(f"Redis did not answer in time{happened}")
    if isinstance(error, _CONNECTION_LOST + _CLUSTER_CHANGING):
        return StoreUnavailableError(f"Redis at {address} cannot be reached ({name}){happened}", address=address)
    if str(error).startswith((DAMAGED, "WRONGTYPE")):
        return StoreCorruptError("Redis keeps something else than a state under this key: delete it")
    return StoreError(f"Redis returned an error ({name}: {str(error).partition(' ')[0]})")
