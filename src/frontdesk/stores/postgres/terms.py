"""Terms in PostgreSQL: texts as `tsvector`s, in parts of limited size, queries as `tsquery`s, and offsets back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from frontdesk.store import LONGEST_STRETCH, IndexQuery, Phrase

PART = 4_096
"""terms of a part: a tsvector keeps 255 places of a term, which few have among so many"""
_PART_BYTES = 400_000
_LEXEME = re.compile(r"'((?:[^'\\]|''|\\\\)*)':([0-9A,]+)")


def vectors(ns: int, terms: Sequence[str], facets: Iterable[str]) -> list[tuple[int, str]]:
    """The parts of a text, each with the place of its first term."""
    facet_text = " ".join(_quoted(f"{ns}={facet}") for facet in facets)
    return [
        (start, f"{facet_text} {_vector(ns, terms[start : end + LONGEST_STRETCH])}") for start, end in _parts(terms)
    ]


def _parts(terms: Sequence[str]) -> Iterator[tuple[int, int]]:
    if len(terms) <= PART and sum(map(len, terms)) * 4 <= _PART_BYTES:
        yield 0, len(terms)
        return
    start = size = 0
    for index, term in enumerate(terms):
        size += len(term.encode()) + 16
        if index - start == PART or size > _PART_BYTES:
            yield start, index
            start, size = index, 0
    yield start, len(terms)


def _vector(ns: int, terms: Sequence[str]) -> str:
    places: dict[str, list[str]] = {}
    for place, term in enumerate(terms, 1):
        places.setdefault(term, []).append(str(place))
    return " ".join(f"{_quoted(f'{ns}:{term}')}:{','.join(found)}" for term, found in places.items())


def places(ns: int, vector: str, start: int) -> Iterator[tuple[str, list[int]]]:
    """The terms of a vector as PostgreSQL writes it, and their places in the whole text."""
    mark = len(f"{ns}:")
    for lexeme, found in _LEXEME.findall(vector):
        term = lexeme.replace("''", "'").replace("\\\\", "\\")[mark:]
        yield term, [start + int(place) - 1 for place in found.replace("A", "").split(",")]


def lexemes(ns: int, terms: Iterable[str]) -> list[str]:
    return [f"{ns}:{term}" for term in terms]


def any_of(ns: int, terms: Iterable[str]) -> str:
    return "(" + " | ".join(_term(ns, term) for term in terms) + ")"


def main_query(ns: int, query: IndexQuery) -> str:
    """What one part of a text must hold."""
    parts = [any_of(ns, query.seek)] if query.seek else []
    parts += [phrase_query(ns, phrase) for phrase in query.phrases]
    parts += ["(" + " | ".join(_quoted(f"{ns}={facet}") for facet in line) + ")" for line in query.facets]
    parts += [f"!{phrase_query(ns, phrase)}" for phrase in query.excluded]
    return " & ".join(parts)


def phrase_query(ns: int, phrase: Phrase) -> str:
    stretches = (" <-> ".join(_quoted(f"{ns}:{term}") for term in stretch) for stretch in phrase)
    return "(" + " & ".join(f"({stretch})" for stretch in stretches) + ")"


def _term(ns: int, term: str) -> str:
    return f"{_quoted(f'{ns}:{term[:-1]}')}:*" if term.endswith("*") else _quoted(f"{ns}:{term}")


def _quoted(lexeme: str) -> str:
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"
