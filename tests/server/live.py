"""A real server on a real port, in this process or in its own, for tests."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import uvicorn
from starlette.types import ASGIApp

from frontdesk import SessionManager
from frontdesk.http.listening import listen
from frontdesk.server import ApiKeys, ServerSettings, create_app
from frontdesk.server.serving import Server
from tests.waiting import PATIENCE, eventually

_PROGRAM = Path(__file__).with_name("serving_program.py")


@asynccontextmanager
async def running(app: ASGIApp, *managers: SessionManager) -> AsyncIterator[str]:
    """Serve an app on a free port; yields its address."""
    listener = listen("127.0.0.1", 0)
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", server_header=False)
    server = Server(config, managers)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await eventually(lambda: server.started)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.end_streams()
        server.should_exit = True
        await serving
        listener.close()


UNLIMITED = ServerSettings(rate=1e6, burst=10**6)


@asynccontextmanager
async def live_server(
    *managers: SessionManager, keys: ApiKeys | None = None, settings: ServerSettings = UNLIMITED
) -> AsyncIterator[str]:
    """The server of some managers, as `serve` runs it; a fast test reaches no limit of requests."""
    async with running(create_app(*managers, keys=keys, settings=settings), *managers) as address:
        yield address


@asynccontextmanager
async def server_process(folder: Path) -> AsyncIterator[tuple[httpx.AsyncClient, subprocess.Popen[str]]]:
    """A client of a server of the file `agents.db` in a folder, and the process of that server."""
    process = subprocess.Popen([sys.executable, str(_PROGRAM), str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        address = (await asyncio.to_thread(process.stdout.readline)).strip()
        async with httpx.AsyncClient(base_url=address, timeout=PATIENCE) as client:
            yield client, process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
