"""What is looked for. Whatever is typed is a query: what is not understood as an operator is taken as words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

from frontdesk.search.scripts import IS_SPACELESS, RUN
from frontdesk.search.stopwords import BY_LANGUAGE, BY_SCRIPT
from frontdesk.search.tokeniser import Tokeniser, fold

MOST_CHARACTERS = 10_000
"""what comes after them is not read"""
MOST_TERMS = 1024
"""words that a query keeps; the ranking looks for the rarest of them"""
MOST_CLAUSES = 32
"""phrases, prefixes, exclusions and values of a filter, of each so many"""

T = TypeVar("T")
Phrase = tuple[tuple[str, ...], ...]
"""stretches of terms, each of which stands in a text without a gap"""

_CLAUSE = re.compile(
    r'(?P<out>(?<!\S)-(?=[^\s-]))?(?:(?P<name>(?<![^\s-])[A-Za-z]+):)?(?:["“„”](?P<quoted>[^"“„”]*)["“„”]|(?P<word>[^\s"“„”]+))'
)
_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?$", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Query:
    """A query, understood. Times are microseconds since 1970 in UTC, `after` included and `before` not.

    A text matches if it holds every phrase and nothing excluded and, where there are words or prefixes, any of them;
    `words` are in the order of the query, each once, and hold those of the phrases."""

    words: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    phrases: tuple[Phrase, ...] = ()
    excluded: tuple[Phrase, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    """words that stand side by side in the query"""
    roles: frozenset[str] = frozenset()
    sessions: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    after: int | None = None
    before: int | None = None
    text: str = field(default="", compare=False)
    """what was typed, without filters, beginnings and what is excluded"""

    @property
    def has_terms(self) -> bool:
        """Whether anything is to be found in a text, so that texts can be ranked."""
        return bool(self.words or self.prefixes)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is asked for at all."""
        return self == _NOTHING


_NOTHING = Query()


def parse(text: str, tokeniser: Tokeniser) -> Query:
    """The query that a text means. Never raises, whatever the text holds."""
    reading = _Reading(tokeniser)
    for clause in _CLAUSE.finditer(text[:MOST_CHARACTERS]):
        reading.take(clause)
    return reading.query()


class _Reading:
    """A query while its clauses are read one after the other."""

    def __init__(self, tokeniser: Tokeniser) -> None:
        self._tokeniser = tokeniser
        self._line: list[str] = []
        self._demanded: list[str] = []
        self._prefixes: list[str] = []
        self._phrases: list[Phrase] = []
        self._excluded: list[Phrase] = []
        self._said: list[str] = []
        self._values: dict[str, list[str]] = {"role": [], "session": [], "tag": []}
        self._after: int | None = None
        self._before: int | None = None

    def take(self, clause: re.Match[str]) -> None:
        out, name, quoted = clause["out"], clause["name"], clause["quoted"]
        value = quoted if quoted is not None else clause["word"]
        if name and not out and self._filter(name.lower(), value):
            return
        text = f"{name}:{value}" if name and quoted is None else value
        if out and not text[0:1].isdecimal():
            self._excluded += self._phrase(text.removesuffix("*"))
        elif quoted is not None:
            if name:
                self._words(name)
            phrases = self._phrase(value)
            self._phrases += phrases
            self._demanded += [term for phrase in phrases for stretch in phrase for term in stretch]
            self._words(value)
            self._said.append(value)
        elif not (value.endswith("*") and self._prefix(text.strip("*([{<'"))):
            self._words(text)
            self._said.append(text)

    def _prefix(self, text: str) -> bool:
        """Take a beginning of words. Where it is a whole word whose stem is shorter, that is looked for, too."""
        prefix = fold(text)
        if not RUN.fullmatch(text) or IS_SPACELESS(text):
            return False
        self._prefixes.append(prefix)
        [terms] = self._tokeniser.query_runs(text)
        self._line += [term for term in terms if not term.startswith(prefix)] if len(terms) == 1 else ()
        return True

    def _filter(self, name: str, value: str) -> bool:
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

    def _words(self, text: str) -> None:
        for terms in self._tokeniser.query_runs(text):
            self._line += (terms[0], *filter(_says_something, terms[1:])) if terms else ()

    def _phrase(self, text: str) -> list[Phrase]:
        """One phrase, or none where the text has no terms. Pairs of characters have no neighbours beyond their run."""
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
        line = self._line
        demanded = set(self._demanded)
        telling = [term for term in line if term not in stop or term in demanded]
        words = telling if telling or self._prefixes else line
        return Query(
            words=tuple(dict.fromkeys(words))[:MOST_TERMS],
            prefixes=_few(self._prefixes),
            phrases=_few(self._phrases),
            excluded=_few(self._excluded),
            pairs=tuple(dict.fromkeys(pairwise(words))),
            roles=frozenset(_few(map(str.lower, self._values["role"]))),
            sessions=frozenset(_few(self._values["session"])),
            tags=frozenset(_few(self._values["tag"])),
            after=self._after,
            before=self._before,
            text=" ".join(self._said),
        )


def _says_something(part: str) -> bool:
    """Whether a part of an identifier is worth looking for without the rest: "file" of "file_1", but not "1"."""
    return len(part) > 2 or (len(part) == 2 and not part.isdecimal())


def _few(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))[:MOST_CLAUSES]


def _start_of(date: str) -> int | None:
    """The first moment of a year, a month or a day, in UTC."""
    found = _DATE.match(date)
    if found is None:
        return None
    try:
        moment = datetime(int(found[1]), int(found[2] or 1), int(found[3] or 1), tzinfo=UTC)
    except ValueError:
        return None
    return int((moment - _EPOCH).total_seconds()) * 1_000_000


@lru_cache(maxsize=8)
def _stop_terms(language: str) -> frozenset[str]:
    tokeniser = Tokeniser(language)
    return frozenset(tokeniser.terms(f"{BY_LANGUAGE.get(language, '')} {BY_SCRIPT}"))
