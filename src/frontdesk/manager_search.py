"""The part of `SessionManager` that finds what was said, in any session."""

from __future__ import annotations

from frontdesk.builder import seen_past
from frontdesk.manager_states import StateCalls
from frontdesk.records import SearchResults
from frontdesk.search import scan
from frontdesk.search.tool import ANSWER_TOKENS, check_answer_tokens, history_tools
from frontdesk.search.visible import SessionScope
from frontdesk.tools import Tool


class SearchCalls(StateCalls):
    """Search across sessions, for people and for models."""

    async def search(self, query: str, *, limit: int = 20, cursor: str | None = None) -> SearchResults:
        """What answers the query in any session of the namespace, as `Session.search`; also sessions by their names and
        summaries. session: (an id or a name) and tag: choose sessions. What forks share is given once.

        Raises `InvalidCursorError`."""
        return await scan.search_namespace(self._scope, query, limit, cursor)

    def tools(self, *, scope: SessionScope | None = None, max_tokens: int = ANSWER_TOKENS) -> dict[str, Tool]:
        """The tools that reach beyond one session, by name: `session_search` and `read_session`.

        `scope(session_info)`, sync or async, says of each session whether the model may see it; one out of scope is
        nowhere to be told from one that does not exist. `max_tokens` is the most that an answer costs."""
        return history_tools(seen_past(self._scope, scope), check_answer_tokens(max_tokens))
