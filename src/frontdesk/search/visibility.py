"""What a model may see of a namespace: the sessions that a scope function accepts, and the hits in these.

Everything that a model learns about other conversations comes from here, so that it cannot distinguish a session that
is out of scope from one that does not exist."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from frontdesk.calls import call
from frontdesk.config.runtime import Runtime
from frontdesk.config.settings import SessionFilter
from frontdesk.errors import ConfigurationError, SessionNotFoundError
from frontdesk.history import trees
from frontdesk.lifecycle import transitions
from frontdesk.messages import SUMMARY_PREFIX, check_id
from frontdesk.models.windows import session_window
from frontdesk.records import SessionInfo
from frontdesk.search.namespace_search import search_namespace
from frontdesk.search.request import parse_request
from frontdesk.search.results import SearchHit, SearchResults
from frontdesk.search.session_search import search_session
from frontdesk.store import EditItem, SessionRow
from frontdesk.tree.tree import Tree

MAX_HITS_CHECKED = 2_000
"""how many of the best hits are checked against the scope; that there are more is not reported, since that would reveal
something about hidden sessions"""
_PAGE = 100


@dataclass(frozen=True, slots=True)
class ScopedHistory:
    """The conversations of a namespace, limited to the sessions that `scope` accepts (None: all)."""

    runtime: Runtime
    scope: SessionFilter | None = None

    def __post_init__(self) -> None:
        if self.scope is not None and not callable(self.scope):
            raise ConfigurationError(
                f"a scope is a callable from SessionInfo to true or false, not {type(self.scope).__name__}"
            )

    def visible(self) -> VisibleSessions:
        """The sessions that are visible now, for the time of one answer."""
        return VisibleSessions(self)


class VisibleSessions:
    """The visible sessions. The scope function is called once for each session."""

    def __init__(self, history: ScopedHistory) -> None:
        self._history = history
        self._known: dict[str, SessionInfo | None] = {}

    async def session(self, session_id: str) -> SessionInfo:
        """A visible session. Raises `SessionNotFoundError` for any other, whether or not it exists."""
        runtime = self._history.runtime
        if session_id not in self._known:
            await self._check(
                session_id, await runtime.store.get(runtime.namespace, check_id(session_id, "session id"))
            )
        info = self._known[session_id]
        if info is None:
            raise SessionNotFoundError(session_id, runtime.namespace)
        return info

    async def _check(self, session_id: str, row: SessionRow | None) -> None:
        info = None
        if row is not None:
            (row,) = await trees.measure_rows(self._history.runtime, [row])
            (status,) = await transitions.statuses(self._history.runtime, [row])
            compaction = self._history.runtime.settings.compaction
            info = SessionInfo.from_row(row, session_window(row, compaction.max_tokens), status)
            if self._history.scope is not None and not await call(self._history.scope, info):
                info = None
        self._known[session_id] = info

    async def _check_all(self, rows: Iterable[SessionRow]) -> None:
        await asyncio.gather(*(self._check(row.id, row) for row in rows if row.id not in self._known))

    async def hits(
        self,
        text: str,
        limit: int,
        *,
        session_id: str | None = None,
        leave_out: Callable[[SearchHit], bool] | None = None,
    ) -> tuple[list[SearchHit], int]:
        """The best visible hits, and how many there are; with a scope, among the first `MAX_HITS_CHECKED`."""
        if session_id is not None:
            await self.session(session_id)
        if (self._history.scope is None or session_id is not None) and leave_out is None:
            results = await self._search(text, session_id, limit, None)
            return list(results), results.total
        visible: list[SearchHit] = []
        cursor: str | None = None
        remaining = 0
        for checked in range(_PAGE, MAX_HITS_CHECKED + 1, _PAGE):
            results = await self._search(text, session_id, _PAGE, cursor)
            hits = [hit for hit in results if leave_out is None or not leave_out(hit)]
            visible += hits if self._history.scope is None else await self._keep_visible(hits)
            cursor = results.next_cursor
            if cursor is None:
                break
            if self._history.scope is None and len(visible) >= limit:
                remaining = results.total - checked
                break
        return visible[:limit], len(visible) + remaining

    async def _search(self, text: str, session_id: str | None, limit: int, cursor: str | None) -> SearchResults:
        runtime = self._history.runtime
        request = await parse_request(runtime, text, limit=limit, cursor=cursor, within=session_id)
        if session_id is None:
            return await search_namespace(runtime, request)
        return await search_session(runtime, session_id, request)

    async def _keep_visible(self, hits: list[SearchHit]) -> list[SearchHit]:
        """The visible hits. A hit in a hidden session is attributed to a visible session that shares the text."""
        runtime = self._history.runtime
        names = {hit.session_id for hit in hits} - self._known.keys()
        rows = await asyncio.gather(*(runtime.store.get(runtime.namespace, name) for name in names))
        await self._check_all(row for row in rows if row is not None)
        hidden: dict[str, list[SearchHit]] = {}
        for hit in hits:
            if self._known.get(hit.session_id) is None:
                hidden.setdefault(hit.session_id, []).append(hit)
        moved: dict[int, SearchHit] = {}
        for session_id, of_session in hidden.items():
            moved |= await self._find_in_relatives(session_id, of_session)
        found = (hit if self._known.get(hit.session_id) else moved.get(id(hit)) for hit in hits)
        return [hit for hit in found if hit is not None]

    async def _find_in_relatives(self, session_id: str, hits: list[SearchHit]) -> dict[int, SearchHit]:
        """Hits of a hidden session, by id(), attributed to the most recently active visible session of its family that
        shows the same text."""
        messages = [hit for hit in hits if hit.kind != "session"]
        wanted = [hit.message_id for hit in messages if hit.kind == "message"]
        hidden = (
            await trees.load_tree(self._history.runtime, session_id, find=wanted, family=True) if messages else None
        )
        if hidden is None or len(hidden.rows.sessions) < 2:
            return {}
        await self._check_all(hidden.rows.sessions)
        found: dict[int, SearchHit] = {}
        for row in sorted(hidden.rows.sessions, key=lambda row: (-row.last_active_at, -row.number)):
            if self._known.get(row.id) is not None:
                tree = Tree(hidden.rows, row)
                for hit in messages:
                    if id(hit) not in found and _shows_same_text(hidden, tree, hit):
                        found[id(hit)] = replace(hit, session_id=row.id, session_name=row.name, position=None)
        return found


def _shows_same_text(hidden: Tree, tree: Tree, hit: SearchHit) -> bool:
    """Whether a session shows the text that was found, not another version of the message."""
    if hit.kind == "summary":
        numbers = {overlay.number for overlay in hidden.overlays if SUMMARY_PREFIX + overlay.id == hit.message_id}
        return any(overlay.number in numbers for overlay in tree.overlays)
    place = hidden.find(hit.message_id)
    if place is None or not tree.sees(place):
        return False
    versions = [
        [item.number if isinstance(item, EditItem) else None for item in visible.between(place, place)]
        for visible in (hidden, tree)
    ]
    return versions[0] == versions[1]
