"""The session services of Google's Agent Development Kit that store sessions in SQLite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.adk.events import Event
from google.adk.sessions import DatabaseSessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai.types import Content, Part

from bench.payload import message

_OWNER = {"app_name": "bench", "user_id": "user"}


class _Service:
    """The session object is kept between appends, as its runner does within one invocation."""

    name: str
    settings = "rollback journal, FULL, commit each"
    _service: Any

    async def close(self) -> None:
        await self._service.close()

    async def append(self, session: str, number: int) -> None:
        if session not in self._sessions:
            self._sessions[session] = await self._service.create_session(**_OWNER, session_id=session)
        await self._service.append_event(self._sessions[session], _event(number))

    async def append_many(self, session: str, numbers: range) -> None:
        for number in numbers:
            await self.append(session, number)

    async def read_all(self, session: str) -> int:
        return len((await self._service.get_session(**_OWNER, session_id=session)).events)

    async def read_last(self, session: str, count: int) -> int:
        config = GetSessionConfig(num_recent_events=count)
        return len((await self._service.get_session(**_OWNER, session_id=session, config=config)).events)

    async def open(self, directory: Path) -> None:
        self._sessions: dict[str, Any] = {}


class ADKDatabase(_Service):
    name = "ADK DatabaseSessionService"

    async def open(self, directory: Path) -> None:
        await super().open(directory)
        self._service = DatabaseSessionService(f"sqlite+aiosqlite:///{directory / 'adk.db'}")


class ADKSqlite(_Service):
    name = "ADK SqliteSessionService"

    async def open(self, directory: Path) -> None:
        await super().open(directory)
        self._service = SqliteSessionService(str(directory / "adk.db"))


def _event(number: int) -> Event:
    given = message(number)
    content = Content(role=given["role"], parts=[Part(text=given["content"])])
    return Event(id=given["id"], invocation_id="bench", author=given["role"], content=content)
