"""The part of `SessionManager` that finds what was said, in any session."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from frontdesk.config.settings import ANSWER_TOKENS, SessionFilter, check_answer_tokens
from frontdesk.errors import ConfigurationError
from frontdesk.manager.states import StateCalls
from frontdesk.records import SearchInfo, SearchResults
from frontdesk.search import freshness, indexing, vectors
from frontdesk.search.across import search_namespace
from frontdesk.search.request import understood
from frontdesk.search.tool import history_tools
from frontdesk.search.visible import Past
from frontdesk.tools import Tool


class SearchCalls(StateCalls):
    """Search across sessions, for people and for models."""

    async def search(
        self,
        query: str,
        *,
        limit: int = 20,
        cursor: str | None = None,
        session: str | None = None,
        role: str | None = None,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        thread: str | None = None,
        status: str | None = None,
        tag: str | None = None,
        before: datetime | None = None,
        after: datetime | None = None,
        context: int = 0,
        group: bool = False,
        newest: bool = False,
    ) -> SearchResults:
        """What answers the query in any session of the namespace, as `Session.search`; also sessions by their names and
        summaries. What forks share is given once.

        session: and tag: in the query, and the arguments beside it, choose sessions: by id or name, by the parts of
        their keys, by status and by tag. With `group` the hits of a session stand together, in the order of its best.
        Raises `InvalidInputError`, `InvalidCursorError`."""
        request = await understood(
            self._runtime,
            query,
            limit=limit,
            cursor=cursor,
            session=session,
            role=role,
            status=status,
            tag=tag,
            before=before,
            after=after,
            context=context,
            group=group,
            newest=newest,
            agent=agent,
            channel=channel,
            peer=peer,
            thread=thread,
        )
        return await search_namespace(self._runtime, request)

    async def search_info(self) -> SearchInfo:
        """How the namespace is searched, and how far its index is."""
        return await freshness.info(self._runtime)

    async def reindex(self, on_progress: Callable[[int, int], Any] | None = None) -> SearchInfo:
        """Build the search index anew while it is in use. Searches stay right meanwhile, and nothing waits for it.

        With embeddings all vectors are computed anew, too, by whichever model is set up now; until they are, what lacks
        one is found by words. `on_progress(done, total)` is told how many texts are done and about how many there are,
        first of the index, then of the vectors. Raises what the embedding raises, and `EmbeddingError`."""
        if on_progress is not None and not callable(on_progress):
            raise ConfigurationError(f"on_progress is a callable, not {type(on_progress).__name__}")
        await indexing.rebuild(self._runtime, on_progress)
        if self._runtime.settings.embeddings.embed is not None:
            await vectors.rebuild(self._runtime, on_progress)
        return await self.search_info()

    def tools(self, *, scope: SessionFilter | None = None, max_tokens: int = ANSWER_TOKENS) -> dict[str, Tool]:
        """The tools that reach beyond one session, by name: `session_search` and `read_session`.

        `scope(session_info)`, sync or async, says of each session whether the model may see it; one out of scope is
        nowhere to be told from one that does not exist. `max_tokens` is the most that an answer costs."""
        return history_tools(Past(self._runtime, scope), check_answer_tokens(max_tokens))
