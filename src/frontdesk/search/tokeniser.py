"""One tokeniser for documents and queries, so that every store finds the same: it owns what a term is.

A text becomes a line of terms. Words have case, accents and width folded and are stemmed; an identifier gives itself
whole and then its parts; scripts that are written without spaces give overlapping pairs and then single characters;
an emoji is a term. Neighbours in a text stay neighbours in the line, so that a phrase is a run of terms.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from typing import NamedTuple

import Stemmer

from frontdesk.errors import ConfigurationError
from frontdesk.search.irregular import ENGLISH
from frontdesk.search.scripts import (
    ASCII_PARTS,
    ASCII_RUN,
    DROPPED_MARKS,
    FOLDED_LETTERS,
    IS_SPACELESS,
    PARTS,
    RUN,
    stemmer_for_script,
)

VERSION = 1
"""to be raised when the same text gives other terms, so that indexes are built anew"""
_KEPT_RUNS = 1 << 16
_KEPT_CHUNKS = 1 << 17
_LONGEST_KEPT = 64
_LONGEST_TERM = 128
_LONGEST_IDENTIFIER = 512


class Run(NamedTuple):
    """A stretch of a text, from `start` to `end`, and its terms."""

    start: int
    end: int
    terms: tuple[str, ...]


class Tokeniser:
    """Turns texts into terms. `language` (a Snowball name) is that of words in Latin letters; words in Cyrillic, Greek,
    Arabic, Armenian, Devanagari and Tamil letters are stemmed by the rules of their own script.

    Raises `ConfigurationError` for a language without a stemmer."""

    def __init__(self, language: str = "english") -> None:
        if language not in LANGUAGES:
            raise ConfigurationError(f"no stemmer for {language!r}: choose one of {', '.join(sorted(LANGUAGES))}")
        self.language = language
        self._known = _Terms(language)
        self._chunks = _Chunks(self._known)

    def terms(self, text: str) -> list[str]:
        """The terms of a document, in order."""
        return list(chain.from_iterable(map(self._chunks.__getitem__, text.split())))

    def runs(self, text: str) -> Iterator[Run]:
        """The same terms with where they stand in the text."""
        for found in RUN.finditer(text):
            yield Run(found.start(), found.end(), self._known[found[0]])

    def query_runs(self, text: str) -> Iterator[tuple[str, ...]]:
        """The terms to look for, stretch by stretch: single characters of spaceless scripts only where they stand
        alone, since their pairs say more."""
        for found in RUN.findall(text):
            terms = self._known[found]
            pairs = len(terms) // 2
            yield terms[:pairs] if pairs and IS_SPACELESS(found) else terms


class _Terms(dict[str, tuple[str, ...]]):
    """Stretch of text as written -> its terms; forgets everything when it has grown too large."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._stem = _stemmer(language)
        self._is_english = language == "english"
        self._bases = ENGLISH if self._is_english else {}

    def __missing__(self, run: str) -> tuple[str, ...]:
        if IS_SPACELESS(run):
            return _pairs_and_singles(fold(run))
        terms = tuple(self._word_terms(run))
        if len(run) <= _LONGEST_KEPT:
            if len(self) >= _KEPT_RUNS:
                self.clear()
            self[run] = terms
        return terms

    def _word_terms(self, run: str) -> Iterator[str]:
        if len(run) > _LONGEST_IDENTIFIER:
            return
        parts = (ASCII_PARTS if run.isascii() else PARTS).findall(run) or [run]
        whole = fold(run)
        if len(parts) > 1 or fold(parts[0]) != whole:
            yield whole[:_LONGEST_TERM]
            if whole[0] == "v" and whole[1:2].isdecimal() and len(parts) > 2:
                yield whole[1:_LONGEST_TERM]
        for part in parts:
            yield self._stemmed(part[:_LONGEST_TERM])

    def _stemmed(self, part: str) -> str:
        word = fold(part)
        if word.isascii() and (part.isascii() or self._is_english):
            return word if word.isdecimal() else self._stem(self._bases.get(word, word))
        script = stemmer_for_script(word)
        if script is not None:
            return _stemmer(script)(word)
        # Endings such as French -é are known by their accents, which English words have lost or never had.
        return fold(self._stem(unicodedata.normalize("NFC", part).lower()))


class _Chunks(dict[str, tuple[str, ...]]):
    """What stands between two spaces -> its terms: no run reaches beyond, and to split at spaces is fast."""

    def __init__(self, known: _Terms) -> None:
        super().__init__()
        self._known = known

    def __missing__(self, chunk: str) -> tuple[str, ...]:
        found = (ASCII_RUN if chunk.isascii() else RUN).findall(chunk)
        terms = tuple(chain.from_iterable(map(self._known.__getitem__, found)))
        if len(chunk) <= _LONGEST_KEPT:
            if len(self) >= _KEPT_CHUNKS:
                self.clear()
            self[chunk] = terms
        return terms


def fold(text: str) -> str:
    """The text without differences of case, accent, width and form; marks that are letters of their own stay."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text.casefold()).translate(FOLDED_LETTERS).replace("и\u0306", "й")
    folded = unicodedata.normalize("NFC", DROPPED_MARKS.sub("", apart)).casefold()
    # Some letters stand for several words; a term is one.
    return "".join(folded.split())


def _pairs_and_singles(run: str) -> tuple[str, ...]:
    pairs = [run[index : index + 2] for index in range(len(run) - 1)]
    return (*pairs, *run)


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    """A stemmer without a cache of its own: ours also spares the folding."""
    stem: Callable[[str], str] = Stemmer.Stemmer(language, 0).stemWord
    return stem


@cache
def tokeniser_for(language: str) -> Tokeniser:
    """The tokeniser of a language that all share: what it has met once it knows. Raises `ConfigurationError`."""
    return Tokeniser(language)


LANGUAGES = frozenset(Stemmer.algorithms())
TOKENISER = tokeniser_for("english")
"""the one for what is searched without an index"""
