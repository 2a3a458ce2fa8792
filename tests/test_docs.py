"""Every Python block of the README and the docs runs as it stands, in an empty directory, like a reader's script."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

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


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("block", BLOCKS)
def test_block_runs_as_it_stands(block: str, tmp_path: Path) -> None:
    (tmp_path / "block.py").write_text(block)
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
