"""The sessions of the OpenAI Agents SDK: four classes with one interface, one object for each conversation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from agents.extensions.memory import AdvancedSQLiteSession, AsyncSQLiteSession, SQLAlchemySession
from agents.memory import SQLiteSession
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from bench.payload import message, messages


class _Sessions:
    """`make(session, file)` returns the SDK's object for a conversation. The objects are kept, as in an application."""

    settings = "WAL, FULL, commit each"

    def __init__(self, name: str, make: Callable[[str, Path], Any]) -> None:
        self.name = name
        self._make = make

    async def open(self, directory: Path) -> None:
        self._file = directory / "sessions.db"
        self._sessions: dict[str, Any] = {}

    async def close(self) -> None:
        for session in self._sessions.values():
            closing = session.close()
            if closing is not None:
                await closing

    def session(self, session: str) -> Any:
        if session not in self._sessions:
            self._sessions[session] = self._make(session, self._file)
        return self._sessions[session]

    async def append(self, session: str, number: int) -> None:
        await self.session(session).add_items([message(number)])

    async def append_many(self, session: str, numbers: range) -> None:
        await self.session(session).add_items(messages(numbers))

    async def read_all(self, session: str) -> int:
        return len(await self.session(session).get_items())

    async def read_last(self, session: str, count: int) -> int:
        return len(await self.session(session).get_items(limit=count))


class OpenAISQLite(_Sessions):
    def __init__(self) -> None:
        super().__init__("OpenAI SQLiteSession", SQLiteSession)


class OpenAIAsyncSQLite(_Sessions):
    def __init__(self) -> None:
        super().__init__("OpenAI AsyncSQLiteSession", AsyncSQLiteSession)


class OpenAIAdvanced(_Sessions):
    """The session class with branches."""

    def __init__(self, name: str = "OpenAI AdvancedSQLiteSession") -> None:
        super().__init__(
            name, lambda session, file: AdvancedSQLiteSession(session_id=session, db_path=file, create_tables=True)
        )


class OpenAISQLAlchemy(_Sessions):
    """On SQLite through aiosqlite, or on PostgreSQL at a URL, with a pool of `pool` connections."""

    def __init__(self, *, url: str | None = None, pool: int = 5) -> None:
        super().__init__(
            "OpenAI SQLAlchemySession",
            lambda session, _: SQLAlchemySession(session, engine=self._engine, create_tables=True),
        )
        self._url = url
        self._options: dict[str, Any] = {} if url is None else {"pool_size": pool, "max_overflow": 0}
        if url is not None:
            self.settings = f"fsync on, pool of {pool}, commit each"

    async def open(self, directory: Path) -> None:
        await super().open(directory)
        self._engine: AsyncEngine = create_async_engine(
            self._url or f"sqlite+aiosqlite:///{self._file}", **self._options
        )

    async def close(self) -> None:
        await self._engine.dispose()
