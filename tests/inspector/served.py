"""A server in a process of its own, for tests of the page: `python -m tests.inspector.served STORE ROLE...`. It prints
its address and a key for each role, and ends when its input does."""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import cast

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from frontdesk.demo import demo_manager
from frontdesk.server import ApiKeys, Role, ServerSettings, create_app
from frontdesk.server.serving import Server

PREFIX = "/desk"
"""the app is also mounted below this prefix"""


async def main(store: str, *roles: Role) -> None:
    async with demo_manager(store) as manager, ApiKeys(store) as keys:
        secrets = [(await keys.create(f"{role} key", role=role)).secret for role in roles]
        app = create_app(manager, keys=keys, settings=ServerSettings(store_name="agents.db", rate=10_000, burst=10_000))
        both = Starlette(routes=[Mount(PREFIX, app), Mount("/", app)])
        with socket.create_server(("127.0.0.1", 0)) as listener:
            config = uvicorn.Config(both, log_config=None, access_log=False, timeout_graceful_shutdown=5)
            server = Server(config, (manager,))
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            print(f"http://127.0.0.1:{listener.getsockname()[1]}", *secrets, flush=True)
            await asyncio.to_thread(sys.stdin.read)
            server.end_streams()
            server.should_exit = True
            await serving


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *(cast(Role, role) for role in sys.argv[2:])))
