"""A manager that a test sets up as usual, and then uses over HTTP: its calls go through a `Client` to a real server on
a real port, and the set-up goes to the manager that the server serves."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any, Self

import httpx2

from frontdesk import SessionManager, Store
from frontdesk.client import Client
from frontdesk.config.builder import Configurable
from frontdesk.server import ServerSettings
from tests.server.live import live_server
from tests.waiting import PATIENCE

_open: list[ServedManager] = []


class ServedManager(Client):
    """Takes the arguments of `SessionManager`. The server is started by the first request."""

    def __init__(self, store: Store | str, *, namespace: str = "default", **options: Any) -> None:
        self.manager = SessionManager(store, namespace=namespace, **options)
        self.server = _Server(self.manager)
        super().__init__("http://127.0.0.1:80", namespace=namespace, timeout=PATIENCE, transport=self.server)
        _open.append(self)

    async def __aenter__(self) -> Self:
        await self.manager.__aenter__()
        return await super().__aenter__()

    async def close(self) -> None:
        await super().close()
        await self.server.stop()
        await self.manager.close()

    def register_hook(self, hook: Any, **options: Any) -> None:
        self.manager.register_hook(hook, **options)

    def unregister_hook(self, hook: Any) -> bool:
        return self.manager.unregister_hook(hook)

    def states(self, kind: Any, *, store: Any = None, **options: Any) -> Any:
        """States in a store of their own belong to the set-up of the server."""
        if store is not None:
            return self.manager.states(kind, store=store, **options)
        return super().states(kind, **options)

    @property
    def _runtime(self) -> Any:  # type: ignore[override]
        """What tests look at, where no call shows it: the store of the server's manager."""
        return self.manager._runtime


def _set_up(name: str) -> Any:
    def call(self: ServedManager, *args: Any, **options: Any) -> ServedManager:
        getattr(self.manager, name)(*args, **options)
        return self

    return call


for _name in vars(Configurable):
    if _name.startswith("with_"):
        setattr(ServedManager, _name, _set_up(_name))


class _Server(httpx2.AsyncBaseTransport):
    """Sends requests to the server of a manager, which it starts for the first one."""

    def __init__(self, manager: SessionManager) -> None:
        self._manager = manager
        self._starting = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._address: httpx2.URL | None = None
        self._http: httpx2.AsyncHTTPTransport | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        async with self._starting:
            if self._address is None:
                settings = ServerSettings(long_timeout=PATIENCE)
                self._address = httpx2.URL(
                    await self._stack.enter_async_context(live_server(self._manager, settings=settings))
                )
                self._http = httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_connections=None))
        assert self._http is not None
        request.url = request.url.copy_with(host=self._address.host, port=self._address.port)
        request.headers["Host"] = f"{self._address.host}:{self._address.port}"
        return await self._http.handle_async_request(request)

    async def stop(self) -> None:
        if self._http is not None:
            http, self._http, self._address = self._http, None, None
            await http.aclose()
            await self._stack.aclose()


async def close_all() -> None:
    """Close what the test has left open."""
    while _open:
        await _open.pop().close()
