"""A backup of a store while it is in use."""

from __future__ import annotations

import asyncio
import errno
import os
from typing import IO

from frontdesk.config.runtime import Runtime
from frontdesk.store import BackupStore, Store
from frontdesk.transfer.exporting import export_lines


async def write_backup(runtime: Runtime, path: str) -> None:
    """See `SessionManager.backup`."""
    store: Store = runtime.store
    if isinstance(store, BackupStore):
        await store.backup(path)
        return
    file = await asyncio.to_thread(_begin, path)
    with file:
        async for line in export_lines(runtime, None):
            await asyncio.to_thread(file.write, line)
        await asyncio.to_thread(_finish, file, path)


def _begin(path: str) -> IO[bytes]:
    if os.path.exists(path):
        raise FileExistsError(errno.EEXIST, "the file exists already", path)
    return open(_partial(path), "wb")


def _finish(file: IO[bytes], path: str) -> None:
    """Give the file its name when all of it is on the disk."""
    file.flush()
    os.fsync(file.fileno())
    os.replace(_partial(path), path)


def _partial(path: str) -> str:
    return f"{path}.partial"
