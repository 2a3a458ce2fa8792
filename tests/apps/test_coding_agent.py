"""The coding agent of the recipes works on real files, and continues where it was stopped."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import anthropic
import pytest

from frontdesk import SessionManager
from tests.models.scripted_server import Answer, Fault, ScriptedServer, ToolCall

BROKEN = "def add(a, b):\n    return a - b\n"
FIXED = "def add(a, b):\n    return a + b\n"
TESTS = """
import unittest
from sums import add

class TestAdd(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, 2), 4)
"""


@pytest.fixture
def agent(provider: ScriptedServer) -> ModuleType:
    return import_module("coding_agent")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "sums.py").write_text(BROKEN)
    (folder / "test_sums.py").write_text(TESTS)
    return folder


async def test_it_fixes_a_bug_and_keeps_its_plan_in_the_prompt(
    agent: ModuleType, provider: ScriptedServer, folder: Path, tmp_path: Path
) -> None:
    provider.script(
        Answer(tool_calls=(ToolCall("a", "update_context", {"label": "plan", "content": "1. run the tests"}),)),
        Answer(tool_calls=(ToolCall("b", "run_tests"), ToolCall("c", "read_file", {"path": "sums.py"}))),
        Answer(tool_calls=(ToolCall("d", "write_file", {"path": "sums.py", "content": FIXED}),)),
        Answer(tool_calls=(ToolCall("e", "run_tests"),)),
        Answer("The tests pass now."),
    )
    manager: SessionManager = agent.open_manager(f"sqlite:///{tmp_path}/agent.db")
    async with manager, anthropic.AsyncAnthropic(max_retries=0) as client:
        session = manager.session("task")
        assert await agent.work(session, client, folder, "Make the tests pass") == "The tests pass now."
        assert (folder / "sums.py").read_text() == FIXED
        assert (await session.context_block("plan")).content == "1. run the tests"
        results = [message.text for message in await session.history(last=3)]
        assert await session.path_length() == 10
    assert "exit code 1" in str(provider.requests[2].body)
    assert "exit code 0" in str(provider.requests[4].body)
    assert results[-1] == "The tests pass now."


async def test_it_continues_after_a_crash_and_refuses_files_outside_its_folder(
    agent: ModuleType, provider: ScriptedServer, folder: Path, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    calls = ToolCall("a", "read_file", {"path": "../secret"}), ToolCall("b", "guess")
    provider.script(Answer(tool_calls=calls), Fault(500))
    async with agent.open_manager(url) as manager, anthropic.AsyncAnthropic(max_retries=0) as client:
        assert await agent.work(manager.session("task"), client, folder, None) == "There is no task yet."
        with pytest.raises(anthropic.APIStatusError):
            await agent.work(manager.session("task"), client, folder, "Read the secret")
    provider.script(Answer("I may not read that."))
    async with agent.open_manager(url) as manager, anthropic.AsyncAnthropic(max_retries=0) as client:
        assert await agent.work(manager.session("task"), client, folder, None) == "I may not read that."
    texts = str(provider.requests[-1].body["messages"])
    assert "Read the secret" in texts
    assert "read_file failed" in texts
    assert "there is no such tool" in texts
