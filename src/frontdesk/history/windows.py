"""Windows of a view: the leading system messages, and as much of the end as fits into a number of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

from frontdesk.config.runtime import Runtime
from frontdesk.errors import ContextOverflowError
from frontdesk.history.views import leading_system, read_all, retry_if_moved, view_items
from frontdesk.messages import Message
from frontdesk.store import Item
from frontdesk.tree.items import batches, count, drop_first

BATCH = 512


class Window(NamedTuple):
    """A window of a view: whether it is all of it, and the id of the last message before its last turn."""

    messages: list[Message]
    is_whole: bool
    before_turn: str | None


async def read_window(
    runtime: Runtime,
    session_id: str,
    leaf: str | None,
    last: int | None,
    max_tokens: int,
    shorten: Callable[[Message], Message],
    until: str | None,
) -> Window:
    """The leading system messages and as much of the end of the view as fits, with the messages up to the one with the
    id `until` shortened. Raises `ContextOverflowError` if the last turn does not fit."""

    async def read() -> Window:
        items = await view_items(runtime, session_id, leaf, last)
        return await _fit(runtime, items, max_tokens, session_id, shorten, until)

    return await retry_if_moved(read, session_id)


async def _fit(
    runtime: Runtime,
    items: list[Item],
    budget: int,
    session_id: str,
    shorten: Callable[[Message], Message],
    until: str | None,
) -> Window:
    """Read from the end backwards until no more fits."""
    lead = await leading_system(runtime, items)
    rest = drop_first(items, len(lead))
    room = budget - sum(message.tokens for message in lead)
    kept: list[Message] = []
    used = 0
    is_older = False
    for batch in batches(rest, BATCH, reverse=True):
        older = await read_all(runtime, batch)
        for index in range(len(older) - 1, -1, -1):
            is_older = is_older or older[index].id == until
            older[index] = shorten(older[index]) if is_older else older[index]
        kept = older + kept
        used += sum(message.tokens for message in older)
        if used > room and (starts := _starts(kept)):
            break
    else:
        starts = _starts(kept, complete=True)
    before = [0, *accumulate(message.tokens for message in kept)]
    for start in starts:
        if used - before[start] <= room:
            before_turn = kept[starts[-1] - 1].id if starts[-1] else None
            return Window(lead + kept[start:], len(kept) - start == count(rest), before_turn)
    raise ContextOverflowError(budget - room + used - before[starts[-1]], budget, session_id)


def _starts(messages: Sequence[Message], *, complete: bool = False) -> list[int]:
    """Where a window of these messages may begin, so that it holds the last turn and the call of every result in it.

    Example: for user, call, result, user, answer these are 0, 1 and 3; a window from 2 would have a result without its
    call. Empty if more must be read to know. With `complete` there is nothing before these messages: a result without
    a call anywhere does not matter, and if no user has spoken the last message is the turn."""
    turn = _last_turn(messages)
    if turn is None:
        turn = len(messages) - 1 if complete else -1
    open_results: list[set[str]] = []
    unanswered: set[str] = set()
    for message in reversed(messages):
        unanswered = (unanswered | set(message.tool_result_ids)) - set(message.tool_call_ids)
        open_results.append(unanswered)
    lost = unanswered if complete else set()
    starts = [index for index, calls in enumerate(reversed(open_results)) if index <= turn and calls <= lost]
    return starts or ([0] if complete else [])


def _last_turn(messages: Sequence[Message]) -> int | None:
    """The index of the last user message."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "user" and not messages[index].tool_result_ids:
            return index
    return None
