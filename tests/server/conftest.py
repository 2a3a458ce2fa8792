"""A manager, and a client of its server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from frontdesk import SessionManager
from tests.server.live import live_server
from tests.waiting import PATIENCE


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[SessionManager]:
    manager = SessionManager(f"sqlite:///{tmp_path}/desk.db")
    manager.with_context("soul", default_content="You are helpful.", readonly=True)
    manager.with_context("memory", description="Learned facts", max_tokens=1100, scope="guest")
    async with manager.with_cached_prompt():
        yield manager


@pytest.fixture
async def http(manager: SessionManager) -> AsyncIterator[httpx.AsyncClient]:
    """Requests to the server of that manager, as a program on the same machine."""
    async with live_server(manager) as address, httpx.AsyncClient(base_url=address, timeout=PATIENCE) as client:
        yield client
