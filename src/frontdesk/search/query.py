"""Parsing queries. Any text is a valid query: what is not an operator is searched for as words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

from frontdesk.moments import to_microseconds
from frontdesk.search.scripts import IS_SPACELESS, RUN
from frontdesk.search.stopwords import BY_LANGUAGE, BY_SCRIPT
from frontdesk.search.tokeniser import Tokeniser, fold

MAX_CHARACTERS = 10_000
"""how much of a query is read"""
MAX_TERMS = 1024
"""how many words of a query are kept; the ranking uses the rarest of them"""
MAX_CLAUSES = 32
"""how many phrases, prefixes, exclusions and values of each filter are kept"""

T = TypeVar("T")
Phrase = tuple[tuple[str, ...], ...]
"""stretches of terms; the terms of a stretch are adjacent in a text"""

_CLAUSE = re.compile(
    r'(?P<out>(?<!\S)-(?=[^\s-]))?(?:(?P<name>(?<![^\s-])[A-Za-z]+):)?(?:["“„”](?P<quoted>[^"“„”]*)["“„”]|(?P<word>[^\s"“„”]+))'
)
_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?$", re.ASCII)


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query. Times are microseconds since 1970 in UTC, including `after` and excluding `before`.

    A text matches if it contains every phrase, none of the excluded phrases, and at least one of the words and prefixes
    if there are any. `words` are in the order of the query, without repetitions, and include those of the phrases."""

    words: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    phrases: tuple[Phrase, ...] = ()
    excluded: tuple[Phrase, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    """words that are adjacent in the query"""
    roles: frozenset[str] = frozenset()
    sessions: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    after: int | None = None
    before: int | None = None
    text: str = field(default="", compare=False)
    """the query without filters, prefixes and exclusions"""

    @property
    def has_terms(self) -> bool:
        """Whether there are words or prefixes, by which texts can be ranked."""
        return bool(self.words or self.prefixes)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to search for, and no filter."""
        return self == _EMPTY


_EMPTY = Query()


def parse(text: str, tokeniser: Tokeniser) -> Query:
    """Parse a query. Never raises, whatever the text contains."""
    parser = _Parser(tokeniser)
    for clause in _CLAUSE.finditer(text[:MAX_CHARACTERS]):
        parser.add_clause(clause)
    return parser.query()


class _Parser:
    """Collects the clauses of a query one after the other."""

    def __init__(self, tokeniser: Tokeniser) -> None:
        self._tokeniser = tokeniser
        self._terms: list[str] = []
        self._required: list[str] = []
        self._prefixes: list[str] = []
        self._phrases: list[Phrase] = []
        self._excluded: list[Phrase] = []
        self._texts: list[str] = []
        self._values: dict[str, list[str]] = {"role": [], "session": [], "tag": []}
        self._after: int | None = None
        self._before: int | None = None

    def add_clause(self, clause: re.Match[str]) -> None:
        excludes, name, quoted = clause["out"], clause["name"], clause["quoted"]
        value = quoted if quoted is not None else clause["word"]
        if name and not excludes and self._add_filter(name.lower(), value):
            return
        text = f"{name}:{value}" if name and quoted is None else value
        # "-5" is a number, not an exclusion.
        if excludes and not text[0:1].isdecimal():
            self._excluded += self._parse_phrase(text.removesuffix("*"))
        elif quoted is not None:
            if name:
                self._add_words(name)
            phrases = self._parse_phrase(value)
            self._phrases += phrases
            self._required += [term for phrase in phrases for stretch in phrase for term in stretch]
            self._add_words(value)
            self._texts.append(value)
        elif not (value.endswith("*") and self._add_prefix(text.strip("*([{<'"))):
            self._add_words(text)
            self._texts.append(text)

    def _add_prefix(self, text: str) -> bool:
        """Add a prefix; False if it cannot be one. If it is a word with a shorter stem, the stem is searched for too:
        "deployment*" also finds "deploy"."""
        prefix = fold(text)
        if not RUN.fullmatch(text) or IS_SPACELESS(text):
            return False
        runs = list(self._tokeniser.query_runs(text))
        if len(runs) != 1:  # "terms:" before a sign of another script becomes two runs once it is folded
            return False
        self._prefixes.append(prefix)
        (terms,) = runs
        self._terms += [term for term in terms if not term.startswith(prefix)] if len(terms) == 1 else ()
        return True

    def _add_filter(self, name: str, value: str) -> bool:
        if name in self._values and value.strip():
            self._values[name].append(value.strip())
            return True
        moment = _start_of(value) if name in ("before", "after") else None
        if moment is None:
            return False
        if name == "after":
            self._after = moment if self._after is None else max(self._after, moment)
        else:
            self._before = moment if self._before is None else min(self._before, moment)
        return True

    def _add_words(self, text: str) -> None:
        for terms in self._tokeniser.query_runs(text):
            self._terms += (terms[0], *filter(_is_significant, terms[1:])) if terms else ()

    def _parse_phrase(self, text: str) -> list[Phrase]:
        """One phrase, or none if the text has no terms. A run of a script without spaces is a stretch of its own, since
        its pairs of characters are not adjacent to the terms around it."""
        stretches: list[tuple[str, ...]] = []
        joined = False
        for terms in self._tokeniser.query_runs(text):
            is_word = not IS_SPACELESS(terms[0]) if terms else False
            if joined and is_word:
                stretches[-1] += terms
            elif terms:
                stretches.append(terms)
            joined = is_word
        return [tuple(stretches)] if stretches else []

    def query(self) -> Query:
        stop = _stop_terms(self._tokeniser.language)
        required = set(self._required)
        significant = [term for term in self._terms if term not in stop or term in required]
        words = significant if significant or self._prefixes else self._terms
        return Query(
            words=tuple(dict.fromkeys(words))[:MAX_TERMS],
            prefixes=_limit(self._prefixes),
            phrases=_limit(self._phrases),
            excluded=_limit(self._excluded),
            pairs=tuple(dict.fromkeys(pairwise(words))),
            roles=frozenset(_limit(map(str.lower, self._values["role"]))),
            sessions=frozenset(_limit(self._values["session"])),
            tags=frozenset(_limit(self._values["tag"])),
            after=self._after,
            before=self._before,
            text=" ".join(self._texts),
        )


def _is_significant(part: str) -> bool:
    """Whether a part of an identifier is worth searching for alone: "file" of "file_1", but not "1"."""
    return len(part) > 2 or (len(part) == 2 and not part.isdecimal())


def _limit(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))[:MAX_CLAUSES]


def _start_of(date: str) -> int | None:
    """The first moment of a year, a month or a day, in UTC."""
    found = _DATE.match(date)
    if found is None:
        return None
    try:
        moment = datetime(int(found[1]), int(found[2] or 1), int(found[3] or 1), tzinfo=UTC)
    except ValueError:
        return None
    return to_microseconds(moment)


@lru_cache(maxsize=8)
def _stop_terms(language: str) -> frozenset[str]:
    tokeniser = Tokeniser(language)
    return frozenset(tokeniser.terms(f"{BY_LANGUAGE.get(language, '')} {BY_SCRIPT}"))
