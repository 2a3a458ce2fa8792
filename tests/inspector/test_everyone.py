"""The page for everyone: without violations that axe-core knows, on a phone, in the dark, by keyboard alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from tests.inspector.desk import Desk, window

pytestmark = pytest.mark.asyncio(loop_scope="session")

AXE = Path(__file__).parents[2] / "inspector" / "node_modules" / "axe-core" / "axe.min.js"
RULES = "{runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']}"
SCREENS = (
    ("", "[data-row='0']"),
    ("s/lisbon", "article[data-id]"),
    ("s/billing-rounding?view=model", "article[data-id]"),
    ("s/lisbon/prompt/memory", ".blk"),
    ("search?q=castle", ".hit"),
    ("usage", ".figures"),
    ("events", "main h1"),
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
async def test_axe_finds_no_violations(browser: Browser, desk: Desk, scheme: str, width: int) -> None:
    # Axe is no part of the page: the policy is set aside for it, in these windows only.
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 844}, "bypass_csp": True}
    async with window(browser, **options) as watched:
        for path, ready in SCREENS:
            await watched.page.goto(desk.at(path))
            await expect(watched.page.locator(ready).first).to_be_visible()
            await watched.page.evaluate(AXE.read_text())
            found = await watched.page.evaluate(f"axe.run(document, {RULES})")
            violations = [
                (path, violation["id"], [node["html"][:200] for node in violation["nodes"][:3]])
                for violation in found["violations"]
            ]
            assert violations == []


async def test_a_phone_has_a_bottom_bar_and_a_sheet_and_nothing_is_cut_off(browser: Browser, desk: Desk) -> None:
    async with window(browser, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True) as watched:
        page = watched.page
        await page.goto(desk.at("s/billing-rounding"))
        await expect(page.locator("article[data-id]").last).to_be_in_viewport()
        await page.get_by_role("button", name="Model gets").tap()
        await expect(page.get_by_role("tab", name="What the model gets")).to_be_visible()
        await page.get_by_role("button", name="Close").last.tap()
        await expect(page.get_by_role("tab", name="What the model gets")).to_be_hidden()
        await page.get_by_role("radio", name="As the model sees it").first.tap()
        await expect(page.get_by_text("Summary in place of").last).to_be_attached()
        for path, ready in SCREENS:
            await page.goto(desk.at(path))
            content = page.locator(ready)
            # A session opens at its end.
            await expect(content.last if path.startswith("s/") else content.first).to_be_in_viewport()
            box = await page.locator("main").bounding_box()
            assert box is not None
            assert box["height"] > 500, path
            assert await page.evaluate("document.documentElement.scrollWidth") <= 390, path
        await page.goto(desk.at("s/nobody"))
        await page.get_by_role("link", name="All sessions").tap()
        await expect(page).to_have_url(desk.at())
        assert watched.problems == []


@pytest.mark.parametrize("width", [1440, 1280, 1024, 900])
async def test_the_pane_fits_its_column(browser: Browser, desk: Desk, width: int) -> None:
    async with window(browser, viewport={"width": width, "height": 800}) as watched:
        page = watched.page
        await page.goto(desk.at("s/billing-rounding?view=model"))
        await expect(page.locator(".sent")).to_be_visible()
        for part in (page.locator(".sent"), page.get_by_role("tab", name="Events")):
            box = await part.bounding_box()
            assert box is not None
            assert box["x"] + box["width"] <= width - 8, box
        await page.goto(desk.at("s/lisbon/prompt/memory"))
        await expect(page.locator(".blk .tag").first).to_be_visible()
        names = await page.locator(".blk b").evaluate_all("all => all.map((b) => b.scrollWidth - b.clientWidth)")
        assert len(names) > 3
        assert max(names) <= 0, "every label can be read"


# Closes the dialog as Escape does, and presses a key before the browser does anything else.
CLOSE_AND_PRESS = """
    async (key) => {
        document.querySelector('dialog').requestClose();
        for (let turn = 0; turn < 10; turn++) await null;
        document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
    }
"""


@pytest.mark.parametrize("opened_by", ["?", "Control+k"])
async def test_a_key_pressed_while_a_dialog_closes_is_not_lost(page: Page, desk: Desk, opened_by: str) -> None:
    await page.goto(desk.at("s/lisbon"))
    await expect(page.locator("article[data-id]").last).to_be_visible()
    for key, leads_to in (("v", "s/lisbon?view=model"), ("v", "s/lisbon"), ("/", "search")):
        await page.keyboard.press(opened_by)
        await expect(page.locator("dialog input")).to_be_focused()
        await page.evaluate(CLOSE_AND_PRESS, key)
        await expect(page).to_have_url(desk.at(leads_to))


async def test_a_dialog_opens_again_while_it_closes(page: Page, desk: Desk) -> None:
    await page.goto(desk.at("s/lisbon"))
    await expect(page.locator("article[data-id]").last).to_be_visible()
    await page.keyboard.press("?")
    await expect(page.locator("dialog input")).to_be_focused()
    await page.evaluate(CLOSE_AND_PRESS, "?")
    await page.get_by_label("Single letters are keys").uncheck()
    await page.keyboard.press("Escape")
    await expect(page.locator("dialog")).to_have_count(0)


async def test_escape_closes_a_menu_and_leaves_a_field_but_not_the_screen(page: Page, desk: Desk) -> None:
    await page.goto(desk.at("s/lisbon"))
    await page.get_by_role("button", name="Actions").click()
    menu = page.get_by_role("menu")
    await expect(menu).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(menu).to_be_hidden()
    await expect(page).to_have_url(desk.at("s/lisbon"))
    await page.goto(desk.at("search?q=castle"))
    field = page.get_by_role("searchbox")
    await expect(field).to_be_focused()
    await expect(page.locator(".hit").first).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(field).not_to_be_focused()
    await expect(field).to_have_value("castle")
    await expect(page).to_have_url(desk.at("search?q=castle"))


async def test_all_keys_are_explained_and_letters_can_be_switched_off(page: Page, desk: Desk) -> None:
    await page.goto(desk.at("s/lisbon"))
    await expect(page.locator("article[data-id]").last).to_be_visible()
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="All keys")).to_contain_text("As written, or as the model sees it")
    await page.keyboard.press("Escape")
    await page.keyboard.press("v")
    await expect(page).to_have_url(desk.at("s/lisbon?view=model"))
    await page.keyboard.press("v")
    await expect(page).to_have_url(desk.at("s/lisbon"))
    await expect(page.locator("article[data-id]").last).to_be_in_viewport()
    await page.keyboard.press("k")
    last = await page.locator("article.sel").get_attribute("data-position")
    await page.keyboard.press("Shift+K")
    question = page.locator("article.sel.user")
    await expect(question).to_be_in_viewport()
    assert int(await question.get_attribute("data-position") or 0) < int(last or 0)
    await page.keyboard.press("c")
    await expect(page.get_by_text("Message copied")).to_be_visible()
    text = await page.evaluate("navigator.clipboard.readText()")
    assert text in await question.inner_text()
    await page.keyboard.press("?")
    await page.get_by_label("Single letters are keys").uncheck()
    await page.keyboard.press("Escape")
    await page.keyboard.press("v")
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("dialog", name="Search or jump to")).to_be_visible()
    await page.keyboard.type("usa")
    await page.keyboard.press("ArrowDown")
    await expect(page.get_by_role("option", name="Usage")).to_be_visible()
    assert "view=model" not in page.url
