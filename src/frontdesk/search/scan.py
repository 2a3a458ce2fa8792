"""Search by reading: every word of the query against every message. Exact and always current; cost follows the text."""

from __future__ import annotations

import heapq
import re
from collections.abc import AsyncIterator
from typing import NamedTuple

from frontdesk import history
from frontdesk.checks import check_count
from frontdesk.errors import InvalidInputError
from frontdesk.messages import Message
from frontdesk.records import SearchHit, SearchResults
from frontdesk.scope import Scope
from frontdesk.store import Item, SessionQuery
from frontdesk.tree import Tree

_WORD = re.compile(r"\w+")
_SESSIONS = 200
_AROUND = 60
_MOST_WORDS = 100


class _Ranked(NamedTuple):
    """Ordered by how well it matched, then by time."""

    score: float
    created_at: int
    message_id: str
    hit: SearchHit


async def search_session(scope: Scope, session_id: str | None, query: str, limit: int) -> SearchResults:
    """Hits on all branches of one session."""
    words = _words(query, limit)
    ranked: list[_Ranked] = []
    if session_id is not None and words:
        ranked = [hit async for hit in _scan(scope, session_id, words, set())]
    return _best(ranked, limit)


async def search_namespace(scope: Scope, query: str, limit: int) -> SearchResults:
    """Hits in all sessions of the namespace; a message that forks share is given once, for the most recent of them."""
    words = _words(query, limit)
    ranked: list[_Ranked] = []
    seen: set[Item] = set()
    page = SessionQuery(namespace=scope.namespace, limit=_SESSIONS)
    while words:
        rows = await scope.store.page(page)
        for row in rows:
            ranked += [hit async for hit in _scan(scope, row.id, words, seen)]
        if len(rows) < _SESSIONS:
            break
        page = SessionQuery(
            namespace=scope.namespace, limit=_SESSIONS, after=(rows[-1].last_active_at, rows[-1].number)
        )
    return _best(ranked, limit)


def _words(query: str, limit: int) -> list[str]:
    if not isinstance(query, str):
        raise InvalidInputError(f"a query is a text, not {type(query).__name__}")
    check_count(limit, "limit")
    return words_of(query)


def words_of(query: str) -> list[str]:
    """The words of a query, folded, each once."""
    return list(dict.fromkeys(_WORD.findall(query.casefold())))[:_MOST_WORDS]


def match(text: str, words: list[str]) -> int:
    """How many of the words a text holds."""
    folded = text.casefold()
    return sum(word in folded for word in words)


async def _scan(scope: Scope, session_id: str, words: list[str], seen: set[Item]) -> AsyncIterator[_Ranked]:
    tree = await history.load_tree(scope, session_id)
    if tree is None:
        return
    items = [item for item in _all_items(tree) if item not in seen]
    seen.update(items)
    async for portion in history.portions(scope, items):
        for message in portion:
            ranked = _rank(session_id, message, words)
            if ranked is not None:
                yield ranked


def _all_items(tree: Tree) -> list[Item]:
    return [item for segment in tree.visible_segments() for item in tree.segment_items(segment.number)]


def _rank(session_id: str, message: Message, words: list[str]) -> _Ranked | None:
    text = message.text
    folded = text.casefold()
    places = [folded.find(word) for word in words]
    score = float(sum(place >= 0 for place in places))
    if not score:
        return None
    first = min(place for place in places if place >= 0)
    snippet = text[max(0, first - _AROUND) : first + _AROUND]
    hit = SearchHit(session_id, message.id, message.role, score, snippet, message.created_at)
    return _Ranked(score, message.stored.created_at, message.id, hit)


def _best(ranked: list[_Ranked], limit: int) -> SearchResults:
    best = heapq.nlargest(limit, ranked, key=lambda entry: entry[:3])
    return SearchResults(tuple(entry.hit for entry in best), total=len(ranked), next_cursor=None)
