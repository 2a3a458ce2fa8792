"""Search by reading: every message is tokenised, matched and ranked. Always current; its cost follows the text."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from frontdesk import cursors, history
from frontdesk.checks import check_count
from frontdesk.errors import InvalidInputError
from frontdesk.messages import SUMMARY_PREFIX, Message
from frontdesk.records import SearchHit, SearchResults, to_datetime
from frontdesk.scope import Scope
from frontdesk.search.query import Query, parse
from frontdesk.search.ranking import Candidate, Matcher, Statistics, rank
from frontdesk.search.snippets import snippet
from frontdesk.search.texts import searchable_text
from frontdesk.search.tokeniser import Tokeniser, fold
from frontdesk.store import EditItem, Item, OverlayItem, Place, SessionQuery, SessionRow, Span
from frontdesk.tree import Tree, batches, position_of

_SESSIONS = 200
_ALONE = -1
TOKENISER = Tokeniser()


async def search_session(
    scope: Scope, session_id: str | None, text: str, limit: int, cursor: str | None = None
) -> SearchResults:
    """Hits on all branches of one session."""
    call = _Call(text, limit, cursor, ["search", scope.namespace, session_id])
    scan = _Scan(scope, call.query)
    if session_id is not None and not call.query.is_empty:
        await scan.read_session(session_id)
    return call.results(scan)


async def search_namespace(scope: Scope, text: str, limit: int, cursor: str | None = None) -> SearchResults:
    """Hits in all sessions of the namespace; a message that forks share is given once, for the most recent of them."""
    call = _Call(text, limit, cursor, ["search", scope.namespace])
    scan = _Scan(scope, call.query)
    after: tuple[int, int] | None = None
    while not call.query.is_empty:
        rows = await scope.store.page(SessionQuery(namespace=scope.namespace, limit=_SESSIONS, after=after))
        for row in rows:
            if is_wanted(row, call.query):
                scan.add_session(row)
                await scan.read_session(row.id)
        if len(rows) < _SESSIONS:
            break
        after = rows[-1].last_active_at, rows[-1].number
    return call.results(scan)


def rank_texts(text: str, documents: Iterable[str]) -> list[tuple[int, float]]:
    """(index, score) of the documents that match a query, best first, equals in their order; each stands for itself."""
    query = parse(text, TOKENISER)
    matcher, statistics = Matcher(query), Statistics()
    indexes: list[int] = []
    candidates: list[Candidate] = []
    for index, document in enumerate(documents):
        terms = TOKENISER.terms(document)
        found = matcher.find(terms)
        statistics.count(len(terms), found)
        if found is not None and query.has_terms:
            indexes.append(index)
            candidates.append(Candidate(found, _ALONE, 2 * len(_NEVER) + index * _APART))
    scores = rank(query, candidates, statistics)
    return sorted(zip(indexes, scores, strict=True), key=lambda pair: -pair[1])


class _Entry(NamedTuple):
    """A text that matched: a message, the summary of a compaction, or a session's name and summary."""

    kind: Literal["message", "summary", "session"]
    row: SessionRow
    tree: Tree | None
    place: Place | None
    id: str
    role: str
    created_at: int
    text: str


class _Scan:
    """What reading has found so far."""

    def __init__(self, scope: Scope, query: Query) -> None:
        self.query = query
        self.entries: list[_Entry] = []
        self._scope = scope
        self._matcher = Matcher(query)
        self._statistics = Statistics()
        self._candidates: list[Candidate] = []
        self._taken = _Taken()

    def add_session(self, row: SessionRow) -> None:
        text = "\n".join(filter(None, (row.name, row.summary)))
        if text:
            self._add(_Entry("session", row, None, None, "", "", row.last_active_at, text))

    async def read_session(self, session_id: str) -> None:
        tree = await history.load_tree(self._scope, session_id)
        if tree is None or not is_wanted(tree.session, self.query):
            return
        for batch in batches(list(self._taken.leave_out(_all_items(tree))), history.PORTION):
            pieces = await self._scope.store.read(batch)
            for item, piece in zip(batch, pieces, strict=True):
                if piece.overlay is not None:
                    made, id = piece.overlay, SUMMARY_PREFIX + piece.overlay.id
                    self._add(
                        _Entry("summary", tree.session, tree, None, id, "system", made.created_at, made.summary or "")
                    )
                for offset, message in enumerate(Message.from_run(piece.messages, piece.before_id)):
                    self._add_message(tree, _place(item, offset), message)
            # Other tasks get a turn: matching a portion keeps the processor busy.
            await asyncio.sleep(0)

    def _add_message(self, tree: Tree, place: Place | None, message: Message) -> None:
        text = searchable_text(message)
        stored = message.stored
        self._add(_Entry("message", tree.session, tree, place, stored.id, stored.role, stored.created_at, text))

    def _add(self, entry: _Entry) -> None:
        terms = TOKENISER.terms(entry.text)
        found = self._matcher.find(terms)
        self._statistics.count(len(terms), found)
        if found is not None:
            place = entry.place or Place(_ALONE, -len(self.entries) * _APART)
            self.entries.append(entry)
            self._candidates.append(Candidate(found, *place))

    def ranked(self) -> list[tuple[float, _Entry]]:
        """What passes the filters, best first, and of equals the newest first."""
        scores = rank(self.query, self._candidates, self._statistics)
        pairs = [pair for pair in zip(scores, self.entries, strict=True) if _passes(pair[1], self.query)]
        pairs.sort(key=lambda pair: (-pair[0], -pair[1].created_at, pair[1].row.id, pair[1].id))
        return pairs
