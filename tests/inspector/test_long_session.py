"""A session of 100,000 messages in a real browser: scrolling through all of it shows no blank place and no jump, and
the page stays small."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest
from playwright.async_api import Browser, Page, expect

from frontdesk.demo import DemoClock, demo_manager, fill
from tests.inspector.desk import serving, window
from tests.inspector.scrolling import Seen, scroll

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(2400)]

MESSAGES = 100_000
FAST, SLOW = 3_000, 300
"""pixels in a frame: as a thrown wheel, and as somebody who reads"""
PORTION = 200
"""frames after which the memory is measured"""


def check(seen: Seen) -> None:
    assert seen.blank <= 1, seen
    assert seen.jumps <= 1, seen
    assert seen.most <= 1_200, seen


async def go_to(page: Page, share: float) -> None:
    """Click on the timeline."""
    box = await page.get_by_role("slider").bounding_box()
    assert box is not None
    await page.mouse.click(box["x"] + (box["width"] - 14) * share, box["y"] + 50)
    await page.wait_for_function(
        "share => Math.abs(Number(document.querySelector('[role=slider]').ariaValueNow) / 100_000 - share) < 0.02",
        arg=share,
    )


async def test_scrolling_through_everything_keeps_few_rows_and_flat_memory(browser: Browser, tmp_path: Path) -> None:
    store = tmp_path / "long.db"
    clock = DemoClock()
    async with demo_manager(f"sqlite:///{store}", clock=clock) as manager:
        await fill(manager, clock, long_session=MESSAGES, sessions=5)
        length = await manager.session("dome-3").path_length()
    async with serving(store) as desk, window(browser) as watched:
        page = watched.page
        await page.goto(desk.at("s/dome-3"))
        await expect(page.locator("article[data-id]").last).to_be_in_viewport()
        await page.keyboard.press("g")
        await expect(page.locator("article[data-position='0']")).to_be_in_viewport()
        session = await page.context.new_cdp_session(page)
        sizes: list[float] = []
        seen = Seen(0, 0, 0, 0, 0)
        while seen.last < length - 1:
            seen = await scroll(page, FAST, PORTION)
            check(seen)
            await session.send("HeapProfiler.collectGarbage")
            sizes.append((await session.send("Runtime.getHeapUsage"))["usedSize"])
        half = len(sizes) // 2
        assert half > 5
        assert median(sizes[half:]) < 1.1 * median(sizes[:half]), sizes  # a page may be on its way at any one of them
        for place in (0.2, 0.5, 0.8):
            await go_to(page, place)
            check(await scroll(page, SLOW, PORTION))
            check(await scroll(page, -SLOW, PORTION))
        assert watched.problems == []
