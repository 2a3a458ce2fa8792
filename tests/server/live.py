"""A real server on a real port, in this process, for tests."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp

from frontdesk import SessionManager
from frontdesk.server import ApiKeys, ServerSettings, create_app
from frontdesk.server.serving import Server
from tests.waiting import eventually


@asynccontextmanager
async def running(app: ASGIApp, *managers: SessionManager) -> AsyncIterator[str]:
    """Serve an app on a free port; yields its address."""
    listener = socket.create_server(("127.0.0.1", 0))
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


@asynccontextmanager
async def live_server(
    *managers: SessionManager, keys: ApiKeys | None = None, settings: ServerSettings | None = None
) -> AsyncIterator[str]:
    """The server of some managers, as `serve` runs it."""
    async with running(create_app(*managers, keys=keys, settings=settings), *managers) as address:
        yield address
