"""Pure: the turns of a conversation, and where it may be cut without separating a tool call from its result."""

from __future__ import annotations

from collections.abc import Sequence

from frontdesk.messages import Message, ReasoningPart, TextPart
from frontdesk.messages.formats.pairing import role_of


def is_request(message: Message) -> bool:
    """Whether a user said it: a message that only carries tool results does not count."""
    return role_of(message) == "user" and not message.tool_result_ids and not message.is_summary


def is_only_reasoning(message: Message) -> bool:
    """Whether a message is nothing but thoughts, which belong to what comes next."""
    return (
        ("reasoning" in message.stored.raw or "thinking" in message.stored.raw)
        and bool(message.parts)
        and all(isinstance(part, ReasoningPart) for part in message.parts)
    )


def is_finished_answer(message: Message) -> bool:
    """Whether an assistant message ends its turn: it says something after its last tool call."""
    if role_of(message) != "assistant" or message.is_summary:
        return False
    if not message.tool_call_ids:
        return not is_only_reasoning(message)
    # Some formats keep a call, its result and the answer in one message.
    is_answered = set(message.tool_call_ids) <= set(message.tool_result_ids)
    return is_answered and isinstance(message.parts[-1], TextPart)


def turn_starts(messages: Sequence[Message], *, complete: bool = True) -> list[int]:
    """Where turns begin: at the first thing that a user says after a finished answer.

    Example: for user, call, result, user, answer, user these are 0 and 5: the second user message belongs to the
    request that the answer finished. Without `complete` something comes before these messages, so that the first
    request is no start unless an answer is seen before it. Of assistant messages in a row, the last one counts."""
    starts = []
    is_answered = complete
    for index, message in enumerate(messages):
        if is_request(message):
            if is_answered:
                starts.append(index)
            is_answered = False
        elif role_of(message) == "assistant":
            is_answered = is_finished_answer(message)
    return starts


def current_request(messages: Sequence[Message]) -> list[int]:
    """Where the requests are that have no finished answer yet: all that users said since the last one."""
    requests: list[int] = []
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if is_request(message):
            requests.append(index)
        is_last_of_run = index + 1 == len(messages) or role_of(messages[index + 1]) != "assistant"
        if is_last_of_run and is_finished_answer(message):
            break
    return requests[::-1]


def whole_pairs(messages: Sequence[Message], *, complete: bool = True) -> list[bool]:
    """For each index, whether no result there or later answers a call from before it.

    With `complete` there is nothing before these messages: a result whose call is nowhere does not matter."""
    open_calls: list[set[str]] = []
    unanswered: set[str] = set()
    for message in reversed(messages):
        unanswered = (unanswered | set(message.tool_result_ids)) - set(message.tool_call_ids)
        open_calls.append(unanswered)
    lost = unanswered if complete else set()
    return [calls <= lost for calls in reversed(open_calls)]
