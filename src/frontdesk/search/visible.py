"""What one reader may see of a namespace: the sessions that a scope function lets pass, and what is found in those.

Whatever is told to a model about other conversations goes through here, so that a session out of scope is nowhere to
be told from one that does not exist."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from frontdesk.calls import call
from frontdesk.config.runtime import Runtime
from frontdesk.config.settings import SessionFilter
from frontdesk.errors import ConfigurationError, SessionNotFoundError
from frontdesk.history import reading
from frontdesk.lifecycle import transitions
from frontdesk.messages import SUMMARY_PREFIX, check_id
from frontdesk.models.windows import session_window
from frontdesk.records import SearchHit, SearchResults, SessionInfo
from frontdesk.search.across import search_namespace
from frontdesk.search.request import understood
from frontdesk.search.within import search_session
from frontdesk.store import EditItem, SessionRow
from frontdesk.tree.tree import Tree

MOST_HITS_LOOKED_AT = 2_000
"""so many of the best hits are put to the scope; that there were more is not told, for it would tell of the hidden"""
_PAGE = 100


@dataclass(frozen=True, slots=True)
class Past:
    """All conversations of a namespace, as those who may see what `sees` lets pass can see them (None: everything)."""

    runtime: Runtime
    sees: SessionFilter | None = None

    def __post_init__(self) -> None:
        if self.sees is not None and not callable(self.sees):
            raise ConfigurationError(
                f"a scope is a callable from SessionInfo to true or false, not {type(self.sees).__name__}"
            )

    def look(self) -> Visible:
        """A look at what may be seen now; what it learns of a session holds for the time of one answer."""
        return Visible(self)


class Visible:
    """One look at the past: every session is asked about once."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self._known: dict[str, SessionInfo | None] = {}

    async def session(self, session_id: str) -> SessionInfo:
        """A session that may be seen. `SessionNotFoundError` for any other, whether or not it exists."""
        runtime = self._past.runtime
        if session_id not in self._known:
            await self._learn(
                session_id, await runtime.store.get(runtime.namespace, check_id(session_id, "session id"))
            )
        info = self._known[session_id]
        if info is None:
            raise SessionNotFoundError(session_id, runtime.namespace)
        return info

    async def _learn(self, session_id: str, row: SessionRow | None) -> None:
        info = None
        if row is not None:
            row = await reading.measured_row(self._past.runtime, row)
            (status,) = await transitions.statuses(self._past.runtime, [row])
            compaction = self._past.runtime.settings.compaction
            info = SessionInfo.from_row(row, session_window(row.max_tokens, compaction.max_tokens, row.model), status)
            if self._past.sees is not None and not await call(self._past.sees, info):
                info = None
        self._known[session_id] = info

    async def _ask(self, rows: Iterable[SessionRow]) -> None:
        await asyncio.gather(*(self._learn(row.id, row) for row in rows if row.id not in self._known))

    async def hits(
        self,
        text: str,
        limit: int,
        *,
        session_id: str | None = None,
        leave_out: Callable[[SearchHit], bool] | None = None,
    ) -> tuple[list[SearchHit], int]:
        """The best hits of what may be seen, and how many there are; with a scope, among `MOST_HITS_LOOKED_AT`."""
        if session_id is not None:
            await self.session(session_id)
        if (self._past.sees is None or session_id is not None) and leave_out is None:
            results = await self._search(text, session_id, limit, None)
            return list(results), results.total
        seen: list[SearchHit] = []
        cursor: str | None = None
        unseen = 0
        for looked_at in range(_PAGE, MOST_HITS_LOOKED_AT + 1, _PAGE):
            results = await self._search(text, session_id, _PAGE, cursor)
            hits = [hit for hit in results if leave_out is None or not leave_out(hit)]
            seen += hits if self._past.sees is None else await self._visible(hits)
            cursor = results.next_cursor
            if cursor is None:
                break
            if self._past.sees is None and len(seen) >= limit:
                unseen = results.total - looked_at
                break
        return seen[:limit], len(seen) + unseen

    async def _search(self, text: str, session_id: str | None, limit: int, cursor: str | None) -> SearchResults:
        runtime = self._past.runtime
        request = await understood(runtime, text, limit=limit, cursor=cursor, within=session_id)
        if session_id is None:
            return await search_namespace(runtime, request)
        return await search_session(runtime, session_id, request)

    async def _visible(self, hits: list[SearchHit]) -> list[SearchHit]:
        """Those that may be seen; what a hidden session shares with one that may be seen is that one's."""
        runtime = self._past.runtime
        names = {hit.session_id for hit in hits} - self._known.keys()
        rows = await asyncio.gather(*(runtime.store.get(runtime.namespace, name) for name in names))
        await self._ask(row for row in rows if row is not None)
        hidden: dict[str, list[SearchHit]] = {}
        for hit in hits:
            if self._known.get(hit.session_id) is None:
                hidden.setdefault(hit.session_id, []).append(hit)
        elsewhere: dict[int, SearchHit] = {}
        for session_id, theirs in hidden.items():
            elsewhere |= await self._elsewhere(session_id, theirs)
        found = (hit if self._known.get(hit.session_id) else elsewhere.get(id(hit)) for hit in hits)
        return [hit for hit in found if hit is not None]

    async def _elsewhere(self, session_id: str, hits: list[SearchHit]) -> dict[int, SearchHit]:
        """Hits of a hidden session as those of the most recent of its family that may be seen and shows the same."""
        messages = [hit for hit in hits if hit.kind != "session"]
        wanted = [hit.message_id for hit in messages if hit.kind == "message"]
        hidden = await reading.load_tree(self._past.runtime, session_id, find=wanted, family=True) if messages else None
        if hidden is None or len(hidden.rows.sessions) < 2:
            return {}
        await self._ask(hidden.rows.sessions)
        found: dict[int, SearchHit] = {}
        for row in sorted(hidden.rows.sessions, key=lambda row: (-row.last_active_at, -row.number)):
            if self._known.get(row.id) is not None:
                tree = Tree(hidden.rows, row)
                for hit in messages:
                    if id(hit) not in found and _same(hidden, tree, hit):
                        found[id(hit)] = replace(hit, session_id=row.id, session_name=row.name, position=None)
        return found


def _same(hidden: Tree, tree: Tree, hit: SearchHit) -> bool:
    """Whether a session shows the very text that was found, and not another version of the message."""
    if hit.kind == "summary":
        numbers = {overlay.number for overlay in hidden.overlays if SUMMARY_PREFIX + overlay.id == hit.message_id}
        return any(overlay.number in numbers for overlay in tree.overlays)
    place = hidden.find(hit.message_id)
    if place is None or not tree.sees(place):
        return False
    versions = [
        [item.number if isinstance(item, EditItem) else None for item in seen.between(place, place)]
        for seen in (hidden, tree)
    ]
    return versions[0] == versions[1]
