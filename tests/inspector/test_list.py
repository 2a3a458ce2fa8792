"""The list of sessions in a real browser."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from frontdesk import SessionKey, SessionManager
from tests.inspector.desk import Desk
from tests.public_api.steps import say
from tests.server.live import live_server

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_lists_sessions_with_the_newest_first_and_loads_more_while_scrolling(page: Page, desk: Desk) -> None:
    async with desk.manager() as manager:
        newest = (await manager.list(limit=1)).items[0]
        total = (await manager.stats()).sessions
    await page.goto(desk.at())
    rows = page.locator("[role=row][data-row]")
    await expect(rows.first).to_contain_text(newest.name)
    await expect(page.locator(".foot")).to_contain_text("loaded as you scroll")
    assert await rows.count() < 60, "only the rows near the visible ones are in the page"
    await rows.first.focus()
    await page.keyboard.press("Shift+G")
    await expect(page.locator(".foot")).to_contain_text("loaded")
    while "all loaded" not in (await page.locator(".foot").inner_text()):
        await page.keyboard.press("Shift+G")
    await expect(page.locator(".foot")).to_contain_text(f"{total}, all loaded")


async def test_opens_a_session_and_returns_to_the_same_place(page: Page, desk: Desk) -> None:
    await page.goto(desk.at("?agent=concierge"))
    rows = page.locator(".rows")
    await expect(page.locator("[data-row='20']")).to_be_visible()
    await rows.evaluate("box => box.scrollTop = 900")
    row = page.locator("[data-row='22']")
    name = await row.locator("a").inner_text()
    await row.locator("a").click()
    await expect(page.get_by_role("heading", name=name)).to_be_visible()
    await page.go_back()
    await expect(page.locator("[data-row='22']")).to_be_visible()
    assert await rows.evaluate("box => box.scrollTop") == 900
    await expect(page.get_by_role("button", name="Remove the filter agent is concierge")).to_be_visible()


async def test_filters_by_a_value_and_by_its_absence_and_names_what_hides_everything(page: Page, desk: Desk) -> None:
    await page.goto(desk.at())
    await page.get_by_role("button", name="Channel", exact=True).click()
    await page.get_by_text("is not", exact=True).click()
    await page.get_by_label("channel is not").fill("web")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile(r"not=channel%3Aweb"))
    await expect(page.locator("[data-row='0']")).to_be_visible()
    keys = await page.locator("[data-row] .key").all_inner_texts()
    assert keys
    assert not any(":web:" in key for key in keys)
    await page.get_by_role("button", name="Agent", exact=True).click()
    await page.get_by_label("agent is").fill("nobody")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("Nothing matches")).to_be_visible()
    await expect(page.get_by_text("agent is nobody").last).to_be_visible()
    await page.get_by_role("button", name="Remove “nobody”").click()
    await expect(page.locator("[data-row='0']")).to_be_visible()


async def test_moves_peeks_and_opens_with_the_keyboard(page: Page, desk: Desk) -> None:
    await page.goto(desk.at("?agent=concierge"))
    await expect(page.locator("[data-row='0']")).to_have_attribute("aria-selected", "true")
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    await page.keyboard.press("k")
    chosen = page.locator("[data-row='1']")
    await expect(chosen).to_have_attribute("aria-selected", "true")
    name = await chosen.locator("a").inner_text()
    await page.keyboard.press("Space")
    await expect(page.get_by_role("complementary", name="Peek")).to_contain_text(name)
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("complementary", name="Peek")).to_be_hidden()
    await page.keyboard.press("Enter")
    await expect(page).to_have_title(f"{name} · Frontdesk")


async def test_a_list_that_changed_waits_for_a_click(page: Page, desk: Desk) -> None:
    await page.goto(desk.at("?agent=concierge"))
    first = page.locator("[data-row='0'] a")
    before = await first.inner_text()
    async with desk.manager() as manager:
        session = await manager.create(
            "Written a moment ago", id="moment", key=SessionKey("concierge", "web", "moment")
        )
        await session.append({"role": "user", "content": "Hello"})
    await expect(page.get_by_role("button", name="1 updated")).to_be_visible()
    assert await first.inner_text() == before
    await page.get_by_role("button", name="1 updated").click()
    await expect(first).to_have_text("Written a moment ago")


async def test_nearly_full_is_where_this_server_starts_compactions(page: Page) -> None:
    manager = (
        SessionManager("memory://")
        .with_compaction(max_tokens=100, soft_ratio=0.4, hard_ratio=0.4)
        .with_token_counter(len)
    )
    async with manager, live_server(manager) as address:
        await say(manager.session("half full"), "x" * 50)
        await say(manager.session("nearly empty"), "x")
        await page.goto(address)
        await expect(page.locator(".legend")).to_have_text("compaction starts at 40 %")
        await page.get_by_role("link", name="Nearly full").click()
        await expect(page.locator("[data-row]")).to_have_count(1)
        await expect(page.locator("[data-row]")).to_contain_text("half full")
