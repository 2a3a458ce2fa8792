"""A connection as the rest of the store sees it: typed, and with the name of the schema filled in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

import asyncpg

Row = asyncpg.Record


class Transaction(AbstractAsyncContextManager[None], Protocol):
    """A transaction, or a savepoint inside one."""

    async def start(self) -> None: ...
    async def commit(self) -> None: ...
    async def rollback(self) -> None: ...


class Driver(Protocol):
    """What is used of an asyncpg connection, or of the pool's proxy of one."""

    async def execute(self, query: str, *values: object, timeout: float | None = None) -> str: ...  # noqa: ASYNC109
    async def executemany(self, command: str, args: Iterable[Sequence[object]]) -> None: ...
    async def fetch(self, query: str, *values: object) -> list[Row]: ...
    async def fetchrow(self, query: str, *values: object) -> Row | None: ...
    async def fetchval(self, query: str, *values: object) -> Any: ...
    def transaction(
        self, *, isolation: Literal["read_committed", "repeatable_read"] | None = None, readonly: bool = False
    ) -> Transaction: ...


class Statements(dict[str, str]):
    """Statements in which `{schema}` was replaced by the (quoted) name of a schema, by their texts."""

    def __init__(self, schema: str) -> None:
        super().__init__()
        self.schema = schema

    def __missing__(self, text: str) -> str:
        done = self[text] = text.replace("{schema}", self.schema)
        return done


class Connection:
    """Runs statements whose tables are written `{schema}.name`."""

    __slots__ = ("_driver", "_statements", "transaction")

    def __init__(self, driver: Driver, statements: Statements) -> None:
        self._driver = driver
        self._statements = statements
        self.transaction = driver.transaction

    @property
    def schema(self) -> str:
        """The (quoted) name of the schema."""
        return self._statements.schema

    async def execute(self, text: str, *values: object, limit: float | None = None) -> int:
        """How many rows a statement has changed; `limit` is how many seconds it may take, if not as many as others."""
        done = await self._driver.execute(self._statements[text], *values, timeout=limit)
        *_, rows = done.split()
        return int(rows) if rows.isdecimal() else 0

    async def execute_many(self, text: str, rows: Iterable[Sequence[object]]) -> None:
        await self._driver.executemany(self._statements[text], rows)

    async def fetch(self, text: str, *values: object) -> list[Row]:
        return await self._driver.fetch(self._statements[text], *values)

    async def fetch_one(self, text: str, *values: object) -> Row:
        """The row of a statement that always has one."""
        row = await self._driver.fetchrow(self._statements[text], *values)
        assert row is not None
        return row

    async def fetch_row(self, text: str, *values: object) -> Row | None:
        return await self._driver.fetchrow(self._statements[text], *values)

    async def fetch_value(self, text: str, *values: object) -> Any:
        return await self._driver.fetchval(self._statements[text], *values)
