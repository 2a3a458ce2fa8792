"""A summariser without a model: it selects important sentences by rules, offline and deterministically.

For machines without an API key, for tests and demos, and as a fallback when a real model is down.
"""

from __future__ import annotations

import heapq
import re
from dataclasses import dataclass

from frontdesk.errors import ConfigurationError
from frontdesk.messages.tokens import estimate_tokens
from frontdesk.models.sentences import Sentence, join, split, weigh, worth

NOTICE = "[Extract: sentences picked by rules, not written by a model]"
"""the first line of every extract"""

_TARGET = re.compile(r"<target_tokens>\s*(\d{1,9})\s*</target_tokens>")
_DEFAULT_TOKENS = 800
_MARGIN = 4


def extractive(*, max_tokens: int | None = None) -> Extractive:
    """A summariser without a model. `max_tokens` limits every extract; the prompt may ask for a shorter one.

    Raises `ConfigurationError` if `max_tokens` leaves no room for a sentence."""
    if max_tokens is not None and max_tokens < 50:
        raise ConfigurationError(f"max_tokens must be at least 50, not {max_tokens!r}")
    return Extractive(max_tokens)


@dataclass(frozen=True, slots=True)
class Extractive:
    """A callable `prompt -> text` that needs no model. It is fast and does no I/O."""

    max_tokens: int | None = None

    @property
    def name(self) -> str:
        return "extractive"

    @property
    def context_window(self) -> None:
        """None: it accepts prompts of any size."""
        return

    def __call__(self, prompt: str) -> str:
        """Select sentences from the text between `<conversation>` and `</conversation>` and from `<previous_summary>`,
        or from the whole prompt if it has no such tags.

        The extract is at most as long as `<target_tokens>` (or else 800), `max_tokens` and half of the text, but has
        at least one sentence. It is empty if the text has no sentence."""
        conversation, rest = _extract_tag(prompt, "conversation")
        previous, rest = _extract_tag(rest, "previous_summary")
        if conversation is None:
            conversation = "" if previous is not None else prompt
        old = (previous or "").replace(NOTICE, "")
        sentences = split(f"{old}\n{conversation}")
        weigh(sentences)
        return _summarise(sentences, self._budget(rest, estimate_tokens(old) + estimate_tokens(conversation)))

    def _budget(self, instructions: str, text_tokens: int) -> int:
        target = _TARGET.search(instructions)
        wanted = int(target[1]) if target else self.max_tokens or _DEFAULT_TOKENS
        return min(wanted, self.max_tokens or wanted, text_tokens // 2)


def _extract_tag(text: str, tag: str) -> tuple[str | None, str]:
    """The text inside a tag, or None, and the rest of the text.

    The conversation may contain such tags itself, and the instructions may mention them: the first opening tag at the
    start of a line and the last closing tag count."""
    opening = re.search(rf"^<{tag}>", text, re.MULTILINE) or re.search(f"<{tag}>", text)
    end = text.rfind(f"</{tag}>")
    if opening is None or end < opening.end():
        return None, text
    return text[opening.end() : end], text[: opening.start()] + text[end:]


def _summarise(sentences: list[Sentence], budget: int) -> str:
    chosen = _choose(sentences, budget - estimate_tokens(NOTICE))
    text = _render(sentences, chosen)
    while len(chosen) > 1 and estimate_tokens(text) > budget:
        chosen.pop()
        text = _render(sentences, chosen)
    return text if chosen else ""


def _choose(sentences: list[Sentence], room: int) -> list[int]:
    """The most valuable sentences that fit into `room` tokens. The best one is chosen even if it does not fit.

    What a sentence is worth depends on the sentences chosen before it: a fact that is already there counts less."""
    chosen: list[int] = []
    messages: set[int] = set()
    facts: set[str] = set()
    words: set[str] = set()
    # The worth of a sentence only decreases as others are chosen. So the top of the heap is computed again when it is
    # taken: if it still is the top, no other sentence can be worth more.
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
