"""Which tools an agent may use next: steps with conditions and sequences, evaluated on the order in which tools were
used. The progress of a session is a typed state, so workers share it and lose nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any, Literal

from frontdesk.checks import check_list, check_text
from frontdesk.config.runtime import Runtime
from frontdesk.errors import ConfigurationError, InvalidInputError, StateNotFoundError
from frontdesk.messages.ids import check_id, new_id
from frontdesk.messages.stored import DEFAULT_MAX_MESSAGE_BYTES
from frontdesk.record import Record
from frontdesk.states import States

RECENT_TOOLS = 10
LOGGED_TOOLS = 1_000
_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class TokenUsage(Record):
    """The total tokens of model calls."""

    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class OrchestrationState(Record):
    """The progress of a session.

    `tool_log` contains the last 1,000 uses of tools in their order, oldest first. `used_tools` contains every tool that
    was ever used, once each, newest first."""

    session_id: str = ""
    active_step: str | None = None
    sequence_index: int = 0
    tool_log: tuple[str, ...] = ()
    used_tools: tuple[str, ...] = ()
    token_usage: TokenUsage = TokenUsage()
    last_accessed_at: datetime | None = None

    @property
    def recently_used_tools(self) -> tuple[str, ...]:
        """The 10 tools that were used last, once each, newest first."""
        return self.used_tools[:RECENT_TOOLS]

    def summary(self) -> dict[str, Any]:
        """A summary to show in an application, as JSON: step, recent tools, position in the sequence, tokens."""
        return {
            "session_id": self.session_id,
            "active_step": self.active_step,
            "recently_used_tools": list(self.recently_used_tools),
            "sequence_index": self.sequence_index,
            "token_usage": {
                "input_tokens": self.token_usage.input_tokens,
                "output_tokens": self.token_usage.output_tokens,
                "total_tokens": self.token_usage.total_tokens,
            },
        }


@dataclass(frozen=True, slots=True)
class Condition:
    """`tool_used`: the tool `value` was used at any time. `sequence_match`: the last tools used are those of `value` in
    this order; without a `value`, those of the step's own sequence."""

    type: Literal["tool_used", "sequence_match"]
    value: str | tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.type == "tool_used" and isinstance(self.value, str):
            return
        if self.type == "sequence_match" and not isinstance(self.value, str):
            return
        raise ConfigurationError(
            f"a condition is tool_used with the name of a tool, or sequence_match with a tuple of names or no value,"
            f" not {self.type!r} with {self.value!r}"
        )


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the work. It becomes active when all of its `conditions` are met. A step without conditions becomes
    active only if it `is_default`, or by `set_active_step`. The tools of `sequence` must be used first, in this order;
    after that, `allowed_tools` (None: all) except `denied_tools`."""

    name: str
    description: str = ""
    is_default: bool = False
    conditions: tuple[Condition, ...] = ()
    allowed_tools: tuple[str, ...] | None = None
    denied_tools: tuple[str, ...] = ()
    sequence: tuple[str, ...] = ()

    def is_met(self, state: OrchestrationState) -> bool:
        """Whether there are conditions, and all of them are met."""
        return bool(self.conditions) and all(self._meets(condition, state) for condition in self.conditions)

    def _meets(self, condition: Condition, state: OrchestrationState) -> bool:
        if condition.type == "tool_used":
            return condition.value in state.used_tools
        sequence = self.sequence if condition.value is None else tuple(condition.value)
        return bool(sequence) and state.tool_log[-len(sequence) :] == sequence

    def expected_tool(self, state: OrchestrationState) -> str | None:
        """The next tool of the sequence; None if there is no sequence, or it is finished."""
        return self.sequence[state.sequence_index] if state.sequence_index < len(self.sequence) else None


class Orchestrator:
    """Steps, and the progress of each session through them. Without steps it records usage and allows every tool.

    `states` is `manager.states(OrchestrationState, name="orchestration")`, or with another name. Without `states`, they
    are kept in memory, for the lifetime of this object. A call that changes the state of a session creates it if there
    is none. Every change is atomic. Raises `ConfigurationError` for contradictory steps."""

    def __init__(self, steps: Iterable[Step] = (), *, states: States[OrchestrationState] | None = None) -> None:
        self._steps = {step.name: step for step in _check_steps(steps)}
        self._default = next((step.name for step in self._steps.values() if step.is_default), None)
        self._states = _memory_states() if states is None else states

    async def get_state(self, id: str) -> OrchestrationState | None:
        """The progress of a session; None if there is none."""
        state = await self._states.get(id)
        return None if state is None else self._initialise(state, id)

    async def get_or_create_state(self, id: str | None = None) -> OrchestrationState:
        """The progress of a session. Without an `id`, one is generated; it is the `session_id` of the result."""
        id = new_id() if id is None else id
        return self._initialise(await self._states.get_or_create(id), id)

    async def update_state(self, id: str, partial: Mapping[str, Any]) -> OrchestrationState:
        """Replace the given fields, and no others. Raises `InvalidInputError` for an unknown field."""
        known = {each.name for each in fields(OrchestrationState)} - {"session_id", "last_accessed_at"}
        if unknown := sorted(set(partial) - known):
            raise InvalidInputError(f"a state has no field {unknown[0]!r}: it has {', '.join(sorted(known))}")
        return await self._change(id, lambda state: replace(state, **partial))

    async def set_active_step(self, id: str, step: str | None) -> OrchestrationState:
        """Enter a step, at the start of its sequence. Raises `InvalidInputError` for an unknown step."""
        if step is not None and self._steps and step not in self._steps:
            raise InvalidInputError(f"there is no step {step!r}: the steps are {', '.join(self._steps)}", step=step)
        return await self._change(id, lambda state: _enter(state, step))

    async def add_used_tool(self, id: str, tool: str) -> OrchestrationState:
        """Record the use of a tool, and enter the step whose conditions are now met."""
        check_id(tool, "name of a tool")
        return await self._change(id, lambda state: self._choose_step(_record_tool(state, tool)))

    async def advance_sequence(self, id: str) -> OrchestrationState:
        """Move to the next tool of the sequence."""
        return await self._change(id, lambda state: replace(state, sequence_index=state.sequence_index + 1))

    async def process_tool(self, id: str, tool: str) -> bool:
        """Record the use of a tool, advance the sequence if the tool was the expected one, and enter the step whose
        conditions are now met. Returns False if another tool was expected: the use is still recorded, and the sequence
        does not advance."""
        check_id(tool, "name of a tool")
        in_order = True

        def process(state: OrchestrationState) -> OrchestrationState:
            nonlocal in_order
            state = self._choose_step(state)
            step = self._current_step(state)
            expected = None if step is None else step.expected_tool(state)
            in_order = expected in (None, tool)
            if expected == tool:
                state = replace(state, sequence_index=state.sequence_index + 1)
            return self._choose_step(_record_tool(state, tool))

        await self._change(id, process)
        return in_order

    async def allowed_tools(self, id: str, available: Iterable[str]) -> list[str]:
        """The available tools that may be used now, in their given order."""
        names = check_list(available, "available")
        state = self._choose_step(await self.get_state(id) or OrchestrationState())
        step = self._current_step(state)
        if step is None:
            return names
        expected = step.expected_tool(state)
        if expected is not None:
            return [name for name in names if name == expected]
        allowed = names if step.allowed_tools is None else [name for name in names if name in step.allowed_tools]
        return [name for name in allowed if name not in step.denied_tools]

    async def add_token_usage(self, id: str, *, input_tokens: int = 0, output_tokens: int = 0) -> OrchestrationState:
        """Add the tokens of a model call to the totals. Raises `InvalidInputError` for invalid counts."""
        for what, count in (("input_tokens", input_tokens), ("output_tokens", output_tokens)):
            if type(count) is not int or count < 0:
                raise InvalidInputError(f"{what} must be a whole number, 0 or more, not {count!r}")

        def add(state: OrchestrationState) -> OrchestrationState:
            used = state.token_usage
            total = TokenUsage(used.input_tokens + input_tokens, used.output_tokens + output_tokens)
            return replace(state, token_usage=total)

        return await self._change(id, add)

    async def reset_state(self, id: str) -> bool:
        """Delete the progress of a session; False if there was none."""
        return await self._states.delete(id)

    async def _change(self, id: str, change: Callable[[OrchestrationState], OrchestrationState]) -> OrchestrationState:
        def update(state: OrchestrationState) -> OrchestrationState:
            return replace(change(self._initialise(state, id)), last_accessed_at=datetime.now(UTC))

        for attempt in range(_ATTEMPTS):
            try:
                return await self._states.update(id, update)
            except StateNotFoundError:
                if attempt == _ATTEMPTS - 1:
                    raise
                await self._states.get_or_create(id)
        raise AssertionError("the last attempt returns or raises")

    def _initialise(self, state: OrchestrationState, id: str) -> OrchestrationState:
        """A state that was never changed starts in the default step."""
        if state.last_accessed_at is not None:
            return state
        return replace(state, session_id=id, active_step=state.active_step or self._default)

    def _current_step(self, state: OrchestrationState) -> Step | None:
        name = state.active_step if state.active_step in self._steps else self._default
        return None if name is None else self._steps[name]

    def _choose_step(self, state: OrchestrationState) -> OrchestrationState:
        """Enter the first step whose conditions are met. If there is none, stay in the active step, or else enter the
        default one."""
        if not self._steps:
            return state
        met = (step.name for step in self._steps.values() if not step.is_default and step.is_met(state))
        current = state.active_step if state.active_step in self._steps else self._default
        chosen = next(met, current)
        return state if chosen == state.active_step else _enter(state, chosen)


def _enter(state: OrchestrationState, step: str | None) -> OrchestrationState:
    return replace(state, active_step=step, sequence_index=0)


def _record_tool(state: OrchestrationState, tool: str) -> OrchestrationState:
    return replace(
        state,
        tool_log=(*state.tool_log, tool)[-LOGGED_TOOLS:],
        used_tools=(tool, *(name for name in state.used_tools if name != tool)),
    )


def _check_steps(steps: Iterable[Step]) -> list[Step]:
    checked = check_list(steps, "steps")
    names: set[str] = set()
    for step in checked:
        if not isinstance(step, Step):
            raise ConfigurationError(f"every step must be a Step, not {type(step).__name__}")
        check_text(step.name, "name of a step")
        if step.name in names:
            raise ConfigurationError(f"there are two steps named {step.name!r}: names must be unique")
        names.add(step.name)
        if denied := set(step.sequence) & set(step.denied_tools):
            raise ConfigurationError(f"step {step.name!r} requires {min(denied)!r} in its sequence, but denies it")
    if sum(step.is_default for step in checked) > 1:
        raise ConfigurationError("there are two default steps: mark one step as `is_default` at most")
    return checked


def _memory_states() -> States[OrchestrationState]:
    runtime = Runtime("memory://", "default", DEFAULT_MAX_MESSAGE_BYTES)
    return States(runtime, OrchestrationState, name="orchestration", store="memory://")
