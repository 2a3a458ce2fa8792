"""What a test of the page works with: a server in another process, its store, and a browser."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from frontdesk import SessionManager
from frontdesk.demo import demo_manager
from tests.inspector.served import PREFIX
from tests.waiting import PATIENCE

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
# Violations of the content security policy, as the page sees them: a test fails if there are any.
_WATCH = """
    addEventListener("securitypolicyviolation", (e) => console.error(`policy: ${e.violatedDirective} ${e.blockedURI}`))
"""


@dataclass(frozen=True, slots=True)
class Desk:
    """A running server: where it answers, where its sessions are, and its keys."""

    address: str
    store: str
    process: asyncio.subprocess.Process
    keys: tuple[str, ...] = ()

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    async def kill(self) -> None:
        """End the server without a chance to say goodbye."""
        self.process.kill()
        await self.process.wait()

    def at(self, path: str = "", *, mounted: bool = False) -> str:
        return f"{self.address}{PREFIX if mounted else ''}/{path}"

    def manager(self) -> SessionManager:
        """Another process's view of the same store: this one is not the server's."""
        return demo_manager(self.store)


@asynccontextmanager
async def serving(store: Path, *roles: str, port: int = 0) -> AsyncIterator[Desk]:
    """A server for a SQLite file, with a key for each role."""
    url = f"sqlite:///{store}"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.inspector.served",
        url,
        str(port),
        *roles,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
        address, *keys = line.decode().split()
        yield Desk(address, url, process, tuple(keys))
    finally:
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), 15)
        except TimeoutError:
            process.kill()
            await process.wait()


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    assert program, "these tests need Chromium: `make test` installs it where it can"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=_ARGUMENTS)
        yield browser
        await browser.close()


class Watched:
    """A window of the browser that collects what went wrong in it."""

    def __init__(self, context: BrowserContext, page: Page) -> None:
        self.context = context
        self.page = page
        self.problems: list[str] = []
        page.on("console", lambda message: self._add(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self._add(str(error)))
        page.set_default_timeout(PATIENCE * 1000)

    def _add(self, text: str) -> None:
        # The browser's note about an answer that is not 2xx; what the page makes of it is what tests look at.
        if not text.startswith("Failed to load resource"):
            self.problems.append(text)


@asynccontextmanager
async def window(browser: Browser, **options: Any) -> AsyncIterator[Watched]:
    """A window of its own: nothing is shared with another one."""
    options.setdefault("viewport", {"width": 1440, "height": 900})
    context = await browser.new_context(timezone_id="UTC", locale="en-GB", **options)
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    await context.add_init_script(_WATCH)
    watched = Watched(context, await context.new_page())
    try:
        yield watched
    finally:
        await context.close()
