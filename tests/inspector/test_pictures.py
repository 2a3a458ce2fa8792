"""The pictures of the guides, taken from the demo's sessions. `make pictures` writes them to docs/images; otherwise
they are only compared in size with those that are there."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.inspector.desk import Desk, window

pytestmark = pytest.mark.asyncio(loop_scope="session")

IMAGES = Path(__file__).parents[2] / "docs" / "images"
README = IMAGES.parents[1] / "README.md"
WRITE = "FRONTDESK_PICTURES"
"""the environment variable that makes this test write the pictures"""
PICTURES = (
    # name, address, what is there when it is complete, width, height, scheme
    ("inspector-sessions", "", "[data-row='8']", 1280, 760, "light"),
    ("inspector-session", "s/billing-rounding?view=model", ".sent", 1360, 900, "light"),
    ("inspector-session-dark", "s/lisbon?view=model", ".sent", 1360, 900, "dark"),
    ("inspector-prompt", "s/lisbon/prompt/memory?from=2&to=4", ".diff", 1280, 700, "light"),
    ("inspector-phone", "s/billing-rounding", "article[data-id]", 390, 780, "light"),
)


def size_of(picture: bytes) -> tuple[int, int]:
    assert picture.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", picture[16:24])
    return width, height


@pytest.mark.parametrize("picture", PICTURES, ids=[picture[0] for picture in PICTURES])
async def test_pictures_for_the_guides(
    browser: Browser, desk: Desk, picture: tuple[str, str, str, int, int, str]
) -> None:
    name, path, ready, width, height, scheme = picture
    async with window(browser, viewport={"width": width, "height": height}, color_scheme=scheme) as watched:
        page = watched.page
        await page.goto(desk.at(path))
        await expect(page.locator(ready).first).to_be_visible()
        if name == "inspector-session":
            await page.keyboard.press("g")
            await expect(page.locator("article.sum, article[aria-label^=Compaction]").first).to_be_in_viewport()
        await page.evaluate("document.fonts.ready")
        taken = await page.screenshot()
        assert watched.problems == []
    file = IMAGES / f"{name}.png"
    if os.environ.get(WRITE):
        file.write_bytes(taken)
    assert size_of(taken) == size_of(file.read_bytes()) == (width, height)
    assert any(f"images/{name}.png" in guide.read_text() for guide in (*IMAGES.parent.glob("*.md"), README)), name
