"""Clients, one for each event loop, and what becomes of a failure: tried again, or a typed error."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any

from redis import exceptions as refusals
from redis.asyncio import BlockingConnectionPool, Connection, Redis, RedisCluster, SSLConnection
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from frontdesk.errors import (
    StoreClosedError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from frontdesk.stores.redis.scripts import Script
from frontdesk.stores.redis.url import Address

Call = Callable[[Any], Awaitable[Any]]

_PATIENCE = 0.5
"""seconds for which a single server that is away is asked again; a cluster gets the whole time-out to put another
in its place"""
_CONNECT_SECONDS = 5.0
_LOST = (refusals.ConnectionError, refusals.TimeoutError, OSError)
_UNSETTLED = (refusals.ClusterDownError, refusals.TryAgainError, refusals.RedisClusterException)
_FORBIDDEN = (
    refusals.AuthenticationError,
    refusals.AuthorizationError,
    refusals.NoPermissionError,
    refusals.AuthenticationWrongNumberOfArgsError,
)


class Lane:
    """What belongs to one event loop: its client, and how many may use it at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, client: Any, size: int) -> None:
        self.loop = loop
        self.client = client
        self.places = asyncio.Semaphore(size)
        self._keeper = self._keep()
        self._kept = False

    async def enter(self) -> None:
        if not self._kept:
            self._kept = True
            await anext(self._keeper)

    async def _keep(self) -> AsyncGenerator[None]:
        """Lets go of the connections when the loop ends without `close`: a loop finishes its generators last."""
        try:
            yield
        finally:
            with suppress(*_LOST, RuntimeError):
                await self.client.aclose()

    async def close(self) -> None:
        await self.enter()
        await self._keeper.aclose()


class Engine:
    """Runs scripts and commands."""

    def __init__(self, address: Address, *, pool: int, timeout: float) -> None:
        self._address = address
        self._size = pool
        self._timeout = timeout
        self._patience = timeout if address.cluster else min(_PATIENCE, timeout)
        self._lanes: dict[asyncio.AbstractEventLoop, Lane] = {}
        self._guard = threading.Lock()
        self._closed = False

    async def run(self, script: Script, keys: list[str], arguments: list[str | bytes], *, repeatable: bool) -> Any:
        """What a script returns. After a lost connection one that is `repeatable` is sent again; for the rest
        `StoreUnavailableError` says that it may have happened."""

        async def call(client: Any) -> Any:
            try:
                return await client.evalsha(script.digest, len(keys), *keys, *arguments)
            except refusals.NoScriptError:
                return await client.eval(script.text, len(keys), *keys, *arguments)

        return await self.call(call, repeatable=repeatable)

    async def call(self, work: Call, *, repeatable: bool) -> Any:
        """The same for any work with a client."""
        deadline = time.monotonic() + self._patience
        pause = 0.01
        while True:
            lane = self._lane()
            await lane.enter()
            try:
                async with lane.places:
                    return await _heeding_cancellation(work(lane.client))
            except (refusals.RedisError, refusals.RedisClusterException, OSError) as error:
                self.refuse_if_closed()
                sent = not _never_sent(error)
                if not self._may_pass(error) or (sent and not repeatable) or time.monotonic() >= deadline:
                    raise translate(error, uncertain=sent and not repeatable and isinstance(error, _LOST)) from None
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.25)

    def _may_pass(self, error: BaseException) -> bool:
        if isinstance(error, _FORBIDDEN):
            return False
        moving = self._address.cluster and isinstance(error, refusals.ReadOnlyError)
        return moving or isinstance(error, _LOST + _UNSETTLED)

    def refuse_if_closed(self) -> None:
        """Raises `StoreClosedError`."""
        if self._closed:
            raise StoreClosedError("the Redis store was closed: make a new manager")

    def _lane(self) -> Lane:
        loop = asyncio.get_running_loop()
        lane = self._lanes.get(loop)
        if lane is None or self._closed:
            with self._guard:
                self.refuse_if_closed()
                for gone in [other for other in self._lanes if other.is_closed()]:
                    del self._lanes[gone]
                lane = self._lanes[loop] = Lane(loop, self._new_client(), self._size)
        return lane

    def _new_client(self) -> Any:
        address = self._address
        common: dict[str, Any] = {
            **address.login,
            "socket_timeout": self._timeout,
            "socket_connect_timeout": min(self._timeout, _CONNECT_SECONDS),
            "retry": Retry(NoBackoff(), 0),  # only here is it known what can be repeated
        }
        if address.cluster:
            nodes = [ClusterNode(host, port) for host, port in address.nodes]
            return RedisCluster(startup_nodes=nodes, ssl=address.tls, max_connections=2 * self._size, **common)
        ((host, port),) = address.nodes
        pool = BlockingConnectionPool(
            max_connections=self._size,
            timeout=self._timeout,
            connection_class=SSLConnection if address.tls else Connection,
            host=host,
            port=port,
            db=address.database,
            **common,
        )
        return Redis.from_pool(pool)

    async def close(self) -> None:
        """Let go of the connections, also of those of other loops. Idempotent."""
        with self._guard:
            self._closed = True
            lanes, self._lanes = list(self._lanes.values()), {}
        here = asyncio.get_running_loop()
        for lane in lanes:
            if lane.loop is here:
                await lane.close()
            elif lane.loop.is_running():
                there = asyncio.run_coroutine_threadsafe(lane.close(), lane.loop)
                with suppress(TimeoutError, asyncio.CancelledError):
                    await asyncio.wait_for(asyncio.wrap_future(there), self._timeout)


async def _heeding_cancellation(work: Awaitable[Any]) -> Any:
    """The driver sometimes takes a cancellation for the end of one of its own time-outs, and goes on: not here."""
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    result = await work
    if task.cancelling() > before:
        raise asyncio.CancelledError
    return result


def _never_sent(error: BaseException) -> bool:
    """Whether nothing can have happened on the server: nobody was there, or the cluster refused."""
    origin = error.__cause__ or error.__context__
    return isinstance(error, _UNSETTLED) or isinstance(origin, ConnectionRefusedError | socket.gaierror)


def translate(error: BaseException, *, uncertain: bool = False) -> StoreError:
    """The typed error for a failure of the driver. Neither keys, values nor passwords are in its text."""
    happened = "; the change may have happened: look before trying again" if uncertain else ""
    name = type(error).__name__
    if isinstance(error, _FORBIDDEN):
        return StoreError(f"Redis does not let this user do it ({name}): check user, password and rights")
    if isinstance(error, refusals.OutOfMemoryError):
        return StoreFullError("Redis has reached its memory limit: nothing of this was written")
    if isinstance(error, refusals.ReadOnlyError):
        return StoreReadOnlyError("this Redis server is a replica, which can only be read: name its primary")
    if isinstance(error, refusals.TimeoutError | TimeoutError):
        return StoreUnavailableError(f"Redis did not answer in time{happened}")
    if isinstance(error, _LOST + _UNSETTLED):
        return StoreUnavailableError(f"Redis cannot be reached ({name}){happened}")
    return StoreError(f"Redis refused ({name}: {str(error).partition(' ')[0]})")
