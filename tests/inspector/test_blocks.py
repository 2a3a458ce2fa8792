"""Blocks and their versions in a real browser."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from frontdesk import SessionKey
from tests.inspector.desk import Desk

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_edits_compares_and_restores_a_block(page: Page, desk: Desk) -> None:
    async with desk.manager() as manager:
        session = await manager.create("With a memory", id="editing", key=SessionKey("concierge", "web", "editor"))
        await session.replace_context_block("memory", "- Ana leads.\n- The pool is small.", author="the model")
        await session.replace_context_block("memory", "- Ana leads.\n- The pool is large.", author="the model")
        await page.goto(desk.at("s/editing/prompt/memory"))
        editor = page.get_by_role("region", name="memory", exact=True)
        await page.get_by_role("button", name="v1", exact=False).last.click()
        await expect(editor.locator("del")).to_have_text("small")
        await expect(editor.locator("ins")).to_have_text("large")
        await page.get_by_role("radio", name="Text").click()
        await page.get_by_role("button", name="Edit").click()
        await page.get_by_label("Text of memory").fill("- Ana leads.\n- The pool is closed.")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("Saved as version 3")).to_be_visible()
        block = await session.context_block("memory")
        assert block is not None
        assert block.content.endswith("closed.")
        await page.get_by_role("button", name="v1", exact=False).last.click()
        await page.get_by_role("button", name="Restore v1").click()
        await expect(page.get_by_text("Version 1 is restored, as version 4")).to_be_visible()
        restored = await session.context_block("memory")
        assert restored is not None
        assert restored.content.endswith("small.")


async def test_an_edit_of_an_older_version_is_refused_and_the_text_is_kept(page: Page, desk: Desk) -> None:
    async with desk.manager() as manager:
        session = await manager.create("Two writers", id="conflict", key=SessionKey("concierge", "web", "conflict"))
        await session.replace_context_block("memory", "first")
        await page.goto(desk.at("s/conflict/prompt/memory"))
        await page.get_by_role("button", name="Edit").click()
        await page.get_by_label("Text of memory").fill("mine")
        await session.replace_context_block("memory", "theirs")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("The block was not saved")).to_be_visible()
        await expect(page.get_by_label("Text of memory")).to_have_value("mine")
        block = await session.context_block("memory")
        assert block is not None
        assert block.content == "theirs"
        await page.get_by_role("button", name="Keep my text").click()
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("Saved as version 3")).to_be_visible()
