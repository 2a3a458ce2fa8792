"""Gets a summary from a model: in several chunks if necessary, within a time limit, and again if an answer is
unusable."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
from frontdesk.models.overflow import context_limit, is_context_overflow

_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_SHARE = 0.2
_MOST_SHARE = 0.4
_LEAST_TARGET = 100
_MOST_IDENTIFIERS = 40
_MARGIN = 0.8
_LEAST_ROOM = 16


class _UnusableSummaryError(Exception):
    """An answer that must not be stored, and why."""


class _TooLongError(Exception):
    """The model cannot read a prompt with a piece of this many tokens, for this reason."""

    def __init__(self, tokens: int, reason: Exception) -> None:
        self.tokens = tokens
        self.reason = reason


class _Room(NamedTuple):
    """How many tokens of the conversation a prompt may have, and how many a summary."""

    input: int
    summary: int


@dataclass(frozen=True)
class Summary:
    """A text that is good enough to be stored, what it costs as a message, and how many attempts it took."""

    text: str
    tokens: int
    attempts: int


class Summariser:
    """Asks the model for summaries. `answers` holds every answer to the last request, whether or not a summary came of
    it: one that is a `Completion` carries its usage. `attempts` counts the attempts of the last request."""

    def __init__(
        self,
        settings: CompactionSettings,
        counter: TokenCounter,
        instructions: str | None = None,
        prompt: str | None = None,
    ) -> None:
        self.answers: list[Any] = []
        self.attempts = 0
        self._answered: dict[str, str] = {}
        """question -> answer, of the last request"""
        self._settings = settings
        self._count = counter
        self._instructions = instructions
        self._prompt = prompt

    async def summarise(self, messages: Sequence[Message], before: int) -> Summary:
        """A summary of messages, earlier summaries among them included, that replaces `before` tokens.

        Tried again if it fails or is unusable. Raises `CompactionError`, and what the model raised the last time."""
        settings, self.answers, self._answered = self._settings, [], {}
        if settings.summarize is None:
            raise CompactionError("there is no summariser: pass one to `with_compaction(summarize=...)`")
        room = _Room(settings.input_tokens, settings.summary_tokens)
        refused: str | None = None
        failure: Exception | None = None
        attempt = 1
        while attempt <= settings.attempts:
            self.attempts = attempt
            try:
                text = await self._condense(settings.summarize, messages, before, room, refused)
                room_for_names = min(before - MESSAGE_TOKENS, self._count(text) + settings.summary_tokens // 2)
                text = _with_identifiers(text, messages, room_for_names, self._count)
                return Summary(text, self._count(text) + MESSAGE_TOKENS, attempt)
            except _TooLongError as error:
                # No attempt was made: the model was asked more than it can read. The room shrinks each time.
                room = self._smaller(room, error)
                continue
            except _UnusableSummaryError as error:
                refused = str(error)
                failure = CompactionError(f"the summary was refused, at attempt {attempt}: {refused}", attempts=attempt)
            except ModelRefusedError:
                raise  # asking again gets the same answer
            except Exception as error:
                failure = error
            attempt += 1
        assert failure is not None
        raise failure

    def _smaller(self, room: _Room, error: _TooLongError) -> _Room:
        """The room for the next try after a prompt that was too long: by the limit that the model names, if it does,
        and in any case less than what was too long. Raises what the model raised if there is nothing left to split."""
        limit = context_limit(error.reason)
        summary, named = room.summary, room.input
        if limit is not None:
            summary = max(1, min(summary, limit // 8))
            # Previous summary and answer need room, too, and the provider may count more tokens than we do.
            named = int((limit - self._count(self._question("", "", 0, None))) * _MARGIN) - 2 * summary
        if named >= error.tokens or named < _LEAST_ROOM:
            named = error.tokens // 2
        if named < _LEAST_ROOM:
            raise error.reason
        return _Room(named, summary)

    async def _condense(
        self, model: Model, messages: Sequence[Message], before: int, room: _Room, refused: str | None
    ) -> str:
        """Chunk after chunk, each summary extended by the next one.

        Each is checked: an unusable one would lose everything before it."""
        previous = messages[0].text if messages[0].is_summary else None
        if previous is not None and self._count(previous) > room.input // 2:
            previous = None  # it takes too much room: it is read in chunks, like the rest
        rest = messages if previous is None else messages[1:]
        seen = 0 if previous is None else self._count(previous)
        chunks = split_into_chunks(rest, room.input, self._count)
        pieces = [piece for chunk in chunks for piece in _pieces(chunk, room.input, self._count)]
        for number, (piece, tokens) in enumerate(pieces, 1):
            carried = 0 if previous is None else self._count(previous)
            seen += tokens
            target = self._target(carried, tokens, before, room.summary)
            question = self._question(piece, previous, target, refused)
            answer = await self._ask(model, question, self._count(piece))
            previous = answer.replace("\0", "").encode("utf-8", "replace").decode().strip()
            replaced = seen if number < len(pieces) else before - MESSAGE_TOKENS
            reason = refuse_summary(previous, tokens_before=replaced, counter=self._count)
            if reason is not None:
                self._answered.pop(question, None)
                raise _UnusableSummaryError(reason)
        return previous or ""

    def _question(self, piece: str, previous: str | None, target: int, refused: str | None) -> str:
        again = None if refused is None else f"An earlier attempt was refused: {refused}"
        wishes = "\n".join(wish for wish in (self._instructions, again) if wish) or None
        return build_summary_prompt(
            piece, previous_summary=previous, target_tokens=target, instructions=wishes, custom=self._prompt
        )

    async def _ask(self, model: Model, question: str, tokens: int) -> str:
        """The answer to a question about a piece of this many tokens; one that was answered before is not asked again.
        Raises `_TooLongError`."""
        if question in self._answered:
            return self._answered[question]
        try:
            answer = await ask(model, question, self._settings.timeout)
        except Exception as error:
            if is_context_overflow(error):
                raise _TooLongError(tokens, error) from error
            raise
        self.answers.append(answer)
        self._answered[question] = answer
        return answer

    def _target(self, carried: int, tokens: int, before: int, most: int) -> int:
        """How long a summary should be that extends one of `carried` tokens by `tokens` more."""
        wanted = min(most, int(carried + _SHARE * tokens), int(_MOST_SHARE * (carried + tokens)))
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
    """The tokens that a model's answers took, if they say so."""
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
