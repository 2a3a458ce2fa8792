"""The contenders, one small file each. To add one, write a class with these members and name it in the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Contender(Protocol):
    """A store of conversations, used as its own users would. Messages come from `bench.payload`, by number."""

    name: str
    settings: str
    """journal and durability, as printed with the figures"""

    async def open(self, directory: Path) -> None:
        """Make an empty store in this directory."""

    async def close(self) -> None: ...

    async def append(self, session: str, number: int) -> None:
        """Store one message at the end of a session, which is created if necessary."""

    async def append_many(self, session: str, numbers: range) -> None:
        """Store messages in one call, if there is such a call."""

    async def read_all(self, session: str) -> int:
        """Read and decode every message; returns how many there are."""

    async def read_last(self, session: str, count: int) -> int:
        """Read and decode the last messages; returns how many there are."""
