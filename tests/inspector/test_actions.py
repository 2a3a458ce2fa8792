"""What a reader does to sessions, the turn that somebody holds, the figures of usage, and the keys of one session."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, Request, expect

from frontdesk import SessionKey
from tests.inspector.desk import Desk, serving, window
from tests.inspector.test_session import assistant, chat, user

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_renames_archives_with_a_way_back_and_deletes_after_a_question(page: Page, desk: Desk) -> None:
    async with desk.manager() as manager:
        await chat(manager, "acted-on", 2)
        session = manager.session("acted-on")
        await page.goto(desk.at("s/acted-on"))

        async def act(name: str) -> None:
            await page.locator(".shead").get_by_role("button", name="Actions").click()
            await page.get_by_role("menuitem", name=name).click()

        await act("Rename…")
        await page.get_by_role("textbox", name="Name").fill("  Renamed <b>here</b> ")
        await page.get_by_role("button", name="Rename", exact=True).click()
        await expect(page.get_by_role("heading", name="Renamed <b>here</b>")).to_be_visible()
        assert (await session.info()).name == "Renamed <b>here</b>"

        await act("Archive")
        await expect(page.locator(".shead .tag")).to_have_text("Archived")
        assert (await session.info()).status == "archived"
        await page.get_by_role("button", name="Back", exact=True).click()
        await expect(page.locator(".shead .tag")).not_to_have_text("Archived")
        assert (await session.info()).status != "archived"

        await act("Delete…")
        delete = page.get_by_role("dialog").get_by_role("button", name="Delete")
        await expect(delete).to_be_disabled()
        await page.get_by_role("button", name="Keep it").click()
        assert await manager.get("acted-on") is not None
        await act("Delete…")
        await page.get_by_label("Type delete to confirm").fill("delete")
        await delete.click()
        await expect(page).to_have_url(desk.at())
        assert await manager.get("acted-on") is None


async def test_shows_who_holds_the_turn_and_who_waits(page: Page, desk: Desk) -> None:
    async with desk.manager() as manager:
        await chat(manager, "held", 1)
        await page.goto(desk.at("s/held"))
        await expect(page.get_by_text("Nobody has the turn")).to_be_visible()
        async with manager.session("held").turn() as turn:
            await turn.append(user("In a turn", "held-q1"))
            await expect(page.locator(".dock")).to_contain_text(re.compile(r" has the turn, \d+ s"))
            await page.goto(desk.at("?agent=helper"))
            row = page.locator("[data-row]").filter(has_text="The session held")
            await expect(row).to_contain_text("turn held")
            await page.goto(desk.at("s/held"))
            await expect(page.locator(".dock")).to_contain_text("has the turn")
        await expect(page.get_by_text("Nobody has the turn")).to_be_visible()


async def test_usage_adds_up_to_the_ledger(browser: Browser, tmp_path: Path) -> None:
    async with serving(tmp_path / "usage.db") as desk, desk.manager() as manager, window(browser) as watched:
        page = watched.page
        for agent, cost in (("helper", "1.25"), ("clerk", "0.75")):
            await manager.create(id=agent, key=SessionKey(agent, "web", "ana"))
            await manager.add_usage(
                agent,
                input_tokens=1_000,
                output_tokens=200,
                cache_read_tokens=500,
                cost=Decimal(cost),
                model=f"model-{agent}",
            )
        await page.goto(desk.at("usage"))
        await expect(page.locator(".figures")).to_have_text(
            re.compile(r"\$2\.00\s*cost\s*2k\s*input tokens\s*400\s*output tokens\s*50 %")
        )
        by_model = page.get_by_role("region", name="By model").get_by_role("row")
        await expect(by_model.nth(1)).to_have_text(re.compile(r"model-helper\s*\$1\.25\s*1,000\s*200\s*50 %"))
        by_agent = page.get_by_role("region", name="By agent").get_by_role("row")
        await expect(by_agent.nth(2)).to_have_text(re.compile(r"clerk\s*\$0\.75"))
        await by_agent.nth(2).get_by_role("link", name="clerk").click()
        await expect(page.locator("[data-row]")).to_have_count(1)
        assert watched.problems == []


async def test_keys_lead_to_the_next_branch_point_open_a_fold_and_copy(page: Page, desk: Desk) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    async with desk.manager() as manager:
        await chat(manager, "keys", 2)
        session = manager.session("keys")
        await session.append(user("Or so?", "keys-other"), parent="keys-a0")
        await session.append_all(
            [
                {"id": "keys-call", "role": "assistant", "content": None, "tool_calls": [call]},
                {"id": "keys-result", "role": "tool", "tool_call_id": "c1", "content": "a needle"},
                assistant("Done.", "keys-done"),
            ]
        )
    await page.goto(desk.at("s/keys?m=keys-q0"))
    await expect(page.locator("article[data-id=keys-q0]")).to_have_class(re.compile("sel"))
    await page.keyboard.press("b")
    await expect(page.locator("article[data-id=keys-other]")).to_have_class(re.compile("sel"))
    await page.keyboard.press("c")
    await expect(page.get_by_text("Message copied")).to_be_visible()
    assert await page.evaluate("navigator.clipboard.readText()") == "Or so?"
    await page.keyboard.press("y")
    await expect(page.get_by_text("Link copied")).to_be_visible()
    assert await page.evaluate("navigator.clipboard.readText()") == desk.at("s/keys?m=keys-other")
    await page.keyboard.press("j")
    fold = page.locator("article[data-id=keys-call] details")
    await expect(fold.get_by_text("a needle")).to_be_hidden()
    await page.keyboard.press("o")
    await expect(fold.get_by_text("a needle")).to_be_visible()
    await page.keyboard.press("o")
    await expect(fold.get_by_text("a needle")).to_be_hidden()


async def test_the_first_load_is_small_on_the_wire(browser: Browser, desk: Desk) -> None:
    async with window(browser) as watched:
        loaded: list[Request] = []
        watched.page.on("requestfinished", lambda request: loaded.append(request))
        await watched.page.goto(desk.at("s/lisbon"))
        await expect(watched.page.locator("article[data-id]").first).to_be_visible()
        files = [each for each in loaded if each.resource_type in ("document", "script", "stylesheet")]
        sizes = [(await each.sizes())["responseBodySize"] for each in files]
        assert len(files) > 5
        assert 60_000 < sum(sizes) < 120_000
