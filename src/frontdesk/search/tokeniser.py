"""Splitting texts into terms, in the same way for messages and queries and for every store.

A text becomes a list of terms. First come its words in their order, so that a phrase is a run of adjacent terms. Words
are folded (case, accents, width) and stemmed. An identifier becomes its words and numbers. A run of a script without
spaces becomes overlapping pairs of characters. An emoji is a term.

Then come further terms by which the same words are found: an identifier as a whole, the file name of a path, a version
inside of a longer name, the words of a name in mixed case, the start of a hash, the single characters of pairs.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import NamedTuple

import Stemmer

from frontdesk.errors import ConfigurationError
from frontdesk.search.languages import (
    ASCII_RUN,
    CAMEL_PARTS,
    DROPPED_MARKS,
    FOLDED_LETTERS,
    GROUPED_DIGITS,
    HEXADECIMAL,
    HYPHENATED,
    IRREGULAR,
    IS_HEBREW,
    PARTS,
    PATH_SEPARATORS,
    SEPARATORS,
    VERSION_NUMBER,
    VERSION_SEPARATORS,
    american,
    is_spaceless,
    parts_of_compound,
    run_pattern,
    split_contraction,
    stemmer_for_script,
    without_prefix,
)

VERSION = 4
"""to be increased when the same text produces other terms, so that indexes are built again"""
_MAX_CACHED_RUNS = 1 << 16
_MAX_CACHED_CHUNKS = 1 << 17
_MAX_CACHED_LENGTH = 64
_MAX_TERM = 128
_MAX_IDENTIFIER = 512
_MAX_OTHERS = 24
_HASH_PREFIXES = range(7, 13)
_JOINTS = str.maketrans("", "", "-.")
_HYPHENS = str.maketrans("\u2010\u2011", "--")


class Terms(NamedTuple):
    """The terms of a piece of text: its `words` in their order, and `others` by which it is found, too."""

    words: tuple[str, ...]
    others: tuple[str, ...] = ()


class ScriptRun(NamedTuple):
    """A piece of a text, from `start` to `end`, and its terms: a word, an identifier, or a run without spaces."""

    start: int
    end: int
    terms: tuple[str, ...]


class WrittenWord(NamedTuple):
    """A word as it is written, in lower case, its term, and all terms of the run that it is a part of."""

    text: str
    term: str
    run: tuple[str, ...]


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
        """The terms of a text: its words in their order, and then the others."""
        pieces = text.split()
        found = list(map(self._chunks.single.get, pieces))
        if None not in found:
            return found  # type: ignore[return-value]
        words: list[str] = []
        others: list[str] = []
        for piece, word in zip(pieces, found, strict=True):
            if word is not None:
                words.append(word)
            else:
                terms = self._chunks[piece]
                words += terms.words
                others += terms.others
        return words + others if others else words

    def runs(self, text: str) -> Iterator[ScriptRun]:
        """The same terms with their positions in the text, run by run."""
        for found in (ASCII_RUN if text.isascii() else run_pattern()).finditer(text):
            words, others = self._runs[found[0]]
            yield ScriptRun(found.start(), found.end(), words + others)

    def written_words(self, text: str) -> Iterator[WrittenWord]:
        """The words of a text that have one term each, without the other spellings by which they are found."""
        for found in run_pattern().findall(text):
            words, others = self._runs[found]
            for part in () if is_spaceless(found) else PARTS.findall(found):
                terms = self._runs[part].words
                if len(terms) == 1:
                    yield WrittenWord(part.lower(), terms[0], words + others)

    def query_runs(self, text: str) -> Iterator[Terms]:
        """The terms to search for, run by run. For scripts without spaces these are the pairs of characters, which are
        more specific; a single character only if the run has no other."""
        for found in run_pattern().findall(text):
            terms = self._runs[found]
            yield Terms(terms.words) if is_spaceless(found) else terms


class _RunCache(dict[str, Terms]):
    """Run of text -> its terms. Emptied when it is too large."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._stem = _stemmer(language)
        self._language = language
        self._is_english = language == "english"
        self._bases = IRREGULAR if self._is_english else {}

    def __missing__(self, run: str) -> Terms:
        if is_spaceless(run):
            return _pairs_and_singles(fold(run))
        terms = self._split(run)
        if len(run) <= _MAX_CACHED_LENGTH:
            if len(self) >= _MAX_CACHED_RUNS:
                self.clear()
            self[run] = terms
        return terms

    def _split(self, run: str) -> Terms:
        if len(run) > _MAX_IDENTIFIER:
            return Terms(())
        run = run.translate(_HYPHENS)
        if "," in run:
            return Terms((run.replace(",", ""),))
        parts = PARTS.findall(run) or [run]
        words = tuple(chain.from_iterable(map(self._word_terms, parts)))
        if len(parts) == 1 and parts[0] == run:
            others = self._variants(run)
        else:
            others = (*_identifiers(fold(run), parts), *self._joined(run), *chain(*map(self._variants, parts)))
        # A term that is also a word would count twice.
        return Terms(words, tuple(term for term in dict.fromkeys(others) if term not in words)[:_MAX_OTHERS])

    def _word_terms(self, part: str) -> tuple[str, ...]:
        if self._is_english:
            folded = fold(part)
            contracted = split_contraction(folded)
            if len(contracted) > 1:
                return tuple(map(self._stem_part, contracted))
        return (self._stem_part(part[:_MAX_TERM]),)

    def _stem_part(self, part: str) -> str:
        word = fold(part)
        if word.isascii() and (part.isascii() or self._is_english):
            if word.isdecimal():
                return word
            return self._stem(american(self._bases.get(word, word)) if self._is_english else word)
        script = stemmer_for_script(word)
        if script is not None:
            return _stemmer(script)(word)
        # Stemmed before folding: an ending such as French -é is recognised by its accent. (English has none.)
        return fold(self._stem(unicodedata.normalize("NFC", part).lower()))

    def _variants(self, word: str) -> tuple[str, ...]:
        """Other terms by which one word is found: the words of a name in mixed case, a Hebrew word without its prefix,
        and the parts of a German compound."""
        if IS_HEBREW(word):
            return tuple(without_prefix(fold(word)))
        if self._language == "german":
            return tuple(map(self._stem_part, parts_of_compound(fold(word))))
        if word.isascii() and not (word.islower() or word.isupper() or word.istitle()):
            return tuple(map(self._stem_part, CAMEL_PARTS.findall(word)))
        return ()

    def _joined(self, run: str) -> tuple[str, ...]:
        """ "wifi" for "wi-fi", and "nodejs" for "Node.js"."""
        return (self._stem_part(run.translate(_JOINTS)),) if HYPHENATED.match(run) else ()


class _ChunkCache(dict[str, Terms]):
    """Text between two spaces -> its terms. No run crosses a space, and splitting at spaces is fast.

    Most pieces have a single term: those are kept in `single`, where many can be looked up at once."""

    def __init__(self, runs: _RunCache) -> None:
        super().__init__()
        self._runs = runs
        self.single: dict[str, str] = {}

    def __missing__(self, chunk: str) -> Terms:
        found = [self._runs[run] for run in (ASCII_RUN if chunk.isascii() else run_pattern()).findall(chunk)]
        words = tuple(chain.from_iterable(terms.words for terms in found))
        others = tuple(chain.from_iterable(terms.others for terms in found))
        terms = Terms(words, others)
        if len(chunk) <= _MAX_CACHED_LENGTH:
            if len(self) + len(self.single) >= _MAX_CACHED_CHUNKS:
                self.clear()
                self.single.clear()
            if len(words) == 1 and not others:
                self.single[chunk] = words[0]
            else:
                self[chunk] = terms
        return terms


def _identifiers(whole: str, parts: Sequence[str]) -> Iterator[str]:
    """The whole identifier, folded, and those inside of it: the components of a path or an address, versions, groups of
    letters and digits such as those of a UUID, and the first characters of a hash."""
    yield whole[:_MAX_TERM]
    if len(parts) > 1:
        yield from (piece for piece in PATH_SEPARATORS.split(whole) if SEPARATORS.search(piece))
        yield from (piece for piece in VERSION_SEPARATORS.split(whole) if "." in piece)
        yield from VERSION_NUMBER.findall(whole)
        if GROUPED_DIGITS.match(whole):
            yield whole.replace(".", "")
    for piece in SEPARATORS.split(whole):
        if not (piece.isalpha() or piece.isdecimal()) and piece:
            yield piece[:_MAX_TERM]
        if HEXADECIMAL.match(piece):
            yield from (piece[:size] for size in _HASH_PREFIXES)


def fold(text: str) -> str:
    """The text without differences of case, accent, width and form. Marks that make another letter are kept."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold()).translate(FOLDED_LETTERS).replace("и\u0306", "й")
    folded = unicodedata.normalize("NFC", DROPPED_MARKS.sub("", decomposed)).casefold()
    # Some characters decompose into several words, but a term must be one.
    return "".join(folded.split())


def _pairs_and_singles(run: str) -> Terms:
    if len(run) < 2:
        return Terms((run,) if run else ())
    return Terms(tuple(run[index : index + 2] for index in range(len(run) - 1)), tuple(run))


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
