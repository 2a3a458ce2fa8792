"""The pages on integrations are true: their examples run in an empty folder, twice, with the real frameworks, and what
they say replaces a call of a framework names a call that it has."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_framework import HistoryProvider
from agents.extensions.memory import AdvancedSQLiteSession, EncryptedSession
from agents.memory import OpenAIResponsesCompactionSession, SessionABC
from claude_agent_sdk import ClaudeAgentOptions, SessionStore
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService
from langchain_core.chat_history import BaseChatMessageHistory
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore
from llama_index.core.storage.chat_store import BaseChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore
from pydantic_ai import Agent
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.run import AgentRunResult
from strands.agent.conversation_manager import SummarizingConversationManager
from strands.session import SessionRepository
from strands.storage import Storage

from tests.models.scripted_server import Answer, ScriptedServer
from tests.test_docs import INTEGRATIONS, blocks, run, variables

COMING_FROM = INTEGRATIONS.parent / "coming-from.md"
CLASSES: dict[str, tuple[type[Any], ...]] = {
    "OpenAI Agents SDK": (SessionABC, AdvancedSQLiteSession, EncryptedSession, OpenAIResponsesCompactionSession),
    "Claude Agent SDK": (SessionStore, ClaudeAgentOptions),
    "LangGraph": (BaseCheckpointSaver, Pregel, BaseStore),
    "LangChain": (BaseChatMessageHistory,),
    "Google ADK": (BaseSessionService, Runner),
    "Pydantic AI": (Agent, AgentRunResult, ProcessHistory),
    "Strands": (SessionRepository, Storage, SummarizingConversationManager),
    "MS Agent Framework": (HistoryProvider,),
    "LlamaIndex": (BaseChatStore, AsyncDBChatStore),
}
"""where the names of a framework are declared; those of the AI SDK are functions that readers of its guide write"""

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


def names_in(declared: type[Any]) -> Iterator[str]:
    """The name of a class, those of its members, and those of their parameters."""
    yield declared.__name__
    yield from dir(declared)
    yield from inspect.get_annotations(declared)
    for _, method in inspect.getmembers(declared, inspect.isfunction):
        yield from inspect.signature(method).parameters


def test_what_is_replaced_exists_in_its_framework() -> None:
    named: dict[str, set[str]] = {}
    framework = ""
    for row in COMING_FROM.read_text().partition("| framework |")[2].splitlines()[2:]:
        _, first, theirs, *_ = row.split("|")
        framework = first.strip() or framework
        codes = [code for code in re.findall(r"`([^`]+)`", theirs) if not code.endswith(":")]  # prefixes of keys
        named.setdefault(framework, set()).update(name for code in codes for name in re.findall(r"[A-Za-z_]\w+", code))
    assert named.keys() - CLASSES.keys() == {"AI SDK (Vercel)"}
    for framework, classes in CLASSES.items():
        assert named[framework] - {name for declared in classes for name in names_in(declared)} == set(), framework
