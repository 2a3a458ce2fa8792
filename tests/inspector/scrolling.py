"""Scrolls through a conversation in the page itself, frame by frame, and reports what a reader would have seen."""

from __future__ import annotations

from typing import NamedTuple

from playwright.async_api import Page

_SCROLL = """
async ([step, frames]) => {
    const feed = document.querySelector("[role=feed]");
    const gap = 80;  // the largest space between rows, and after the last one
    const seen = { frames: 0, blank: 0, jumps: 0, most: 0, last: -1 };
    let tops = new Map(), blank = 0, jumps = 0;
    for (; seen.frames < frames; seen.frames++) {
        await new Promise(requestAnimationFrame);
        const view = feed.getBoundingClientRect(), now = new Map();
        let lower = view.top, hole = 0, jump = false;
        const rows = feed.querySelectorAll(":scope > article");
        for (const row of rows) {
            const box = row.getBoundingClientRect();
            if (box.bottom <= view.top || box.top >= view.bottom) continue;
            hole = Math.max(hole, box.top - lower);
            lower = box.bottom;
            now.set(row, box.top);
            if (row.dataset.position) seen.last = Number(row.dataset.position);
            const moved = (tops.get(row) ?? box.top + Math.max(step, 0)) - box.top;
            jump ||= moved < Math.min(step, 0) - 1.5 || moved > Math.max(step, 0) + 1.5;
        }
        hole = Math.max(hole, view.bottom - lower);
        blank = hole > gap ? blank + 1 : 0;
        jumps = jump ? jumps + 1 : 0;
        seen.blank = Math.max(seen.blank, blank);
        seen.jumps = Math.max(seen.jumps, jumps);
        seen.most = Math.max(seen.most, rows.length);
        tops = now;
        feed.scrollTop += step;
    }
    return seen;
}
"""


class Seen(NamedTuple):
    """How many frames were looked at; for how many in a row there was a blank place, or a row that moved by other than
    the scrolled distance; how many rows the page had at most; and the position of the last one in view."""

    frames: int
    blank: int
    jumps: int
    most: int
    last: int


async def scroll(page: Page, step: int, frames: int) -> Seen:
    """Scroll by `step` pixels in each of so many frames."""
    return Seen(**await page.evaluate(_SCROLL, [step, frames]))
