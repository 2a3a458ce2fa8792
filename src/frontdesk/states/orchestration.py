"""Which tools an agent may use next: steps with conditions and sequences, evaluated on the order in which tools were
used. The progress of a session is a typed state, so workers share it and lose nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any, Literal

from frontdesk.checks import check_list, check_text
from frontdesk.config.runtime import Runtime
from frontdesk.errors import ConfigurationError, InvalidInputError
from frontdesk.messages.ids import check_id, new_id
from frontdesk.messages.stored import DEFAULT_MAX_MESSAGE_BYTES
from frontdesk.record import Record
from frontdesk.states import States

RECENT_TOOLS = 10
LOGGED_TOOLS = 1_000


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
    this order; without a `value`, those of the step's own sequence. Raises `ConfigurationError` for anything else."""

    type: Literal["tool_used", "sequence_match"]
    value: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.type == "sequence_match":
            if self.value is not None:
                object.__setattr__(self, "value", _names(self.value, "the value of a sequence_match condition"))
        elif self.type != "tool_used":
            raise ConfigurationError(f"a condition must be tool_used or sequence_match, not {self.type!r}")
        elif not isinstance(self.value, str):
            raise ConfigurationError(
                f"a tool_used condition must have the name of one tool as its value, not {self.value!r}"
            )


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the work. It becomes active when the use of a tool completes its `conditions`. A step without
    conditions becomes active only if it `is_default`, or by `set_active_step`. The tools of `sequence` must be used
    first, in this order; after that, `allowed_tools` (None: all) except `denied_tools`.

    Raises `ConfigurationError` for a single name or condition in place of a sequence of them."""

    name: str
    description: str = ""
    is_default: bool = False
    conditions: Sequence[Condition] = ()
    allowed_tools: Sequence[str] | None = None
    denied_tools: Sequence[str] = ()
    sequence: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_text(self.name, "name of a step")
        for what in ("allowed_tools", "denied_tools", "sequence"):
            names: object = getattr(self, what)
            if names is not None or what != "allowed_tools":
                object.__setattr__(self, what, _names(names, f"{what} of step {self.name!r}"))
        conditions = _members(self.conditions, f"conditions of step {self.name!r}")
        if not all(isinstance(condition, Condition) for condition in conditions):
            raise ConfigurationError(f"every condition of step {self.name!r} must be a Condition")
        object.__setattr__(self, "conditions", conditions)

    def is_met(self, state: OrchestrationState) -> bool:
        """Whether there are conditions, and all of them are met."""
        return bool(self.conditions) and all(self._meets(condition, state) for condition in self.conditions)

    def _meets(self, condition: Condition, state: OrchestrationState) -> bool:
        if condition.type == "tool_used":
            return condition.value in state.used_tools
        sequence = tuple(self.sequence if condition.value is None else condition.value)
        return bool(sequence) and state.tool_log[-len(sequence) :] == sequence

    def expected_tool(self, state: OrchestrationState) -> str | None:
        """The next tool of the sequence; None if there is no sequence, or it is finished."""
        return self.sequence[state.sequence_index] if state.sequence_index < len(self.sequence) else None

    def allows(self, tool: str, state: OrchestrationState) -> bool:
        """Whether a tool may be used now, in this step."""
        expected = self.expected_tool(state)
        if expected is not None:
            return tool == expected
        return (self.allowed_tools is None or tool in self.allowed_tools) and tool not in self.denied_tools


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
        """Enter a step, at the start of its sequence. It stays active until the use of a tool completes the conditions
        of another step. Raises `InvalidInputError` for an unknown step."""
        if step is not None and self._steps and step not in self._steps:
            raise InvalidInputError(f"there is no step {step!r}: the steps are {', '.join(self._steps)}", step=step)
        return await self._change(id, lambda state: _enter(state, step))

    async def add_used_tool(self, id: str, tool: str) -> OrchestrationState:
        """Record the use of a tool, and enter the step whose conditions it completes."""
        check_id(tool, "name of a tool")
        return await self._change(id, lambda state: self._use_tool(state, tool))

    async def advance_sequence(self, id: str) -> OrchestrationState:
        """Move to the next tool of the sequence."""
        return await self._change(id, lambda state: replace(state, sequence_index=state.sequence_index + 1))

    async def process_tool(self, id: str, tool: str) -> bool:
        """Record the use of a tool, advance the sequence if the tool was the expected one, and enter the step whose
        conditions it completes.

        Returns whether the tool was allowed, as `is_allowed` says. The use of a tool that was not allowed is also
        recorded, but the sequence does not advance."""
        check_id(tool, "name of a tool")
        allowed = True

        def process(state: OrchestrationState) -> OrchestrationState:
            nonlocal allowed
            state = self._settle(state)
            step = self._active_step(state)
            allowed = step is None or step.allows(tool, state)
            if step is not None and step.expected_tool(state) == tool:
                state = replace(state, sequence_index=state.sequence_index + 1)
            return self._use_tool(state, tool)

        await self._change(id, process)
        return allowed

    async def is_allowed(self, id: str, tool: str) -> bool:
        """Whether a tool may be used now. Records nothing."""
        return bool(await self.allowed_tools(id, [check_id(tool, "name of a tool")]))

    async def allowed_tools(self, id: str, available: Iterable[str]) -> list[str]:
        """The available tools that may be used now, in their given order."""
        names = check_list(available, "available")
        state = self._settle(await self.get_state(id) or OrchestrationState())
        step = self._active_step(state)
        return names if step is None else [name for name in names if step.allows(name, state)]

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

        return await self._states.update(id, update, create=True)

    def _initialise(self, state: OrchestrationState, id: str) -> OrchestrationState:
        """A state that was never changed starts in the default step."""
        if state.last_accessed_at is not None:
            return state
        return replace(state, session_id=id, active_step=state.active_step or self._default)

    def _settle(self, state: OrchestrationState) -> OrchestrationState:
        """Replace a step that is not configured any more by the first one whose conditions are met, or the default.
        The default also replaces no step at all."""
        if not self._steps or state.active_step in self._steps:
            return state
        met = (step.name for step in self._steps.values() if state.active_step is not None and step.is_met(state))
        return _enter(state, next(met, self._default))

    def _active_step(self, settled: OrchestrationState) -> Step | None:
        return self._steps.get(settled.active_step or "")

    def _use_tool(self, state: OrchestrationState, tool: str) -> OrchestrationState:
        """Record the use of a tool, and enter the first step whose conditions it completes. A step whose conditions
        were met before is not entered again, so that the active step (also one that was set by hand) stays active."""
        used = self._settle(_record_tool(state, tool))
        completed = (step.name for step in self._steps.values() if step.is_met(used) and not step.is_met(state))
        chosen = next(completed, used.active_step)
        return used if chosen == used.active_step else _enter(used, chosen)


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
        if step.name in names:
            raise ConfigurationError(f"there are two steps named {step.name!r}: names must be unique")
        names.add(step.name)
        if denied := set(step.sequence) & set(step.denied_tools):
            raise ConfigurationError(f"step {step.name!r} requires {min(denied)!r} in its sequence, but denies it")
    if sum(step.is_default for step in checked) > 1:
        raise ConfigurationError("there are two default steps: mark one step as `is_default` at most")
    return checked


def _members(given: Any, what: str) -> tuple[Any, ...]:
    """The members of a sequence. A text, or a single value without the comma of a tuple, is not one."""
    if not isinstance(given, list | tuple):
        raise ConfigurationError(
            f"{what} must be a list or a tuple, not {given!r}: a tuple of one has a comma, as in ('search',)"
        )
    return tuple(given)


def _names(given: Any, what: str) -> tuple[str, ...]:
    names = _members(given, what)
    if bad := [name for name in names if not isinstance(name, str) or not name]:
        raise ConfigurationError(f"{what} must be names of tools, not {bad[0]!r}")
    return names


def _memory_states() -> States[OrchestrationState]:
    runtime = Runtime("memory://", "default", DEFAULT_MAX_MESSAGE_BYTES)
    return States(runtime, OrchestrationState, name="orchestration", store="memory://")
