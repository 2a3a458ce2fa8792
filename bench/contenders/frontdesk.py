"""Frontdesk itself, by its public interface, on SQLite or on the PostgreSQL that a URL names."""

from __future__ import annotations

from pathlib import Path

from bench.payload import message, messages
from frontdesk import Session, SessionManager


class Frontdesk:
    """Messages keep the id they come with, which is checked for duplicates; with `ids=False` Frontdesk makes one."""

    def __init__(self, name: str = "Frontdesk", *, url: str | None = None, ids: bool = True) -> None:
        self.name = name
        self.settings = "WAL, FULL, group commit" if url is None else "fsync on, coalesced"
        self._url = url
        self._ids = ids
        self._handles: dict[str, Session] = {}

    async def open(self, directory: Path) -> None:
        self.manager = SessionManager(self._url or f"sqlite:///{directory / 'frontdesk.db'}")
        await self.manager.__aenter__()

    async def close(self) -> None:
        await self.manager.close()

    async def settle(self) -> None:
        """Let the search index catch up: it follows in the first pause, and would be measured with what comes next."""
        await self.manager.search("settle")

    def session(self, session: str) -> Session:
        """The handle on a session, kept as an application would keep it."""
        if session not in self._handles:
            self._handles[session] = self.manager.session(session)
        return self._handles[session]

    async def append(self, session: str, number: int) -> None:
        given = message(number)
        if not self._ids:
            del given["id"]
        await self.session(session).append(given)

    async def append_many(self, session: str, numbers: range) -> None:
        await self.session(session).append_all(messages(numbers))

    async def read_all(self, session: str) -> int:
        return len([found.raw async for found in self.session(session).transcript()])

    async def read_last(self, session: str, count: int) -> int:
        return len([found.raw for found in await self.session(session).history(last=count)])
