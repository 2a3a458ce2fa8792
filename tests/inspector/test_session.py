"""One session in a real browser: reading it, its branches, following it live."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from frontdesk import SessionKey, SessionManager
from tests.inspector.desk import Desk

pytestmark = pytest.mark.asyncio(loop_scope="session")


def user(text: str, id: str) -> dict[str, Any]:
    return {"id": id, "role": "user", "content": text}


def assistant(text: str, id: str) -> dict[str, Any]:
    return {"id": id, "role": "assistant", "content": text}


async def chat(manager: SessionManager, id: str, turns: int) -> None:
    session = await manager.create(f"The session {id}", id=id, key=SessionKey("helper", "web", id))
    messages = [
        said
        for number in range(turns)
        for said in (
            user(f"Question {number}?", f"{id}-q{number}"),
            assistant(f"Answer {number}. " + "It takes a few words. " * 8, f"{id}-a{number}"),
        )
    ]
    await session.append_all(messages)


FEED = "document.querySelector('[role=feed]')"
FIRST_VISIBLE = """
    () => [...document.querySelectorAll("article")].find((box) => box.getBoundingClientRect().bottom > 300).dataset.id
"""
AT_END = f"() => {FEED}.scrollHeight - {FEED}.scrollTop - {FEED}.clientHeight < 3"
PLACE = f"""
    async () => {{
        const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        for (let last = -1; last !== {FEED}.scrollTop; ) {{ last = {FEED}.scrollTop; await frame(); await frame(); }}
        const row = [...document.querySelectorAll("article")].find((box) => box.getBoundingClientRect().bottom > 300);
        return [row.dataset.id, Math.round(row.getBoundingClientRect().top)];
    }}
"""
"""the row that somebody reads, and where it is on the screen, once the scroller has come to rest"""


async def test_shows_what_was_said_and_folds_a_tool_call_with_its_result(page: Page, desk: Desk) -> None:
    async with desk.manager() as manager:
        session = await manager.create("Metrics", id="metrics", key=SessionKey("oncall", "slack", "Ana"))
        call = {
            "id": "c1",
            "type": "function",
            "function": {"name": "query_metrics", "arguments": '{"route": "/checkout"}'},
        }
        await session.append_all(
            [
                user("Is it the **pool** again?", "u1"),
                {"id": "a1", "role": "assistant", "content": None, "tool_calls": [call]},
                {"id": "t1", "role": "tool", "tool_call_id": "c1", "content": '{"pool_in_use": 0.62}'},
                assistant("No. See `pool_in_use`:\n\n```sql\nselect 1;\n```", "a2"),
            ]
        )
    await page.goto(desk.at("s/metrics"))
    await expect(page.get_by_role("heading", name="Metrics")).to_be_visible()
    await expect(page.locator("article[data-id=u1] strong")).to_have_text("pool")
    await expect(page.locator("article[data-id=u1]")).to_contain_text("Ana")
    await expect(page.locator("article[data-id=t1]")).to_have_count(0)
    calls = page.locator("article[data-id=a1] details")
    await expect(calls).to_contain_text("query_metrics")
    await expect(calls.get_by_text("pool_in_use")).to_be_hidden()
    await calls.locator("summary").click()
    await expect(calls.get_by_text("pool_in_use")).to_be_visible()
    await expect(page.locator("article[data-id=a2] pre .hl-k")).to_have_text("select")
    await page.keyboard.press("Shift+O")
    await page.keyboard.press("Shift+O")
    await expect(calls.get_by_text("pool_in_use")).to_be_hidden()


async def test_searches_and_opens_at_the_hit(page: Page, desk: Desk) -> None:
    async with desk.manager() as manager:
        await chat(manager, "haystack", 150)
        await manager.append("haystack", user("Where is the zanzibar needle?", "needle"), parent="haystack-a40")
        await manager.append("haystack", assistant("Here.", "found"))
        for number in range(120):
            await manager.append("haystack", user(f"And {number}?", f"later-{number}"))
    await page.goto(desk.at())
    await expect(page.locator("[data-row='0']")).to_be_visible()
    await page.keyboard.press("/")
    await page.keyboard.type("zanzibar")
    await page.keyboard.press("Enter")
    hit = page.locator(".hit").first
    await expect(hit.locator("mark")).to_have_text("zanzibar")
    await expect(page.get_by_role("complementary", name="Preview")).to_contain_text("Here.")
    await page.keyboard.press("Enter")
    chosen = page.locator("article[data-id=needle]")
    await expect(chosen).to_be_in_viewport()
    await expect(chosen).to_have_class(re.compile("sel"))
    await expect(chosen.locator("mark")).to_have_text("zanzibar")


async def test_enter_asks_for_new_words_before_it_opens_a_hit(page: Page, desk: Desk) -> None:
    await page.goto(desk.at("search?q=castle"))
    await expect(page.locator(".hit mark").first).to_have_text("castle")
    await page.get_by_role("searchbox").evaluate(
        """(field) => {
            field.value = 'towel';
            field.dispatchEvent(new Event('input', { bubbles: true }));
            field.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }));
        }"""
    )
    await expect(page).to_have_url(desk.at("search?q=towel"))
    await expect(page.locator(".hit mark").first).to_have_text(re.compile("towel", re.IGNORECASE))
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("/s/.*q=towel"))
    await page.go_back()
    await expect(page.get_by_role("searchbox")).to_have_value("towel")
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox").fill("tram")
    await page.get_by_role("option", name="Search for").click()
    await expect(page.get_by_role("searchbox")).to_have_value("tram")


async def test_changes_between_the_versions_of_a_message_without_moving_the_head(page: Page, desk: Desk) -> None:
    async with desk.manager() as manager:
        await chat(manager, "versions", 2)
        session = manager.session("versions")
        await session.append(user("Or is it the CDN?", "edited"), parent="versions-a0")
        await session.append(assistant("Not the CDN.", "edited-answer"))
        head = await session.head()
        await page.goto(desk.at("s/versions"))
        point = page.locator("article[data-id=edited]")
        await expect(point).to_contain_text("2 of 2")
        await point.get_by_role("button", name="Previous version").click()
        await expect(page.locator("article[data-id=versions-q1]")).to_contain_text("1 of 2")
        await expect(page.get_by_text("another branch")).to_be_visible()
        assert await session.head() == head
        await page.locator("article[data-id=versions-q1]").click()
        await page.keyboard.press("]")
        await expect(page.locator("article[data-id=edited-answer]")).to_be_visible()


async def test_follows_what_another_process_writes_until_the_reader_scrolls_up(page: Page, desk: Desk) -> None:
    async with desk.manager() as manager:
        await chat(manager, "live", 40)
        session = manager.session("live")
        await page.goto(desk.at("s/live"))
        await expect(page.get_by_text("Following")).to_be_visible()
        await session.append(user("Written elsewhere", "live-1"))
        await expect(page.locator("article[data-id=live-1]")).to_be_in_viewport()
        await page.wait_for_function(AT_END)
        await page.mouse.move(600, 500)
        await page.mouse.wheel(0, -900)
        await expect(page.get_by_role("button", name="Follow")).to_be_visible()
        place = await page.evaluate(PLACE)
        await session.append_all([user("Two more", "live-2"), assistant("Of them", "live-3")])
        await expect(page.get_by_text("2 new below")).to_be_visible()
        assert await page.evaluate(PLACE) == place, "nothing moves under a reader"
        await page.mouse.wheel(0, 5000)
        await page.wait_for_function(AT_END)
        await session.append(user("Still not followed", "live-4"))
        await expect(page.get_by_text("3 new below")).to_be_visible()
        await page.keyboard.press("Shift+G")
        await page.wait_for_function(AT_END)
        await session.append(user("Followed again", "live-5"))
        await expect(page.locator("article[data-id=live-5]")).to_be_in_viewport()


async def test_messages_that_come_quickly_are_all_shown(page: Page, desk: Desk) -> None:
    first_sent = asyncio.Event()
    requests = 0
    async with desk.manager() as manager:
        await chat(manager, "quick", 2)
        session = manager.session("quick")

        async def hold_the_first(route: Route) -> None:
            """The first answer after the opening arrives when the page knows of another message."""
            nonlocal requests
            requests += 1
            response = await route.fetch()
            if requests == 1:
                await session.append(assistant("Second", "quick-2"))
                await expect(page.get_by_role("tabpanel")).to_contain_text("quick-2")
                await route.fulfill(response=response)
                first_sent.set()
            else:
                await first_sent.wait()
                await route.fulfill(response=response)

        await page.goto(desk.at("s/quick"))
        await expect(page.get_by_text("Following")).to_be_visible()
        await page.get_by_role("tab", name="Events").click()
        await expect(page.get_by_role("tabpanel")).to_contain_text("quick-a1")
        await page.route("**/messages?*", hold_the_first)
        await session.append(user("First", "quick-1"))
        await expect(page.locator("article[data-id=quick-1]")).to_be_in_viewport()
        await expect(page.locator("article[data-id=quick-2]")).to_be_in_viewport()


async def test_the_start_is_chosen_while_the_end_is_still_loading(page: Page, desk: Desk) -> None:
    pressed = asyncio.Event()

    async def hold(route: Route) -> None:
        await pressed.wait()
        await route.continue_()

    async with desk.manager() as manager:
        await chat(manager, "impatient", 150)
    await page.route("**/messages?*", hold)
    await page.goto(desk.at("s/impatient"))
    await expect(page.locator(".sent")).to_be_visible()
    await page.keyboard.press("g")
    pressed.set()
    await expect(page.locator("article[data-id=impatient-q0]")).to_be_in_viewport()
    await expect(page.get_by_role("button", name="Follow")).to_be_visible()


async def test_a_version_is_chosen_before_the_branches_are_known(page: Page, desk: Desk) -> None:
    held = asyncio.Event()

    async def hold(route: Route) -> None:
        await held.wait()
        await route.continue_()

    async with desk.manager() as manager:
        await chat(manager, "early", 2)
        await manager.append("early", user("Or so?", "early-other"), parent="early-a0")
        await page.route("**/outline", hold)
        await page.goto(desk.at("s/early"))
        await page.locator("article[data-id=early-other]").click()
        await page.keyboard.press("[")
        held.set()
        await expect(page.locator("article[data-id=early-q1]")).to_be_visible()
        await expect(page.locator("article[data-id=early-a1]"), "its answer too").to_be_visible()


async def test_a_link_leads_to_one_message_and_back_restores_the_place(page: Page, desk: Desk) -> None:
    async with desk.manager() as manager:
        await chat(manager, "linked", 300)
    await page.goto(desk.at("s/linked?m=linked-a17"))
    await expect(page.locator("article[data-id=linked-a17]")).to_be_in_viewport()
    await page.goto(desk.at("s/linked"))
    await expect(page.locator("article[data-id=linked-a299]")).to_be_in_viewport()
    await page.mouse.move(600, 500)
    await page.mouse.wheel(0, -3000)
    await expect(page.get_by_role("button", name="Follow")).to_be_visible()
    before = await page.evaluate(FIRST_VISIBLE)
    await page.get_by_role("link", name="Usage").click()
    await expect(page.get_by_role("heading", name="Usage")).to_be_visible()
    await page.go_back()
    await expect(page.locator(f"article[data-id={before}]")).to_be_in_viewport()
    await expect(page.locator("article[data-id=linked-a299]")).not_to_be_in_viewport()
