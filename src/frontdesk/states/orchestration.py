"""Which tools an agent may use next: steps with conditions and sequences, decided from the order in which tools were
really used, and kept as a typed state so that nothing is lost between workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any, Literal

from frontdesk.checks import check_list, check_text
from frontdesk.config.runtime import Runtime
from frontdesk.config.settings import DEFAULT_MAX_MESSAGE_BYTES
from frontdesk.errors import ConfigurationError, InvalidInputError, StateNotFoundError
from frontdesk.messages import check_id, new_id
from frontdesk.states import States

RECENT_TOOLS = 10
LOGGED_TOOLS = 1_000
_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of model calls, added up."""

    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class OrchestrationState:
    """Where a session stands.

    `tool_log` has the uses in their order, oldest first (the last 1,000 of them), a tool used twice being there twice;
    `used_tools` every tool ever used, once each, newest first."""

    session_id: str = ""
    active_step: str | None = None
    sequence_index: int = 0
    tool_log: tuple[str, ...] = ()
    used_tools: tuple[str, ...] = ()
    token_usage: TokenUsage = TokenUsage()
    last_accessed_at: datetime | None = None

    @property
    def recently_used_tools(self) -> tuple[str, ...]:
        """The tools used last, newest first, each once, at most 10."""
        return self.used_tools[:RECENT_TOOLS]

    def summary(self) -> dict[str, Any]:
        """What an application shows of it, as JSON: step, recent tools, place in the sequence, tokens."""
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
    this order, or, without a `value`, those of the step's own sequence."""

    type: Literal["tool_used", "sequence_match"]
    value: str | tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.type == "tool_used" and isinstance(self.value, str):
            return
        if self.type == "sequence_match" and not isinstance(self.value, str):
            return
        raise ConfigurationError(
            f"a condition is tool_used with the name of a tool, or sequence_match with a tuple of names or nothing,"
            f" not {self.type!r} with {self.value!r}"
        )


@dataclass(frozen=True, slots=True)
class Step:
    """A part of the work. It becomes active when all of its `conditions` hold; one without conditions only if it
    `is_default`, or by `set_active_step`. `sequence` must be followed, tool by tool, before anything else is allowed;
    then `allowed_tools` (None: all) but for `denied_tools`."""

    name: str
    description: str = ""
    is_default: bool = False
    conditions: tuple[Condition, ...] = ()
    allowed_tools: tuple[str, ...] | None = None
    denied_tools: tuple[str, ...] = ()
    sequence: tuple[str, ...] = ()

    def holds(self, state: OrchestrationState) -> bool:
        """Whether the conditions, of which there is at least one, all hold."""
        return bool(self.conditions) and all(self._meets(condition, state) for condition in self.conditions)

    def _meets(self, condition: Condition, state: OrchestrationState) -> bool:
        if condition.type == "tool_used":
            return condition.value in state.used_tools
        wanted = self.sequence if condition.value is None else tuple(condition.value)
        return bool(wanted) and state.tool_log[-len(wanted) :] == wanted

    def expected_tool(self, state: OrchestrationState) -> str | None:
        """The tool that the sequence is waiting for; None if there is no sequence, or it is finished."""
        return self.sequence[state.sequence_index] if state.sequence_index < len(self.sequence) else None


class Orchestrator:
    """Steps, and where each session stands in them. Works without steps, too: then it remembers, and allows everything.

    `states` is `manager.states(OrchestrationState, name="orchestration")` or the like; without it the states are kept
    in this object and go with it. A call that changes a state makes it if there is none; every change is one step,
    whoever else is at it. Raises `ConfigurationError` for steps that contradict themselves."""

    def __init__(self, steps: Iterable[Step] = (), *, states: States[OrchestrationState] | None = None) -> None:
        self._steps = {step.name: step for step in _checked(steps)}
        self._default = next((step.name for step in self._steps.values() if step.is_default), None)
        self._states = _own_states() if states is None else states

    async def get_state(self, id: str) -> OrchestrationState | None:
        """Where a session stands, or None if nothing is known of it."""
        state = await self._states.get(id)
        return None if state is None else self._begun(state, id)

    async def get_or_create_state(self, id: str | None = None) -> OrchestrationState:
        """Where a session stands; without an id one is made, and is the state's `session_id`."""
        wanted = new_id() if id is None else id
        return self._begun(await self._states.get_or_create(wanted), wanted)

    async def update_state(self, id: str, partial: Mapping[str, Any]) -> OrchestrationState:
        """Replace the fields that are named, and no others. Raises `InvalidInputError` for one that there is not."""
        known = {each.name for each in fields(OrchestrationState)} - {"session_id", "last_accessed_at"}
        if unknown := sorted(set(partial) - known):
            raise InvalidInputError(f"a state has no {unknown[0]!r}: it has {', '.join(sorted(known))}")
        return await self._change(id, lambda state: replace(state, **partial))

    async def set_active_step(self, id: str, step: str | None) -> OrchestrationState:
        """Enter a step by hand, at the beginning of its sequence. Raises `InvalidInputError` for an unknown one."""
        if step is not None and self._steps and step not in self._steps:
            raise InvalidInputError(f"there is no step {step!r}: there are {', '.join(self._steps)}", step=step)
        return await self._change(id, lambda state: _enter(state, step))

    async def add_used_tool(self, id: str, tool: str) -> OrchestrationState:
        """Remember that a tool was used, and enter the step whose conditions hold with it."""
        check_id(tool, "name of a tool")
        return await self._change(id, lambda state: self._settled(_with_tool(state, tool)))

    async def advance_sequence(self, id: str) -> OrchestrationState:
        """Go on to the next tool of the sequence."""
        return await self._change(id, lambda state: replace(state, sequence_index=state.sequence_index + 1))

    async def process_tool(self, id: str, tool: str) -> bool:
        """Remember that a tool was used, go on in the sequence if it is the one expected, and enter the step whose
        conditions hold now. False if another tool was expected: it was used all the same, and the sequence waits."""
        check_id(tool, "name of a tool")
        in_order = True

        def process(state: OrchestrationState) -> OrchestrationState:
            nonlocal in_order
            state = self._settled(state)
            step = self._step_of(state)
            expected = None if step is None else step.expected_tool(state)
            in_order = expected in (None, tool)
            if expected == tool:
                state = replace(state, sequence_index=state.sequence_index + 1)
            return self._settled(_with_tool(state, tool))

        await self._change(id, process)
        return in_order

    async def allowed_tools(self, id: str, available: Iterable[str]) -> list[str]:
        """Those of the available tools that may be used now, in their order."""
        names = check_list(available, "available")
        state = self._settled(await self.get_state(id) or OrchestrationState())
        step = self._step_of(state)
        if step is None:
            return names
        expected = step.expected_tool(state)
        if expected is not None:
            return [name for name in names if name == expected]
        allowed = names if step.allowed_tools is None else [name for name in names if name in step.allowed_tools]
        return [name for name in allowed if name not in step.denied_tools]

    async def add_token_usage(self, id: str, *, input_tokens: int = 0, output_tokens: int = 0) -> OrchestrationState:
        """Add up the tokens of a model call. Raises `InvalidInputError` for what is no count."""
        for what, count in (("input_tokens", input_tokens), ("output_tokens", output_tokens)):
            if type(count) is not int or count < 0:
                raise InvalidInputError(f"{what} must be a whole number, not negative, not {count!r}")

        def add(state: OrchestrationState) -> OrchestrationState:
            used = state.token_usage
            total = TokenUsage(used.input_tokens + input_tokens, used.output_tokens + output_tokens)
            return replace(state, token_usage=total)

        return await self._change(id, add)

    async def reset_state(self, id: str) -> bool:
        """Forget where a session stands; False if nothing was known."""
        return await self._states.delete(id)

    async def _change(self, id: str, change: Callable[[OrchestrationState], OrchestrationState]) -> OrchestrationState:
        def changed(state: OrchestrationState) -> OrchestrationState:
            return replace(change(self._begun(state, id)), last_accessed_at=datetime.now(UTC))

        for attempt in range(_ATTEMPTS):
            try:
                return await self._states.update(id, changed)
            except StateNotFoundError:
                if attempt == _ATTEMPTS - 1:
                    raise
                await self._states.get_or_create(id)
        raise AssertionError("the last attempt returns or raises")

    def _begun(self, state: OrchestrationState, id: str) -> OrchestrationState:
        """A state that nobody changed yet begins in the default step."""
        if state.last_accessed_at is not None:
            return state
        return replace(state, session_id=id, active_step=state.active_step or self._default)

    def _step_of(self, state: OrchestrationState) -> Step | None:
        name = state.active_step if state.active_step in self._steps else self._default
        return None if name is None else self._steps[name]

    def _settled(self, state: OrchestrationState) -> OrchestrationState:
        """The state in the first step whose conditions hold; in the one it is in, else in the default, if none does."""
        if not self._steps:
            return state
        holding = (step.name for step in self._steps.values() if not step.is_default and step.holds(state))
        current = state.active_step if state.active_step in self._steps else self._default
        wanted = next(holding, current)
        return state if wanted == state.active_step else _enter(state, wanted)


def _enter(state: OrchestrationState, step: str | None) -> OrchestrationState:
    return replace(state, active_step=step, sequence_index=0)


def _with_tool(state: OrchestrationState, tool: str) -> OrchestrationState:
    return replace(
        state,
        tool_log=(*state.tool_log, tool)[-LOGGED_TOOLS:],
        used_tools=(tool, *(name for name in state.used_tools if name != tool)),
    )


def _checked(steps: Iterable[Step]) -> list[Step]:
    found = check_list(steps, "steps")
    names: set[str] = set()
    for step in found:
        if not isinstance(step, Step):
            raise ConfigurationError(f"steps are Steps, not {type(step).__name__}")
        check_text(step.name, "name of a step")
        if step.name in names:
            raise ConfigurationError(f"there are two steps {step.name!r}: give each a name of its own")
        names.add(step.name)
        if denied := set(step.sequence) & set(step.denied_tools):
            raise ConfigurationError(f"step {step.name!r} demands {min(denied)!r} in its sequence and denies it")
    if sum(step.is_default for step in found) > 1:
        raise ConfigurationError("there are two default steps: one can be where everything begins")
    return found


def _own_states() -> States[OrchestrationState]:
    runtime = Runtime("memory://", "default", DEFAULT_MAX_MESSAGE_BYTES)
    return States(runtime, OrchestrationState, name="orchestration", store="memory://")
