"""Pure: durable facts as text. Cleans what a model extracted, recognises the same fact, and adds facts to a block."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_SIGN = re.compile(r"\s*(?:[-*+](?:\s+|(?=[^\x00-\x7f]))(?:\[[ xX]\]\s+)?|[•‣⁃∙◦●○▪▫■□◆◇·・►➢➤※－＊–—]\s*)")  # noqa: RUF001
_NUMBER = re.compile(
    r"\s*(?:\d{1,3}[.)](?:\s+|(?=[^\x00-\x7f]))|\d{1,3}[、．）]\s*|[(（]\d{1,3}[)）]\s*|[①-⑳]\s*|[一二三四五六七八九十]{1,3}[、．]\s*)"  # noqa: RUF001
)
_FENCE = re.compile(r"\s*(?:```|~~~)\s*[\w+-]*\s*")
_HEADING = re.compile(r"#{1,6}\s|.*[:：][*_]*$")  # noqa: RUF001
_NOTHING = re.compile(r"\W*no[ _-]memory[ _-]needed\b", re.IGNORECASE)
_AROUND = " .,:;。、！!`'\"‘’“”«»「」『』*"  # noqa: RUF001

_TRANSIENT_PHRASES = (
    "workspace root|artifact root|stdout|stderr|exit codes?|trace ids?|run ids?|approval requested|approval resolved|"
    "pending approvals?|tool calls?|tool outputs?|audit trails?|stack traces?|debug logs?|uploaded files?|"
    "uploaded attachments?|attachment paths?|screenshots? attached|temporary files?|temp files?|ephemeral uploads?|"
    "session ids?|conversation ids?|system prompts?|prompt injection defen[cs]es?|raw tool payloads?"
)
# Whole words in the ASCII sense: Chinese and Japanese write their neighbours without a space.
_TRANSIENT = re.compile(
    r"/tmp/|(?<![\w.])\.tmp/|/mnt/user-data/(?:workspace|uploads|outputs)"  # noqa: S108
    rf"|\b(?:{_TRANSIENT_PHRASES.replace(' ', '[ _-]?')})\b",
    re.IGNORECASE | re.ASCII,
)
_PREFERENCE = re.compile(
    r"\b(?:preferences?|prefer(?:s|red)?|likes|dislikes|wants|expects|defaults?)\b", re.IGNORECASE | re.ASCII
)
_PROJECT = re.compile(
    r"\b(?:projects?|repos?|repository|repositories|working\s+on|codebases?|uses|builds)\b", re.IGNORECASE | re.ASCII
)


def normalise_memory(text: str) -> list[str]:
    """The durable facts of an extractor's answer, one line each, without bullets and backticks.

    Lines that say nothing, are true only for the moment, or repeat an earlier line are dropped. Preferences come first,
    then what is about projects, then the rest, each in the given order. Empty if there is nothing to remember.
    """
    seen: set[str] = set()
    buckets: tuple[list[str], list[str], list[str]] = ([], [], [])
    for line in text.splitlines():
        fact = "" if _FENCE.fullmatch(line) else _without_marker(_one_line(line))
        key = _key(fact)
        if not key or key in seen or _HEADING.match(fact) or _NOTHING.match(fact) or _TRANSIENT.search(fact):
            continue
        seen.add(key)
        buckets[0 if _PREFERENCE.search(fact) else 1 if _PROJECT.search(fact) else 2].append(fact)
    return [fact for bucket in buckets for fact in bucket]


def memory_fingerprint(fact: str) -> str:
    """The same text for facts that differ only in bullet, case, width, spacing, quotes or the full stop."""
    return _key(_without_marker(_one_line(fact)))


def merge_memory(existing: str, facts: Sequence[str]) -> str:
    """`existing`, untouched, and below it a bullet line for each fact that none of its lines states yet."""
    known = {memory_fingerprint(line) for line in existing.splitlines()}
    added: list[str] = []
    for given in facts:
        fact = _without_signs(_one_line(given))
        key = _key(fact)
        if key and key not in known:
            known.add(key)
            added.append(f"- {fact}")
    if not added:
        return existing
    gap = "" if not existing or existing.endswith("\n") else "\n"
    return existing + gap + "\n".join(added)


def _one_line(text: str) -> str:
    return " ".join(text.replace("`", "").split())


def _without_signs(line: str) -> str:
    while sign := _SIGN.match(line):
        line = line[sign.end() :]
    return line


def _without_marker(line: str) -> str:
    """Without bullet or list number; a number after a bullet is part of the fact, such as a date."""
    rest = _without_signs(line)
    if rest != line:
        return rest
    number = _NUMBER.match(line)
    return line[number.end() :] if number else line


def _key(fact: str) -> str:
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", fact).casefold())
    return " ".join(folded.strip(_AROUND).split()) if any(map(str.isalnum, folded)) else ""
