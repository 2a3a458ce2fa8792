"""Parsing queries. Any text is a valid query: what is not an operator is searched for as words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

from frontdesk.search.dates import NamedDate, find_dates, start_of
from frontdesk.search.fields import ASSISTANT, AUTHOR_MARK, ROLE_MARKS, USER
from frontdesk.search.languages import STOP_WORDS, STOP_WORDS_BY_SCRIPT, is_spaceless, run_pattern
from frontdesk.search.tokeniser import Tokeniser, fold

MAX_CHARACTERS = 10_000
"""how much of a query is read"""
MAX_TERMS = 1024
"""how many words of a query are kept; the ranking uses the rarest of them"""
MAX_CLAUSES = 32
"""how many phrases, prefixes, exclusions and values of each filter are kept"""
MAX_NAMES = 64
"""how many words of a query may be names of authors"""

T = TypeVar("T")
Phrase = tuple[tuple[str, ...], ...]
"""stretches of terms; the terms of a stretch are adjacent in a text"""

_CLAUSE = re.compile(
    r'(?P<out>(?<!\S)-(?=[^\s-]))?(?:(?P<name>(?<![^\s-])[A-Za-z]+):)?(?:["“„”](?P<quoted>[^"“„”]*)["“„”]|(?P<word>[^\s"“„”]+))'
)
_FIRST_PERSON = frozenset(("i", "me", "mine", "my"))
_SECOND_PERSON = frozenset(("you", "your", "yours"))
_ASKING = frozenset(("ask", "question", "wonder"))
_LEAST_AROUND_QUOTE = 2
"""words around a phrase that make it a part of a question, instead of one word and a phrase that must occur"""


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query. Times are microseconds since 1970 in UTC, including `after` and excluding `before`.

    A text matches if it contains every phrase, none of the excluded phrases, and at least one of the words and prefixes
    if there are any. `words` are in the order of the query, without repetitions, and include those of the phrases."""

    words: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    phrases: tuple[Phrase, ...] = ()
    quotes_in_question: bool = False
    """whether phrases are a part of a question: if hardly any text has them, their words are searched for"""
    excluded: tuple[Phrase, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    """words that are adjacent in the query"""
    corrected: tuple[tuple[str, str], ...] = ()
    """(a term of the index, the word of the query that it is similar to), for words that the index does not know"""
    names: tuple[str, ...] = ()
    """the terms of authors who have a word of the query in their names, and of the role that "I" or "you" means"""
    dates: tuple[NamedDate, ...] = ()
    """times that the query names"""
    is_about_questions: bool = False
    """whether questions are as welcome as answers: "what did I ask?" """
    roles: frozenset[str] = frozenset()
    authors: frozenset[str] = frozenset()
    """the required authors, folded: the message is by one of them"""
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


def parse(text: str, tokeniser: Tokeniser, today: date | None = None) -> Query:
    """Parse a query. Never raises, whatever the text contains. "Yesterday" is the day before `today`."""
    parser = _Parser(tokeniser, today or datetime.now(UTC).date())
    for clause in _CLAUSE.finditer(text[:MAX_CHARACTERS]):
        parser.add_clause(clause)
    return parser.query()


class _Parser:
    """Collects the clauses of a query one after the other."""

    def __init__(self, tokeniser: Tokeniser, today: date) -> None:
        self._tokeniser = tokeniser
        self._today = today
        self._terms: list[str] = []
        self._required: list[str] = []
        self._unquoted: list[str] = []
        self._prefixes: list[str] = []
        self._phrases: list[Phrase] = []
        self._excluded: list[Phrase] = []
        self._texts: list[str] = []
        self._values: dict[str, list[str]] = {"role": [], "from": [], "session": [], "tag": []}
        self._after: int | None = None
        self._before: int | None = None

    def add_clause(self, clause: re.Match[str]) -> None:
        excludes, name, quoted = clause["out"], clause["name"], clause["quoted"]
        value = quoted if quoted is not None else clause["word"]
        if name and excludes and name.lower() == "from":
            self._exclude_author(value)
            return
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
            before = len(self._terms)
            self._add_words(text)
            self._unquoted += self._terms[before:]
            self._texts.append(text)

    def _add_prefix(self, text: str) -> bool:
        """Add a prefix; False if it cannot be one. If it is a word with a shorter stem, the stem is searched for too:
        "deployment*" also finds "deploy"."""
        prefix = fold(text)
        if not run_pattern().fullmatch(text) or is_spaceless(text):
            return False
        runs = list(self._tokeniser.query_runs(text))
        if len(runs) != 1:  # "terms:" before a sign of another script becomes two runs once it is folded
            return False
        self._prefixes.append(prefix)
        ((terms, _),) = runs
        self._terms += [term for term in terms if not term.startswith(prefix)] if len(terms) == 1 else ()
        return True

    def _add_filter(self, name: str, value: str) -> bool:
        if name in self._values and value.strip():
            self._values[name].append(value.strip())
            return True
        moment = start_of(value) if name in ("before", "after") else None
        if moment is None:
            return False
        if name == "after":
            self._after = moment if self._after is None else max(self._after, moment)
        else:
            self._before = moment if self._before is None else min(self._before, moment)
        return True

    def _exclude_author(self, name: str) -> None:
        terms = tuple(AUTHOR_MARK + term for words, _ in self._tokeniser.query_runs(name) for term in words)
        if terms:
            self._excluded.append((terms,))
        self._excluded += [((mark,),) for mark in ROLE_MARKS.get(fold(name), ())]

    def _add_words(self, text: str) -> None:
        for words, others in self._tokeniser.query_runs(text):
            # An identifier is more specific than its words: it comes first.
            terms = (*others, *words) if len(words) > 1 else (*words, *others)
            self._terms += (terms[0], *filter(_is_significant, terms[1:])) if terms else ()

    def _parse_phrase(self, text: str) -> list[Phrase]:
        """One phrase, or none if the text has no terms. A run of a script without spaces is a stretch of its own, since
        its pairs of characters are not adjacent to the terms around it."""
        stretches: list[tuple[str, ...]] = []
        joined = False
        for terms, others in self._tokeniser.query_runs(text):
            is_word = not is_spaceless(terms[0]) if terms else False
            if joined and is_word:
                stretches[-1] += terms
            elif terms:
                stretches.append(terms)
            stretches += [(other,) for other in others if other[-1] in "+#"]
            joined = is_word and not (others and others[0][-1] in "+#")
        return [tuple(stretches)] if stretches else []

    def query(self) -> Query:
        stop = _stop_terms(self._tokeniser.language)
        required = set(self._required)
        significant = [term for term in self._terms if term not in stop or term in required]
        words = significant if significant or self._prefixes else self._terms
        text = " ".join(self._texts)
        return Query(
            words=tuple(dict.fromkeys(words))[:MAX_TERMS],
            prefixes=_limit(self._prefixes),
            phrases=_limit(self._phrases),
            quotes_in_question=len(self._unquoted) >= _LEAST_AROUND_QUOTE and not stop.issuperset(self._unquoted),
            excluded=_limit(self._excluded),
            pairs=tuple(dict.fromkeys(pairwise(words))),
            names=tuple(self._names()) if words else (),
            dates=find_dates(text, self._today) if words else (),
            is_about_questions=not _ASKING.isdisjoint(words),
            roles=frozenset(_limit(map(str.lower, self._values["role"]))),
            authors=frozenset(_limit(map(fold, self._values["from"]))),
            sessions=frozenset(_limit(self._values["session"])),
            tags=frozenset(_limit(self._values["tag"])),
            after=self._after,
            before=self._before,
            text=text,
        )

    def _names(self) -> Iterator[str]:
        """The terms of authors that may be meant. A stop word may be a name, too: "what did Will say?" "I" is the user,
        and "you" is the assistant. If there are both, the first one is the subject: "what did you tell me?" """
        terms = list(dict.fromkeys(self._terms))[:MAX_NAMES]
        yield from (AUTHOR_MARK + term for term in terms if term not in _FIRST_PERSON | _SECOND_PERSON)
        person = next((term for term in terms if term in _FIRST_PERSON or term in _SECOND_PERSON), None)
        if person is not None and self._tokeniser.language == "english":
            yield USER if person in _FIRST_PERSON else ASSISTANT


def _is_significant(part: str) -> bool:
    """Whether a part of an identifier is worth searching for alone: "file" of "file_1", but not "1"."""
    return len(part) > 2 or (len(part) == 2 and not part.isdecimal())


def _limit(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))[:MAX_CLAUSES]


@lru_cache(maxsize=8)
def _stop_terms(language: str) -> frozenset[str]:
    tokeniser = Tokeniser(language)
    return frozenset(tokeniser.terms(f"{STOP_WORDS.get(language, '')} {STOP_WORDS_BY_SCRIPT}"))
