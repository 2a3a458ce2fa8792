"""The request of a search: the query and the filters, checked in one place for sessions and managers.

Words of the query that no text contains are taken for typos: texts with similar words are found, and rank lower."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from frontdesk import cursors
from frontdesk.checks import check_count, check_texts
from frontdesk.config.runtime import Runtime
from frontdesk.errors import InvalidInputError
from frontdesk.lifecycle.transitions import ARCHIVED, StatusFilter, current_status_filter
from frontdesk.moments import to_datetime, to_microseconds
from frontdesk.search.fields import AUTHOR_MARK
from frontdesk.search.query import Query, parse
from frontdesk.search.tokeniser import WrittenWord, fold, tokeniser_for
from frontdesk.store import Address, SessionRow, tags_of

_MAX_CONTEXT = 100
SHOWN_ROLES = frozenset(("assistant", "function", "tool", "user"))
"""the roles of messages that a model is shown of other conversations: what was said, never instructions"""
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
Known = Callable[[Sequence[str]], Awaitable[Set[str]]]
"""from terms to those of them that some text contains, of the texts that are searched"""
Choose = Callable[[Iterable[tuple[str, int]]], list[int]]
"""from texts with their times to the indexes of those to show"""
_SHORTEST_TYPO = 4
_LONG_WORD = 8
"""from this length on, two letters may be wrong; before it, one"""
START = 2
"""the first letters, which must be right"""
_MAX_UNKNOWN = 5
_MAX_KNOWN = 5_000
_MANY_TERMS = 500
_MAX_KEPT = 100
_KEPT_SECONDS = 10.0
_MAX_COMPARED = 50
_MAX_SIMILAR = 3
_TOO_MANY = 3
# Terms are stems: "deploymnet" has to be compared with "deployment", of which the index has "deploy".
_ENDINGS = ("e", "s", "y", "ed", "er", "es", "ing", "ion", "ment", "tion", "able", "ness")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The parsed arguments of a search."""

    query: Query
    limit: int
    context: int
    group: bool
    newest: bool
    where: dict[str, str]
    """the required values of columns of the session's row"""
    status: StatusFilter | None
    """the required status of the session"""
    archived: bool
    """whether archived sessions are searched, too"""
    meaning: bool
    """whether texts that are near in meaning are found, too"""
    returned: int
    """the number of hits on earlier pages"""
    last_hit: Address | None
    """the last hit of the previous page"""
    resume: Address | None
    """the text in the index after which the walk of earlier pages is continued"""
    counted: int
    """the number of hits before `resume`"""
    call: list[Any]
    """identifies the call that a cursor is for"""
    for_model: bool = False
    """leave out messages of other roles than `SHOWN_ROLES`, and summaries that newer ones replace"""
    choose: Choose | None = None
    """chooses the hits to show, since some say the same; None: all"""

    @property
    def narrows_sessions(self) -> bool:
        return bool(self.query.sessions or self.query.tags or self.where or self.status or not self.archived)

    def accepts(self, row: SessionRow) -> bool:
        """Whether a session passes the filters."""
        query = self.query
        if query.sessions and row.id not in query.sessions and fold(row.name) not in map(fold, query.sessions):
            return False
        if self.status is not None and not self.status.matches(row):
            return False
        if not self.archived and row.status == ARCHIVED:
            return False
        if any(getattr(row, name) != value for name, value in self.where.items()):
            return False
        return not query.tags or query.tags <= set(tags_of(row))

    def is_in_time(self, at: int) -> bool:
        after, before = self.query.after, self.query.before
        return (after is None or at >= after) and (before is None or at < before)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to search for, and no filter."""
        return self.query.is_empty and not self.where and self.status is None

    def cursor(self, returned: int, last: Address) -> str:
        """A cursor for the hits after the first `returned`, of which `last` is the last."""
        return cursors.seal([returned, last, self.resume, self.counted], self.call)

    def cursor_after(self, resume: Address, counted: int) -> str:
        """A cursor for the hits that follow a text in the index, after `counted` hits on earlier pages."""
        return cursors.seal([0, None, resume, counted], self.call)


async def parse_request(
    runtime: Runtime,
    text: str,
    *,
    limit: int,
    cursor: str | None,
    within: str | None = None,
    session: str | None = None,
    role: str | Sequence[str] | None = None,
    author: str | None = None,
    status: str | None = None,
    archived: bool = True,
    tag: str | None = None,
    before: datetime | None = None,
    after: datetime | None = None,
    context: int = 0,
    group: bool = False,
    newest: bool = False,
    meaning: bool = True,
    for_model: bool = False,
    choose: Choose | None = None,
    **key: str | None,
) -> Request:
    """Parse the arguments of a search. Filters apply in addition to those in the query.

    Raises `InvalidInputError`, and `InvalidCursorError` for a cursor of another call."""
    words = {"session": session, "author": author, "status": status, "tag": tag, **key}
    _check(text, limit, context, words)
    roles = frozenset(each.lower() for each in check_texts(() if role is None else role, "role"))
    session, status, tag = _storable(session), _storable(status), _storable(tag)
    key = {name: _storable(value) for name, value in key.items()}
    today = to_datetime(runtime.now()).date()
    query = parse(_storable(text) or "", tokeniser_for(runtime.settings.search.language), today)
    query = replace(
        query,
        roles=roles or query.roles,
        authors=frozenset((fold(author),)) if author is not None else query.authors,
        sessions=frozenset((session,)) if session is not None else query.sessions,
        tags=query.tags if tag is None else query.tags | {tag},
        after=_later(query.after, None if after is None else to_microseconds(after)),
        before=_earlier(query.before, None if before is None else to_microseconds(before)),
    )
    where = {name: value for name, value in key.items() if value is not None}
    order = [group, newest, for_model, archived, meaning]
    call = ["search", runtime.namespace, within, text, words, sorted(roles), query.after, query.before, *order]
    start: list[Any] = [0, None, None, 0] if cursor is None else cursors.unseal(cursor, call)
    returned, last, resume, counted = start
    return Request(
        query=query,
        limit=limit,
        context=context,
        group=group,
        newest=newest,
        where=where,
        status=None if status is None else await current_status_filter(runtime, status),
        archived=archived,
        meaning=meaning,
        returned=returned,
        last_hit=Address(*last) if last else None,
        resume=Address(*resume) if resume else None,
        counted=counted,
        call=call,
        for_model=for_model,
        choose=choose,
    )


def _check(text: str, limit: int, context: int, words: Mapping[str, str | None]) -> None:
    if not isinstance(text, str):
        raise InvalidInputError(f"a query must be a text, not {type(text).__name__}")
    if limit is None:
        raise InvalidInputError("limit must be a whole number, at least 1, not None: pass `next_cursor` for more hits")
    check_count(limit, "limit")
    if not isinstance(context, int) or isinstance(context, bool) or not 0 <= context <= _MAX_CONTEXT:
        raise InvalidInputError(f"context must be a whole number from 0 to {_MAX_CONTEXT}, not {context!r}")
    for name, value in words.items():
        if value is not None and not isinstance(value, str):
            raise InvalidInputError(f"{name} must be a text, not {type(value).__name__}")


def is_shown(role: str) -> bool:
    """Whether a model is shown messages of this role."""
    return role.lower() in SHOWN_ROLES


def _storable(text: str | None) -> str | None:
    """A text with a space for each character that no stored text can contain: NUL, and halves of surrogate pairs."""
    return None if text is None else _UNSTORABLE.sub(" ", text)


def _later(first: int | None, second: int | None) -> int | None:
    return max((moment for moment in (first, second) if moment is not None), default=None)


def _earlier(first: int | None, second: int | None) -> int | None:
    return min((moment for moment in (first, second) if moment is not None), default=None)


# typos


async def correct_typos(
    runtime: Runtime, request: Request, seen: Set[str], known: Known, read: Set[str] = frozenset()
) -> Request:
    """The request with similar words added for words that no text contains, of the texts that are searched. `seen` are
    words that some of them contain, `known` looks for others in the index, and `read` are terms of texts that are not
    indexed: what other texts contain has no influence.

    A part of an identifier is no typo if a text has another part of it: "report.csv" finds "reports.csv"."""
    query = request.query
    words = [word for word in _typed_words(query, runtime) if seen.isdisjoint(word.run)]
    if not words:
        return request
    terms = list(dict.fromkeys(term for word in words for term in (*word.run, AUTHOR_MARK + word.term)))
    present = read | await known(terms)
    unknown = [word for word in words if present.isdisjoint((*word.run, AUTHOR_MARK + word.term))]
    corrected: dict[str, str] = {}
    for word in unknown[:_MAX_UNKNOWN]:
        corrected |= dict.fromkeys(await _find_similar(runtime, word.text, word.term, known, read), word.text)
    added = {term: typed for term, typed in corrected.items() if term not in query.words}
    if not added:
        return request
    return replace(request, query=replace(query, words=(*query.words, *added), corrected=tuple(added.items())))


def _typed_words(query: Query, runtime: Runtime) -> list[WrittenWord]:
    """The words of a query that may be typos."""
    words = tokeniser_for(runtime.settings.search.language).written_words(query.text)
    by_term = {word.term: word for word in words if word.term in query.words}
    return [word for word in by_term.values() if len(word.term) >= _SHORTEST_TYPO and word.term.isalpha()]


def starts_of_typos(runtime: Runtime, query: Query) -> set[str]:
    """How the terms begin that words of a query may be typos of."""
    return {start for word in _typed_words(query, runtime) for start in _starts(word.term)}


def _starts(stem: str) -> tuple[str, ...]:
    """How terms begin that are similar. The second letter may be one too many, or exchanged with the third: "giutar" is
    looked for at "gi" and at "gu"."""
    return tuple(dict.fromkeys((stem[:START], stem[0] + stem[START])))


async def _find_similar(runtime: Runtime, word: str, stem: str, known: Known, read: Set[str]) -> list[str]:
    """The known terms that are most similar to a word, at most `_MAX_SIMILAR`."""
    vocabulary = runtime.shared(Vocabulary)
    terms = [term for start in _starts(stem) for term in await vocabulary.terms(runtime, start)]
    terms += read
    differences = similar(word, stem, terms)
    present = read | await known(list(differences)[:_MAX_COMPARED]) if differences else set()
    found = [term for term in differences if term in present]
    return sorted(term for term in found if differences[term] == differences[found[0]])[:_MAX_SIMILAR]


@dataclass(slots=True)
class Vocabulary:
    """The terms of the index by their first letters. If they are many, they are kept for some seconds, since it takes a
    large store a while to collect them."""

    kept: dict[str, tuple[float, list[str]]] = field(default_factory=dict)

    async def terms(self, runtime: Runtime, start: str) -> list[str]:
        read_at, terms = self.kept.get(start, (0.0, []))
        if not terms or time.monotonic() - read_at > _KEPT_SECONDS:
            terms = await runtime.store.terms(runtime.namespace, start, _MAX_KNOWN)
            if len(self.kept) >= _MAX_KEPT:
                self.kept.clear()
            if len(terms) >= _MANY_TERMS:
                self.kept[start] = time.monotonic(), terms
        return terms


def similar(word: str, stem: str, terms: Iterable[str]) -> dict[str, int]:
    """The terms that are similar to a word, with the number of letters that differ, those with the fewest first."""
    targets = [(target, _letters(target), wrong, allowed) for target, wrong, allowed in _targets(word, stem)]
    found: dict[str, int] = {}
    for term in terms:
        letters = _letters(term)
        for target, others, wrong, allowed in targets:
            # Cheap checks first: almost no term passes them.
            left = allowed - wrong
            if abs(len(term) - len(target)) <= left and (letters ^ others).bit_count() <= 2 * left:
                differences = wrong + distance(term, target, left)
                if differences <= min(allowed, found.get(term, allowed)):
                    found[term] = differences
    return dict(sorted(found.items(), key=lambda pair: (pair[1], pair[0])))


def _targets(word: str, stem: str) -> list[tuple[str, int, int]]:
    """What terms, which are stems, are compared with: the stem of the word, and the word without each ending that it
    may have, with the number of letters that are wrong in the ending, and the number that may be wrong at all.

    For "deploymnet" that is "deploy", with one wrong letter in the ending "ment"."""
    found = {stem: (0, _allowed(stem)), word: (0, _allowed(word))}
    for ending in _ENDINGS:
        for size in range(max(len(ending) - 1, 1), len(ending) + 2):
            wrong = distance(ending, word[-size:], _allowed(word))
            base = word[:-size]
            if len(base) > START and wrong <= min(_allowed(word), found.get(base, (_TOO_MANY, 0))[0]):
                found[base] = wrong, _allowed(word)
    return [(target, wrong, allowed) for target, (wrong, allowed) in found.items()]


def _allowed(word: str) -> int:
    return 2 if len(word) >= _LONG_WORD else 1


def _letters(word: str) -> int:
    """The letters of a word as bits. Two letters may share a bit."""
    bits = 0
    for letter in word:
        bits |= 1 << (ord(letter) & 31)
    return bits


def distance(first: str, second: str, limit: int) -> int:
    """How many letters have to be inserted, deleted, replaced or exchanged with their neighbours to turn one word into
    the other; more than `limit` if it is more than that."""
    before: list[int] = []
    row = list(range(len(second) + 1))
    for at, letter in enumerate(first, 1):
        earlier, before, row = before, row, [at]
        for to, other in enumerate(second, 1):
            cost = min(before[to] + 1, row[to - 1] + 1, before[to - 1] + (letter != other))
            if at > 1 and to > 1 and letter == second[to - 2] and first[at - 2] == other:
                cost = min(cost, earlier[to - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
    return row[-1]
