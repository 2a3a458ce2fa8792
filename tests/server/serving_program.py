"""A program that serves a file with `serve` and prints its address, for `server_process`: `python serving_program.py
FOLDER`. While the folder has a file named `full`, the disk has no space."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from frontdesk import SessionManager
from frontdesk.server import serve

FOLDER = Path(sys.argv[1])
SYSTEM = apsw.vfs_names()[0]


class Disk(apsw.VFS):
    """The disk of the system, until it is full."""

    def __init__(self) -> None:
        super().__init__("disk", SYSTEM, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return DiskFile(SYSTEM, name, flags)


class DiskFile(apsw.VFSFile):
    def xWrite(self, data: bytes, offset: int) -> None:
        if (FOLDER / "full").exists():
            raise apsw.FullError("database or disk is full")
        super().xWrite(data, offset)


async def main() -> None:
    async with SessionManager(f"sqlite:///{FOLDER}/agents.db") as manager:
        await serve(manager, port=0, on_listening=partial(print, flush=True))


disk = Disk()
asyncio.run(main())
