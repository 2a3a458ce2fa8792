"""`FrontdeskStorage`: bytes under keys, such as the snapshots of agents. They are kept as states of one guest."""

from __future__ import annotations

import asyncio
import base64
import builtins
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote

from strands.storage import Storage
from strands.types.exceptions import StorageError

from frontdesk import sync
from frontdesk.errors import FrontdeskError
from frontdesk.keys import SessionKey
from frontdesk.messages import new_id

R = TypeVar("R")
_ATTEMPTS = 10
_CHUNK = 600_000
"""the most bytes in one state; as text they are a third more, and a state has at most 1 MiB"""


@dataclass(frozen=True)
class StoredBytes:
    """The bytes under a key, in base64: the first of them, and how many chunks there are with the others."""

    version: str = ""
    first: str = ""
    chunks: int = 0


@dataclass(frozen=True)
class StoredChunk:
    """Some of the bytes of a version."""

    content: str = ""


class FrontdeskStorage(Storage):
    """Bytes that belong to one guest: storages of others do not see them, and erasing the guest removes them.

    A value is replaced as a whole: a reader gets the old bytes or the new ones."""

    def __init__(self, manager: sync.SessionManager, owner: SessionKey) -> None:
        self._owner = owner
        self._prefix = quote(str(owner), safe="") + "/"
        self._values = manager.states(StoredBytes, name="strands-storage", ttl=None)
        self._chunks = manager.states(StoredChunk, name="strands-storage-chunks", ttl=None)

    async def write(self, key: str, data: bytes) -> None:
        """Store bytes under a key, replacing those that it had. Raises `StorageError`."""
        await self._run(lambda: self._write(self._prefix + key, bytes(data)))

    async def read(self, key: str) -> bytes | None:
        """The bytes under a key; None if there are none. Raises `StorageError`."""
        return await self._run(lambda: self._read(self._prefix + key))

    async def delete(self, key: str) -> None:
        """Delete what is under a key. Raises `StorageError`."""
        await self._run(lambda: self._delete(self._prefix + key))

    async def list(self, query: str = "") -> builtins.list[str]:
        """The keys that begin with `query`, sorted. Raises `StorageError`."""
        return await self._run(lambda: sorted(self._keys(query)))

    async def _run(self, work: Callable[[], R]) -> R:
        try:
            return await asyncio.to_thread(work)
        except FrontdeskError as error:
            raise StorageError(str(error)) from error

    def _write(self, id: str, data: bytes) -> None:
        version = new_id()
        first, *others = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)] or [b""]
        for number, chunk in enumerate(others):
            self._chunks.set(_chunk_id(version, number), StoredChunk(_text(chunk)), owner=self._owner)
        replaced = StoredBytes()

        def replace(before: StoredBytes) -> StoredBytes:
            nonlocal replaced
            replaced = before
            return StoredBytes(version, _text(first), len(others))

        self._values.update(id, replace, create=True, owner=self._owner)
        self._delete_chunks(replaced)

    def _read(self, id: str) -> bytes | None:
        for _ in range(_ATTEMPTS):
            value = self._values.get(id)
            if value is None:
                return None
            chunks = [self._chunks.get(_chunk_id(value.version, number)) for number in range(value.chunks)]
            texts = [chunk.content for chunk in chunks if chunk is not None]
            if len(texts) == value.chunks:  # otherwise it has been replaced since
                return b"".join(map(base64.b64decode, [value.first, *texts]))
        raise StorageError("the value was replaced again and again while it was read: try again")

    def _delete(self, id: str) -> None:
        value = self._values.get(id)
        if self._values.delete(id) and value is not None:
            self._delete_chunks(value)

    def _delete_chunks(self, value: StoredBytes) -> None:
        for number in range(value.chunks):
            self._chunks.delete(_chunk_id(value.version, number))

    def _keys(self, prefix: str) -> Iterator[str]:
        cursor: str | None = None
        while True:
            page = self._values.list(prefix=self._prefix + prefix, limit=1000, cursor=cursor)
            yield from (found.id.removeprefix(self._prefix) for found in page.items)
            cursor = page.next_cursor
            if cursor is None:
                return


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _chunk_id(version: str, number: int) -> str:
    return f"{version}/{number}"
