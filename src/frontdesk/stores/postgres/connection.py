"""A connection as the rest of the store sees it: typed, with the name of the schema filled in, and with a record of
whether something that was sent can have taken effect."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Protocol, TypeVar

import asyncpg

from frontdesk.stores.postgres.failures import is_lost

T = TypeVar("T")
Row = asyncpg.Record

IDLE_SECONDS = 10
"""how long a transaction may wait for its next statement: a worker that is stopped must not hold up the others"""
# As text of a transaction, since a pooler refuses it as a setting of the connection. One round trip.
_BEGIN = f"BEGIN {{}}; SET LOCAL idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'"


class Driver(Protocol):
    """What is used of an asyncpg connection."""

    async def execute(self, query: str, *values: object) -> str: ...
    async def executemany(self, command: str, args: Iterable[Sequence[object]]) -> None: ...
    async def fetch(self, query: str, *values: object) -> list[Row]: ...
    async def fetchmany(self, query: str, args: Iterable[Sequence[object]]) -> list[Row]: ...
    async def fetchrow(self, query: str, *values: object) -> Row | None: ...
    async def fetchval(self, query: str, *values: object) -> Any: ...
    def is_in_transaction(self) -> bool: ...


class Statements(dict[str, str]):
    """Statements in which `{schema}` was replaced by the (quoted) name of a schema, by their texts."""

    def __init__(self, schema: str) -> None:
        super().__init__()
        self.schema = schema

    def __missing__(self, text: str) -> str:
        done = self[text] = text.replace("{schema}", self.schema)
        return done


class Connection:
    """Runs statements whose tables are written `{schema}.name`. `limit` ends the call that it belongs to. `resent` says
    that an earlier attempt of the same call may have happened."""

    __slots__ = ("_depth", "_driver", "_limit", "_statements", "exposed", "resent")

    def __init__(
        self, driver: Driver, statements: Statements, limit: asyncio.Timeout | None = None, *, resent: bool = False
    ) -> None:
        self._driver = driver
        self._statements = statements
        self._limit = limit
        self._depth = 0
        self.resent = resent
        self.exposed = False
        """whether a statement outside a transaction, or a COMMIT, was sent: if no answer comes, it may have happened"""

    @property
    def schema(self) -> str:
        """The (quoted) name of the schema."""
        return self._statements.schema

    def transaction(
        self, *, isolation: Literal["read_committed", "repeatable_read"] = "read_committed", readonly: bool = False
    ) -> Transaction:
        """A transaction, or a savepoint inside one."""
        mode = f"ISOLATION LEVEL {isolation.replace('_', ' ').upper()}{', READ ONLY' if readonly else ''}"
        return Transaction(self, _BEGIN.format("" if mode.endswith("READ COMMITTED") else mode))

    async def execute(self, text: str, *values: object, limit: float | None = None) -> int:
        """How many rows a statement has changed; `limit` is how many seconds it may take, if not as many as others."""
        if not self._depth:
            self.exposed = True
        if limit is None or self._limit is None:
            done = await self._driver.execute(self._statements[text], *values)
        else:
            done = await _within(limit, self._limit, self._driver.execute(self._statements[text], *values))
        *_, rows = done.split()
        return int(rows) if rows.isdecimal() else 0

    async def execute_many(self, text: str, rows: Iterable[Sequence[object]], *, limit: float | None = None) -> None:
        """Execute a statement with each row of values, in one round trip."""
        if not self._depth:
            self.exposed = True
        work = self._driver.executemany(self._statements[text], rows)
        await (work if limit is None or self._limit is None else _within(limit, self._limit, work))

    async def fetch_many(self, text: str, rows: Iterable[Sequence[object]]) -> list[Row]:
        """All rows of a statement that is executed with each row of values, in one round trip."""
        if not self._depth:
            self.exposed = True
        return await self._driver.fetchmany(self._statements[text], rows)

    async def fetch(self, text: str, *values: object) -> list[Row]:
        if not self._depth:
            self.exposed = True
        return await self._driver.fetch(self._statements[text], *values)

    async def fetch_one(self, text: str, *values: object) -> Row:
        """The row of a statement that always has one."""
        row = await self.fetch_row(text, *values)
        assert row is not None
        return row

    async def fetch_row(self, text: str, *values: object) -> Row | None:
        if not self._depth:
            self.exposed = True
        return await self._driver.fetchrow(self._statements[text], *values)

    async def fetch_value(self, text: str, *values: object) -> Any:
        if not self._depth:
            self.exposed = True
        return await self._driver.fetchval(self._statements[text], *values)

    async def begin(self, text: str) -> bool:
        """Begin a transaction, or a savepoint if there is one already (True)."""
        inside = self._depth > 0 or self._driver.is_in_transaction()
        await self._driver.execute(f"SAVEPOINT frontdesk_{self._depth}" if inside else text)
        self._depth += 1
        return inside

    async def commit(self, *, savepoint: bool) -> None:
        self._depth -= 1
        if savepoint:
            await self._driver.execute(f"RELEASE SAVEPOINT frontdesk_{self._depth}")
        else:
            self.exposed = True
            await self._driver.execute("COMMIT")

    async def roll_back(self, *, savepoint: bool, error: BaseException) -> None:
        """Undo, unless the connection is of no use any more: then the server does that when it is closed."""
        self._depth -= 1
        if isinstance(error, Exception) and not is_lost(error):
            with suppress(Exception):
                await self._driver.execute(
                    f"ROLLBACK TO SAVEPOINT frontdesk_{self._depth}" if savepoint else "ROLLBACK"
                )


async def _within(limit: float, call: asyncio.Timeout, work: Awaitable[T]) -> T:
    """Do what may take longer than calls may take otherwise; the time is not taken from the rest."""
    loop, end = asyncio.get_running_loop(), call.when()
    started = loop.time()
    call.reschedule(started + limit)
    done = await work
    call.reschedule(None if end is None else end + loop.time() - started)
    return done


class Transaction:
    """`async with` it: commits, or undoes everything after an exception."""

    __slots__ = ("_begin", "_connection", "_savepoint")

    def __init__(self, connection: Connection, begin: str) -> None:
        self._connection = connection
        self._begin = begin
        self._savepoint = False

    async def __aenter__(self) -> None:
        self._savepoint = await self._connection.begin(self._begin)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            await self._connection.commit(savepoint=self._savepoint)
        else:
            await self._connection.roll_back(savepoint=self._savepoint, error=error)
