"""Runs work on connections. One time limit holds for a whole call: waiting for a connection, connecting, sending again
after a lost connection, and the pauses between attempts."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import TypeVar

from frontdesk import deadlines
from frontdesk.errors import FrontdeskError, StoreClosedError
from frontdesk.stores.postgres.connection import Connection, Statements
from frontdesk.stores.postgres.failures import is_conflict, is_epoch_over, is_lost, is_read_only, may_pass, translate
from frontdesk.stores.postgres.hosts import Hosts, is_standby
from frontdesk.stores.postgres.lanes import Lane
from frontdesk.stores.postgres.pool import Driver, Pool
from frontdesk.unattended import sleep

T = TypeVar("T")
Work = Callable[[Connection], Awaitable[T]]

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.5
"""seconds between two attempts"""


class _Call:
    """One call: its time limit, whether it changes something, and what became of its attempts so far."""

    __slots__ = ("begin_epoch", "changes", "failure", "limit", "repeatable", "uncertain")

    def __init__(self, limit: asyncio.Timeout, *, repeatable: bool, changes: bool, uncertain: bool = False) -> None:
        self.limit = limit
        self.repeatable = repeatable
        self.changes = changes
        self.uncertain = uncertain
        """whether an attempt may have happened although no answer came"""
        self.begin_epoch = False
        """whether the change log needs a new epoch before the next attempt"""
        self.failure: Exception | None = None
        """that of the last attempt"""


class _HeldTransaction:
    """A transaction that all work of one task belongs to for a while."""

    __slots__ = ("connection", "engine", "failure", "task")

    def __init__(self, engine: Engine, connection: Connection) -> None:
        self.engine = engine
        self.connection = connection
        self.task = asyncio.current_task()
        self.failure: Exception | None = None
        """that of the work that was done last"""


_held: ContextVar[_HeldTransaction | None] = ContextVar("frontdesk_held_transaction", default=None)


class Engine:
    """Runs work on connections. `prepare` is run once for each loop, before all other work, and `begin_epoch` when
    the server says that its change log needs that."""

    def __init__(
        self,
        hosts: Hosts,
        address: str,
        schema: str,
        *,
        pool: int,
        direct: bool,
        timeout: float,
        prepare: Work[None],
        begin_epoch: Work[object],
    ) -> None:
        self._hosts = hosts
        self._address = address
        self._statements = Statements(schema)
        self.size = pool
        self.is_direct = direct
        """whether there is no pooler in between, so that state may be bound to a connection"""
        self.timeout = timeout
        self._prepare = prepare
        self._begin_epoch = begin_epoch
        self._lanes: dict[asyncio.AbstractEventLoop, Lane] = {}
        self._guard = threading.Lock()
        self._closed = False

    async def connect(self) -> Driver:
        """A connection outside the pool."""
        return await self._hosts.connect()

    def lane(self) -> Lane:
        """The lane of the running loop."""
        loop = asyncio.get_running_loop()
        lane = self._lanes.get(loop)
        if lane is None or self._closed:
            with self._guard:
                if self._closed:
                    raise self._refusal()
                for gone in [other for other in self._lanes if other.is_closed()]:
                    self._lanes.pop(gone).abandon()
                lane = self._lanes[loop] = Lane(loop, Pool(self._hosts.connect, self.size))
        return lane

    def reopen(self) -> None:
        """Allow work again after `close`."""
        with self._guard:
            self._closed = False

    async def open(self, until: float | None = None) -> Lane:
        """The lane of the running loop, with the schema up to date; `until` is when the call ends that needs it."""
        lane = self.lane()
        if not lane.is_open:
            end = self.end_of_call() if until is None else until
            try:
                async with asyncio.timeout_at(end):
                    await lane.opening.acquire()
            except TimeoutError as error:
                raise translate(error, self._address) from None
            try:
                if not lane.is_open:
                    await lane.open()
                    # What may be lost of this is not what the caller wants to change.
                    await self.run_on(lane, self._prepare, repeatable=True, changes=False, until=end)
                    lane.is_open = True
            finally:
                lane.opening.release()
        return lane

    async def run(self, work: Work[T], *, repeatable: bool, changes: bool = True) -> T:
        """The result of some work on a connection.

        It is tried again for as long as the time limit allows: after a conflict with another transaction, without a
        connection, and after a lost connection if the work is `repeatable`, or if it cannot have happened. Otherwise
        an error says that it may have happened, unless the work `changes` nothing."""
        held = _held.get()
        if held is not None and held.engine is self and held.task is asyncio.current_task():
            return await self._run_held(work, held)
        call = _Call(asyncio.timeout_at(self.end_of_call()), repeatable=repeatable, changes=changes)
        try:
            async with call.limit:
                return await self._attempt(await self.open(), work, call)
        except TimeoutError:
            raise self._late(call) from None

    async def transact(self, work: Work[T], *, repeatable: bool = False, changes: bool = True) -> T:
        """The same for work that is one transaction: only while it is being committed can its outcome be lost."""

        async def whole(connection: Connection) -> T:
            async with connection.transaction():
                return await work(connection)

        return await self.run(whole, repeatable=repeatable, changes=changes)

    async def hold(self, lock: Work[object], work: Callable[[], Awaitable[T]]) -> T:
        """Do some work in one transaction: it includes all that this task runs meanwhile. `lock` comes first."""
        raised: Exception | None = None

        async def whole(connection: Connection) -> T:
            nonlocal raised
            raised = None
            await lock(connection)
            held = _HeldTransaction(self, connection)
            token = _held.set(held)
            try:
                return await work()
            except Exception as error:
                if error is held.failure:
                    raise
                raised = error
                raise FrontdeskError("it does not come from the server: undo, and do not try again") from None
            finally:
                _held.reset(token)

        try:
            return await self.transact(whole)
        except FrontdeskError:
            if raised is not None:
                raise raised from raised.__cause__
            raise

    async def _run_held(self, work: Work[T], held: _HeldTransaction) -> T:
        """A failure ends the transaction, and is handled there."""
        try:
            return await work(held.connection)
        except Exception as error:
            held.failure = None if isinstance(error, FrontdeskError) else error
            raise

    async def run_on(
        self,
        lane: Lane,
        work: Work[T],
        *,
        repeatable: bool,
        changes: bool = True,
        until: float | None = None,
        uncertain: bool = False,
    ) -> T:
        """`run` on a lane that is open already, even while it is being closed; `until` is when the call ends. If it is
        `uncertain` from the beginning, it may have happened before."""
        limit = asyncio.timeout_at(self.end_of_call() if until is None else until)
        call = _Call(limit, repeatable=repeatable, changes=changes, uncertain=uncertain)
        try:
            async with call.limit:
                return await self._attempt(lane, work, call)
        except TimeoutError:
            raise self._late(call) from None

    def end_of_call(self) -> float:
        """When the current call ends, as a time of the loop. Raises `StoreUnavailableError` if it should have ended."""
        left = deadlines.left(self.timeout)
        if left <= 0:
            raise translate(TimeoutError(), self._address)
        return asyncio.get_running_loop().time() + left

    async def _attempt(self, lane: Lane, work: Work[T], call: _Call) -> T:
        pause = _FIRST_PAUSE
        while True:
            try:
                driver = await lane.pool.acquire()
            except Exception as error:
                if self._closed:
                    raise self._refusal() from None
                # Before the first connection, a wrong address is more likely than a server that starts.
                if not may_pass(error) or not self._hosts.reached:
                    raise translate(error, self._address, uncertain=call.uncertain) from None
                call.failure = error
            else:
                call.failure = None
                done, result = await self._try(lane.pool, driver, work, call)
                if done:
                    return result  # type: ignore[return-value]
            # Workers that lost their connections at the same moment come back at different ones.
            await sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - not a secret
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _try(self, pool: Pool, driver: Driver, work: Work[T], call: _Call) -> tuple[bool, T | None]:
        """Do the work once: True and its result, or False if it should be tried again."""
        connection = Connection(driver, self._statements, call.limit, resent=call.uncertain)
        reuse = False
        try:
            if call.begin_epoch:
                await self._begin_epoch(connection)
                call.begin_epoch = False
            result = await work(connection)
            reuse = True
            return True, result
        except FrontdeskError:
            reuse = True
            raise
        except Exception as error:
            lost = is_lost(error)
            reuse = not lost
            if is_read_only(error) and self._hosts.had_primary and is_standby(driver):
                reuse, again = False, True  # another server is, or is about to become, the primary
            elif is_epoch_over(error):
                again = call.begin_epoch = True
            else:
                again = is_conflict(error) or (lost and (call.repeatable or not connection.exposed))
            call.uncertain |= lost and connection.exposed and call.changes
            if not again:
                raise translate(error, self._address, uncertain=call.uncertain) from None
            call.failure = error
            return False, None
        except BaseException:
            call.uncertain |= connection.exposed and call.changes
            raise
        finally:
            pool.release(driver, reuse=reuse and not driver.is_in_transaction())

    def _late(self, call: _Call) -> FrontdeskError:
        """The error for a call whose time is over: why its last attempt failed, if it did."""
        return translate(call.failure or TimeoutError(), self._address, uncertain=call.uncertain)

    def _refusal(self) -> StoreClosedError:
        return StoreClosedError("the PostgreSQL store was closed: open it again")

    async def close(self) -> None:
        """Finish what is in flight on every loop that still runs, and release the rest."""
        with self._guard:
            self._closed = True
            lanes, self._lanes = list(self._lanes.values()), {}
        here = asyncio.get_running_loop()
        for lane in lanes:
            if lane.loop is here:
                await lane.close(self.timeout)
            elif lane.loop.is_running():
                there = asyncio.run_coroutine_threadsafe(lane.close(self.timeout), lane.loop)
                with suppress(TimeoutError, asyncio.CancelledError):
                    await asyncio.wait_for(asyncio.wrap_future(there), self.timeout)
            else:
                lane.abandon()
