"""Pure: chooses the part of a view to compact. Head, tail and the current request stay, and a tool call is never
separated from its results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from frontdesk.config.settings import CompactionSettings
from frontdesk.errors import CompactionError
from frontdesk.history.turns import current_request, is_only_reasoning, is_request, turn_starts
from frontdesk.messages import Message

MIN_TOKENS = 100
"""less than this is not worth a call to a model"""
_HEAD_SHARE = 0.1
"""of the window"""


class Range(NamedTuple):
    """Messages `first` to `last` (inclusive) of a view, by index."""

    first: int
    last: int


def plan(
    messages: Sequence[Message],
    *,
    protect_head: int = 3,
    head_tokens: int | None = None,
    tail_tokens: int = 20_000,
    min_tail_messages: int = 2,
    max_tail_messages: int | None = None,
    request_tokens: int | None = None,
) -> Range | None:
    """The range of a view to be summarised next, or None if there is too little to gain.

    Kept are the leading system messages; after them the first turns, as far as they are complete within `protect_head`
    messages and `head_tokens`; everything that users said since the last finished answer (of more than
    `request_tokens`, the newest); and from the end as many messages as fit into `tail_tokens` (at least
    `min_tail_messages`, at most `max_tail_messages`). A range begins with the summary before it, if there is one, so
    that it is extended. Ends are moved so that calls stay with all their results, and reasoning with what it led to."""
    allowed = allowed_cuts(messages)
    request = protected_request(messages, request_tokens)
    start = _start(messages, allowed, protect_head, head_tokens)
    end = _end(messages, allowed, tail_tokens, min_tail_messages, max_tail_messages)
    return _choose_part(messages, _parts(start, end, request, allowed), MIN_TOKENS)


def choose_range(
    settings: CompactionSettings, messages: Sequence[Message], limit: int, *, harder: bool = False
) -> Range | None:
    """The range that the planner chooses in a view that must fit into `limit` tokens.

    The shares of head, request, tail and summary are chosen so that they fit together. `harder` is for a view that
    turned out to be too long for the model: no head is protected, and the tail takes at most a quarter of the view.
    Raises `CompactionError` for a range outside the view."""
    request_tokens = int(limit * settings.soft_ratio)
    asked = sum(messages[index].tokens for index in protected_request(messages, request_tokens))
    room = int(limit * settings.hard_ratio) - min(settings.summary_tokens, limit // 8) - asked
    tail = max(0, min(settings.tail_tokens, request_tokens // 2, room))
    if harder:
        tail = min(tail // 2, sum(message.tokens for message in messages) // 4)
    chosen = (settings.planner or plan)(
        messages,
        protect_head=0 if harder else settings.protect_head,
        head_tokens=int(limit * _HEAD_SHARE),
        tail_tokens=tail,
        min_tail_messages=settings.min_tail_messages,
        max_tail_messages=None if settings.max_messages is None else max(1, settings.max_messages // 2),
        request_tokens=request_tokens,
    )
    if chosen is None:
        return None
    first, last = Range(*chosen)
    first = max(first, leading_system(messages))
    if not first <= last < len(messages):
        raise CompactionError(f"the planner chose {tuple(chosen)} of {len(messages)} messages, which is not a range")
    return Range(first, last)


def opening_range(settings: CompactionSettings, messages: Sequence[Message], limit: int) -> Range | None:
    """The range of a view that is replaced by the summary that the next session starts with; None if there is none.

    That is everything after the leading system messages. But if a request has no finished answer yet, it stays with its
    last messages: then it is the messages before it, or those of its steps that come before these last ones."""
    lead = leading_system(messages)
    request = protected_request(messages, int(limit * settings.soft_ratio))
    if not request:
        return Range(lead, len(messages) - 1) if lead < len(messages) else None
    allowed = allowed_cuts(messages)
    end = _end(messages, allowed, 0, settings.min_tail_messages, None)
    return _choose_part(messages, _parts(lead, end, request, allowed), 1)


def protected_request(messages: Sequence[Message], most: int | None = None) -> list[int]:
    """Where the messages of the current request are: all of them, or of more than `most` tokens the newest, and at
    least one."""
    kept: list[int] = []
    used = 0
    for index in reversed(current_request(messages)):
        used += messages[index].tokens
        if kept and most is not None and used > most:
            break
        kept.append(index)
    return kept[::-1]


def _parts(start: int, end: int, request: Sequence[int], allowed: Sequence[bool]) -> Iterator[Range]:
    """What is left between two indexes without the messages of the request, cut where it is allowed.

    Example: of 0..9 without 4 these are 0..3 and 5..9; if 3 is a call and 5 its result, 0..2 and 6..9."""
    for stop in (*(index for index in request if start <= index < end), end):
        first, last = start, stop
        while first < last and not allowed[first]:
            first += 1
        while last > first and not allowed[last]:
            last -= 1
        if first < last:
            yield Range(first, last - 1)
        start = stop + 1


def _choose_part(messages: Sequence[Message], parts: Iterable[Range], least: int) -> Range | None:
    """The oldest part that gains at least this many tokens, unless nearly everything is gained by later ones: then
    the one that gains the most. A part of one message is not worth it."""
    gains = {part: _gain(messages, part) for part in parts}
    worthwhile = [part for part in gains if gains[part] >= least and part.first < part.last]
    enough = sum(gains.values()) // 4
    largest = max(worthwhile, key=gains.__getitem__, default=None)
    return next((part for part in worthwhile if gains[part] >= enough), largest)


def _gain(messages: Sequence[Message], part: Range) -> int:
    """The tokens of a part that are not yet in a summary."""
    return sum(message.tokens for message in messages[part.first : part.last + 1] if not message.is_summary)


def allowed_cuts(messages: Sequence[Message]) -> list[bool]:
    """For each index, whether a view may be cut before the message there (the index after the last one included)."""
    allowed = [True] * (len(messages) + 1)
    for first, last in _bound_together(messages):
        allowed[first + 1 : last + 1] = [False] * (last - first)
    for index, message in enumerate(messages):
        if is_only_reasoning(message):
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
    since = next((i for i in range(len(messages) - 1, -1, -1) if is_request(messages[i])), 0)
    for call_id in called - answered:
        if first[call_id] >= since:
            yield Range(first[call_id], len(messages) - 1)


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
    return _only_tools(message) or is_only_reasoning(message)


def _only_tools(message: Message) -> bool:
    """Whether a message is part of tool traffic; the few words next to a call belong to it."""
    return bool(message.tool_call_ids or message.tool_result_ids)


def leading_system(messages: Sequence[Message]) -> int:
    """How many system messages a view begins with."""
    for index, message in enumerate(messages):
        if message.role != "system" or message.is_summary:
            return index
    return len(messages)


def _start(messages: Sequence[Message], allowed: Sequence[bool], protect_head: int, head_tokens: int | None) -> int:
    """Where the head ends: after complete turns, so that no request is kept without its answer; and not after a
    summary."""
    lead = leading_system(messages)
    head = messages[lead : lead + protect_head]
    sizes = list(accumulate((message.tokens for message in head), initial=0))
    ends = {*turn_starts(messages), *(index for index, message in enumerate(messages) if message.is_summary)}
    start = lead
    for size, index in zip(sizes, range(lead, len(messages) + 1), strict=False):
        if index in ends and allowed[index] and (head_tokens is None or size <= head_tokens):
            start = index
    return next((index for index in range(start) if messages[index].is_summary), start)


def _end(
    messages: Sequence[Message],
    allowed: Sequence[bool],
    tail_tokens: int,
    min_tail_messages: int,
    max_tail_messages: int | None,
) -> int:
    """Where the tail begins."""
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
