"""What the model gets, and why it is not what was written, in a real browser."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, Route, expect

from tests.inspector.desk import Desk
from tests.inspector.test_session import assistant, chat, user

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_summary_opens_to_its_originals_and_can_be_undone(page: Page, desk: Desk) -> None:
    async with desk.manager() as manager:
        await chat(manager, "summed", 20)
        session = manager.session("summed")
        await session.add_compaction("They talked about **numbers**.", "summed-q0", "summed-a9")
        await page.goto(desk.at("s/summed"))
        pane = page.get_by_role("complementary", name="What the model gets")
        await expect(pane).to_contain_text("20 messages are replaced by a summary")
        await expect(pane.get_by_role("list", name="In the order it is sent")).to_contain_text("Summary20 messages")
        used = (await session.context_breakdown()).used
        await expect(pane.locator(".big b")).to_have_text(f"{used:,}")
        await page.keyboard.press("g")
        await expect(page.locator("article[data-id=summed-q0]")).to_have_class(re.compile("under"))
        await expect(page.get_by_text("The model does not get the next")).to_be_visible()
        await page.get_by_role("radio", name="As the model sees it").last.click()
        await page.keyboard.press("g")
        card = page.get_by_role("article", name="Compaction 1")
        await expect(card).to_contain_text("Summary in place of 20 messages")
        await expect(card.locator("strong")).to_have_text("numbers")
        await expect(page.locator("article[data-id=summed-q0]")).to_have_count(0)
        await card.get_by_role("button", name="Open originals").click()
        await expect(card.locator("article[data-id=summed-q0]")).to_contain_text("Question 0?")
        await card.get_by_role("button", name="Close originals").click()
        await expect(card.locator("article[data-id=summed-q0]")).to_have_count(0)
        await card.get_by_role("button", name="Undo").click()
        await expect(page.locator("article[data-id=summed-q0]")).to_be_attached()
        assert await session.compactions() == []


async def test_the_parts_of_the_prompt_add_up_to_it(page: Page, desk: Desk) -> None:
    async with desk.manager() as manager:
        prompt = (await manager.session("lisbon").context_breakdown()).parts[0].tokens
    await page.goto(desk.at("s/lisbon"))
    parts = page.get_by_role("list", name="In the order it is sent").locator("li.sub")
    await expect(parts.last).to_contain_text("headings, and what has changed since")
    figures = [figure.replace(",", "") for figure in await parts.locator(".n").all_inner_texts()]
    assert sum(map(int, figures)) == prompt > 500


async def test_a_summary_has_the_same_figure_everywhere(page: Page, desk: Desk) -> None:
    async with desk.manager() as manager:
        parts = (await manager.session("billing-rounding").context_breakdown()).parts
    tokens = next(part.tokens for part in parts if part.part == "summary")
    await page.goto(desk.at("s/billing-rounding?view=model"))
    sent = page.get_by_role("list", name="In the order it is sent")
    await expect(sent.get_by_role("listitem").filter(has_text="Summary").locator(".n")).to_have_text(str(tokens))
    card = page.get_by_role("article", name="Compaction 2")
    await expect(card.locator(".fhead .num")).to_have_text(f"{tokens} tokens")
    await expect(card.locator(".why")).to_contain_text(re.compile(r"went from [\d,]+ to [\d,]+ tokens"))


async def test_copies_the_request_as_the_provider_gets_it(page: Page, desk: Desk) -> None:
    async with desk.manager() as manager:
        await chat(manager, "request", 2)
        await page.goto(desk.at("s/request?view=model"))
        await page.bring_to_front()  # a browser copies only for the page that has the focus
        async with page.expect_response("**/prepare") as answer:
            await page.get_by_role("button", name="Copy request").click()
        assert (await answer.value).ok
        await expect(page.locator(".place[role=status]")).to_have_text("Request copied")
        copied = await page.evaluate("navigator.clipboard.readText().then(JSON.parse)")
        assert copied["messages"] == (await manager.session("request").prepare("anthropic"))["messages"]


async def test_the_map_leads_to_branches_and_forks_and_moves_the_head_back_and_forth(page: Page, desk: Desk) -> None:
    async with desk.manager() as manager:
        await chat(manager, "mapped", 3)
        session = manager.session("mapped")
        await session.append(user("Or is it the CDN?", "cdn"), parent="mapped-a1")
        await session.append(assistant("Not the CDN.", "not-cdn"))
        await manager.fork("mapped", "mapped-a0", name="Postmortem", new_id="postmortem")
        await page.goto(desk.at("s/mapped"))
        lane = page.get_by_role("complementary", name="Branches and forks")
        await lane.get_by_role("button", name=re.compile("Question 2")).click()
        await expect(page.locator("article[data-id=mapped-a2]")).to_be_visible()
        await page.get_by_role("button", name="Switch here").click()
        await expect(page.get_by_text("Switched to")).to_be_visible()
        head = await session.head()
        assert head is not None
        assert head.id == "mapped-a2"
        await page.get_by_role("button", name="Back", exact=True).click()
        await expect(page.locator("article[data-id=not-cdn]")).to_be_visible()
        head = await session.head()
        assert head is not None
        assert head.id == "not-cdn"
        await lane.get_by_role("link", name=re.compile("Postmortem")).click()
        await expect(page.get_by_role("heading", name="Postmortem")).to_be_visible()
        await expect(page.locator("article[data-id=mapped-a0]")).to_be_visible()
        await page.get_by_role("link", name="Forked from another session").click()
        await expect(page.locator("article[data-id=mapped-a0]")).to_have_class(re.compile("sel"))


async def test_a_fork_begins_at_the_chosen_message(page: Page, desk: Desk) -> None:
    async with desk.manager() as manager:
        await chat(manager, "forked", 3)
        await page.goto(desk.at("s/forked?m=forked-a0"))
        await expect(page.locator("article[data-id=forked-a0]")).to_have_class(re.compile("sel"))
        await page.get_by_role("button", name="Fork").click()
        await expect(page.get_by_text("Forked.")).to_be_visible()
        await expect(page.locator("article[data-id=forked-a0]")).to_be_visible()
        await expect(page.locator("article[data-id=forked-q1]")).to_have_count(0)


async def test_the_timeline_leads_to_any_place(page: Page, desk: Desk) -> None:
    async with desk.manager() as manager:
        await chat(manager, "long", 500)
    await page.goto(desk.at("s/long"))
    slider = page.get_by_role("slider", name="Place in the session")
    await slider.focus()
    await page.keyboard.press("Home")
    await expect(page.locator("article[data-id=long-q0]")).to_be_in_viewport()
    box = await slider.bounding_box()
    assert box is not None
    await page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 40)
    middle = page.locator("article[data-position]").filter(has_text=re.compile("Question 2[45]"))
    await expect(middle.first).to_be_attached()
    await expect(slider).to_have_attribute("aria-valuenow", re.compile(r"[45]\d\d"))


async def test_says_how_long_a_compaction_took_unless_it_took_no_time(page: Page, desk: Desk) -> None:
    took = 0.004

    async def answer(route: Route) -> None:
        """The answer of the server with this duration: a real one depends on the speed of the machine."""
        response = await route.fetch()
        found = await response.json()
        for compaction in found["items"]:
            compaction["details"]["duration"] = took
        await route.fulfill(response=response, json=found)

    await page.route("**/compactions", answer)
    await page.goto(desk.at("s/lisbon?view=model"))
    author = page.locator(".why").get_by_text("by claude")
    await expect(author).to_have_text("by claude-haiku-5")
    took = 3.2
    await page.reload()
    await expect(author).to_have_text("by claude-haiku-5, 3.2 s")
