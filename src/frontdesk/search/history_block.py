"""The searchable block over other conversations that `with_searchable_history` declares."""

from __future__ import annotations

from frontdesk.config.runtime import Runtime
from frontdesk.config.settings import HistorySearch
from frontdesk.search.results import SearchHit
from frontdesk.search.tools import search_as_text
from frontdesk.search.visibility import ScopedHistory


class SearchableHistory:
    """The provider of a block that searches all sessions of the namespace.

    Messages in the session's own history are left out, since the model sees them already. Those that were compacted
    away, or that are on another branch, are found."""

    def __init__(self, runtime: Runtime, declared: HistorySearch, session_id: str) -> None:
        self._history = ScopedHistory(runtime, declared.scope)
        self._max_tokens = declared.max_tokens
        self._session_id = session_id

    def get(self) -> str:
        return "Everything that was said in all conversations. Ask in plain words: any of them may match."

    async def search(self, query: str) -> str | None:
        return await search_as_text(self._history, query, self._max_tokens, self._is_in_own_history)

    def _is_in_own_history(self, hit: SearchHit) -> bool:
        return hit.session_id == self._session_id and (hit.visible or hit.kind == "session")
