"""A program that serves a file with `serve`, for `test_events`: `python serving_program.py PORT FOLDER`."""

from __future__ import annotations

import asyncio
import sys

from frontdesk import SessionManager
from frontdesk.server import serve


async def main() -> None:
    async with SessionManager(f"sqlite:///{sys.argv[2]}/agents.db") as manager:
        await serve(manager, port=int(sys.argv[1]))


asyncio.run(main())
