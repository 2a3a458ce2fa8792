"""What explains a session: its outline, its timeline, the parts of its context, its prompt, its turn and its calls."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from frontdesk import (
    InvalidCursorError,
    InvalidInputError,
    MessageNotFoundError,
    Outline,
    Session,
    SessionKey,
    SessionManager,
    SessionNotFoundError,
    Store,
    Timeline,
)
from frontdesk.models import Completion
from tests.public_api.scripted_models import Scripted, compacting, said
from tests.public_api.steps import answer, call, result, say, user
from tests.waiting import eventually

ANA, BEN = SessionKey("concierge", "web", "ana"), SessionKey("concierge", "web", "ben")


def shape(outline: Outline) -> list[tuple[Any, ...]]:
    return [(run.parent, run.first_id, run.last_id, run.first, run.messages, run.on_path) for run in outline.runs]


def sizes(timeline: Timeline) -> list[tuple[int, int]]:
    return [(point.position, point.tokens) for point in timeline.points]


class ExplainingTests:
    # the outline

    async def test_an_outline_has_a_run_for_each_stretch_between_branches(self, session: Session) -> None:
        await say(session, "m0", "m1", "m2", "m3")
        assert shape(await session.outline()) == [(None, "m0", "m3", 0, 4, True)]
        await session.append(user("a2"), parent="m1")
        await session.append(user("a3"))
        await session.append(user("b3"), parent="a2")
        await session.append(user("root"), parent=None)
        await session.switch("a3")
        outline = await session.outline()
        assert shape(outline) == [
            (None, "m0", "m1", 0, 2, True),
            (0, "m2", "m3", 2, 2, False),
            (0, "a2", "a2", 2, 1, True),
            (2, "a3", "a3", 3, 1, True),
            (2, "b3", "b3", 3, 1, False),
            (None, "root", "root", 0, 1, False),
        ]
        assert outline.head_id == "a3"
        assert [run.is_leaf for run in outline.runs] == [False, True, False, True, True, True]
        assert [run.text for run in outline.runs] == ["m0", "m2", "a2", "a3", "b3", "root"]
        assert {run.last_id for run in outline.runs if run.is_leaf} == {leaf.id for leaf in await session.leaves()}
        assert sum(run.messages for run in outline.runs) == (await session.info()).message_count == 8
        assert (await session.info()).branch_count == 4

    async def test_an_outline_shows_deletions_and_nothing_of_what_was_deleted(self, session: Session) -> None:
        await say(session, "m0", "m1", "m2")
        await session.append(user("other"), parent="m0")
        await session.delete_messages(["other"])
        await session.switch("m2")
        assert shape(await session.outline()) == [(None, "m0", "m2", 0, 3, True)]
        assert (await session.info()).branch_count == 1

    async def test_an_outline_shows_compactions_and_what_they_extend(self, session: Session) -> None:
        await say(session, *(f"m{number}" for number in range(8)))
        inner = await session.add_compaction("two", "m1", "m2")
        outer = await session.add_compaction("four", "m1", "m4")
        first, second = (await session.outline()).compactions
        assert (first.id, first.first, first.last, first.extends, first.applies) == (inner.id, 1, 2, (), False)
        assert (second.id, second.first, second.last, second.messages) == (outer.id, 1, 4, 4)
        assert (second.extends, second.applies, second.run) == ((inner.id,), True, 0)

    async def test_an_outline_shows_forks_from_both_sides(self, manager: SessionManager, session: Session) -> None:
        await say(session, "m0", "m1", "m2", "m3")
        fork = await manager.fork("chat", "m1", new_id="plan-b", name="Plan B")
        await say(fork, "f2")
        [seen] = (await session.outline()).forks
        assert (seen.session_id, seen.name, seen.message_id, seen.run, seen.position) == (
            "plan-b",
            "Plan B",
            "m1",
            0,
            1,
        )
        outline = await fork.outline()
        assert (outline.parent_session_id, outline.forked_at) == ("chat", "m1")
        assert shape(outline) == [(None, "m0", "f2", 0, 3, True)]
        await manager.delete("chat")
        assert (await fork.outline()).forked_at == "m1"
        with pytest.raises(SessionNotFoundError):
            await session.outline()

    # the timeline

    async def test_a_timeline_says_how_the_view_grew_and_shrank(self, session: Session) -> None:
        await say(session, *(f"m{number}" for number in range(5)))
        made = await session.add_compaction("in short", "m1", "m3")
        after = (await session.info()).token_count
        await say(session, "m5", "m6")
        each = (await session.get_message("m0")).tokens
        timeline = await session.timeline()
        grown = [(number, each * (number + 1)) for number in range(5)]
        assert sizes(timeline) == [*grown, (4, after), (5, after + each), (6, after + 2 * each)]
        [cut] = timeline.compactions
        assert (cut.id, cut.position, cut.first, cut.last) == (made.id, 4, 1, 3)
        assert (cut.tokens_before, cut.tokens_after) == (5 * each, after)
        assert timeline.points[-1].tokens == (await session.info()).token_count
        assert (timeline.total, timeline.max_tokens) == (7, (await session.info()).max_tokens)

    async def test_a_timeline_has_a_limited_number_of_points(self, manager: SessionManager, session: Session) -> None:
        await session.append_all([user(f"m{number}") for number in range(2000)])
        await session.add_compaction("in short", "m10", "m500")
        await session.append_all([user(f"n{number}") for number in range(500)])
        for points in (2, 9, 100, 400):
            timeline = await session.timeline(points=points)
            positions = [point.position for point in timeline.points]
            assert len(positions) <= points
            assert (positions[0], positions[-1], positions) == (0, 2499, sorted(positions))
            if points > 2:
                [cut] = timeline.compactions
                assert (cut.first, cut.last) == (10, 500)
                assert abs(cut.position - 1999) <= 2500 // points // 16 + 1
        for wrong in (1, 401, None, "many"):
            with pytest.raises(InvalidInputError):
                await session.timeline(points=wrong)  # type: ignore[arg-type]
        with pytest.raises(MessageNotFoundError):
            await session.timeline(leaf="nowhere")
        with pytest.raises(SessionNotFoundError):
            await manager.session("nobody").timeline()

    async def test_a_timeline_has_the_cost_of_calls_where_they_were_made(
        self, manager: SessionManager, session: Session
    ) -> None:
        for number in range(4):
            await say(session, f"m{number}")
            await manager.add_usage("chat", cost=f"0.{number + 1}")
        timeline = await session.timeline()
        assert [point.cost for point in timeline.points] == [
            Decimal(0),
            Decimal("0.1"),
            Decimal("0.2"),
            Decimal("0.7"),
        ]
        assert sum(point.cost for point in timeline.points) == (await session.info()).cost

    # the context

    async def test_a_breakdown_adds_up_to_what_the_next_call_takes(self, store: Store, namespace: str) -> None:
        manager = SessionManager(store, namespace=namespace).with_context("memory", scope="guest").with_cached_prompt()
        async with manager:
            session = manager.session(ANA)
            await session.append_all(
                [user("q"), call("a", "c1"), result("r", "c1"), answer("e"), user("q2"), user("q3")]
            )
            await session.append(
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "1"}]}
            )
            await session.append(user("other"), parent="q3")
            await session.add_compaction("in short", "q", "e")
            await session.replace_context_block("memory", "Likes tea.")
            await session.freeze_system_prompt()
            await session.replace_context_block("memory", "Likes coffee.")
            await manager.add_usage(session.id, input_tokens=9, cache_read_tokens=7, model="large")
            found = await session.context_breakdown()
            parts = {part.part: (part.count, part.tokens) for part in found.parts}
            tools = [{"x": tool.to_openai()} for tool in (await session.tools()).values()]
            assert list(parts) == ["prompt", "tools", "summary", "user"]
            assert (parts["tools"][0], parts["summary"][0], parts["user"][0]) == (len(tools), 1, 3)
            usage = await session.context_usage()
            info = await session.info()
            assert info.prompt_tokens == parts["prompt"][1] > 0
            assert found.used == usage.used == info.token_count + info.prompt_tokens
            assert found.used == sum(tokens for _, tokens in parts.values()) - parts["tools"][1]
            assert found.ratio == usage.ratio == info.window_usage
            assert (found.max, found.room) == (usage.max, found.compacts_at - found.used)
            assert (found.covered_messages, found.branch_messages) == (4, 1)
            assert found.last_call is not None
            assert (found.last_call.cache_read_tokens, found.last_call.model) == (7, "large")
            [block] = found.blocks
            assert (block.label, block.version, block.frozen_version, block.changed) == ("memory", 2, 1, True)
            prompt = await session.prompt()
            assert prompt is not None
            assert (prompt.text, prompt.versions) == (await session.freeze_system_prompt(), {"memory": 1})
            assert prompt.frozen_at == found.prompt_frozen_at
            with pytest.raises(SessionNotFoundError):
                await manager.session("nobody").context_breakdown()
            assert await manager.session("nobody").prompt() is None

    async def test_lists_and_other_managers_say_the_same_of_how_full_a_window_is(
        self, store: Store, namespace: str
    ) -> None:
        writer = SessionManager(store, namespace=namespace).with_context("memory").with_cached_prompt()
        async with writer, SessionManager(store, namespace=namespace) as reader:
            await writer.create(id="full", max_tokens=1_000)
            session = writer.session("full")
            await session.append(user("q", "word " * 300))
            await session.replace_context_block("memory", "Likes tea. " * 100)
            await session.freeze_system_prompt()
            usage = await session.context_usage()
            view = (await session.info()).token_count / 1_000
            assert view < usage.ratio
            for manager in (writer, reader):
                [info] = await manager.list()
                assert info.window_usage == usage.ratio
                assert info.token_usage == view
                assert (await manager.session("full").context_usage()) == usage
                assert (await manager.session("full").context_breakdown()).ratio == usage.ratio
                assert await manager.count(min_usage=(view + usage.ratio) / 2) == 1
                assert await manager.count(min_usage=usage.ratio + 0.001) == 0
            assert await reader.session("full").prompt() == await session.prompt()

    async def test_results_of_tools_are_a_part_of_their_own(self, session: Session) -> None:
        results = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "seen"}]}
        await session.append_all([user("q"), call("a", "c1"), results])
        parts = {part.part: part.count for part in (await session.context_breakdown()).parts}
        assert (parts["user"], parts["assistant"], parts["tool"]) == (1, 1, 1)

    async def test_a_block_says_how_many_sessions_share_it(self, store: Store, namespace: str) -> None:
        manager = SessionManager(store, namespace=namespace).with_context("memory", scope="guest")
        manager.with_context("house", scope="namespace").with_context("own")
        async with manager:
            await manager.session(ANA).append(user("m1"))
            await manager.new(ANA)
            await manager.session(BEN).append(user("m1"))
            ana = manager.session(ANA)
            counts = [await ana.count_sharing(label) for label in ("memory", "house", "own")]
            assert counts == [2, 3, 1]
            assert await ana.count_sharing("house", most=2) == 2

    # the turn

    async def test_the_turn_says_who_has_it_since_when_and_who_waits(
        self, manager: SessionManager, session: Session
    ) -> None:
        free = await session.turn_info()
        assert (free.holder, free.since, free.waiting) == (None, None, ())
        async with session.turn() as turn:
            held = await session.turn_info()
            assert held.number == turn.number
            assert held.since is not None
            assert held.expires_at is not None
            assert held.since < held.expires_at
            assert (await session.info()).turn_since == held.since
            waiting = asyncio.create_task(_take_turn(manager.session("chat")))

            async def is_waiting() -> bool:
                return len((await session.turn_info()).waiting) == 1

            await eventually(is_waiting)
            assert (await session.turn_info()).waiting != (held.holder,)
        await waiting
        assert (await session.turn_info()).holder is None
        assert [info.turn_since for info in await manager.list()] == [None]

    # compactions

    async def test_a_compaction_says_why_it_ran_who_wrote_it_and_what_it_took(
        self, store: Store, namespace: str
    ) -> None:
        model = Scripted(Completion("in short", model="small-1"))
        async with compacting(store, namespace, model, auto=False) as manager:
            session = manager.session("chat")
            await session.append_all([said(number) for number in range(1, 10)])
            usage = await session.context_usage()
            await session.compact()
            [made] = await session.compactions()
            details = made.details
            assert (details["trigger"], details["model"], details["attempts"]) == ("manual", "small-1", 1)
            assert details["ratio"] == round(usage.ratio, 4)
            assert details["duration"] >= 0
            assert "usage" in details

    # calls

    async def test_calls_are_listed_newest_first_with_what_was_read_from_the_cache(
        self, manager: SessionManager, session: Session
    ) -> None:
        await say(session, "m0")
        start = datetime(2026, 1, 1, tzinfo=UTC)
        for number in range(5):
            at = start + timedelta(hours=number)
            await manager.add_usage("chat", input_tokens=number, cache_read_tokens=number * 2, cost="0.1", at=at)
        page = await manager.usage_entries("chat", limit=2)
        rest = await manager.usage_entries("chat", limit=9, cursor=page.next_cursor)
        assert [entry.input_tokens for entry in (*page, *rest)] == [4, 3, 2, 1, 0]
        assert (page.items[0].cache_read_tokens, page.items[0].at) == (8, start + timedelta(hours=4))
        assert (page.items[0].cost, rest.next_cursor) == (Decimal("0.1"), None)
        with pytest.raises(SessionNotFoundError):
            await manager.usage_entries("nobody")
        with pytest.raises(InvalidCursorError):
            await manager.usage_entries("chat", cursor="altered")

    # lists

    async def test_a_list_can_exclude_and_select_by_model_and_by_how_full_sessions_are(
        self, manager: SessionManager
    ) -> None:
        await manager.create(id="cron", key=SessionKey("clerk", "cron", "nightly"), tags=["system"])
        await manager.create(id="ana", key=ANA, model="gpt-5-mini", max_tokens=100)
        await manager.create(id="ben", key=BEN, tags=["vip"], source="import", max_tokens=100_000)
        await manager.create(id="plain")
        for session_id in ("ana", "ben"):
            await manager.append(session_id, user("m1", "word " * 85))

        async def listed(**options: Any) -> set[str]:
            found = {info.id for info in await manager.list(**options)}
            assert await manager.count(**options) == len(found)
            assert found == {info.id async for info in manager.iterate(**options, limit=1)}
            return found

        assert await listed() == {"cron", "ana", "ben", "plain"}
        assert await listed(exclude={"channel": "cron"}) == {"ana", "ben", "plain"}
        assert await listed(exclude={"tag": ["system", "vip"]}) == {"ana", "plain"}
        assert await listed(exclude={"source": "import", "model": "gpt-5-mini"}) == {"cron", "plain"}
        assert await listed(exclude={"agent": "concierge"}, channel="cron") == {"cron"}
        assert await listed(model="gpt-5-mini") == {"ana"}
        assert await listed(min_usage=0.8) == {"ana"}
        assert await listed(min_usage=0.0001, exclude={"peer": "ana"}) == {"ben"}
        await manager.session("ana").append(user("m2"), parent=None)  # its view has to be computed again
        assert await listed(min_usage=0.8) == set()
        assert await manager.count(most=2) == 2
        for wrong in ({"exclude": {"status": "idle"}}, {"exclude": {"agent": 3}}, {"min_usage": "full"}, {"model": 3}):
            with pytest.raises(InvalidInputError):
                await manager.list(**wrong)


async def _take_turn(session: Session) -> None:
    async with session.turn():
        pass
