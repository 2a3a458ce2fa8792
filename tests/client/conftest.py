"""A server, a proxy before it that loses answers, and a client that reaches the server through the proxy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from frontdesk import SessionManager
from frontdesk.client import Client
from tests.server.live import live_server
from tests.servers.proxy import Proxy
from tests.waiting import PATIENCE


class LosingProxy(Proxy):
    """Cuts the connection instead of passing on the next answers, as many as `lost` says."""

    lost = 0

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, answers: bool = False) -> None:
        while data := await source.read(65_536):
            await self._thawed.wait()
            if answers and self.lost:
                self.lost -= 1
                return
            sink.write(data)
            await sink.drain()


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[SessionManager]:
    async with SessionManager(f"sqlite:///{tmp_path}/desk.db").with_context("memory").with_cached_prompt() as manager:
        yield manager


@pytest.fixture
async def proxy(manager: SessionManager) -> AsyncIterator[LosingProxy]:
    async with live_server(manager) as address, LosingProxy(address) as proxy:
        yield proxy


@pytest.fixture
async def client(proxy: LosingProxy) -> AsyncIterator[Client]:
    async with Client(f"http://127.0.0.1:{proxy.port}", timeout=PATIENCE) as client:
        yield client
