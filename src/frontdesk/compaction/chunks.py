"""Pure: splits a conversation into chunks that a model can read one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from frontdesk.compaction.render import render_for_summary
from frontdesk.messages import Message
from frontdesk.messages.counting import count_text
from frontdesk.messages.tokens import TokenCounter


class Chunk(NamedTuple):
    """Some messages, and how a model reads them."""

    messages: list[Message]
    text: str


def split_into_chunks(messages: Sequence[Message], max_tokens: int, counter: TokenCounter) -> list[Chunk]:
    """`messages` in runs of at most `max_tokens` as `render_for_summary` shows them, in few runs.

    A call stays with its results unless they are too large together; a message that is too large is a run of its own.
    """
    sizes = [count_text(render_for_summary([message]) + "\n", counter) for message in messages]
    chunks: list[list[Sequence[Message]]] = []
    filled = 0
    for start, end in _units(messages, sizes, max_tokens):
        size = sum(sizes[start:end])
        if not chunks or filled + size > max_tokens:
            chunks.append([])
            filled = 0
        chunks[-1].append(messages[start:end])
        filled += size
    return [part for chunk in chunks for part in _fitting(chunk, max_tokens, counter)]


def _fitting(units: list[Sequence[Message]], max_tokens: int, counter: TokenCounter) -> list[Chunk]:
    """Units as one chunk, or halved until each half fits. Counters round, and some count a text as more than the sum of
    its parts: 100 messages of 5.2 tokens that count as 5 each are 520 tokens together, not 500."""
    joined = [message for unit in units for message in unit]
    text = render_for_summary(joined)
    if len(joined) == 1 or count_text(text, counter) <= max_tokens:
        return [Chunk(joined, text)]
    if len(units) == 1:
        units = [[message] for message in joined]
    half = len(units) // 2
    return [*_fitting(units[:half], max_tokens, counter), *_fitting(units[half:], max_tokens, counter)]


def _units(messages: Sequence[Message], sizes: list[int], max_tokens: int) -> Iterator[tuple[int, int]]:
    """Runs (from, to) that stay together: from a call to its last result, or one message."""
    last = list(range(len(messages)))
    called_at: dict[str, int] = {}
    for index, message in enumerate(messages):
        for result in message.tool_result_ids:
            last[called_at.get(result, index)] = index
        called_at.update(dict.fromkeys(message.tool_call_ids, index))
    start = 0
    while start < len(messages):
        index, end = start, last[start]
        while index < end:
            index += 1
            end = max(end, last[index])
        if sum(sizes[start : end + 1]) <= max_tokens:
            yield start, end + 1
        else:
            yield from ((each, each + 1) for each in range(start, end + 1))
        start = end + 1


def slices(text: str, max_tokens: int, counter: TokenCounter) -> list[str]:
    """A text in parts of about as many tokens as are allowed: one message may be more than a model reads.

    Parts end between words: of a name that is cut in two, a model would read neither half as that name. Only a run
    without whitespace that is longer than half a part is cut anywhere."""
    tokens = counter(text)
    if tokens <= max_tokens:
        return [text]
    size = max(1, len(text) * max_tokens // tokens)
    parts: list[str] = []
    start = 0
    while start < len(text):
        end = start + size
        if end < len(text):
            end = start + (_last_space(text[start:end]) or size)
        parts.append(text[start:end])
        start = end
    return parts


def _last_space(text: str) -> int | None:
    """The index after the last whitespace in the second half of a text."""
    index = len(text)
    while index > len(text) // 2:
        if text[index - 1].isspace():
            return index
        index -= 1
    return None
