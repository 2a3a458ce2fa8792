"""Steps and tools: which step is active, which tools are allowed, and that no use, count or token is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import frontdesk.sync
from frontdesk import ConfigurationError, InvalidIdError, InvalidInputError, SessionManager
from frontdesk.states.orchestration import Condition, OrchestrationState, Orchestrator, Step, TokenUsage

ANY = ("search", "write", "publish", "undo")
STEPS = (
    Step("start", is_default=True, allowed_tools=("search", "undo")),
    Step("write", conditions=(Condition("tool_used", "search"),), denied_tools=("publish",)),
)
DRILL = Step("drill", is_default=True, sequence=("search", "write", "search"), denied_tools=("undo",))


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[SessionManager]:
    async with SessionManager(f"sqlite:///{tmp_path}/agents.db") as manager:
        yield manager


def orchestrator(manager: SessionManager, *steps: Step) -> Orchestrator:
    return Orchestrator(steps, states=manager.states(OrchestrationState, name="orchestration"))


class TestState:
    async def test_there_is_no_state_before_the_first_use(self) -> None:
        agent = Orchestrator()
        assert await agent.get_state("chat") is None
        assert not await agent.reset_state("chat")

    async def test_a_state_is_created_once_and_keeps_its_content(self) -> None:
        agent = Orchestrator()
        state = await agent.get_or_create_state("chat")
        assert state == OrchestrationState("chat")
        await agent.add_used_tool("chat", "search")
        assert (await agent.get_or_create_state("chat")).tool_log == ("search",)

    async def test_without_an_id_one_is_generated(self) -> None:
        agent = Orchestrator()
        first, second = await agent.get_or_create_state(), await agent.get_or_create_state()
        assert len({first.session_id, second.session_id, ""}) == 3
        assert await agent.get_state(first.session_id) == first
        with pytest.raises(InvalidIdError):
            await agent.get_or_create_state("")

    async def test_an_update_replaces_the_named_fields_and_sets_the_time(self) -> None:
        agent = Orchestrator()
        await agent.add_token_usage("chat", input_tokens=5)
        before = datetime.now(UTC)
        state = await agent.update_state("chat", {"sequence_index": 2})
        assert state.sequence_index == 2
        assert state.token_usage == TokenUsage(5)
        assert state.last_accessed_at is not None
        assert state.last_accessed_at >= before
        assert await agent.get_state("chat") == state

    @pytest.mark.parametrize("partial", [{"colour": 1}, {"session_id": "other"}])
    async def test_an_update_of_an_unknown_field_is_refused(self, partial: dict[str, Any]) -> None:
        with pytest.raises(InvalidInputError):
            await Orchestrator().update_state("chat", partial)

    async def test_recent_tools_are_the_last_ten_newest_first_without_repetitions(self) -> None:
        agent = Orchestrator()
        for number in range(12):
            await agent.add_used_tool("chat", f"tool{number}")
        state = await agent.add_used_tool("chat", "tool5")
        assert state.recently_used_tools == (
            *("tool5", "tool11", "tool10", "tool9", "tool8", "tool7", "tool6", "tool4", "tool3", "tool2"),
        )
        assert state.tool_log == (*(f"tool{number}" for number in range(12)), "tool5"), "every use, in order"

    async def test_the_log_is_bounded_and_no_tool_is_forgotten(self) -> None:
        conditions = (Condition("tool_used", "first"), Condition("tool_used", "last"))
        agent = Orchestrator([Step("done", conditions=conditions)])
        await agent.add_used_tool("chat", "first")
        await agent.update_state("chat", {"tool_log": ("first", *["other"] * 999)})
        state = await agent.add_used_tool("chat", "last")
        assert len(state.tool_log) == 1000
        assert "first" not in state.tool_log
        assert state.active_step == "done"

    async def test_tokens_add_up(self) -> None:
        agent = Orchestrator()
        await agent.add_token_usage("chat", input_tokens=10, output_tokens=3)
        state = await agent.add_token_usage("chat", output_tokens=4)
        assert (state.token_usage.input_tokens, state.token_usage.total_tokens) == (10, 17)
        for bad in (-1, 1.5, True):
            with pytest.raises(InvalidInputError):
                await agent.add_token_usage("chat", input_tokens=bad)  # type: ignore[arg-type]

    async def test_advancing_counts_from_the_start(self) -> None:
        agent = Orchestrator()
        assert (await agent.advance_sequence("chat")).sequence_index == 1
        assert (await agent.advance_sequence("chat")).sequence_index == 2

    async def test_a_reset_deletes_the_state(self) -> None:
        agent = Orchestrator(STEPS)
        await agent.process_tool("chat", "search")
        assert await agent.reset_state("chat")
        assert await agent.get_state("chat") is None
        assert (await agent.get_or_create_state("chat")).active_step == "start"

    async def test_a_summary_is_json_without_times(self) -> None:
        agent = Orchestrator(STEPS)
        await agent.process_tool("chat", "search")
        state = await agent.add_token_usage("chat", input_tokens=2, output_tokens=1)
        assert json.loads(json.dumps(state.summary())) == {
            "session_id": "chat",
            "active_step": "write",
            "recently_used_tools": ["search"],
            "sequence_index": 0,
            "token_usage": {"input_tokens": 2, "output_tokens": 1, "total_tokens": 3},
        }


class TestSteps:
    async def test_the_default_step_is_the_first(self) -> None:
        agent = Orchestrator(STEPS)
        assert (await agent.get_or_create_state("chat")).active_step == "start"
        assert await agent.allowed_tools("unknown", ANY) == ["search", "undo"]

    async def test_a_step_becomes_active_when_its_conditions_are_met_and_stays(self) -> None:
        agent = Orchestrator(STEPS)
        await agent.process_tool("chat", "undo")
        state = await agent.get_state("chat")
        assert state is not None
        assert state.active_step == "start"
        await agent.process_tool("chat", "search")
        assert await agent.allowed_tools("chat", ANY) == ["search", "write", "undo"]
        await agent.process_tool("chat", "undo")
        assert await agent.allowed_tools("chat", ANY) == ["search", "write", "undo"]

    async def test_all_conditions_must_be_met_and_the_first_step_wins(self) -> None:
        both = Step("both", conditions=(Condition("tool_used", "search"), Condition("tool_used", "write")))
        one = Step("one", conditions=(Condition("tool_used", "search"),))
        agent = Orchestrator([both, one])
        assert (await agent.add_used_tool("chat", "search")).active_step == "one"
        assert (await agent.add_used_tool("chat", "write")).active_step == "both"

    async def test_a_sequence_matches_in_the_order_of_use_and_not_backwards(self) -> None:
        step = Step("matched", conditions=(Condition("sequence_match", ("a", "b")),))
        agent = Orchestrator([step])
        forward = [(await agent.add_used_tool("forward", tool)).active_step for tool in ("x", "a", "b")]
        backward = [(await agent.add_used_tool("backward", tool)).active_step for tool in ("x", "b", "a")]
        assert forward == [None, None, "matched"]
        assert backward == [None, None, None]

    async def test_a_tool_used_twice_counts_twice_in_a_sequence(self) -> None:
        agent = Orchestrator([Step("matched", conditions=(Condition("sequence_match", ("a", "a")),))])
        assert (await agent.add_used_tool("chat", "a")).active_step is None
        assert (await agent.add_used_tool("chat", "a")).active_step == "matched"

    async def test_without_a_value_a_sequence_match_uses_the_sequence_of_the_step(self) -> None:
        agent = Orchestrator([Step("again", conditions=(Condition("sequence_match"),), sequence=("a", "b"))])
        await agent.add_used_tool("chat", "a")
        state = await agent.add_used_tool("chat", "b")
        assert (state.active_step, state.sequence_index) == ("again", 0)
        assert not Step("none", conditions=(Condition("sequence_match"),)).is_met(state), (
            "an empty sequence never matches"
        )

    async def test_a_step_without_conditions_is_entered_only_explicitly(self) -> None:
        agent = Orchestrator([Step("by hand", sequence=("a",)), Step("usual", is_default=True)])
        await agent.advance_sequence("chat")
        assert (await agent.add_used_tool("chat", "x")).active_step == "usual"
        state = await agent.set_active_step("chat", "by hand")
        assert (state.active_step, state.sequence_index) == ("by hand", 0)
        assert await agent.allowed_tools("chat", ["a", "b"]) == ["a"]
        assert (await agent.set_active_step("chat", None)).active_step is None
        with pytest.raises(InvalidInputError, match="by hand, usual"):
            await agent.set_active_step("chat", "nowhere")

    async def test_a_step_set_by_hand_stays_until_a_tool_completes_the_conditions_of_another(self) -> None:
        agent = Orchestrator([*STEPS, Step("wrap up", conditions=(Condition("sequence_match", ("write", "undo")),))])
        await agent.process_tool("chat", "search")
        await agent.set_active_step("chat", "start")
        for tool in ("search", "write", "search"):
            await agent.process_tool("chat", tool)
            assert await agent.allowed_tools("chat", ANY) == ["search", "undo"]
        assert (await agent.add_used_tool("chat", "write")).active_step == "start"
        assert (await agent.add_used_tool("chat", "undo")).active_step == "wrap up"
        await agent.set_active_step("chat", "start")
        assert (await agent.add_used_tool("chat", "undo")).active_step == "start"

    async def test_the_sequence_of_a_step_that_replaces_another_starts_at_its_beginning(
        self, manager: SessionManager
    ) -> None:
        await orchestrator(manager, *STEPS).process_tool("chat", "search")
        await orchestrator(manager, *STEPS).update_state("chat", {"sequence_index": 2})
        later = orchestrator(manager, DRILL)
        assert await later.allowed_tools("chat", ANY) == ["search"]
        assert await later.process_tool("chat", "search")
        assert await later.allowed_tools("chat", ANY) == ["write"]

    async def test_a_step_that_is_no_longer_configured_is_replaced_by_the_default(
        self, manager: SessionManager
    ) -> None:
        await orchestrator(manager, *STEPS).process_tool("chat", "search")
        later = orchestrator(manager, Step("only", is_default=True, allowed_tools=("undo",)))
        assert await later.allowed_tools("chat", ANY) == ["undo"]
        assert await orchestrator(manager, Step("none")).allowed_tools("chat", ANY) == list(ANY)

    async def test_without_steps_everything_is_allowed_and_any_step_can_be_named(self) -> None:
        agent = Orchestrator()
        assert await agent.allowed_tools("chat", ANY) == list(ANY)
        assert (await agent.set_active_step("chat", "mine")).active_step == "mine"
        assert await agent.process_tool("chat", "search")
        assert (await agent.get_or_create_state("chat")).active_step == "mine"

    async def test_a_sequence_must_be_followed(self) -> None:
        agent = Orchestrator([DRILL])
        assert await agent.allowed_tools("chat", ANY) == ["search"]
        assert not await agent.process_tool("chat", "write"), "not its turn"
        assert await agent.process_tool("chat", "search")
        assert await agent.allowed_tools("chat", ANY) == ["write"]
        assert await agent.allowed_tools("chat", ["search"]) == [], "the expected tool is not available"
        assert await agent.process_tool("chat", "write")
        assert await agent.process_tool("chat", "search")
        assert await agent.allowed_tools("chat", ANY) == ["search", "write", "publish"]
        assert await agent.process_tool("chat", "publish"), "after the sequence nothing is out of order"
        state = await agent.get_state("chat")
        assert state is not None
        assert state.tool_log == ("write", "search", "write", "search", "publish"), "in the real order"
        assert state.sequence_index == 3

    async def test_a_step_that_stays_active_does_not_restart_its_sequence(self) -> None:
        step = Step("go on", conditions=(Condition("tool_used", "search"),), sequence=("a", "b"))
        agent = Orchestrator([step])
        for tool, allowed in (("search", ["a"]), ("a", ["b"]), ("b", ["a", "b"])):
            await agent.process_tool("chat", tool)
            assert await agent.allowed_tools("chat", ["a", "b"]) == allowed

    @pytest.mark.parametrize(
        "steps",
        [
            [Step("a"), Step("a")],
            [Step("a", is_default=True), Step("b", is_default=True)],
            [Step("a", sequence=("x",), denied_tools=("x",))],
            [{"name": "a"}],
        ],
        ids=["name twice", "two defaults", "demanded and denied", "no step"],
    )
    def test_contradictory_steps_are_refused(self, steps: Any) -> None:
        with pytest.raises(ConfigurationError):
            Orchestrator(steps)

    async def test_a_tool_that_is_not_allowed_is_recorded_and_reported(self) -> None:
        agent = Orchestrator(STEPS)
        assert not await agent.is_allowed("chat", "publish")
        assert await agent.get_state("chat") is None, "asking records nothing"
        assert not await agent.process_tool("chat", "publish")
        assert await agent.is_allowed("chat", "search")
        assert await agent.process_tool("chat", "search")
        assert await agent.is_allowed("chat", "write")
        assert not await agent.is_allowed("chat", "publish")
        assert not await agent.process_tool("chat", "publish")
        state = await agent.get_state("chat")
        assert state is not None
        assert state.tool_log == ("publish", "search", "publish")
        assert await Orchestrator().is_allowed("chat", "anything")

    @pytest.mark.parametrize("what", ["allowed_tools", "denied_tools", "sequence"])
    @pytest.mark.parametrize("value", ["search_web", 7, {"search_web"}, ("search_web", 7), [""]])
    def test_a_text_in_place_of_a_list_of_tools_is_refused(self, what: str, value: Any) -> None:
        with pytest.raises(ConfigurationError, match=f"{what} of step 'a'"):
            Step("a", **{what: value})

    @pytest.mark.parametrize("value", [Condition("tool_used", "a"), "tool_used", None, ["tool_used"]])
    def test_a_single_condition_in_place_of_a_list_is_refused(self, value: Any) -> None:
        with pytest.raises(ConfigurationError, match="step 'a'"):
            Step("a", conditions=value)

    async def test_lists_are_as_good_as_tuples(self) -> None:
        condition = Condition("sequence_match", ["x", "y"])
        lists = Step("a", conditions=[condition], allowed_tools=["x"], denied_tools=["y"], sequence=["z"])
        tuples = Step(
            "a",
            conditions=(Condition("sequence_match", ("x", "y")),),
            allowed_tools=("x",),
            denied_tools=("y",),
            sequence=("z",),
        )
        assert lists == tuples
        agent = Orchestrator([lists, Step("own", conditions=[Condition("sequence_match")], sequence=["b", "c"])])
        steps = [(await agent.add_used_tool("chat", tool)).active_step for tool in ("x", "y", "b", "c")]
        assert steps == [None, "a", "a", "own"]

    @pytest.mark.parametrize(("type", "value"), [("tool_used", None), ("sequence_match", "a"), ("weather", "fine")])
    def test_invalid_conditions_are_refused(self, type: Any, value: Any) -> None:
        with pytest.raises(ConfigurationError):
            Condition(type, value)


class TestConcurrency:
    async def test_nothing_is_lost_when_everything_happens_at_once(self, manager: SessionManager) -> None:
        agents = [orchestrator(manager, *STEPS) for _ in range(2)]

        async def work(number: int) -> None:
            agent = agents[number % 2]
            await asyncio.gather(
                agent.add_used_tool("chat", f"tool{number}"),
                agent.process_tool("chat", "search"),
                agent.advance_sequence("chat"),
                agent.add_token_usage("chat", input_tokens=2, output_tokens=1),
                agent.get_state("chat"),
            )

        await asyncio.gather(*(work(number) for number in range(40)))
        state = await agents[0].get_state("chat")
        assert state is not None
        assert state.token_usage == TokenUsage(80, 40)
        assert len(state.tool_log) == 80
        assert set(state.used_tools) == {"search", *(f"tool{number}" for number in range(40))}

    async def test_uses_that_race_a_reset_do_not_fail(self, manager: SessionManager) -> None:
        agent = orchestrator(manager)
        await asyncio.gather(
            *(agent.add_used_tool("chat", f"tool{number}") for number in range(20)),
            *(agent.reset_state("chat") for _ in range(5)),
        )

    async def test_states_go_with_their_session_and_their_time(self, manager: SessionManager) -> None:
        agent = orchestrator(manager, *STEPS)
        await manager.create(id="chat")
        await agent.process_tool("chat", "search")
        await manager.delete("chat")
        assert await agent.get_state("chat") is None
        states = manager.states(OrchestrationState, name="short", ttl=timedelta(milliseconds=1))
        brief = Orchestrator(STEPS, states=states)
        await brief.get_or_create_state("chat")
        await asyncio.sleep(0.005)
        assert await brief.get_state("chat") is None


def test_the_same_without_an_event_loop() -> None:
    with frontdesk.sync.SessionManager("memory://") as manager:
        states = manager.states(OrchestrationState, name="orchestration")
        agent = frontdesk.sync.Orchestrator([DRILL], states=states)
        assert agent.process_tool("chat", "search")
        assert agent.allowed_tools("chat", ANY) == ["write"]
        assert agent.add_token_usage("chat", input_tokens=1).token_usage == TokenUsage(1)
