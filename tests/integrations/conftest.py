"""The stores that every integration is tested on, and a scripted server for the models of the frameworks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from frontdesk import SessionManager, sync
from tests.models.scripted_server import ScriptedServer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server


STORES = ("memory", "sqlite", "postgres")


def url_of(store: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if store == "memory":
        return "memory://"
    if store == "sqlite":
        return f"sqlite:///{tmp_path}/agents.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(params=STORES)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, request, tmp_path)


@pytest.fixture
async def manager(store_url: str) -> AsyncIterator[SessionManager]:
    async with SessionManager(store_url) as manager:
        yield manager


@pytest.fixture
def sync_manager(store_url: str) -> Iterator[sync.SessionManager]:
    with sync.SessionManager(store_url) as manager:
        yield manager
