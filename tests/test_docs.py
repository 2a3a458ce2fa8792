"""The documents are true: their examples run in an empty folder, twice, and the links and files they name exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.models.scripted_server import Answer, ScriptedServer, ToolCall

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "frontdesk"
APPS = ROOT / "examples" / "apps"
PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)")
FILE = re.compile(r"`((?:[\w.-]+/)*[\w-]+(?:/|\.py|\.pyi|\.sql|\.md|\.toml))`")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def blocks(page: Path) -> list[str]:
    return [match.group(1) for match in BLOCK.finditer(page.read_text())]


INTEGRATIONS = ROOT / "docs" / "integrations"
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    if page.parent != INTEGRATIONS  # `make test-integrations` runs them, where the frameworks are installed
    for number, block in enumerate(blocks(page), 1)
]


def run(script: Path, folder: Path, **variables: str) -> str:
    """What a reader's script prints, run in `folder`; every warning is an error."""
    environment = {**os.environ, "PYTHONWARNINGS": "error", **variables}
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,  # for one that hangs
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def variables(server: ScriptedServer) -> dict[str, str]:
    """The variables with which a script finds a model, and the applications that other pages show."""
    return {
        "OPENAI_BASE_URL": server.openai_url,
        "OPENAI_API_KEY": "key",
        "ANTHROPIC_BASE_URL": server.anthropic_url,
        "ANTHROPIC_API_KEY": "key",
        "PYTHONPATH": str(APPS),
    }


@pytest.fixture(scope="module")
def provider() -> Iterator[dict[str, str]]:
    with ScriptedServer() as server:
        server.otherwise = Answer("It is done.")
        yield variables(server)


@pytest.mark.parametrize("block", BLOCKS)
def test_block_runs_as_it_is_and_runs_again(block: str, tmp_path: Path, provider: dict[str, str]) -> None:
    script, folder = tmp_path / "block.py", tmp_path / "empty"
    script.write_text(block)
    folder.mkdir()
    run(script, folder, **provider)
    if any(folder.iterdir()):  # a block that left no files finds the same empty folder again
        run(script, folder, **provider)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_each_loop_of_a_model_call_runs_the_tools(number: int, tmp_path: Path) -> None:
    script = tmp_path / "block.py"
    script.write_text(blocks(ROOT / "docs" / "prepare.md")[number])
    with ScriptedServer() as server:
        wrong = ToolCall("c1", "update_context", {"label": "nothing"})
        right = ToolCall("c2", "update_context", {"label": "memory", "content": "No nuts."})
        server.script(
            Answer("A moment.", tool_calls=(wrong, ToolCall("c3", "burn"))),
            Answer("", tool_calls=(right,)),
            Answer("Noted."),
        )
        assert run(script, tmp_path, **variables(server)).splitlines() == ["Noted.", "No nuts."]
        assert (server.refused, server.left) == ([], 0)


@pytest.mark.parametrize("app", sorted(APPS.glob("*.py")), ids=lambda app: app.name)
def test_an_application_is_shown_whole_in_its_recipe(app: Path) -> None:
    shown = [block for page in (ROOT / "docs" / "recipes").glob("*.md") for block in blocks(page)]
    assert app.read_text() in shown


def test_the_readme_prints_what_it_says(tmp_path: Path) -> None:
    [block] = blocks(ROOT / "README.md")
    script = tmp_path / "block.py"
    script.write_text(block)
    for shown in (run(script, tmp_path), run(script, tmp_path)):
        assert "2 messages sent, with the tools ['read_session', 'session_search', 'update_context']" in shown
        assert "You are helpful." in shown
        assert shown.count("Ana likes geography.") == 1  # in the prompt of the new conversation


def test_the_demo_shows_what_it_promises(tmp_path: Path) -> None:
    shown = run(ROOT / "examples" / "demo.py", tmp_path).lower()
    for text in (
        "inserted=False",
        "a branch",
        "trip-by-train",
        "Written to memory",
        "byte for byte the same: True",
        "summary",
        "still there",
        "Budget: about 95 euro",
        "0.00284 spent",
    ):
        assert text.lower() in shown
    assert list(tmp_path.iterdir()) == []


def test_the_worked_example_shows_the_rows_that_sqlite_stores(tmp_path: Path) -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    steps = re.split(r"\n+(?=\d\. )", run(ROOT / "examples" / "rows.py", tmp_path).strip())
    assert len(steps) == 7
    for step in steps:
        assert f"```text\n{step}\n```" in page, f"ARCHITECTURE.md should show:\n\n{step}"


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_the_files_that_a_page_names_exist(name: str) -> None:
    named = set(FILE.findall((ROOT / name).read_text()))
    assert [path for path in sorted(named) if not any((root / path).exists() for root in (ROOT, PACKAGE))] == []


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = HEADING.findall(re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    missing = []
    for name, anchor in LINK.findall(page.read_text()):
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            missing.append(f"{name}#{anchor}")
    assert missing == []
