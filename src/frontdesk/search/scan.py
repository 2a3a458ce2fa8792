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
from frontdesk.search.ranking import Candidate, Found, Matcher, Statistics, rank
from frontdesk.search.snippets import snippet
from frontdesk.search.texts import searchable_text
from frontdesk.search.tokeniser import TOKENISER, fold
from frontdesk.store import Item, OverlayItem, OverlayRow, Place, SessionQuery, SessionRow, Span
from frontdesk.tree import Tree, batches, position_of

_SESSIONS = 200


async def search_session(
    scope: Scope, session_id: str | None, text: str, limit: int, cursor: str | None = None
) -> SearchResults:
    """Hits on all branches of one session."""
    call = ["search", scope.namespace, session_id, text]
    query, skip = _checked(text, limit, cursor, call)
    scan = _Scan(scope, query)
    if session_id is not None and not query.is_empty:
        await scan.read_session(session_id)
    return _page(scan.ranked(), query, skip, limit, call)


async def search_namespace(scope: Scope, text: str, limit: int, cursor: str | None = None) -> SearchResults:
    """Hits in all sessions of the namespace; a message that forks share is given once, for the most recent of them."""
    call = ["search", scope.namespace, text]
    query, skip = _checked(text, limit, cursor, call)
    scan = _Scan(scope, query)
    after: tuple[int, int] | None = None
    while not query.is_empty:
        rows = await scope.store.page(SessionQuery(namespace=scope.namespace, limit=_SESSIONS, after=after))
        for row in rows:
            if _is_wanted(row, query):
                scan.add_session(row)
                await scan.read_session(row.id)
        if len(rows) < _SESSIONS:
            break
        after = rows[-1].last_active_at, rows[-1].number
    return _page(scan.ranked(), query, skip, limit, call)


def _checked(text: str, limit: int, cursor: str | None, call: list[Any]) -> tuple[Query, int]:
    """The query, and how many hits the pages before have given."""
    if not isinstance(text, str):
        raise InvalidInputError(f"a query is a text, not {type(text).__name__}")
    check_count(limit, "limit")
    skip = 0 if cursor is None else cursors.unseal(cursor, call)[0]
    return parse(text, TOKENISER), skip


def _page(ranked: list[tuple[float, _Entry]], query: Query, skip: int, limit: int, call: list[Any]) -> SearchResults:
    end = skip + limit
    hits = tuple(_hit(score, entry, query) for score, entry in ranked[skip:end])
    return SearchResults(hits, len(ranked), cursors.seal([end], call) if end < len(ranked) else None)


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
        self._query = query
        self._scope = scope
        self._matcher = Matcher(query)
        self._statistics = Statistics()
        self._entries: list[_Entry] = []
        self._candidates: list[Candidate] = []
        self._parents: dict[int, tuple[int, int]] = {}
        self._taken = _Taken()

    def add_session(self, row: SessionRow) -> None:
        """Take a session's own name and summary into account."""
        text = "\n".join(filter(None, (row.name, row.summary)))
        if text and (found := self._match(text)):
            self._keep(found, _Entry("session", row, None, None, "", "", row.last_active_at, text))

    async def read_session(self, session_id: str) -> None:
        """Take every message and every summary into account that was not there in a session read before."""
        tree = await history.load_tree(self._scope, session_id)
        if tree is None or not _is_wanted(tree.session, self._query):
            return
        self._parents.update((segment.number, segment.parent) for segment in tree.visible_segments() if segment.parent)
        for batch in batches(self._taken.leave_out(_all_items(tree)), history.PORTION):
            pieces = await self._scope.store.read(batch)
            for item, piece in zip(batch, pieces, strict=True):
                if piece.overlay is not None:
                    self._add_summary(tree, piece.overlay)
                for offset, message in enumerate(Message.from_run(piece.messages, piece.before_id)):
                    self._add_message(tree, _place(item, offset), message)
            # Other tasks get a turn: matching a portion keeps the processor busy.
            await asyncio.sleep(0)

    def _add_message(self, tree: Tree, place: Place, message: Message) -> None:
        text = searchable_text(message)
        if found := self._match(text):
            at = message.stored.created_at
            self._keep(found, _Entry("message", tree.session, tree, place, message.id, message.role, at, text))

    def _add_summary(self, tree: Tree, made: OverlayRow) -> None:
        text = made.summary or ""
        if found := self._match(text):
            id = SUMMARY_PREFIX + made.id
            self._keep(found, _Entry("summary", tree.session, tree, None, id, "system", made.created_at, text))

    def _match(self, text: str) -> Found | None:
        return self._matcher.take(TOKENISER.terms(text), self._statistics)

    def _keep(self, found: Found, entry: _Entry) -> None:
        self._entries.append(entry)
        self._candidates.append(Candidate(found, *(entry.place or ())))

    def ranked(self) -> list[tuple[float, _Entry]]:
        """What passes the filters, best first, and of equals the newest first."""
        scores = rank(self._query, self._candidates, self._statistics, self._parents)
        pairs = [pair for pair in zip(scores, self._entries, strict=True) if _passes(pair[1], self._query)]
        pairs.sort(key=lambda pair: (-pair[0], -pair[1].created_at, pair[1].row.id, pair[1].id))
        return pairs


class _Taken:
    """What was read already, so that forks do not give the same message twice."""

    def __init__(self) -> None:
        self._spans: dict[int, list[tuple[int, int]]] = {}
        self._others: set[tuple[type, int]] = set()

    def leave_out(self, items: Iterable[Item]) -> list[Item]:
        """The items without what was read before; they count as read from now on."""
        rest: list[Item] = []
        for item in items:
            if isinstance(item, Span):
                rest += self._unread(item)
            elif (type(item), item.number) not in self._others:
                self._others.add((type(item), item.number))
                rest.append(item)
        return rest

    def _unread(self, span: Span) -> Iterator[Span]:
        read = self._spans.setdefault(span.segment, [])
        first = span.first
        for read_first, read_last in sorted(read):
            if first < read_first <= span.last:
                yield _part(span, first, read_first - 1)
            if read_first <= span.last:
                first = max(first, read_last + 1)
        if first <= span.last:
            yield _part(span, first, span.last)
        read.append((span.first, span.last))


def _part(span: Span, first: int, last: int) -> Span:
    before = span.before if first == span.first else Place(span.segment, first - 1)
    return Span(span.segment, first, last, before)


def _all_items(tree: Tree) -> list[Item]:
    """Every message that a session sees, on whichever branch, and every summary."""
    items = [item for segment in tree.visible_segments() for item in tree.segment_items(segment.number)]
    summaries = [overlay for overlay in tree.overlays if overlay.kind == "summary"]
    items += [OverlayItem(overlay.number, overlay.tokens, tree.before(overlay.start)) for overlay in summaries]
    return items


def _place(item: Item, offset: int) -> Place:
    return Place(item.segment, item.first + offset) if isinstance(item, Span) else item.place  # type: ignore[union-attr]


def _is_wanted(row: SessionRow, query: Query) -> bool:
    """Whether a session passes the filters by session and tag."""
    if query.sessions and row.id not in query.sessions and fold(row.name) not in map(fold, query.sessions):
        return False
    return not query.tags or query.tags <= set(msgspec.json.decode(row.tags))


def _passes(entry: _Entry, query: Query) -> bool:
    """Whether a text passes the filters by role and time."""
    if query.roles and entry.role.lower() not in query.roles:
        return False
    if query.after is not None and entry.created_at < query.after:
        return False
    return query.before is None or entry.created_at < query.before


def _hit(score: float, entry: _Entry, query: Query) -> SearchHit:
    position, visible = _standing(entry)
    return SearchHit(
        session_id=entry.row.id,
        message_id=entry.id,
        role=entry.role,
        score=score,
        snippet=snippet(entry.text, query, TOKENISER),
        created_at=to_datetime(entry.created_at),
        kind=entry.kind,
        session_name=entry.row.name,
        position=position,
        visible=visible,
    )


def _standing(entry: _Entry) -> tuple[int | None, bool]:
    """Where an entry stands on the path to the head, and whether history shows it there."""
    tree, place = entry.tree, entry.place
    if tree is None:
        return None, False
    view = tree.lay(tree.session.head)
    if place is None:
        numbers = {overlay.number for overlay in tree.overlays if SUMMARY_PREFIX + overlay.id == entry.id}
        return None, any(isinstance(item, OverlayItem) and item.number in numbers for item in view)
    position = position_of(tree.lay(tree.session.head, overlays=False), place)
    return position, position_of(view, place) is not None
