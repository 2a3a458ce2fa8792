"""The events of the namespace and of a session in a real browser."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.inspector.desk import Desk
from tests.inspector.test_session import chat, user

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_shows_what_happened_before_and_what_happens(page: Page, desk: Desk) -> None:
    async with desk.manager() as manager:
        await chat(manager, "logged", 1)
        await page.goto(desk.at("events"))
        rows = page.get_by_role("list", name="Events, newest first").get_by_role("listitem")
        await expect(rows.first).to_contain_text("logged-a0")
        await expect(rows.nth(2)).to_contain_text("session.created")
        await manager.append("logged", user("And now?", "logged-q1"))
        await expect(rows.first).to_contain_text("logged-q1")
        await expect(rows.nth(1)).to_contain_text("logged-a0")
        await rows.first.get_by_role("link", name="logged").click()
        await expect(page.locator("article[data-id=logged-q1]")).to_be_in_viewport()


async def test_a_session_shows_its_own_events(page: Page, desk: Desk) -> None:
    async with desk.manager() as manager:
        await chat(manager, "own-log", 1)
        await chat(manager, "other-log", 1)
    await page.goto(desk.at("s/own-log"))
    await page.get_by_role("tab", name="Events").click()
    rows = page.get_by_role("list", name="Events, newest first").get_by_role("listitem")
    await expect(rows).to_have_count(3)
    await expect(rows.first).to_contain_text("own-log-a0")
    await expect(rows.last).to_contain_text("session.created")
