"""One server and one browser for the tests of a worker; each test has its own window, and its own sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from frontdesk.demo import DemoClock, demo_manager, fill
from tests.inspector.desk import Desk, Watched, chromium, serving, window
from tests.waiting import PATIENCE

expect.set_options(timeout=PATIENCE * 1000)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    """A server with the demo's sessions."""
    store = tmp_path_factory.mktemp("desk") / "agents.db"
    clock = DemoClock()
    async with demo_manager(f"sqlite:///{store}", clock=clock) as manager:
        await fill(manager, clock, long_session=2_000, sessions=120)
    async with serving(store) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="session")
async def watched(browser: Browser) -> AsyncIterator[Watched]:
    """A window; the test fails if the page reported an error or broke its policy."""
    async with window(browser) as watched:
        yield watched
        assert watched.problems == []


@pytest.fixture
def page(watched: Watched) -> Page:
    return watched.page
