"""The part of `SessionManager` that finds what was said, in any session."""

from __future__ import annotations

from frontdesk.manager_states import StateCalls
from frontdesk.records import SearchResults
from frontdesk.search import scan
from frontdesk.search.tool import search_tool
from frontdesk.tools import Tool


class SearchCalls(StateCalls):
    """Search across sessions, for people and for models."""

    async def search(self, query: str, *, limit: int = 20, cursor: str | None = None) -> SearchResults:
        """What answers the query in any session of the namespace, as `Session.search`; also sessions by their names and
        summaries. session: (an id or a name) and tag: choose sessions. What forks share is given once.

        Raises `InvalidCursorError`."""
        return await scan.search_namespace(self._scope, query, limit, cursor)

    def tools(self) -> dict[str, Tool]:
        """The tools that reach beyond one session, by name: `session_search`."""
        tool = search_tool(lambda query, limit: self.search(query, limit=limit))
        return {tool.name: tool}
