"""Fixtures for the applications: where they are, and the server that they talk to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.models.scripted_server import ScriptedServer

APPS = Path(__file__).parents[2] / "examples" / "apps"


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    """A scripted server that the applications take for OpenAI and Anthropic."""
    with ScriptedServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.anthropic_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
        monkeypatch.syspath_prepend(APPS)
        yield server
