"""Getting a summary out of a model: in chunks if need be, within a time limit, and again if it is no good."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from frontdesk.calls import call
from frontdesk.compaction import summaries
from frontdesk.config.settings import CompactionSettings, Model
from frontdesk.errors import CompactionError, ModelRefusedError
from frontdesk.messages import Message
from frontdesk.messages.tokens import MESSAGE_TOKENS, TokenCounter
from frontdesk.models.overflow import is_context_overflow

_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_SHARE = 0.2
_MOST_SHARE = 0.4
_LEAST_TARGET = 100
_MOST_IDENTIFIERS = 40


class _RefusedError(Exception):
    """An answer that must not be stored, and why."""


@dataclass
class Request:
    """What a summary is made from and for. `before` is what it replaces, in tokens; `calls` collects what the model
    gave, call by call, whether or not a summary comes of it (a `Completion` carries its usage)."""

    messages: Sequence[Message]
    before: int
    instructions: str | None = None
    prompt: str | None = None
    calls: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Summary:
    """A text that is good enough to be stored, and what it took to get it."""

    text: str = ""
    tokens: int = 0
    attempts: int = 0


async def summarise(settings: CompactionSettings, request: Request, counter: TokenCounter) -> Summary:
    """A summary of messages, earlier summaries among them included; tried again if it fails or is no good. Raises
    `CompactionError`, and what the model raised the last time."""
    if settings.summarize is None:
        raise CompactionError("there is no summariser: give one to `with_compaction(summarize=...)`")
    room = settings.input_tokens
    before = request.before - MESSAGE_TOKENS
    refused: str | None = None
    failure: Exception | None = None
    for attempt in range(1, settings.attempts + 1):
        try:
            text = await _condense(settings, request, counter, room, refused)
            room_for_names = min(before, counter(text) + settings.summary_tokens // 2)
            text = _with_identifiers(text, request.messages, room_for_names, counter)
            return Summary(text, counter(text) + MESSAGE_TOKENS, attempt)
        except _RefusedError as error:
            refused = str(error)
            failure = CompactionError(f"the summary was refused, at attempt {attempt}: {refused}", attempts=attempt)
        except ModelRefusedError:
            raise  # asking again gets the same answer
        except Exception as error:
            failure = error
            room = max(1, room // 2) if is_context_overflow(error) else room
    assert failure is not None
    raise failure


async def _condense(
    settings: CompactionSettings, request: Request, counter: TokenCounter, room: int, refused: str | None
) -> str:
    """Chunk after chunk, each summary extended by the next: one that is no good would lose all that went before it."""
    assert settings.summarize is not None
    messages = request.messages
    previous = messages[0].text if messages[0].is_summary else None
    rest = messages[1:] if messages[0].is_summary else messages
    again = None if refused is None else f"An earlier attempt was refused: {refused}"
    wishes = "\n".join(wish for wish in (request.instructions, again) if wish) or None
    seen = 0 if previous is None else counter(previous)
    pieces = [
        piece for chunk in summaries.split_into_chunks(rest, room, counter) for piece in _pieces(chunk, room, counter)
    ]
    for number, (piece, tokens) in enumerate(pieces, 1):
        carried = 0 if previous is None else counter(previous)
        seen += tokens
        wanted = min(settings.summary_tokens, int(carried + _SHARE * tokens), int(_MOST_SHARE * (carried + tokens)))
        target = min(max(_LEAST_TARGET, wanted), max(1, request.before // 2))
        question = summaries.build_summary_prompt(
            piece,
            previous_summary=previous,
            target_tokens=target,
            instructions=wishes,
            custom=request.prompt,
        )
        answer = await ask(settings.summarize, question, settings.timeout)
        request.calls.append(answer)
        previous = answer.replace("\0", "").encode("utf-8", "replace").decode().strip()
        replaced = seen if number < len(pieces) else request.before - MESSAGE_TOKENS
        reason = summaries.refuse_summary(previous, tokens_before=replaced, counter=counter)
        if reason is not None:
            raise _RefusedError(reason)
    return previous or ""


def _pieces(chunk: Sequence[Message], room: int, counter: TokenCounter) -> list[tuple[str, int]]:
    """A chunk as the model reads it, in slices if it is too long for one, each with its share of the tokens."""
    parts = summaries.slices(summaries.render_for_summary(chunk), room, counter)
    tokens = sum(message.tokens for message in chunk)
    return [(part, tokens // len(parts)) for part in parts]


async def ask(model: Model, prompt: str, seconds: float) -> str:
    """A model's answer; a sync callable runs in a thread. Raises `CompactionError` when time is up or it is no text."""
    try:
        async with asyncio.timeout(seconds):
            answer: Any = await call(model, prompt)
    except TimeoutError:
        raise CompactionError(f"the model did not answer within {seconds:g} seconds", seconds=seconds) from None
    if not isinstance(answer, str):
        raise CompactionError(f"a model must answer with a text, not with {type(answer).__name__}")
    return answer


def used(calls: Sequence[Any]) -> dict[str, int]:
    """The tokens that a model's answers took, as far as they say."""
    usages = [usage for answer in calls if (usage := getattr(answer, "usage", None)) is not None]
    return {name: sum(int(getattr(usage, name, 0) or 0) for usage in usages) for name in _TOKENS}


def _with_identifiers(text: str, messages: Sequence[Message], before: int, counter: TokenCounter) -> str:
    """The summary with the identifiers that it dropped, as many as fit without outgrowing what it replaces."""
    needed = [name for message in messages for name in summaries.identifiers(summaries.render_for_summary([message]))]
    needed += summaries.quoted_by_user(messages)
    needed = [name for message in messages if message.is_summary for name in summaries.listed(message.text)] + needed
    for limit in (_MOST_IDENTIFIERS, _MOST_IDENTIFIERS // 4):
        longer = summaries.keep_identifiers(text, needed, limit)
        if counter(longer) < before:
            return longer
    return text
