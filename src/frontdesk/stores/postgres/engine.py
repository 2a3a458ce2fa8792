"""Pools of connections, one for each event loop, and the handling of failures: a retry, or a typed error."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import asyncpg

from frontdesk.errors import (
    FrontdeskError,
    StoreClosedError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from frontdesk.pauses import sleep
from frontdesk.stores.postgres.connection import Connection, Statements
from frontdesk.stores.postgres.url import describe

T = TypeVar("T")
Work = Callable[[Connection], Awaitable[T]]

_ATTEMPTS = 5
_SHUT_DOWN = ("57P01", "57P02", "57P03")
_CONFLICTS = ("40001", "40P01")
_READ_ONLY = "25006"
_FULL = "53100"
_NAMES_LOST = ("26000", "42P05")
"""a prepared statement does not exist, or exists already"""
_PLAIN_CLASSES = ("08", "28", "3D", "42", "53", "57")
"""classes of errors whose text names roles, databases and tables, but never a value"""


class Lane:
    """What belongs to one event loop: its pool, whether the schema was checked, and what is to be done at its end.

    `on_close` is awaited before the pool is closed; `on_cut` is called when the loop ends without that."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: asyncpg.Pool[Any]) -> None:
        self.loop = loop
        self.pool = pool
        self.opening = asyncio.Lock()
        self.is_open = False
        self.on_close: list[Callable[[], Awaitable[None]]] = []
        self.on_cut: list[Callable[[], None]] = []
        self._keeper = self._keep()
        self._kept = False

    async def open(self) -> None:
        if not self._kept:
            await self.pool
            await anext(self._keeper)
            self._kept = True

    async def _keep(self) -> AsyncGenerator[None]:
        """Cuts the connections when the loop ends without `close`: a loop finishes its generators as its last act."""
        try:
            yield
        finally:
            self.pool.terminate()
            for cut in self.on_cut:
                cut()
            await sleep(0)

    async def close(self, seconds: float) -> None:
        for finish in self.on_close:
            await finish()
        try:
            async with asyncio.timeout(seconds):
                await self.pool.close()
        except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            self.pool.terminate()
        await self._keeper.aclose()

    def abandon(self) -> None:
        """Release the connections of a loop that does not run any more."""
        with suppress(RuntimeError):
            self.pool.terminate()


class Engine:
    """Runs work on connections. `prepare` is run once for each loop, before all other work."""

    def __init__(self, dsn: str, schema: str, *, pool: int, pooler: bool, timeout: float, prepare: Work[None]) -> None:
        self._dsn = dsn
        self._address = describe(dsn)
        self._statements = Statements(schema)
        self._size = pool
        self._timeout = timeout
        self._prepare = prepare
        # Behind a transaction pooler the next statement may meet another server process, which knows no name.
        self._options: dict[str, Any] = {"statement_cache_size": 0} if pooler else {"init": _set_up}
        self._is_direct = not pooler
        self._lanes: dict[asyncio.AbstractEventLoop, Lane] = {}
        self._guard = threading.Lock()
        self._closed = False

    @property
    def is_direct(self) -> bool:
        """Whether there is no pooler in between, so that state may be bound to a connection."""
        return self._is_direct

    async def connect(self) -> asyncpg.Connection[Any]:
        """A connection outside the pool."""
        return await asyncpg.connect(self._dsn, timeout=self._timeout, command_timeout=self._timeout)

    @property
    def size(self) -> int:
        return self._size

    def lane(self) -> Lane:
        """The lane of the running loop."""
        loop = asyncio.get_running_loop()
        lane = self._lanes.get(loop)
        if lane is None or self._closed:
            with self._guard:
                if self._closed:
                    raise StoreClosedError("the PostgreSQL store was closed: open it again")
                for gone in [other for other in self._lanes if other.is_closed()]:
                    self._lanes.pop(gone).abandon()
                lane = self._lanes[loop] = Lane(loop, self._new_pool())
        return lane

    def _new_pool(self) -> asyncpg.Pool[Any]:
        return asyncpg.create_pool(
            self._dsn,
            min_size=0,
            max_size=self._size,
            timeout=self._timeout,
            command_timeout=self._timeout,
            reset=_keep_settings,
            **self._options,
        )

    def reopen(self) -> None:
        """Allow work again after `close`."""
        with self._guard:
            self._closed = False

    async def open(self) -> Lane:
        """The lane of the running loop, with its pool created and the schema up to date."""
        lane = self.lane()
        if not lane.is_open:
            async with lane.opening:
                if not lane.is_open:
                    await self._open(lane)
        return lane

    async def _open(self, lane: Lane) -> None:
        try:
            await lane.open()
        except Exception as error:
            raise translate(error, self._address) from None
        await self.run_on(lane, self._prepare, repeatable=True)
        lane.is_open = True

    async def run(self, work: Work[T], *, repeatable: bool) -> T:
        """The result of some work on a connection.

        After a lost connection work that is `repeatable` is done again on another one; for the rest
        `StoreUnavailableError` says that it may have happened. Work that lost against another transaction has not
        happened, and is always done again.
        """
        return await self.run_on(await self.open(), work, repeatable=repeatable)

    async def transact(self, work: Work[T]) -> T:
        """The same for work that is one transaction: only while it is being committed can its outcome be lost."""

        async def whole(connection: Connection) -> T:
            transaction = connection.transaction()
            await transaction.start()
            try:
                result = await work(connection)
            except BaseException:
                with suppress(Exception):
                    await transaction.rollback()
                raise
            try:
                await transaction.commit()
            except Exception as error:
                if is_lost(error):
                    raise translate(error, self._address, uncertain=True) from None
                raise
            return result

        return await self.run(whole, repeatable=True)

    async def run_on(self, lane: Lane, work: Work[T], *, repeatable: bool) -> T:
        """`run` on a lane that is open already, even while it is being closed."""
        for attempt in range(1, _ATTEMPTS + 1):
            connection = await self._acquire(lane)
            try:
                return await work(Connection(connection, self._statements))
            except FrontdeskError:
                raise
            except Exception as error:
                lost = is_lost(error)
                again = getattr(error, "sqlstate", None) in _CONFLICTS or (lost and repeatable)
                if not again or attempt == _ATTEMPTS:
                    raise translate(error, self._address, uncertain=lost and not repeatable) from None
            finally:
                with suppress(Exception):
                    await lane.pool.release(connection)
        raise AssertionError("the last attempt returns or raises")

    async def _acquire(self, lane: Lane) -> Any:
        try:
            # The pool's own time limit would cost a task.
            async with asyncio.timeout(self._timeout):
                return await lane.pool.acquire()
        except Exception as error:
            if self._closed:
                raise StoreClosedError("the PostgreSQL store was closed: open it again") from None
            raise translate(error, self._address) from None

    async def close(self) -> None:
        """Finish what is in flight on every loop that still runs, and release the rest."""
        with self._guard:
            self._closed = True
            lanes, self._lanes = list(self._lanes.values()), {}
        here = asyncio.get_running_loop()
        for lane in lanes:
            if lane.loop is here:
                await lane.close(self._timeout)
            elif lane.loop.is_running():
                there = asyncio.run_coroutine_threadsafe(lane.close(self._timeout), lane.loop)
                with suppress(TimeoutError, asyncio.CancelledError):
                    await asyncio.wait_for(asyncio.wrap_future(there), self._timeout)
            else:
                lane.abandon()


async def _set_up(connection: asyncpg.Connection[Any]) -> None:
    # One plan for each statement, made once: making it costs more than most statements. A plan that was made while a
    # table was small must not scan it whole after it has grown.
    await connection.execute("SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET jit = off")


async def _keep_settings(connection: asyncpg.Connection[Any]) -> None:
    """Nothing to reset between two users of a connection: no statement changes the state of the session."""


def is_lost(error: BaseException) -> bool:
    """Whether the connection went away, so that it is unknown how far the server came."""
    if isinstance(error, asyncpg.PostgresError):
        return isinstance(error, asyncpg.PostgresConnectionError) or error.sqlstate in _SHUT_DOWN
    return isinstance(error, OSError | asyncpg.InterfaceError) and not isinstance(error, TimeoutError | ValueError)


def translate(error: BaseException, address: str, *, uncertain: bool = False) -> FrontdeskError:
    """The typed error for a failure of the driver. Its text contains neither statements, values nor passwords, and the
    address of the server only if that cannot be reached."""
    if isinstance(error, FrontdeskError):
        return error
    happened = "; the change may have happened: look before trying again" if uncertain else ""
    if isinstance(error, TimeoutError):
        return StoreUnavailableError(
            "PostgreSQL did not answer in time: it is overloaded, or another transaction holds a lock;"
            " what was sent may still happen"
        )
    if isinstance(error, asyncpg.PostgresError):
        state = error.sqlstate or "unknown"
        reason = f" {error.message}" if state[:2] in _PLAIN_CLASSES and getattr(error, "message", None) else ""
        if state in _NAMES_LOST:
            reason = ": there seems to be a transaction pooler in between; add pooler=transaction to the URL"
        text = f"PostgreSQL refused ({state} {type(error).__name__}){reason}{happened}"
        kind: type[StoreError] = StoreError
        if is_lost(error) or state[:2] in ("53", "57", "55") or state in _CONFLICTS:
            kind = StoreUnavailableError
        if state == _FULL:
            kind = StoreFullError
        if state == _READ_ONLY:
            kind = StoreReadOnlyError
        return kind(text, sqlstate=state)
    if is_lost(error):
        return StoreUnavailableError(
            f"PostgreSQL at {address} cannot be reached ({type(error).__name__}){happened}", address=address
        )
    return StoreError(f"PostgreSQL was given what it cannot take ({type(error).__name__})")
