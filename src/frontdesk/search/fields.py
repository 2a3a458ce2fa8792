"""Terms for what is known of a text besides its words: who wrote it, in which role, when, and whether it is a question.

*Marks* are indexed like words, so that a search gets them with its matches and can rank by them. Their first character
is one with which no term of a text starts. *Facets* are kept apart from words, and make filters cheap."""

# ruff: noqa: RUF001 (punctuation of other scripts is meant)
from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from functools import lru_cache

from frontdesk.moments import DAY
from frontdesk.search.tokeniser import Tokeniser, fold
from frontdesk.store import TextKind

AUTHOR_MARK = "@"
USER, ASSISTANT = "~user", "~assistant"
"""the terms of texts of these two roles"""
QUESTION = "?"
"""the term of a text that ends with a question"""

ROLE_MARKS = {"user": (USER,), "assistant": (ASSISTANT,)}
# The name before the colon of a line in a transcript: one to three capitalised words, such as "Ana Lima: hello".
_SPEAKER = re.compile(r"\W{0,2}([^\W\d_a-z][^\W_]{1,20}(?:[ .'’-]{1,2}[^\W\d_a-z][^\W_]{0,20}){0,2})\W{0,2}(?::\s|：)")
_QUESTION_MARKS = "?？؟"
_TAIL = 80
_AFTER_QUESTION = re.compile(r"(?:\s*\[[^\]]*\]?|[^\w?？؟]+)$")


def speaker_of(text: str) -> str | None:
    """The name with which a text starts if it is a line of a transcript, such as "Ana: hello"."""
    found = _SPEAKER.match(text)
    return found[1] if found else None


def text_terms(text: str, author: str | None, role: str, tokeniser: Tokeniser) -> list[str]:
    """The terms of a text, preceded by those for its author, its role and the question in it. If an author is known,
    the text starts with the name, which is not repeated as words."""
    words = tokeniser.terms(text[len(author) + 2 :] if author else text)
    marks = list(_author_terms(author or speaker_of(text) or "", tokeniser))
    marks += ROLE_MARKS.get(role, ())
    if is_question(text):
        marks.append(QUESTION)
    return marks + words


@lru_cache(maxsize=4096)
def _author_terms(name: str, tokeniser: Tokeniser) -> tuple[str, ...]:
    return tuple(AUTHOR_MARK + term for term in dict.fromkeys(tokeniser.terms(name)))


def is_question(text: str) -> bool:
    """Whether the last sentence of a text is a question. What follows in brackets, such as a picture, does not count,
    nor do signs and emoji."""
    if "?" not in text and text.isascii():
        return False
    end = text[-_TAIL:].rstrip()
    while end and end[-1] not in _QUESTION_MARKS:
        shorter = _AFTER_QUESTION.sub("", end)
        if shorter == end:
            return False
        end = shorter
    return bool(end)


# facets

KINDS: dict[TextKind, str] = {"message": "km", "edit": "ke", "overlay": "ko", "session": "ks"}
_MAX_NAME = 64
_NAME_SEPARATORS = re.compile(r"[\s._@+\u2010\u2011-]+")
# Earlier and later days count as the first or the last one: hits are checked against the exact time anyway.
_FIRST, _LAST = date(1970, 1, 1), date(2099, 12, 31)


def facets_of(kind: TextKind, role: str, at: int) -> list[str]:
    """The facets of a text, without those of its author. The text of a session has no time: its time is the last
    activity, which changes."""
    facets = [KINDS[kind]]
    if role:
        facets.append(role_facet(role))
    if kind != "session":
        facets += _times(at // DAY)
    return facets


@lru_cache(maxsize=4096)
def _times(days: int) -> list[str]:
    day = _day(days)
    return [f"t{day.year // 10}", f"y{day.year}", f"m{day:%Y%m}", f"d{day:%Y%m%d}"]


@lru_cache(maxsize=256)
def role_facet(role: str) -> str:
    return "r" + role.lower().encode("utf-8", "surrogatepass").hex()


@lru_cache(maxsize=4096)
def author_facets(name: str) -> tuple[str, ...]:
    """The facets of a text by this author: the name, each word of it, and the parts of an address."""
    parts = (*re.split(r"[\s@]+", name), *_NAME_SEPARATORS.split(name))
    return tuple(dict.fromkeys(map(author_facet, (name, *filter(None, parts)))))


def author_facet(name: str) -> str:
    """The facet of texts by an author with this name, or with this word in the name, in any case. Names are the same if
    they differ in spaces, hyphens and dots: Ana-Lima, ana.lima."""
    return "a" + (_NAME_SEPARATORS.sub("", fold(name)) or fold(name))[:_MAX_NAME].encode("utf-8", "surrogatepass").hex()


def period_facets(after: int | None, before: int | None) -> tuple[str, ...]:
    """Facets for a period: every text from `after` up to `before` has one of them, all sessions too, and few others."""
    first = _FIRST if after is None else _day(after // DAY)
    last = _LAST if before is None else _day((before - 1) // DAY)
    return (KINDS["session"], *_cover(first, last))


def _day(days: int) -> date:
    """The date that is a number of days after 1970-01-01, within the supported range."""
    return _FIRST + timedelta(days=min(max(days, 0), (_LAST - _FIRST).days))


def _cover(day: date, last: date) -> Iterator[str]:
    """The facets of the decades, years, months and days that together are the period from `day` to `last`.

    For 2024-12-30 to 2026-01-01: d20241230, d20241231, y2025, d20260101."""
    while day <= last:
        for name, end in (
            (f"t{day.year // 10}", date(day.year // 10 * 10 + 9, 12, 31)),
            (f"y{day.year}", date(day.year, 12, 31)),
            (f"m{day:%Y%m}", _end_of_month(day)),
            (f"d{day:%Y%m%d}", day),
        ):
            start = {"t": date(day.year // 10 * 10, 1, 1), "y": date(day.year, 1, 1), "m": day.replace(day=1), "d": day}
            if day == start[name[0]] and end <= last:
                yield name
                day = end + timedelta(days=1)
                break


def _end_of_month(day: date) -> date:
    return (day.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)
