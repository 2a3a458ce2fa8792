"""Splits a conversation into sentences and weighs them by rules. `extractive` chooses from them.

Separate from prompts and budgets, so that the weights can be read and tested on their own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Set
from dataclasses import dataclass

from frontdesk.messages.tokens import estimate_tokens

_TAG = re.compile(
    r"\[((user|assistant|system|developer|(?:earlier )?summary|tool)\b[^\]\n]{0,120})\][ \t]*", re.IGNORECASE
)
_CJK_END = "。！？｡"  # noqa: RUF001
_CJK_CLOSE = "」』”’）"  # noqa: RUF001
_SENTENCE_END = re.compile(
    rf"(?<=[.!?…])\s+|(?<=[{_CJK_END}])(?![{_CJK_END}{_CJK_CLOSE}])\s*|(?<=[{_CJK_END}][{_CJK_CLOSE}])\s*"
)
_PIECE = re.compile(r".{1,300}(?:\s|$)|.{1,300}")
_LONG = 300

# Facts that a summary must not lose, in groups of different weight. A short number alone says little.
_FACT = re.compile(
    r"""
      (?P<strong> https?://[^\s<>"')]+ | [\w.+-]+@[\w-]+\.[\w.]+ | `[^`\n]{1,120}`
        | \b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,27}\b | \b(?=[a-f]*\d)[0-9a-f]{7,64}\b )
    | (?P<path> (?:[A-Za-z]:\\|~?/|\.{1,2}/)[\w.\\/@-]*\w | \b[\w-]+(?:/[\w.-]+)+ | \b[A-Za-z_][\w-]*\.[a-z]{2,5}\b )
    | (?P<name> \b[A-Za-z]+_\w+ | \b[A-Z]{2,}-\d+\b | \b[a-z]+[A-Z]\w+ | \b(?:[A-Z][a-z0-9]+){2,}\b
        | \b[A-Z][A-Z0-9]+\b )
    | (?P<figure> [$€£¥#]\d[\d.,:/-]*(?:%|\b) | \d{3,}(?:[.,:/-]\d+)*(?:%|\b) | \d+(?:[.,:/-]\d+)+(?:%|\b) )
    | (?P<number> \d+(?:%|\b) )
    | (?P<proper> (?<=[a-z,]\ )[A-Z][a-zà-ÿ]+ )
    """,
    re.VERBOSE,
)
_FACT_WEIGHTS = {"strong": 2.0, "path": 1.5, "name": 1.2, "figure": 1.5, "number": 0.5, "proper": 0.8}
_MAX_FACT_WEIGHT = 10.0
_FIRST_MENTION = 0.8
_LAST_MENTION = 0.4

_DECISION = re.compile(
    r"\b(?:agreed|always|approved?|chose|chosen|conclusion|deadline|decid\w+|decision|errors?|exception|fail\w*|goal"
    r"|instead|must|never|prefer\w*|remember|requires?|resolved|root cause|traceback)\b"
    r"|决定|必须|不要|记住|同意|偏好|决策|決め|決定|必要|べき|解决|修复|错误|失败|결정|해야|오류",
    re.IGNORECASE,
)
_INTENT = re.compile(
    r"\b(?:because|blocked|bugs?|cannot|done|don't|fixed|important|need\w*|next|plan\w*|should|switch\w*|task|todo"
    r"|want\w*|will)\b"
    r"|需要|应该|計画|ください|필요",
    re.IGNORECASE,
)
_CHATTER = re.compile(
    r"\W*(?:sure|certainly|of course|great|perfect|absolutely|thanks?|thank you|hello|hi\b|you're welcome|no problem"
    r"|okay|ok\b|happy to|glad|i'd be happy|let me know|feel free|sounds good|i hope"
    r"|好的|谢谢|不客气|わかりました|ありがとう|네\b)",
    re.IGNORECASE,
)
_QUESTION = re.compile(rf"[?？][\"')\]{_CJK_CLOSE}]*$")  # noqa: RUF001

_VOICES = {"user": 1.6, "summary": 1.4, "earlier": 1.4, "assistant": 1.0, "system": 0.8, "developer": 0.8, "tool": 0.35}
_PLAIN = 1.0
_WORD = re.compile(r"\w{4,}")
_EMPTY = 7
_SCRAP = 8
_KNOWN = 0.5
_REPEATED = 0.3


@dataclass(slots=True)
class Sentence:
    """One sentence, the number of its message, the tag of its message (without brackets), and its tokens.

    `weight` is its weight without its facts. The sum of both is multiplied by `voice`, which depends on the speaker."""

    text: str
    message: int
    tag: str
    tokens: int
    facts: tuple[tuple[str, float], ...]
    words: frozenset[str]
    weight: float = 0.0
    voice: float = 1.0


def split(text: str) -> list[Sentence]:
    """The sentences of a text in their order, without repetitions. A line that starts with a tag such as `[user]`
    starts a message."""
    seen: set[str] = set()
    sentences: list[Sentence] = []
    message, tag = 0, ""
    for line in text.splitlines():
        if found := _TAG.match(line):
            message, tag, line = message + 1, found[1].strip(), line[found.end() :]
        for part in _parts(line) if line else ():
            if part not in seen:
                seen.add(part)
                sentences.append(Sentence(part, message, tag, estimate_tokens(part) + 1, _facts(part), _words(part)))
    return sentences


def join(before: str, after: str) -> str:
    """Join two sentences of one message, without a space in scripts that have none."""
    return before + after if before.endswith(tuple(_CJK_END + _CJK_CLOSE)) else f"{before} {after}"


def _parts(line: str) -> Iterator[str]:
    for part in _SENTENCE_END.split(line):
        pieces = _PIECE.findall(part) if len(part) > _LONG else (part,)
        for piece in pieces:
            if stripped := piece.strip():
                yield stripped


def _facts(sentence: str) -> tuple[tuple[str, float], ...]:
    return tuple((found[0], _FACT_WEIGHTS[found.lastgroup or "proper"]) for found in _FACT.finditer(sentence))


def _words(sentence: str) -> frozenset[str]:
    return frozenset(_WORD.findall(sentence.casefold()))


def weigh(sentences: list[Sentence]) -> None:
    """Set the weights of each sentence and its facts, by its words, its speaker, and its position."""
    if not sentences:
        return
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for index, sentence in enumerate(sentences):
        for fact, _ in sentence.facts:
            first.setdefault(fact, index)
            last[fact] = index
    opening = next((sentence.message for sentence in sentences if sentence.tag.lower() == "user"), None)
    closing = sentences[-1].message
    for index, sentence in enumerate(sentences):
        sentence.facts = tuple(
            (fact, value + (first[fact] == index) * _FIRST_MENTION + (last[fact] == index) * _LAST_MENTION)
            for fact, value in sentence.facts
        )
        sentence.weight = 0.1 + _statement(sentence) + _ending(sentence, closing)
        sentence.weight += 2.0 * (sentence.message == opening) - 2.0 * bool(_CHATTER.match(sentence.text))
        sentence.voice = _VOICES.get(sentence.tag.partition(" ")[0].lower(), _PLAIN)


def _statement(sentence: Sentence) -> float:
    """The weight of words of decision or intent. Very short sentences count less: "I will." alone says nothing."""
    weight = 1.8 * bool(_DECISION.search(sentence.text)) or 1.0 * bool(_INTENT.search(sentence.text))
    return weight * min(1.0, max(0, sentence.tokens - _EMPTY) / _EMPTY)


def _ending(sentence: Sentence, closing: int) -> float:
    """The weight of being at the end: the last messages describe the current state, and their questions are open."""
    is_late = sentence.message >= closing - 1
    return is_late * (1.0 + bool(_QUESTION.search(sentence.text)))


def worth(sentence: Sentence, known_facts: Set[str], known_words: Set[str]) -> float:
    """What a sentence adds to a selection that already has these facts and words."""
    news = sum(value * (_KNOWN if fact in known_facts else 1.0) for fact, value in sentence.facts)
    weight = sentence.weight
    if weight > 0 and sentence.words:
        weight *= 1 - _REPEATED * len(sentence.words & known_words) / len(sentence.words)
    # Divided by the root of the length: divided by the length, fragments of two words would always win.
    return (min(_MAX_FACT_WEIGHT, news) + weight) * sentence.voice / math.sqrt(max(sentence.tokens, _SCRAP))
