"""What the page does without its server: says so, keeps what it shows, and continues when the server is back."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.inspector.desk import serving, window
from tests.inspector.test_session import chat, user

pytestmark = pytest.mark.asyncio(loop_scope="session")

LOST = "No connection since"
CLICK = "all => all.forEach((one) => (one.dispatchEvent(new Event('pointerdown', {bubbles: true})), one.click()))"
"""click those that are there at this moment, as a pointer does"""


async def test_two_tabs_find_a_server_again_that_was_killed(browser: Browser, tmp_path: Path) -> None:
    store = tmp_path / "killed.db"
    async with window(browser) as watched, serving(store) as desk:
        page, other = watched.page, await watched.context.new_page()
        async with desk.manager() as manager:
            await chat(manager, "open", 3)
            await page.goto(desk.at("s/open"))
            await expect(page.get_by_text("Following")).to_be_visible()
            await other.goto(desk.at())
            await expect(other.locator(".sum")).to_contain_text("1 in this namespace")
            await desk.kill()
            await expect(page.get_by_text(LOST)).to_be_visible()
            await expect(page.locator("article[data-id=open-a2]"), "what was loaded stays").to_be_visible()
            await other.get_by_role("link", name="Events").click()
            await other.get_by_role("link", name="Sessions").click()
            await other.get_by_role("link", name="Active").click()
            await expect(other.get_by_text("The list could not be loaded")).to_be_visible()
            await expect(other.locator(".sum")).to_have_count(0)
            await manager.append("open", user("Written meanwhile", "open-q3"))
            async with serving(store, port=desk.port):
                for tab in (page, other):  # a tab that has found the server already has no such button
                    await tab.get_by_role("button", name="Now").evaluate_all(CLICK)
                await expect(page.get_by_text(LOST)).to_be_hidden()
                await expect(page.locator("article[data-id=open-q3]")).to_be_in_viewport()
                await expect(page.get_by_text("Following")).to_be_visible()
                await expect(other.locator(".sum")).to_contain_text("1 in this namespace")
                await expect(other.locator("[data-row='0']")).to_be_visible()
    assert [problem for problem in watched.problems if "ERR_" not in problem] == []
