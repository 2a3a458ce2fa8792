"""Content that is hostile, keys, and a mount prefix, in a real browser."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.async_api import Browser, Page, Request, expect

from tests.inspector.desk import Desk, serving, window

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOSTILE = """<script>window.hacked = 1</script>
<img src=x onerror="window.hacked = 2"> <svg onload="window.hacked = 3"></svg>
[a link](javascript:window.hacked=4) ![an image](https://example.org/track.png) <a href="javascript:1">x</a>

<iframe srcdoc="<script>parent.hacked = 5</script>"></iframe> <b style="color:red">bold</b>"""
ARABIC = "جدول المواعيد لشهر ديسمبر"
EMOJI = "👩‍👩‍👧‍👦 🏳️‍🌈 مرحبا \u202e evil"


async def test_nothing_of_a_conversation_becomes_html(page: Page, desk: Desk) -> None:
    id = "../<b>odd</b>/?#%2F id"
    async with desk.manager() as manager:
        session = await manager.create(HOSTILE, id=id)
        await session.append_all(
            [
                {"id": "h1", "role": "user", "content": HOSTILE},
                {"id": "h2", "role": "assistant", "content": ARABIC},
                {"id": "h3", "role": "assistant", "content": EMOJI},
                {"id": "h4", "role": "user", "content": "&copy; &lt;i&gt; &nosuch;"},
            ]
        )
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.goto(desk.at(f"s/{quote(id, safe='')}"))
    message = page.locator("article[data-id=h1]")
    await expect(message).to_contain_text("<script>window.hacked = 1</script>")
    await expect(message).to_contain_text('<iframe srcdoc="')
    await expect(page.locator("article[data-id=h4]")).to_contain_text("© <i> &nosuch;")
    await expect(page.locator("article[data-id=h2] p")).to_have_css("direction", "rtl")
    await expect(page.locator("article[data-id=h3]")).to_contain_text(EMOJI)
    assert await message.locator(".body").locator("script, img, iframe, svg[onload], [style], a").count() == 0
    assert await page.evaluate("window.hacked") is None
    assert all(url.startswith((desk.address, "data:")) for url in asked)


async def test_a_message_of_megabytes_is_shown_in_steps(page: Page, desk: Desk) -> None:
    points = [{"t": 1763301600 + step, "route": "/checkout", "p95": step / 7} for step in range(100_000)]
    text = json.dumps({"points": points})
    assert len(text) > 5_000_000
    async with desk.manager() as manager:
        session = await manager.create("Large", id="large")
        await session.append({"id": "big", "role": "user", "content": text})
        await session.append({"id": "small", "role": "assistant", "content": "Thank you."})
    await page.goto(desk.at("s/large"))
    message = page.locator("article[data-id=big]")
    await expect(page.locator("article[data-id=small]")).to_be_visible()
    await expect(message.get_by_text("First 20 kB of")).to_be_visible()
    assert len(await message.inner_text()) < 25_000
    await message.get_by_role("button", name="20 kB more").click()
    await expect(message.get_by_text("First 40 kB of")).to_be_visible()
    async with page.expect_download() as download:
        await message.get_by_role("button", name="Download").click()
    saved = await (await download.value).path()
    assert json.loads(Path(saved).read_text())["content"] == text


async def test_works_below_a_mount_prefix(page: Page, desk: Desk) -> None:
    await page.goto(desk.at("s/lisbon?view=model", mounted=True))
    await expect(page.locator("article[data-id]").first).to_be_visible()
    await page.get_by_role("link", name="Sessions", exact=True).click()
    await expect(page).to_have_url(desk.at(mounted=True))
    await page.locator("[data-row='0'] a").click()
    await expect(page.locator("article[data-id]").first).to_be_visible()
    await page.reload()
    await expect(page.locator("article[data-id]").first).to_be_visible()
    await expect(page.get_by_role("status").get_by_text("Live")).to_be_visible()


async def test_a_key_is_sent_in_a_header_only_and_a_reader_sees_no_actions(browser: Browser, tmp_path: Path) -> None:
    async with serving(tmp_path / "keys.db", "read", "write") as desk, desk.manager() as manager:
        await manager.append("chat", {"id": "m1", "role": "user", "content": "Hello"})
        async with window(browser) as watched:
            page, sent = watched.page, []

            def remember(request: Request) -> None:
                sent.append(request)

            page.on("request", remember)
            await page.goto(desk.at("s/chat"))
            await expect(page.get_by_label("API key")).to_be_focused()
            for _ in range(3):  # a browser closes a dialog at the second Escape, whatever the page says
                await page.keyboard.press("Escape")
            await page.get_by_label("API key").fill("fd_wrong")
            await page.keyboard.press("Enter")
            await expect(page.get_by_text("The server does not know this key")).to_be_visible()
            await page.get_by_label("API key").fill(desk.keys[0])
            await page.keyboard.press("Enter")
            await expect(page.locator("article[data-id=m1]")).to_contain_text("Hello")
            await expect(page.get_by_text("key “read key”, read")).to_be_visible()
            await expect(page.get_by_role("button", name="Fork")).to_have_count(0)
            await expect(page.get_by_role("button", name="Compact")).to_have_count(0)
            await page.reload()
            await expect(page.locator("article[data-id=m1]")).to_contain_text("Hello")
            assert not any(desk.keys[0] in request.url for request in sent)
            assert desk.keys[0] not in await page.evaluate("JSON.stringify(localStorage) + document.cookie")
            await page.evaluate("sessionStorage.clear()")
            await page.reload()
            await page.get_by_label("API key").fill(desk.keys[1])
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("button", name="Fork")).to_be_visible()
            assert watched.problems == []
