"""A server in a process of its own, for tests of the page: `python -m tests.inspector.served STORE PORT ROLE...`. A
port of 0 is any free one. It prints its address and a key for each role, and ends when its input does."""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from frontdesk.demo import demo_manager
from frontdesk.http.listening import listen
from frontdesk.server import ApiKeys, Role, ServerSettings, create_app
from frontdesk.server.serving import Server

PREFIX = "/desk"
"""the app is also mounted below this prefix"""


async def main(store: str, port: int, *roles: Role) -> None:
    async with demo_manager(store) as manager, ApiKeys(store) as keys:
        secrets = [(await keys.create(f"{role} key", role=role)).secret for role in roles]
        app = create_app(manager, keys=keys, settings=ServerSettings(store_name="agents.db", rate=10_000, burst=10_000))
        both = Starlette(routes=[Mount(PREFIX, app), Mount("/", app)])
        with listen("127.0.0.1", port) as listener:
            config = uvicorn.Config(both, log_config=None, access_log=False, timeout_graceful_shutdown=5)
            server = Server(config, (manager,))
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            print(f"http://127.0.0.1:{listener.getsockname()[1]}", *secrets, flush=True)
            await asyncio.to_thread(sys.stdin.read)
            server.end_streams()
            server.should_exit = True
            await serving


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), *(cast(Role, role) for role in sys.argv[3:])))
