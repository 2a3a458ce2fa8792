"""The inspector in a real browser: how long a session of 100,000 messages takes to open, and what scrolling through it
shows and costs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

from playwright.async_api import Page

from bench.run import Run
from bench.targets import FLAT, Outcome, Target
from frontdesk.demo import DemoClock, demo_manager, fill
from tests.inspector.desk import Desk, chromium, serving, window
from tests.inspector.scrolling import scroll

_ROUNDS = 15
_SHORT, _MESSAGES = 50, 100_000
_SECOND = 1000
_STEP, _FRAMES = 3_000, 300
"""pixels in a frame, and frames between two looks at the memory"""
_OPENED = """
    () => { const last = [...document.querySelectorAll("[role=feed] > article")].at(-1);
            return last && last.getBoundingClientRect().top < innerHeight && performance.now() }
"""
"""milliseconds since the navigation began, once the last message can be seen"""


async def measure(run: Run) -> Outcome:
    size = run.size(_MESSAGES)
    with tempfile.TemporaryDirectory(dir=run.fast) as folder:
        short, long = await _fill(Path(folder) / "short.db", _SHORT), await _fill(Path(folder) / "long.db", size)
        async with serving(short) as few, serving(long) as many, chromium() as browser:
            times: dict[Desk, list[float]] = {few: [], many: []}
            for _ in range(run.rounds(_ROUNDS) + 1):
                for desk, found in times.items():
                    async with window(browser) as watched:  # nothing is in its cache
                        found.append(await _open(watched.page, desk))
            async with window(browser) as watched:
                await _open(watched.page, many)
                growth = await _scroll_through(run, watched.page)
            floor, opened = (median(found[1:]) for found in times.values())
    return Outcome(
        "inspector",
        targets=[
            Target(f"inspector: open {size:,} messages", "at most", _SECOND, opened, "ms", floor),
            Target("inspector: memory while scrolling through all", "at most", FLAT, growth, "x", 1),
        ],
    )


async def _fill(store: Path, size: int) -> Path:
    clock = DemoClock()
    async with demo_manager(f"sqlite:///{store}", clock=clock) as manager:
        await fill(manager, clock, long_session=size, sessions=5)
    return store


async def _open(page: Page, desk: Desk) -> float:
    await page.goto(desk.at("s/dome-3"))
    found = await page.wait_for_function(_OPENED, polling="raf")
    milliseconds: float = await found.json_value()
    return milliseconds


async def _scroll_through(run: Run, page: Page) -> float:
    """Scroll from the end to the start. Returns the memory in the second half, relative to the first."""
    session = await page.context.new_cdp_session(page)
    sizes: list[float] = []
    blank = jumps = frames = 0
    await page.locator("[role=feed]").hover()
    await page.mouse.wheel(0, -_STEP)  # as a reader: until then, the page follows the conversation
    while await page.locator("article[data-position='0']").count() == 0:
        seen = await scroll(page, -_STEP, _FRAMES)
        blank, jumps, frames = max(blank, seen.blank), max(jumps, seen.jumps), frames + seen.frames
        await session.send("HeapProfiler.collectGarbage")
        sizes.append((await session.send("Runtime.getHeapUsage"))["usedSize"])
    run.note(f"{frames:,} frames of scrolling: at most {blank} in a row with a blank place, {jumps} with a jump")
    half = (len(sizes) + 1) // 2
    return median(sizes[half:] or sizes) / median(sizes[:half])
