"""Shelves in an export, an import and a copy: bytes under ordered keys, read and written a few at a time."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from typing import IO

from frontdesk.config.runtime import Runtime
from frontdesk.errors import ConcurrentChangeError
from frontdesk.store import Blob, BlobRange, Restore, ShelfKey, ShelfRow, ShelfStore, ShelfVersion
from frontdesk.transfer import lines
from frontdesk.transfer.families import BATCH, transfer_store
from frontdesk.transfer.lines import encode

_ATTEMPTS = 20
_BLOBS = 50
"""blobs that are read or written at once"""
_IN_MEMORY = 4_000_000
_END = b"\xff" * 1001
"""after every key"""
_INCOMPLETE = ShelfVersion(0, 0)
"""of a shelf that is being imported"""


async def all_shelves(runtime: Runtime) -> AsyncIterator[ShelfRow]:
    """The shelves of a namespace, in the order of their names and ids."""
    name = id = ""
    while batch := await transfer_store(runtime).shelves_after(runtime.namespace, name, id, BATCH):
        for row in batch:
            yield row
        _, name, id = batch[-1].key


async def export_shelves(runtime: Runtime) -> AsyncIterator[bytes]:
    """The lines of all shelves of a namespace."""
    async for row in all_shelves(runtime):
        async for line in export_shelf(runtime, row):
            yield line


async def export_shelf(runtime: Runtime, row: ShelfRow) -> AsyncIterator[bytes]:
    """The lines of a shelf as of one moment; none if it does not exist any more. They are kept until it is certain that
    nothing has changed."""
    present: ShelfRow | None = row
    for _ in range(_ATTEMPTS):
        with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
            if present is None:
                return
            if await _write_shelf(runtime, present, file):
                file.seek(0)
                for line in file:
                    yield line.rstrip(b"\n")
                return
        present = await _find(runtime, row.key)
    raise ConcurrentChangeError("a shelf changed every time it was read: export again when less is written")


async def _write_shelf(runtime: Runtime, row: ShelfRow, file: IO[bytes]) -> bool:
    """Write the lines of a shelf. False if it was changed meanwhile."""
    store, key = runtime.store, row.key
    assert isinstance(store, ShelfStore)
    begin = lines.ShelfLine(name=key.name, id=key.id, **row.version._asdict(), owner=row.owner)
    file.write(encode(begin) + b"\n")
    first = b""
    while True:
        version, (batch,) = await store.read_shelf(key, [BlobRange(first, _END, _BLOBS)])
        if version != row.version:
            return False
        for blob in batch:
            file.write(encode(lines.BlobLine(key=blob.key, value=blob.value)) + b"\n")
        if len(batch) < _BLOBS:
            break
        first = batch[-1].key + b"\0"
    file.write(encode(lines.EndLine()) + b"\n")
    return True


async def _find(runtime: Runtime, key: ShelfKey) -> ShelfRow | None:
    """A shelf as it is now."""
    async for row in all_shelves(runtime):
        if row.key == key:
            return row
    return None


class ShelfImporter:
    """Writes shelves, and leaves those alone that are there. One that is not complete is written again."""

    def __init__(self, runtime: Runtime, *, dry_run: bool) -> None:
        self._runtime = runtime
        self._dry = dry_run
        self._open: ShelfRow | None = None
        self._blobs: list[Blob] = []
        self.is_open = False
        """whether the lines that follow belong to a shelf"""
        self.count = 0

    async def begin(self, line: lines.ShelfLine) -> None:
        key = ShelfKey(self._runtime.namespace, line.name, line.id)
        self.is_open, self._open, self._blobs = True, None, []
        present = (await self._store.read_shelf(key, [])).version
        if present is None or present == _INCOMPLETE:
            await self._delete(key)
            self._open = ShelfRow(key, ShelfVersion(line.number, line.edition), line.owner)

    async def add(self, line: lines.BlobLine) -> None:
        self._blobs.append(Blob(line.key, line.value))
        if len(self._blobs) >= _BLOBS:
            await self._flush(_INCOMPLETE)

    async def end(self) -> None:
        if self._open is not None:
            await self._flush(self._open.version)
            self.count += 1
        self.is_open, self._open = False, None

    async def leave_out(self) -> None:
        """Remove what was written of the open shelf."""
        if self._open is not None:
            await self._delete(self._open.key)
        self.is_open, self._open = False, None

    @property
    def _store(self) -> ShelfStore:
        store = self._runtime.store
        assert isinstance(store, ShelfStore)
        return store

    async def _delete(self, key: ShelfKey) -> None:
        if not self._dry:
            await self._store.delete_shelf(key)

    async def _flush(self, version: ShelfVersion) -> None:
        blobs, self._blobs = self._blobs, []
        if self._open is not None and not self._dry:
            row = self._open._replace(version=version)
            rows = Restore(namespace=self._runtime.namespace, shelves=((row, tuple(blobs)),))
            await transfer_store(self._runtime).restore(rows)
