"""A summariser that is not a model: it picks the sentences that matter, offline, the same ones every time.

For laptops without a key, for tests and demos, and as a last resort when a real model is down.
"""

from __future__ import annotations

import heapq
import re
from dataclasses import dataclass

from frontdesk.errors import ConfigurationError
from frontdesk.messages.tokens import estimate_tokens
from frontdesk.models.sentences import Sentence, join, split, weigh, worth

NOTICE = "[Extract: sentences picked by rules, not written by a model]"
"""The first line of every extract."""

_TARGET = re.compile(r"<target_tokens>\s*(\d{1,9})\s*</target_tokens>")
_DEFAULT_TOKENS = 800
_MARGIN = 4


def extractive(*, max_tokens: int | None = None) -> Extractive:
    """A summariser without a model. `max_tokens` bounds every extract; a target in the prompt may ask for less.

    Raises `ConfigurationError` if `max_tokens` leaves no room for a sentence."""
    if max_tokens is not None and max_tokens < 50:
        raise ConfigurationError(f"max_tokens must be at least 50, not {max_tokens!r}")
    return Extractive(max_tokens)


@dataclass(frozen=True, slots=True)
class Extractive:
    """A callable `prompt -> text` that needs no model. It is quick and does no I/O."""

    max_tokens: int | None = None

    @property
    def name(self) -> str:
        return "extractive"

    @property
    def context_window(self) -> None:
        """It takes prompts of any size."""
        return

    def __call__(self, prompt: str) -> str:
        """Extract from what stands between `<conversation>` and `</conversation>`, and from the `<previous_summary>`
        if there is one; from the whole prompt if there are no such tags.

        Keeps to `<target_tokens>` or else 800, to `max_tokens`, and to half of what it was given, but gives at least
        one sentence. Empty for a text without any."""
        conversation, rest = _cut(prompt, "conversation")
        previous, rest = _cut(rest, "previous_summary")
        if conversation is None:
            conversation = "" if previous is not None else prompt
        old = (previous or "").replace(NOTICE, "")
        sentences = split(f"{old}\n{conversation}")
        weigh(sentences)
        return _lay_out(sentences, self._budget(rest, estimate_tokens(old) + estimate_tokens(conversation)))

    def _budget(self, instructions: str, given: int) -> int:
        target = _TARGET.search(instructions)
        wanted = int(target[1]) if target else self.max_tokens or _DEFAULT_TOKENS
        return min(wanted, self.max_tokens or wanted, given // 2)


def _cut(text: str, tag: str) -> tuple[str | None, str]:
    """What stands between the tags, or None, and the text without it.

    The conversation is data and may hold such tags itself, the instructions may name them: the first that begins a
    line opens, the last one closes."""
    opening = re.search(rf"^<{tag}>", text, re.MULTILINE) or re.search(f"<{tag}>", text)
    end = text.rfind(f"</{tag}>")
    if opening is None or end < opening.end():
        return None, text
    return text[opening.end() : end], text[: opening.start()] + text[end:]


def _lay_out(sentences: list[Sentence], budget: int) -> str:
    chosen = _choose(sentences, budget - estimate_tokens(NOTICE))
    text = _render(sentences, chosen)
    while len(chosen) > 1 and estimate_tokens(text) > budget:
        chosen.pop()
        text = _render(sentences, chosen)
    return text if chosen else ""


def _choose(sentences: list[Sentence], room: int) -> list[int]:
    """The sentences worth most that fit, each judged by what it adds to those before it; the best one in any case."""
    chosen: list[int] = []
    messages: set[int] = set()
    facts: set[str] = set()
    words: set[str] = set()
    # Worth only falls as more is known: what is still on top after a second look is the best there is.
    ranking = [(-worth(sentence, facts, words), index) for index, sentence in enumerate(sentences)]
    heapq.heapify(ranking)
    while ranking and (room >= _MARGIN or not chosen):
        _, index = heapq.heappop(ranking)
        sentence = sentences[index]
        now = worth(sentence, facts, words)
        if chosen and now <= 0:
            continue
        if ranking and -now > ranking[0][0]:
            heapq.heappush(ranking, (-now, index))
            continue
        cost = sentence.tokens + (_MARGIN if sentence.tag and sentence.message not in messages else 0)
        if cost <= room or not chosen:
            chosen.append(index)
            messages.add(sentence.message)
            facts.update(fact for fact, _ in sentence.facts)
            words |= sentence.words
            room -= cost
    return chosen


def _render(sentences: list[Sentence], chosen: list[int]) -> str:
    lines = [NOTICE]
    before: int | None = None
    for index in sorted(chosen):
        sentence = sentences[index]
        if sentence.tag and sentence.message == before:
            lines[-1] = join(lines[-1], sentence.text)
        else:
            lines.append(f"[{sentence.tag}] {sentence.text}" if sentence.tag else sentence.text)
        before = sentence.message
    return "\n".join(lines)
