"""A setup that cannot work is refused while it is made, with the name of what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from frontdesk import ConfigurationError, InvalidInputError, SessionKey, SessionManager

Setup = Callable[[Any], Any]


def answer(prompt: str) -> str:
    return ""


@pytest.mark.parametrize(
    ("setup", "name"),
    [
        (lambda manager: manager.with_context(7), "label"),
        (lambda manager: manager.with_context(None), "label"),
        (lambda manager: manager.with_context("b", description=7), "description"),
        (lambda manager: manager.with_context("b", default_content=7), "default_content"),
        (lambda manager: manager.with_context("b", default_content=None), "default_content"),
        (lambda manager: manager.with_context("b", max_tokens="10"), "max_tokens"),
        (lambda manager: manager.with_context("b", readonly="yes"), "readonly"),
        (lambda manager: manager.with_context("b", readonly=None), "readonly"),
        (lambda manager: manager.with_context("b", scope=["guest"]), "scope"),
        (lambda manager: manager.with_context("b", provider="text"), "provider"),
        (lambda manager: manager.with_searchable_history("b", scope=["guest"]), "scope"),
        (lambda manager: manager.with_cached_prompt("redis://"), "prompt store"),
        (lambda manager: manager.with_compaction(soft_ratio="0.6"), "soft_ratio"),
        (lambda manager: manager.with_compaction(hard_ratio=None), "hard_ratio"),
        (lambda manager: manager.with_compaction(protect_head="3"), "protect_head"),
        (lambda manager: manager.with_compaction(protect_head=2.5), "protect_head"),
        (lambda manager: manager.with_compaction(timeout="60"), "timeout"),
        (lambda manager: manager.with_compaction(timeout=True), "timeout"),
        (lambda manager: manager.with_compaction(auto="no"), "auto"),
        (lambda manager: manager.with_compaction(planner=3), "planner"),
        (lambda manager: manager.with_compaction(on_error="log"), "on_error"),
        (lambda manager: manager.with_memory_refresh(answer, "memory"), "sink"),
        (lambda manager: manager.with_memory_refresh(answer, label=7), "label"),
        (lambda manager: manager.with_memory_refresh(answer, prompt=7), "prompt"),
        (lambda manager: manager.with_memory_refresh(answer, timeout=0), "timeout"),
        (lambda manager: manager.with_memory_refresh(answer, timeout="60"), "timeout"),
        (lambda manager: manager.with_memory_refresh(answer, enabled="no"), "enabled"),
        (lambda manager: manager.with_memory_refresh(answer, share="no"), "share"),
        (lambda manager: manager.with_memory_refresh(answer, on_error="log"), "on_error"),
        (lambda manager: manager.with_embeddings(len, dimensions=8, timeout="60"), "timeout"),
        (lambda manager: manager.with_isolation(["agent"]), "isolation"),
        (lambda manager: manager.with_search(language=7), "stemmer"),
        (lambda manager: manager.with_search(language=["english"]), "stemmer"),
        (lambda manager: manager.with_search(reasoning="no"), "reasoning"),
        (lambda manager: manager.with_lifecycle(idle_after=60), "idle_after"),
        (lambda manager: manager.with_lifecycle(every="1m"), "every"),
    ],
)
def test_a_setting_of_the_wrong_type_is_refused_by_name(setup: Setup, name: str) -> None:
    with pytest.raises((ConfigurationError, InvalidInputError), match=name):
        setup(SessionManager("memory://"))


@pytest.mark.parametrize("readonly", [False, True])
async def test_a_default_content_that_does_not_fit_into_its_block_is_refused_at_first_use(readonly: bool) -> None:
    manager = SessionManager("memory://").with_token_counter(len)
    manager.with_context("memory", default_content="12345678901", max_tokens=10, readonly=readonly)
    for use in (manager.__aenter__, manager.session("s").freeze_system_prompt, manager.list):
        with pytest.raises(ConfigurationError, match=r"'memory' has 11 tokens.*max_tokens=10"):
            await use()


async def test_the_counter_that_decides_may_be_set_later() -> None:
    manager = SessionManager("memory://").with_context("memory", default_content="1234567890 " * 20, max_tokens=20)
    async with manager.with_token_counter(lambda text: len(text.split())):
        assert "1234567890" in await manager.session("s").freeze_system_prompt()


async def test_a_block_that_is_added_to_a_handle_must_have_room_for_its_default_content() -> None:
    session = SessionManager("memory://").with_token_counter(len).session(SessionKey("desk", "web", "ana"))
    with pytest.raises(ConfigurationError, match="'notes' has 11 tokens"):
        session.add_context("notes", default_content="12345678901", max_tokens=10)
    session.add_context("notes", default_content="1234567890", max_tokens=10)
    assert "1234567890" in await session.freeze_system_prompt()
