"""The searchable block over other conversations that `with_searchable_history` declares."""

from __future__ import annotations

from frontdesk.config.runtime import Runtime
from frontdesk.config.settings import HistorySearch
from frontdesk.search.results import SearchHit
from frontdesk.search.scopes import OwnSession
from frontdesk.search.tools import search_as_text
from frontdesk.search.visibility import ScopedHistory


class SearchableHistory:
    """The provider of a block that searches the conversations in a scope.

    Messages in the session's own history are left out, since the model sees them already. Those that were compacted
    away, or that are on another branch, are found."""

    def __init__(self, runtime: Runtime, own: OwnSession, declared: HistorySearch) -> None:
        self._own = own
        self._history = ScopedHistory(runtime, declared.scope, own)
        self._max_tokens = declared.max_tokens

    def get(self) -> str:
        return "What was said in earlier conversations. Ask in plain words: any of them may match."

    async def search(self, query: str) -> str | None:
        row = await self._own.row()

        def is_in_own_history(hit: SearchHit) -> bool:
            return row is not None and hit.session_id == row.id and (hit.visible or hit.kind == "session")

        return await search_as_text(self._history, query, self._max_tokens, is_in_own_history)
