"""Snippets: the part of a text that shows why it was found, with the matches marked `**like this**`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from frontdesk.search.languages import is_spaceless
from frontdesk.search.query import Query
from frontdesk.search.tokeniser import ScriptRun, Tokeniser

MARK = "**"
SNIPPET_LENGTH = 240
"""the maximum number of characters of a snippet"""
_LEAD = 40
_MAX_SEARCHED = 100_000
_SPACES = re.compile(r"\s+")
# Bold words of the text itself, which would be taken for matches. "2**10" and "src/**/*.py" have none.
_BOLD = re.compile(r"(?<![\w*/])\*{2,3}(?=[^\s*])([^\n]{1,1000}?)(?<=[^\s*])\*{2,3}(?![\w*/])")
_ASTERISKS = re.compile(r"(?<!\d)\*{2,}|\*{2,}(?!\d)")
_AT_START, _AT_END = re.compile(r"^(?:\\?\*)+"), re.compile(r"(?:\\?\*)+$")


class _Match(NamedTuple):
    start: int
    end: int
    term: str


def snippet(text: str, query: Query, tokeniser: Tokeniser, *, length: int = SNIPPET_LENGTH) -> str:
    """At most `length` characters with as many different matches as possible, cut between words, on one line.

    An ellipsis shows where something was cut off. For a text without a match, it is the start of the text.

    Bold words of the text become plain, and other asterisks that look like marks are escaped (`src/\\*\\*/*.py`),
    except for those of a power (`2**10`)."""
    text = _ASTERISKS.sub(_escape, _BOLD.sub(r"\1", text))
    matches = list(_matches(text[:_MAX_SEARCHED], query, tokeniser))
    first = _densest(matches, length)
    start = 0 if len(text) <= length or not matches else _cut(text, max(0, matches[first].start - _LEAD), forward=True)
    end = len(text) if len(text) - start <= length else _cut(text, start + length, forward=False)
    if end <= start:
        end = start + length
    marked = _mark(text, start, end, matches)
    return f"{'…' if start else ''}{_SPACES.sub(' ', marked).strip()}{'…' if end < len(text) else ''}"


def _matches(text: str, query: Query, tokeniser: Tokeniser) -> Iterator[_Match]:
    wanted = frozenset(query.words)
    for run in tokeniser.runs(text):
        if wanted.isdisjoint(run.terms) and not query.prefixes:
            continue  # most runs
        if is_spaceless(text[run.start]):
            yield from _in_spaceless(run, wanted)
            continue
        # Several matches in one run make it the better one: "function_77" is found by its whole and by "function".
        for term in dict.fromkeys(run.terms):
            if term in wanted or (query.prefixes and term.startswith(query.prefixes)):
                yield _Match(run.start, run.end, term)


def _in_spaceless(run: ScriptRun, wanted: frozenset[str]) -> Iterator[_Match]:
    """The matches in a run of a script without spaces. If folding has changed the number of characters, the whole run
    is the match."""
    size = run.end - run.start
    if len(run.terms) != 2 * size - 1:
        yield from (_Match(run.start, run.end, term) for term in run.terms if term in wanted)
        return
    for index in range(size):
        single = run.terms[size - 1 + index]
        if single in wanted:
            yield _Match(run.start + index, run.start + index + 1, single)
        if index < size - 1 and run.terms[index] in wanted:
            yield _Match(run.start + index, run.start + index + 2, run.terms[index])


def _densest(matches: Sequence[_Match], length: int) -> int:
    """The index of the match after which the most different terms fit into a snippet."""
    best, most, end = 0, 0, 0
    within: dict[str, int] = {}
    for start, match in enumerate(matches):
        while end < len(matches) and matches[end].end - match.start <= length - _LEAD:
            within[matches[end].term] = within.get(matches[end].term, 0) + 1
            end += 1
        if len(within) > most:
            best, most = start, len(within)
        if end > start:
            within[match.term] -= 1
            if not within[match.term]:
                del within[match.term]
        else:
            end = start + 1
    return best


def _cut(text: str, place: int, *, forward: bool) -> int:
    """The nearest place to cut the text: at a space, or between letters of a script without spaces; otherwise anywhere,
    but not before a combining mark."""
    for step in range(_LEAD):
        at = place + step if forward else place - step
        if not 0 < at < len(text):
            return max(0, min(at, len(text)))
        if text[at - 1].isspace() or (not forward and text[at].isspace()):
            return at
        if is_spaceless(text[at]) and is_spaceless(text[at - 1]) and unicodedata.category(text[at])[0] != "M":
            return at
    while 0 < place < len(text) and unicodedata.category(text[place])[0] == "M":
        place -= 1
    return place


def _escape(asterisks: re.Match[str]) -> str:
    return r"\*" * len(asterisks[0])


def _mark(text: str, start: int, end: int, matches: Sequence[_Match]) -> str:
    pieces: list[str] = []
    done = start
    for first, last in _stretches(text, matches):
        first, last = max(first, start), min(last, end)
        if first < last:
            # An asterisk next to a mark would be taken for a part of it.
            before = _AT_END.sub("", _after_mark(text[done:first], pieces))
            match = text[first:last].rstrip()
            pieces += (before or (" " if pieces else ""), MARK, match, MARK)
            done = first + len(match)
    return "".join((*pieces, _after_mark(text[done:end], pieces)))


def _after_mark(text: str, pieces: Sequence[str]) -> str:
    return _AT_START.sub("", text) if pieces else text


def _stretches(text: str, matches: Sequence[_Match]) -> list[tuple[int, int]]:
    """The ranges of the matches; matches that touch, or have only spaces between them, are one range."""
    stretches: list[tuple[int, int]] = []
    for match in matches:
        if stretches and not text[stretches[-1][1] : match.start].strip(" "):
            stretches[-1] = (stretches[-1][0], max(stretches[-1][1], match.end))
        else:
            stretches.append((match.start, match.end))
    return stretches
