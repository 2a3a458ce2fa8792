"""`FrontdeskStorage`: bytes under keys, such as the snapshots of agents. They are kept on a shelf of one guest."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Callable
from typing import TypeVar

from strands.storage import Storage
from strands.types.exceptions import StorageError

from frontdesk import sync
from frontdesk.errors import FrontdeskError
from frontdesk.keys import SessionKey
from frontdesk.states.shelves import one, starting_with

R = TypeVar("R")
_NAME = b"n"
"""before a key: that there is a value"""
_VALUE = b"v"
"""before a key: the value, which a list does not read"""


class FrontdeskStorage(Storage):
    """Bytes that belong to one guest: storages of others do not see them, and erasing the guest removes them.

    A value is replaced as a whole: a reader gets the old bytes or the new ones."""

    def __init__(self, manager: sync.SessionManager, owner: SessionKey) -> None:
        self._owner = owner
        self._shelves = manager.shelves("strands-storage")

    async def write(self, key: str, data: bytes) -> None:
        """Store bytes under a key, replacing those that it had. Raises `StorageError`."""
        name = _encode(key)
        put = {_NAME + name: b"", _VALUE + name: bytes(data)}
        await self._run(lambda: self._shelves.write(str(self._owner), put=put, owner=self._owner))

    async def read(self, key: str) -> bytes | None:
        """The bytes under a key; None if there are none. Raises `StorageError`."""
        read = await self._run(lambda: self._shelves.read(str(self._owner), one(_VALUE + _encode(key))))
        return read.found[0][0].value if read.found[0] else None

    async def delete(self, key: str) -> None:
        """Delete what is under a key. Raises `StorageError`."""
        delete = [one(kind + _encode(key)) for kind in (_NAME, _VALUE)]
        await self._run(lambda: self._shelves.write(str(self._owner), delete=delete, owner=self._owner))

    async def list(self, query: str = "") -> builtins.list[str]:
        """The keys that begin with `query`, sorted. Raises `StorageError`."""
        wanted = starting_with(_NAME + _encode(query))
        read = await self._run(lambda: self._shelves.read(str(self._owner), wanted))
        return [blob.key.removeprefix(_NAME).decode("utf-8", "surrogatepass") for blob in read.found[0]]

    async def _run(self, work: Callable[[], R]) -> R:
        try:
            return await asyncio.to_thread(work)
        except FrontdeskError as error:
            raise StorageError(str(error)) from error


def _encode(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")
