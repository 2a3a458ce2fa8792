"""What a model may see of a namespace: the sessions in its scope, and the hits in these.

Everything that a model learns about other conversations comes from here, so that it cannot distinguish a session that
is out of scope from one that does not exist."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from frontdesk.config.runtime import Runtime
from frontdesk.config.scopes import SearchScope
from frontdesk.errors import InvalidIdError, SessionNotFoundError
from frontdesk.messages import check_id
from frontdesk.search import index_snapshot
from frontdesk.search.access import Access, AccessRule
from frontdesk.search.namespace_search import search_namespace
from frontdesk.search.request import Request, parse_request
from frontdesk.search.results import SearchHit, SearchResults
from frontdesk.search.scopes import OwnSession, resolve
from frontdesk.search.session_search import search_sessions
from frontdesk.store import SessionRow

_PAGE = 100
_MAX_LEFT_OUT = 2_000
"""how many hits are looked through for some that are not to be left out"""


class VisibleHits(NamedTuple):
    """The best hits, and how many were found. `is_complete` is False if there were too many sessions to look at."""

    hits: list[SearchHit]
    total: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class ScopedHistory:
    """The conversations of a namespace, limited to a scope. `own` is the session whose model asks, if it belongs to
    one."""

    runtime: Runtime
    scope: SearchScope
    own: OwnSession | None = None

    async def visible(self) -> VisibleSessions:
        """The sessions that are visible now, for the time of one answer."""
        return VisibleSessions(self.runtime, await resolve(self.scope, self.own))


class VisibleSessions:
    """The visible sessions."""

    def __init__(self, runtime: Runtime, rule: AccessRule) -> None:
        self._runtime = runtime
        self._access = Access(runtime, rule)

    async def session(self, session_id: str) -> SessionRow:
        """A visible session. Raises `SessionNotFoundError` for any other, whether or not it exists."""
        runtime = self._runtime
        try:
            row = await runtime.store.get(runtime.namespace, check_id(session_id, "session id"))
        except InvalidIdError:
            row = None
        if row is None or not await self._access.admit([row]):
            raise SessionNotFoundError(session_id, runtime.namespace)
        return row

    async def hits(
        self,
        text: str,
        limit: int,
        *,
        session_id: str | None = None,
        leave_out: Callable[[SearchHit], bool] | None = None,
    ) -> VisibleHits:
        """The best visible hits in all sessions, or in one. Raises `SessionNotFoundError` as `session` does."""
        within = None if session_id is None else await self.session(session_id)
        hits: list[SearchHit] = []
        cursor: str | None = None
        total = left_out = 0
        while True:
            size = limit if leave_out is None else _PAGE
            request = await parse_request(self._runtime, text, limit=size, cursor=cursor, for_model=True)
            results = await self._search(request, within)
            kept = [hit for hit in results if leave_out is None or not leave_out(hit)]
            hits += kept
            left_out += len(results) - len(kept)
            total, cursor = max(total, results.total), results.next_cursor
            if cursor is None or len(hits) >= limit or left_out >= _MAX_LEFT_OUT:
                break
        return VisibleHits(hits[:limit], max(total - left_out, len(hits)), not self._access.is_exhausted)

    async def _search(self, request: Request, within: SessionRow | None) -> SearchResults:
        if within is None:
            return await search_namespace(self._runtime, request, self._access)
        snapshot = await index_snapshot.snapshot_for_session(self._runtime)
        return await search_sessions(self._runtime, request, [within] if request.accepts(within) else [], snapshot)
