"""Sending commands from any event loop, and what becomes of a failure: tried again, or a typed error."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncGenerator, Awaitable
from contextlib import suppress
from typing import Any

from redis import exceptions as refusals

from frontdesk.errors import (
    StoreClosedError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from frontdesk.stores.redis.clients import Clients, maker
from frontdesk.stores.redis.scripts import Script
from frontdesk.stores.redis.url import Address

_PATIENCE = 0.5
"""seconds for which a single server that is away is asked again; a cluster gets the whole time-out to put another
in its place"""
_LOST = (refusals.ConnectionError, refusals.TimeoutError, OSError)
_UNSETTLED = (refusals.ClusterDownError, refusals.TryAgainError, refusals.MovedError)
_FORBIDDEN = (
    refusals.AuthenticationError,
    refusals.AuthorizationError,
    refusals.NoPermissionError,
    refusals.AuthenticationWrongNumberOfArgsError,
)


class Lane:
    """What belongs to one event loop: its clients, closed when the loop ends."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clients: Clients) -> None:
        self.loop = loop
        self.clients = clients
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
                await self.clients.close()

    async def close(self) -> None:
        await self.enter()
        await self._keeper.aclose()


class Engine:
    """Sends commands and scripts to whom they concern."""

    def __init__(self, address: Address, *, pool: int, timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._make = maker(address, pool, timeout)
        self._patience = timeout if address.cluster else min(_PATIENCE, timeout)
        self._lanes: dict[asyncio.AbstractEventLoop, Lane] = {}
        self._guard = threading.Lock()
        self._closed = False

    async def run(self, script: Script, keys: list[str], arguments: list[Any], *, repeatable: bool) -> Any:
        """What a script returns. After a lost connection one that is `repeatable` is sent again; for the rest
        `StoreUnavailableError` says that it may have happened."""
        rest = (len(keys), *keys, *arguments)
        try:
            return await self.send(keys[0], "EVALSHA", script.digest, *rest, repeatable=repeatable)
        except refusals.NoScriptError:
            return await self.send(keys[0], "EVAL", script.text, *rest, repeatable=repeatable)

    async def send(self, key: str, *command: Any, repeatable: bool) -> Any:
        """The same for a command about a key."""
        deadline = time.monotonic() + self._patience
        pause = 0.01
        while True:
            lane = self._lane()
            await lane.enter()
            looks = lane.clients.looks
            try:
                return await _heeding_cancellation(_send(lane.clients, key, command))
            except refusals.NoScriptError:
                raise
            except (refusals.RedisError, OSError) as error:
                self.refuse_if_closed()
                if not self._may_pass(error, repeatable) or time.monotonic() >= deadline:
                    uncertain = not repeatable and isinstance(error, _LOST) and not _never_sent(error)
                    raise translate(error, uncertain=uncertain) from None
                if not isinstance(error, refusals.MovedError):
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, 0.25)
            with suppress(refusals.RedisError, OSError):
                await lane.clients.look_again(looks)

    def _may_pass(self, error: BaseException, repeatable: bool) -> bool:
        """Whether trying again may help, and can do no harm."""
        if isinstance(error, _FORBIDDEN):
            return False
        if isinstance(error, _UNSETTLED) or (self._address.cluster and isinstance(error, refusals.ReadOnlyError)):
            return True
        return isinstance(error, _LOST) and (repeatable or _never_sent(error))

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
                lane = self._lanes[loop] = Lane(loop, Clients(self._address, self._make))
        return lane

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


async def _send(clients: Clients, key: str, command: tuple[Any, ...]) -> Any:
    client = await clients.of(key)
    try:
        return await client.execute_command(*command)
    except refusals.MovedError:
        raise
    except refusals.AskError as error:
        # The slot is on its way to another node, and the key has arrived there: it answers who says that it knows.
        async with clients.at((error.host, error.port)).pipeline(transaction=False) as pipeline:
            pipeline.execute_command("ASKING").execute_command(*command)
            return (await pipeline.execute())[1]


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
    """Whether nobody was there to send it to."""
    return isinstance(error.__cause__ or error.__context__, ConnectionRefusedError | socket.gaierror)


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
