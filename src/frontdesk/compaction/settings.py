"""What a manager was told about compaction, and what is remembered of failures and work under way."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from frontdesk.calls import call
from frontdesk.compaction.planning import Range, leading_system, plan
from frontdesk.errors import CompactionError
from frontdesk.messages import Message
from frontdesk.messages.tokens import DEFAULT_MAX_TOKENS
from frontdesk.models.windows import context_window

Model: TypeAlias = Callable[[str], str | Awaitable[str]]
Sink: TypeAlias = Callable[[str, list[str]], Any]
Planner: TypeAlias = Callable[..., Range | None]
Strategy = Literal["summarize", "truncate", "hybrid"]
_FIRST_PAUSE = 5.0
_LONGEST_PAUSE = 600.0


@dataclass
class CompactionSettings:
    """See `with_compaction`."""

    summarize: Model | None = None
    is_set_up: bool = False
    max_tokens: int | None = None
    max_messages: int | None = None
    soft_ratio: float = 0.6
    hard_ratio: float = 0.8
    protect_head: int = 3
    tail_tokens: int = 20_000
    min_tail_messages: int = 2
    summary_tokens: int = 2_000
    input_tokens: int = 60_000
    strategy: Strategy = "summarize"
    auto: bool = False
    timeout: float = 120.0
    attempts: int = 3
    planner: Planner = plan
    on_error: Callable[[str, Exception], Any] | None = None
    pauses: Pauses = field(default_factory=lambda: Pauses())
    running: dict[str, bool] = field(default_factory=dict)
    """the sessions that are being compacted beside the conversation, and whether to look at them again afterwards"""

    def window(self, max_tokens: int | None, model: str | None) -> int:
        """A session's window: its own figure, that of `with_compaction`, what is known of its model, the default."""
        if max_tokens is not None:
            return max_tokens
        if self.max_tokens is not None:
            return self.max_tokens
        return (context_window(model) if model else None) or DEFAULT_MAX_TOKENS

    @property
    def can_compact(self) -> bool:
        """Whether there is anything it could do without being given a summariser."""
        return self.summarize is not None or self.strategy != "summarize"

    def plan(self, messages: Sequence[Message], limit: int, *, harder: bool = False) -> Range | None:
        """The planner's word on a view that shall fit into `limit` tokens; a tail never takes more than half of it, and
        `harder`, when `limit` has turned out to be too much, no more than a quarter of what there is.

        Raises `CompactionError` for a range that is none."""
        tail = min(self.tail_tokens, int(limit * self.soft_ratio / 2))
        if harder:
            tail = min(tail // 2, sum(message.tokens for message in messages) // 4)
        chosen = self.planner(
            messages,
            protect_head=0 if harder else self.protect_head,
            tail_tokens=tail,
            min_tail_messages=self.min_tail_messages,
            max_tail_messages=None if self.max_messages is None else max(1, self.max_messages // 2),
        )
        if chosen is None:
            return None
        first, last = max(chosen.first, leading_system(messages)), chosen.last
        if not first <= last < len(messages):
            raise CompactionError(f"the planner chose {tuple(chosen)} of {len(messages)} messages: that is no range")
        return Range(first, last)


@dataclass
class MemorySettings:
    """See `with_memory_refresh`."""

    extract: Model | None = None
    sink: Sink | None = None
    label: str = "memory"
    enabled: bool = True
    prompt: str | None = None
    max_extract_tokens: int = 500
    input_tokens: int = 60_000
    timeout: float = 60.0
    on_error: Callable[[str, Exception], Any] | None = None

    @property
    def on(self) -> bool:
        return self.enabled and self.extract is not None


async def tell(
    log: logging.Logger, on_error: Callable[[str, Exception], Any] | None, session_id: str, error: Exception
) -> None:
    """Say that work beside the conversation failed; nothing of the conversation is logged."""
    log.warning("work beside a conversation failed: %s", type(error).__name__)
    if on_error is not None:
        try:
            await call(on_error, session_id, error)
        except Exception as failure:
            log.warning("its on_error failed, too: %s", type(failure).__name__)


class Pauses:
    """After a failure, how long a session's automatic compaction waits: longer each time, so that a model that is down
    is not called at every append."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, float]] = {}

    def failed(self, session_id: str, now: float) -> None:
        count = self._failures.get(session_id, (0, 0.0))[0] + 1
        self._failures[session_id] = (count, now + min(_FIRST_PAUSE * 2 ** (count - 1), _LONGEST_PAUSE))

    def succeeded(self, session_id: str) -> None:
        self._failures.pop(session_id, None)

    def holds(self, session_id: str, now: float) -> bool:
        return now < self._failures.get(session_id, (0, 0.0))[1]
