"""The data of the demo: what somebody who opens it for the first time should find."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from frontdesk import SessionExistsError, SessionManager
from frontdesk.demo import DemoClock, demo_manager, fill
from frontdesk.demo.concierge import ANA


@pytest.fixture
async def demo(tmp_path: Path) -> AsyncIterator[SessionManager]:
    clock = DemoClock()
    async with demo_manager(f"sqlite:///{tmp_path}/demo.db", clock=clock) as manager:
        await fill(manager, clock, long_session=5_000, sessions=20)
        yield manager


async def test_the_demo_shows_every_feature(demo: SessionManager) -> None:
    sessions = {info.id: info async for info in demo.iterate()}
    assert {"concierge", "support", "coder", "standup", "observatory"} == {
        info.key.agent for info in sessions.values() if info.key is not None
    }
    assert {"active", "idle", "archived", "suspended"} == {info.status for info in sessions.values()}
    assert {"ja", "ar", "he", "zh", "ko", "th", "hi", "es", "fr", "de", "uk"} <= {
        info.metadata.get("language") for info in sessions.values()
    }
    assert len(await demo.session("lisbon").leaves()) == 2
    assert len(await demo.session("billing-rounding").leaves()) == 2
    assert sessions["lisbon-by-train"].parent_session_id == "lisbon"
    assert sessions["lisbon"].compaction_count == 1
    assert sessions["billing-rounding"].compaction_count == 2
    assert sessions["dome-3"].message_count >= 5_000
    assert sessions["dome-3"].compaction_count == 2
    assert sessions["dome-3"].token_count < sessions["dome-3"].max_tokens


async def test_compactions_say_why_they_ran_and_the_prompt_is_older_than_the_memory(demo: SessionManager) -> None:
    for session_id in ("lisbon", "billing-rounding", "dome-3"):
        for compaction in await demo.session(session_id).compactions():
            assert compaction.details["trigger"] == "manual"
            assert compaction.details["model"] == "claude-haiku-5"
            assert compaction.details["duration"] > 0
    prompt = await demo.session("lisbon").prompt()
    assert prompt is not None
    assert (prompt.versions["memory"], (await demo.session("lisbon").context_block("memory")).version) == (2, 4)
    assert await demo.count(min_usage=0.8) == 2
    assert (await demo.session("billing-rounding").info()).window_usage < 1


async def test_blocks_have_versions_and_a_guest_keeps_them(demo: SessionManager) -> None:
    current = demo.session(ANA)  # a later conversation than the one that wrote most of the versions
    assert [version.version for version in await current.block_history("memory")] == [4, 3, 2, 1]
    assert [version.author for version in await current.block_history("house")] == ["legal", "manager", "manager"]
    assert "Inês" in await current.freeze_system_prompt()


async def test_every_model_has_usage_with_costs_on_several_days(demo: SessionManager) -> None:
    by_model = await demo.usage(by=("model",))
    assert len(by_model.rows) == 4
    assert all(row.cost > 0 and row.cache_read_tokens > 0 for row in by_model.rows)
    assert len((await demo.usage(by=("day",))).rows) >= 5


async def test_times_are_in_the_past_and_the_clock_is_released(demo: SessionManager) -> None:
    now = datetime.now(UTC)
    times = [info.last_active_at async for info in demo.iterate()]
    assert max(times) < now
    assert min(times) < now - timedelta(days=10)
    written = await demo.session("new").append({"role": "user", "content": "now"})
    assert written.message.created_at >= now


async def test_a_second_demo_in_the_same_namespace_is_refused(demo: SessionManager) -> None:
    with pytest.raises(SessionExistsError):
        await fill(demo, DemoClock(), long_session=10, sessions=1)
