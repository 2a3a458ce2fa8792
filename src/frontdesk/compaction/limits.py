"""Which range of a view is compacted next, and what is remembered of failures."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from frontdesk.calls import call
from frontdesk.compaction.planning import Range, leading_system, plan
from frontdesk.config.settings import CompactionSettings, OnError
from frontdesk.errors import CompactionError
from frontdesk.messages import Message

_FIRST_PAUSE = 5.0
_LONGEST_PAUSE = 600.0


class CompactionState:
    """What a manager remembers of compactions in the background: failures, and those that are running."""

    def __init__(self) -> None:
        self.pauses = Pauses()
        self.running: dict[str, bool] = {}
        """the sessions that are being compacted, and whether to look at them again afterwards"""


def choose_range(
    settings: CompactionSettings, messages: Sequence[Message], limit: int, *, harder: bool = False
) -> Range | None:
    """The range that the planner chooses in a view that is to fit into `limit` tokens. A tail never takes more than
    half of it, and `harder`, when `limit` has turned out to be too much, no more than a quarter of what there is.

    Raises `CompactionError` for a range outside of the view."""
    tail = min(settings.tail_tokens, int(limit * settings.soft_ratio / 2))
    if harder:
        tail = min(tail // 2, sum(message.tokens for message in messages) // 4)
    chosen = (settings.planner or plan)(
        messages,
        protect_head=0 if harder else settings.protect_head,
        tail_tokens=tail,
        min_tail_messages=settings.min_tail_messages,
        max_tail_messages=None if settings.max_messages is None else max(1, settings.max_messages // 2),
    )
    if chosen is None:
        return None
    first, last = Range(*chosen)
    first = max(first, leading_system(messages))
    if not first <= last < len(messages):
        raise CompactionError(f"the planner chose {tuple(chosen)} of {len(messages)} messages: that is no range")
    return Range(first, last)


async def tell(log: logging.Logger, on_error: OnError | None, session_id: str, error: Exception) -> None:
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
