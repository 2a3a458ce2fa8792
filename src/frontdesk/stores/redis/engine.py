"""Sending commands from any event loop, and handling failures: a retry where that is safe, or a typed error."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Awaitable
from contextlib import suppress
from typing import Any

from redis import exceptions as redis_errors

from frontdesk import deadlines
from frontdesk.deadlines import one_call
from frontdesk.errors import (
    StoreClosedError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from frontdesk.stores.redis.clients import Clients, pool_factory
from frontdesk.stores.redis.scripts import DAMAGED, Script
from frontdesk.stores.redis.url import RedisAddress
from frontdesk.unattended import sleep

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.25
_UNREACHED = 0.5
"""seconds for which a server is tried that was never reached: a wrong address is more likely than one that starts"""
_CONNECTION_LOST = (redis_errors.ConnectionError, redis_errors.TimeoutError, OSError)
_CLUSTER_CHANGING = (redis_errors.ClusterDownError, redis_errors.TryAgainError, redis_errors.AskError)
"""`AskError` includes `MovedError`"""
_NOT_NOW = ("NOREPLICAS", "BUSY ", "MISCONF")
"""how a server refuses that has too few replicas, runs the script of somebody else, or cannot save"""
MAY_HAVE_HAPPENED = "; the change may have happened: check before trying again"
NOTHING_WRITTEN = "; nothing was written"
_FORBIDDEN = (
    redis_errors.AuthenticationError,
    redis_errors.AuthorizationError,
    redis_errors.NoPermissionError,
    redis_errors.AuthenticationWrongNumberOfArgsError,
)


class _Command:
    """One command: whether it may be sent twice, whether it changes something, and what became of its attempts."""

    __slots__ = ("_changes", "failure", "is_sent", "repeatable", "was_lost")

    def __init__(self, *, repeatable: bool, changes: bool) -> None:
        self.repeatable = repeatable
        self._changes = changes
        self.was_lost = False
        """whether an attempt that may have happened got no answer"""
        self.is_sent = False
        """whether it was sent, and neither answered nor lost"""
        self.failure: Exception | None = None
        """that of the last attempt"""

    def sent(self) -> None:
        self.is_sent = True

    def answered(self) -> None:
        self.is_sent = False

    def failed(self, error: Exception) -> None:
        """Note that the server has refused, or that its answer was lost."""
        self.failure = error
        self.was_lost = self.uncertain if _is_lost(error) else self.was_lost
        self.is_sent = False

    @property
    def uncertain(self) -> bool:
        """Whether an attempt may have happened although no answer came."""
        return self.was_lost or (self._changes and self.is_sent)


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
        self.timeout = timeout
        self._make = pool_factory(address, pool, timeout)
        self._is_reached = False
        self._by_loop: dict[asyncio.AbstractEventLoop, LoopClients] = {}
        self._guard = threading.Lock()
        self._closed = False

    @one_call
    async def run(self, script: Script, keys: list[str], arguments: list[Any], *, repeatable: bool) -> Any:
        """Run a script and return its result. After a lost connection, a `repeatable` script is sent again. If no
        answer came in the end, and one that changes a state was sent at least once, the error is `uncertain`."""
        rest = (len(keys), *keys, *arguments)
        call = _Command(repeatable=repeatable, changes=script.changes)
        try:
            result = await self._send(keys[0], ("EVALSHA", script.digest, *rest), call)
        except redis_errors.NoScriptError:
            result = await self._send(keys[0], ("EVAL", script.text, *rest), call)
        if result is None and call.was_lost:
            # It changes nothing now, but the first attempt may have: another caller was first only afterwards.
            text = f"the answer to this change was lost, and another caller has changed the state{MAY_HAVE_HAPPENED}"
            raise StoreUnavailableError(text, uncertain=True)
        return result

    async def send(self, key: str, *command: Any, repeatable: bool) -> Any:
        """Send a command that concerns a key, with the same handling of failures as `run`."""
        return await self._send(key, command, _Command(repeatable=repeatable, changes=False))

    async def _send(self, key: str, command: tuple[Any, ...], call: _Command) -> Any:
        try:
            async with asyncio.timeout_at(self._end_of_call()):
                return await self._attempt(key, command, call)
        except TimeoutError:
            raise self._failed(call) from None

    def _end_of_call(self) -> float:
        """When the current call ends, as a time of the loop. Raises `TimeoutError` if it should have ended."""
        left = deadlines.left(self.timeout)
        if left <= 0:
            raise TimeoutError
        return asyncio.get_running_loop().time() + left

    async def _attempt(self, key: str, command: tuple[Any, ...], call: _Command) -> Any:
        started = time.monotonic()
        pause = _FIRST_PAUSE
        was_moved = False
        while True:
            current = self._loop_clients()
            await current.enter()
            refreshes = current.clients.refreshes
            try:
                result = await _honour_cancellation(_send(current.clients, key, command, call))
                self._is_reached = True
                return result
            except redis_errors.NoScriptError:
                call.answered()
                raise
            except (redis_errors.RedisError, OSError) as error:
                self.check_open()
                self._is_reached |= _is_answer(error)
                can_retry = self._can_retry(error, call) and (
                    self._is_reached or time.monotonic() < started + _UNREACHED
                )
                call.failed(error)
                if not can_retry:
                    raise self._failed(call) from None
                is_moved = isinstance(error, redis_errors.MovedError)
            # The first MOVED only says that the ranges are old. Another one says that the nodes do not agree yet.
            if was_moved or not is_moved:
                await sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            was_moved = is_moved
            with suppress(redis_errors.RedisError, OSError):
                await current.clients.refresh_slots(refreshes)

    def _failed(self, call: _Command) -> StoreError:
        return translate(call.failure or TimeoutError(), str(self._address), uncertain=call.uncertain)

    def _can_retry(self, error: BaseException, call: _Command) -> bool:
        """Whether sending again may help, and can do no harm."""
        if isinstance(error, _FORBIDDEN):
            return False
        if _may_pass(error) or (self._address.cluster and isinstance(error, redis_errors.ReadOnlyError)):
            return True
        return _is_lost(error) and (call.repeatable or not call.is_sent)

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
        """Close all connections, including those of other loops. Idempotent."""
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
                    await asyncio.wait_for(asyncio.wrap_future(there), self.timeout)


async def _send(clients: Clients, key: str, command: tuple[Any, ...], call: _Command) -> Any:
    node, pool = await clients.for_key(key)
    try:
        return await clients.exchange(pool, command, sent=call.sent)
    except redis_errors.MovedError:
        raise
    except redis_errors.AskError as error:
        # The slot is being moved to another node, and the key is already there. Until the move is complete, that node
        # accepts the command only after ASKING. A host that is not named is the one that was asked.
        call.failed(error)
        other = clients.for_node((error.host or node[0], error.port))
        return await clients.exchange(other, ("ASKING",), command, sent=call.sent)


async def _honour_cancellation(work: Awaitable[Any]) -> Any:
    """Await the driver, and raise the cancellation that it sometimes takes for one of its own timeouts and swallows."""
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    result = await work
    if task.cancelling() > before:
        raise asyncio.CancelledError
    return result


def _is_lost(error: BaseException) -> bool:
    """Whether there is no answer: it is unknown how far the server came."""
    return isinstance(error, _CONNECTION_LOST) and not isinstance(error, redis_errors.BusyLoadingError)


def _is_answer(error: BaseException) -> bool:
    """Whether a server has refused. The driver counts some refusals among the errors of connections."""
    return isinstance(error, redis_errors.ResponseError | redis_errors.BusyLoadingError)


def _may_pass(error: BaseException) -> bool:
    """Whether the server has refused for now. Nothing has happened, and trying again may help."""
    is_not_now = isinstance(error, redis_errors.ResponseError) and any(word in str(error) for word in _NOT_NOW)
    return is_not_now or isinstance(error, (redis_errors.BusyLoadingError, *_CLUSTER_CHANGING))


def translate(error: BaseException, address: str, *, uncertain: bool = False) -> StoreError:
    """The typed error for an error of the driver. Its text contains no keys, values or passwords."""
    happened = MAY_HAVE_HAPPENED if uncertain else NOTHING_WRITTEN
    name = type(error).__name__
    if isinstance(error, _FORBIDDEN):
        text = f"Redis denied access ({name}): check user, password and permissions{happened}"
        return StoreError(text, uncertain=uncertain)
    if isinstance(error, redis_errors.OutOfMemoryError):
        return StoreFullError(f"Redis has reached its memory limit{happened}", uncertain=uncertain)
    if isinstance(error, redis_errors.ReadOnlyError):
        text = f"this Redis server is a read-only replica{happened}; use the URL of its primary"
        return StoreReadOnlyError(text, uncertain=uncertain)
    if isinstance(error, redis_errors.TimeoutError | TimeoutError):
        return StoreUnavailableError(f"Redis did not answer in time{happened}", uncertain=uncertain)
    if _is_lost(error) or isinstance(error, _CLUSTER_CHANGING):
        text = f"Redis at {address} cannot be reached ({name}){happened}"
        return StoreUnavailableError(text, uncertain=uncertain, address=address)
    if _may_pass(error):
        text = f"Redis at {address} refuses this for now ({_code(error)}){happened}"
        return StoreUnavailableError(text, uncertain=uncertain, address=address)
    if str(error).startswith((DAMAGED, "WRONGTYPE")):
        text = f"the Redis key of this state contains something else{happened}; delete the state"
        return StoreCorruptError(text, uncertain=uncertain)
    return StoreError(f"Redis returned an error ({name}: {_code(error)}){happened}", uncertain=uncertain)


def _code(error: BaseException) -> str:
    """The word that names the error of a server."""
    if isinstance(error, redis_errors.BusyLoadingError):
        return "LOADING"  # the driver removes the word
    text = str(error)
    return next((word.strip() for word in _NOT_NOW if word in text), text.partition(" ")[0])
