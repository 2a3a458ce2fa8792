"""Getting a summary out of a model: in chunks if need be, within a time limit, and again if it is no good."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from frontdesk.calls import call
from frontdesk.compaction import summaries
from frontdesk.compaction.settings import CompactionSettings, Model
from frontdesk.errors import CompactionError
from frontdesk.messages import Message
from frontdesk.tokens import MESSAGE_TOKENS, TokenCounter

_SHARE = 0.2
_LEAST_TARGET = 100
_MOST_IDENTIFIERS = 40


@dataclass
class Summary:
    """A text that is good enough to be stored, and what it took to get it."""

    text: str = ""
    tokens: int = 0
    attempts: int = 0
    calls: list[Any] = field(default_factory=list)
    """what the model gave, call by call; a `Completion` carries its usage"""


async def summarise(
    settings: CompactionSettings,
    messages: Sequence[Message],
    counter: TokenCounter,
    *,
    instructions: str | None = None,
    prompt: str | None = None,
) -> Summary:
    """A summary of these messages, earlier summaries among them included. Raises `CompactionError`, and what the model
    raises."""
    if settings.summarize is None:
        raise CompactionError("there is no summariser: give one to `with_compaction(summarize=...)`")
    made = Summary()
    before = sum(message.tokens for message in messages)
    reason: str | None = None
    for made.attempts in range(1, settings.attempts + 1):
        text = await _condense(settings, messages, counter, made, instructions, prompt, reason)
        reason = summaries.refuse_summary(text, tokens_before=before - MESSAGE_TOKENS, counter=counter)
        if reason is None:
            made.text = _with_identifiers(text, messages, before - MESSAGE_TOKENS, counter)
            made.tokens = counter(made.text) + MESSAGE_TOKENS
            return made
    raise CompactionError(f"the summary was refused {made.attempts} times: {reason}", attempts=made.attempts)


async def _condense(
    settings: CompactionSettings,
    messages: Sequence[Message],
    counter: TokenCounter,
    made: Summary,
    instructions: str | None,
    prompt: str | None,
    refused: str | None,
) -> str:
    """Chunk after chunk, each summary extended by the next."""
    assert settings.summarize is not None
    previous = messages[0].text if messages[0].is_summary else None
    rest = messages[1:] if messages[0].is_summary else messages
    again = None if refused is None else f"An earlier attempt was refused: {refused}"
    wishes = "\n".join(wish for wish in (instructions, again) if wish) or None
    seen = 0 if previous is None else counter(previous)
    for chunk in summaries.split_into_chunks(rest, settings.input_tokens, counter):
        seen += sum(message.tokens for message in chunk)
        target = max(_LEAST_TARGET, min(settings.summary_tokens, int(seen * _SHARE)))
        question = summaries.build_summary_prompt(
            summaries.render_for_summary(chunk),
            previous_summary=previous,
            target_tokens=target,
            instructions=wishes,
            custom=prompt,
        )
        answer = await ask(settings.summarize, question, settings.timeout)
        made.calls.append(answer)
        if not answer.strip():
            return ""
        previous = answer.strip()
    return previous or ""


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


def _with_identifiers(text: str, messages: Sequence[Message], before: int, counter: TokenCounter) -> str:
    """The summary with the identifiers that it dropped, as many as fit without outgrowing what it replaces."""
    needed = [name for message in messages for name in summaries.identifiers(summaries.render_for_summary([message]))]
    needed += summaries.quoted_by_user(messages)
    for limit in (_MOST_IDENTIFIERS, _MOST_IDENTIFIERS // 4):
        longer = summaries.keep_identifiers(text, needed, limit)
        if counter(longer) < before:
            return longer
    return text
