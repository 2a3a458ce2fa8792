"""The examples of the pages on integrations run in an empty folder, twice, with the real frameworks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.models.scripted_server import Answer, ScriptedServer
from tests.test_docs import INTEGRATIONS, blocks, run, variables

BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in sorted(INTEGRATIONS.glob("*.md"))
    for number, block in enumerate(blocks(page), 1)
]


@pytest.fixture(scope="module")
def provider() -> Iterator[dict[str, str]]:
    with ScriptedServer() as server:
        server.otherwise = Answer("It is done.")
        yield variables(server)
        assert server.refused == []


@pytest.mark.parametrize("block", BLOCKS)
def test_an_example_runs_as_it_is_and_runs_again(block: str, tmp_path: Path, provider: dict[str, str]) -> None:
    script, folder = tmp_path / "block.py", tmp_path / "empty"
    script.write_text(block)
    folder.mkdir()
    first = run(script, folder, **provider, PYTHONWARNINGS="default")
    again = run(script, folder, **provider, PYTHONWARNINGS="default")
    assert len(first.splitlines()) == len(again.splitlines())
