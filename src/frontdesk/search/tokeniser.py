"""Splitting texts into terms, in the same way for messages and queries and for every store.

A text becomes a list of terms. Words are folded (case, accents, width) and stemmed. An identifier becomes the whole
identifier, followed by its parts. A run of a script without spaces becomes overlapping pairs of characters, followed by
the single characters. An emoji is a term. Terms are in the order of the text, so a phrase is a run of adjacent terms.
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
"""to be increased when the same text produces other terms, so that indexes are built again"""
_MAX_CACHED_RUNS = 1 << 16
_MAX_CACHED_CHUNKS = 1 << 17
_MAX_CACHED_LENGTH = 64
_MAX_TERM = 128
_MAX_IDENTIFIER = 512


class ScriptRun(NamedTuple):
    """A piece of a text, from `start` to `end`, and its terms: a word, an identifier, or a run without spaces."""

    start: int
    end: int
    terms: tuple[str, ...]


class Tokeniser:
    """Splits texts into terms. `language` (a Snowball name) is for words in Latin letters; words in Cyrillic, Greek,
    Arabic, Armenian, Devanagari and Tamil letters are stemmed by the rules for their script.

    Raises `ConfigurationError` for a language without a stemmer."""

    def __init__(self, language: str = "english") -> None:
        if language not in LANGUAGES:
            raise ConfigurationError(f"no stemmer for {language!r}: choose one of {', '.join(sorted(LANGUAGES))}")
        self.language = language
        self._runs = _RunCache(language)
        self._chunks = _ChunkCache(self._runs)

    def terms(self, text: str) -> list[str]:
        """The terms of a text, in order."""
        return list(chain.from_iterable(map(self._chunks.__getitem__, text.split())))

    def runs(self, text: str) -> Iterator[ScriptRun]:
        """The same terms with their positions in the text."""
        for found in RUN.finditer(text):
            yield ScriptRun(found.start(), found.end(), self._runs[found[0]])

    def query_runs(self, text: str) -> Iterator[tuple[str, ...]]:
        """The terms to search for, run by run. For scripts without spaces these are the pairs of characters, which are
        more specific; a single character only if the run has no other."""
        for found in RUN.findall(text):
            terms = self._runs[found]
            pairs = len(terms) // 2
            yield terms[:pairs] if pairs and IS_SPACELESS(found) else terms


class _RunCache(dict[str, tuple[str, ...]]):
    """Run of text -> its terms. Emptied when it is too large."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._stem = _stemmer(language)
        self._is_english = language == "english"
        self._bases = ENGLISH if self._is_english else {}

    def __missing__(self, run: str) -> tuple[str, ...]:
        if IS_SPACELESS(run):
            return _pairs_and_singles(fold(run))
        terms = tuple(self._word_terms(run))
        if len(run) <= _MAX_CACHED_LENGTH:
            if len(self) >= _MAX_CACHED_RUNS:
                self.clear()
            self[run] = terms
        return terms

    def _word_terms(self, run: str) -> Iterator[str]:
        if len(run) > _MAX_IDENTIFIER:
            return
        parts = (ASCII_PARTS if run.isascii() else PARTS).findall(run) or [run]
        whole = fold(run)
        if len(parts) > 1 or fold(parts[0]) != whole:
            yield whole[:_MAX_TERM]
            if whole[0] == "v" and whole[1:2].isdecimal() and len(parts) > 2:
                yield whole[1:_MAX_TERM]  # "v1.2.3" is also found by "1.2.3"
        for part in parts:
            yield self._stem_part(part[:_MAX_TERM])

    def _stem_part(self, part: str) -> str:
        word = fold(part)
        if word.isascii() and (part.isascii() or self._is_english):
            return word if word.isdecimal() else self._stem(self._bases.get(word, word))
        script = stemmer_for_script(word)
        if script is not None:
            return _stemmer(script)(word)
        # Stemmed before folding: an ending such as French -é is recognised by its accent. (English has none.)
        return fold(self._stem(unicodedata.normalize("NFC", part).lower()))


class _ChunkCache(dict[str, tuple[str, ...]]):
    """Text between two spaces -> its terms. No run crosses a space, and splitting at spaces is fast."""

    def __init__(self, runs: _RunCache) -> None:
        super().__init__()
        self._runs = runs

    def __missing__(self, chunk: str) -> tuple[str, ...]:
        found = (ASCII_RUN if chunk.isascii() else RUN).findall(chunk)
        terms = tuple(chain.from_iterable(map(self._runs.__getitem__, found)))
        if len(chunk) <= _MAX_CACHED_LENGTH:
            if len(self) >= _MAX_CACHED_CHUNKS:
                self.clear()
            self[chunk] = terms
        return terms


def fold(text: str) -> str:
    """The text without differences of case, accent, width and form. Marks that make another letter are kept."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold()).translate(FOLDED_LETTERS).replace("и\u0306", "й")
    folded = unicodedata.normalize("NFC", DROPPED_MARKS.sub("", decomposed)).casefold()
    # Some characters decompose into several words, but a term must be one.
    return "".join(folded.split())


def _pairs_and_singles(run: str) -> tuple[str, ...]:
    pairs = [run[index : index + 2] for index in range(len(run) - 1)]
    return (*pairs, *run)


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    """A stemmer without its own cache: `_RunCache` saves the folding as well."""
    stem: Callable[[str], str] = Stemmer.Stemmer(language, 0).stemWord
    return stem


@cache
def tokeniser_for(language: str) -> Tokeniser:
    """The tokeniser of a language, which all callers share with its caches. Raises `ConfigurationError`."""
    return Tokeniser(language)


LANGUAGES = frozenset(Stemmer.algorithms())
TOKENISER = tokeniser_for("english")
"""the tokeniser for what is searched without an index"""
