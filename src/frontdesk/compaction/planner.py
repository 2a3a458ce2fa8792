"""Pure: chooses the part of a view to compact. Head and tail stay, and a tool call is never separated from its
results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from frontdesk.config.settings import CompactionSettings
from frontdesk.errors import CompactionError
from frontdesk.messages import Message, ReasoningPart

MIN_TOKENS = 100
"""less than this is not worth a call to a model"""


class Range(NamedTuple):
    """Messages `first` to `last` (inclusive) of a view, by index."""

    first: int
    last: int


def plan(
    messages: Sequence[Message],
    *,
    protect_head: int = 3,
    tail_tokens: int = 20_000,
    min_tail_messages: int = 2,
    max_tail_messages: int | None = None,
) -> Range | None:
    """The range of a view to be summarised next, or None if there is too little to gain.

    Kept are the leading system messages and `protect_head` more, and from the end as many messages as fit into
    `tail_tokens` (at least `min_tail_messages`, at most `max_tail_messages`). An earlier summary is always included, so
    that it is extended. Ends are moved so that calls stay with all their results, and reasoning with what it led to."""
    allowed = allowed_cuts(messages)
    start = _start(messages, allowed, protect_head)
    end = _end(messages, allowed, tail_tokens, min_tail_messages, max_tail_messages)
    covered = messages[start:end]
    if len(covered) < 2 or all(message.is_summary for message in covered):
        return None
    return Range(start, end - 1) if sum(message.tokens for message in covered) >= MIN_TOKENS else None


def choose_range(
    settings: CompactionSettings, messages: Sequence[Message], limit: int, *, harder: bool = False
) -> Range | None:
    """The range that the planner chooses in a view that is to fit into `limit` tokens.

    The tail never takes more than half of the limit. `harder` is for a view that turned out to be too long for the
    model: no head is protected, and the tail takes at most a quarter of the view.
    Raises `CompactionError` for a range outside the view."""
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


def allowed_cuts(messages: Sequence[Message]) -> list[bool]:
    """For each index, whether a view may be cut before the message there (the index after the last one included)."""
    allowed = [True] * (len(messages) + 1)
    for first, last in _bound_together(messages):
        allowed[first + 1 : last + 1] = [False] * (last - first)
    for index, message in enumerate(messages):
        if _only_reasoning(message):
            allowed[index + 1] = False
    allowed[0] = allowed[len(messages)] = True
    return allowed


def _bound_together(messages: Sequence[Message]) -> Iterator[Range]:
    """The ranges that must not be cut: from each call to its last result, in any order. A call that still waits for its
    result binds everything after it. A call id that is used again after it was answered starts over: some models count
    from 1 each time."""
    first: dict[str, int] = {}
    called: set[str] = set()
    answered: set[str] = set()
    for index, message in enumerate(messages):
        for call_id in message.tool_call_ids:
            if call_id in called and call_id in answered:
                answered.discard(call_id)
                first[call_id] = index
            called.add(call_id)
        for call_id in (*message.tool_call_ids, *message.tool_result_ids):
            yield Range(first.setdefault(call_id, index), index)
        answered.update(message.tool_result_ids)
    since = next((i for i in range(len(messages) - 1, -1, -1) if _is_spoken(messages[i])), 0)
    for call_id in called - answered:
        if first[call_id] >= since:
            yield Range(first[call_id], len(messages) - 1)


def _is_spoken(message: Message) -> bool:
    """Whether a user said it: calls that were still open before it are not waited for."""
    return message.role == "user" and not message.tool_result_ids


def tool_runs(messages: Sequence[Message]) -> list[Range]:
    """The longest runs of nothing but tool calls, their results and the reasoning between them, most tokens first; no
    run separates a call from its results."""
    allowed = allowed_cuts(messages)
    runs: list[Range] = []
    index = 0
    while index < len(messages):
        start, index = index, index + 1
        if not _is_traffic(messages[start]):
            continue
        while index < len(messages) and _is_traffic(messages[index]):
            index += 1
        cuts = [cut for cut in range(start, index + 1) if allowed[cut]]
        if len(cuts) > 1 and any(map(_only_tools, messages[cuts[0] : cuts[-1]])):
            runs.append(Range(cuts[0], cuts[-1] - 1))
    return sorted(runs, key=lambda run: -sum(message.tokens for message in messages[run.first : run.last + 1]))


def _is_traffic(message: Message) -> bool:
    return _only_tools(message) or _only_reasoning(message)


def _only_tools(message: Message) -> bool:
    """Whether a message is part of tool traffic; the few words next to a call belong to it."""
    return bool(message.tool_call_ids or message.tool_result_ids)


def leading_system(messages: Sequence[Message]) -> int:
    """How many system messages a view begins with."""
    for index, message in enumerate(messages):
        if message.role != "system" or message.is_summary:
            return index
    return len(messages)


def _start(messages: Sequence[Message], allowed: Sequence[bool], protect_head: int) -> int:
    start = min(leading_system(messages) + protect_head, len(messages))
    start = next((index for index in range(start) if messages[index].is_summary), start)
    while not allowed[start]:
        start += 1
    return start


def _end(
    messages: Sequence[Message],
    allowed: Sequence[bool],
    tail_tokens: int,
    min_tail_messages: int,
    max_tail_messages: int | None,
) -> int:
    end, used = len(messages), 0
    while end > 0:
        kept = len(messages) - end
        if max_tail_messages is not None and kept >= max(max_tail_messages, min_tail_messages):
            break
        used += messages[end - 1].tokens
        if used > tail_tokens and kept >= max(min_tail_messages, 1):
            break
        end -= 1
    while not allowed[end]:
        end -= 1
    return end


def _only_reasoning(message: Message) -> bool:
    """Whether a message is nothing but thoughts, which belong to what comes next."""
    return (
        ("reasoning" in message.stored.raw or "thinking" in message.stored.raw)
        and bool(message.parts)
        and all(isinstance(part, ReasoningPart) for part in message.parts)
    )
