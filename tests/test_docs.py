"""Every Python block of the README and the docs runs as it stands, in an empty directory, like a reader's script."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#]+)")

BLOCKS = [
    pytest.param(match.group(1), id=f"{page.name}-{number}")
    for page in PAGES
    for number, match in enumerate(BLOCK.finditer(page.read_text()), 1)
]


TEN_LINES = """
from frontdesk import SessionManager

manager = (
    SessionManager("sqlite:///agents.db")                    # namespace="default"
    .with_context("soul", default_content="You are helpful.", readonly=True)
    .with_context("memory", description="Learned facts", max_tokens=1100)
    .with_cached_prompt()
)

async with manager:
    session = manager.session("chat-123")                    # a handle: no I/O, created by its first write
    await session.append({"role": "user", "content": "What is the capital of France?"})
    await session.append({"role": "assistant", "content": "Paris."})
    prompt = await session.freeze_system_prompt()
    messages = await session.history()                       # list[Message], overlays applied
    tools = {**await session.tools(), **manager.tools()}     # name -> Tool
"""
CHECKS = """
    assert "You are helpful." in prompt and "MEMORY (Learned facts)" in prompt
    assert [message.text for message in messages] == ["What is the capital of France?", "Paris."]
    assert set(tools) == {"update_context", "session_search", "read_session"}

asyncio.run(main())
"""


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("block", BLOCKS)
def test_block_runs_as_it_stands(block: str, tmp_path: Path) -> None:
    (tmp_path / "block.py").write_text(block)
    done = run(["block.py"], tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_ten_lines_of_the_contract_run(tmp_path: Path) -> None:
    """The builder and the calls that every user begins with, as a reader would type them at an asyncio prompt."""
    (tmp_path / "block.py").write_text(f"import asyncio\n\nasync def main():\n{indent(TEN_LINES, '    ')}\n{CHECKS}")
    done = run(["block.py"], tmp_path)
    assert done.returncode == 0, done.stderr


def test_demo_shows_what_it_says(tmp_path: Path) -> None:
    done = run([str(ROOT / "examples" / "demo.py")], tmp_path)
    assert done.returncode == 0, done.stderr
    for shown in (
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
        assert shown.lower() in done.stdout.lower()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    missing = [target for target in LINK.findall(page.read_text()) if not (page.parent / target).exists()]
    assert missing == []
