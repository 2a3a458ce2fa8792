"""Gets a summary from a model: in several chunks if necessary, within a time limit, and again if an answer is
unusable."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from frontdesk.calls import call
from frontdesk.compaction.chunks import Chunk, slices, split_into_chunks
from frontdesk.compaction.identifiers import identifiers, keep_identifiers, listed, quoted_by_user
from frontdesk.compaction.prompts import build_summary_prompt
from frontdesk.compaction.render import render_for_summary
from frontdesk.config.settings import CompactionSettings, Model
from frontdesk.errors import CompactionError, ModelRefusedError
from frontdesk.messages import Message
from frontdesk.messages.counting import count_text
from frontdesk.messages.tokens import MESSAGE_TOKENS, TokenCounter
from frontdesk.models.overflow import is_context_overflow

_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_SHARE = 0.2
_MOST_SHARE = 0.4
_LEAST_TARGET = 100
_MOST_IDENTIFIERS = 40


class _UnusableSummaryError(Exception):
    """An answer that must not be stored, and why."""


@dataclass(frozen=True)
class Summary:
    """A text that is good enough to be stored, what it costs as a message, and how many attempts it took."""

    text: str
    tokens: int
    attempts: int


class Summariser:
    """Asks the model for summaries. `answers` holds every answer to the last request, whether or not a summary came of
    it: one that is a `Completion` carries its usage."""

    def __init__(
        self,
        settings: CompactionSettings,
        counter: TokenCounter,
        instructions: str | None = None,
        prompt: str | None = None,
    ) -> None:
        self.answers: list[Any] = []
        self._settings = settings
        self._count = counter
        self._instructions = instructions
        self._prompt = prompt

    async def summarise(self, messages: Sequence[Message], before: int) -> Summary:
        """A summary of messages, earlier summaries among them included, that is to replace `before` tokens.

        Tried again if it fails or is no good. Raises `CompactionError`, and what the model raised the last time."""
        settings, self.answers = self._settings, []
        if settings.summarize is None:
            raise CompactionError("there is no summariser: give one to `with_compaction(summarize=...)`")
        room = settings.input_tokens
        refused: str | None = None
        failure: Exception | None = None
        for attempt in range(1, settings.attempts + 1):
            try:
                text = await self._condense(settings.summarize, messages, before, room, refused)
                room_for_names = min(before - MESSAGE_TOKENS, self._count(text) + settings.summary_tokens // 2)
                text = _with_identifiers(text, messages, room_for_names, self._count)
                return Summary(text, self._count(text) + MESSAGE_TOKENS, attempt)
            except _UnusableSummaryError as error:
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
        self, model: Model, messages: Sequence[Message], before: int, room: int, refused: str | None
    ) -> str:
        """Chunk after chunk, each summary extended by the next one.

        Each is checked: one that is no good would lose everything before it."""
        previous = messages[0].text if messages[0].is_summary else None
        rest = messages[1:] if messages[0].is_summary else messages
        again = None if refused is None else f"An earlier attempt was refused: {refused}"
        wishes = "\n".join(wish for wish in (self._instructions, again) if wish) or None
        seen = 0 if previous is None else self._count(previous)
        chunks = split_into_chunks(rest, room, self._count)
        pieces = [piece for chunk in chunks for piece in _pieces(chunk, room, self._count)]
        for number, (piece, tokens) in enumerate(pieces, 1):
            carried = 0 if previous is None else self._count(previous)
            seen += tokens
            question = build_summary_prompt(
                piece,
                previous_summary=previous,
                target_tokens=self._target(carried, tokens, before),
                instructions=wishes,
                custom=self._prompt,
            )
            answer = await ask(model, question, self._settings.timeout)
            self.answers.append(answer)
            previous = answer.replace("\0", "").encode("utf-8", "replace").decode().strip()
            replaced = seen if number < len(pieces) else before - MESSAGE_TOKENS
            reason = refuse_summary(previous, tokens_before=replaced, counter=self._count)
            if reason is not None:
                raise _UnusableSummaryError(reason)
        return previous or ""

    def _target(self, carried: int, tokens: int, before: int) -> int:
        """How long a summary shall be that extends one of `carried` tokens by `tokens` more."""
        wanted = min(
            self._settings.summary_tokens, int(carried + _SHARE * tokens), int(_MOST_SHARE * (carried + tokens))
        )
        return min(max(_LEAST_TARGET, wanted), max(1, before // 2))


def _pieces(chunk: Chunk, room: int, counter: TokenCounter) -> list[tuple[str, int]]:
    """A chunk as the model reads it, in slices if it is too long for one call, each with its share of the tokens."""
    parts = slices(chunk.text, room, counter)
    tokens = sum(message.tokens for message in chunk.messages)
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


def total_usage(answers: Sequence[Any]) -> dict[str, int]:
    """The tokens that a model's answers took, as far as they say."""
    usages = [usage for answer in answers if (usage := getattr(answer, "usage", None)) is not None]
    return {name: sum(int(getattr(usage, name, 0) or 0) for usage in usages) for name in _TOKENS}


def refuse_summary(summary: str, *, tokens_before: int, counter: TokenCounter) -> str | None:
    """Why this summary must not be stored in place of `tokens_before` tokens, None where it may."""
    if not any(map(str.isalnum, summary)):
        return "the summary is empty"
    tokens = count_text(summary, counter)
    if tokens >= tokens_before:
        return f"the summary has {tokens} tokens, not fewer than the {tokens_before} it replaces"
    return None


def _with_identifiers(text: str, messages: Sequence[Message], before: int, counter: TokenCounter) -> str:
    """The summary with the identifiers that it dropped, as many as fit without outgrowing what it replaces."""
    needed = [name for message in messages for name in identifiers(render_for_summary([message]))]
    needed += quoted_by_user(messages)
    needed = [name for message in messages if message.is_summary for name in listed(message.text)] + needed
    for limit in (_MOST_IDENTIFIERS, _MOST_IDENTIFIERS // 4):
        longer = keep_identifiers(text, needed, limit)
        if counter(longer) < before:
            return longer
    return text
