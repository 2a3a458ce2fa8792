"""Frontdesk through its public API, on SQLite, or on PostgreSQL at a URL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.payload import message, messages
from frontdesk import Session, SessionManager


class Frontdesk:
    """Messages have their own ids, which are checked for duplicates; with `ids=False` Frontdesk generates them."""

    def __init__(self, name: str = "Frontdesk", *, url: str | None = None, ids: bool = True) -> None:
        self.name = name
        self.settings = "WAL, FULL, group commit" if url is None else "fsync on, coalesced"
        self._url = url
        self._ids = ids
        self._handles: dict[str, Session] = {}

    @property
    def url(self) -> str:
        """The URL that it was made with."""
        assert self._url is not None
        return self._url

    async def open(self, directory: Path) -> None:
        self.path = directory / "frontdesk.db"
        self.manager = SessionManager(self._url or f"sqlite:///{self.path}")
        await self.manager.__aenter__()

    async def close(self) -> None:
        await self.manager.close()

    async def settle(self) -> None:
        """Bring the search index up to date. Otherwise it would do that in the next pause, while being measured."""
        await self.manager.search("settle")

    def session(self, session: str) -> Session:
        """The handle of a session, kept as an application would keep it."""
        if session not in self._handles:
            self._handles[session] = self.manager.session(session)
        return self._handles[session]

    async def append(self, session: str, number: int) -> None:
        new = message(number)
        if not self._ids:
            del new["id"]
        await self.session(session).append(new)

    async def append_many(self, session: str, numbers: range) -> None:
        await self.session(session).append_all(messages(numbers))

    async def read_all(self, session: str) -> int:
        return len([found.raw async for found in self.session(session).transcript()])

    async def read_last(self, session: str, count: int) -> int:
        return len([found.raw for found in await self.session(session).history(last=count)])


def indexing_of(contender: object) -> Callable[[], Awaitable[None]] | None:
    """What a contender leaves to the background after an append."""
    return contender.settle if isinstance(contender, Frontdesk) else None
