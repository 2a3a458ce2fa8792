"""The tool that lets a model search all conversations, and how hits are told to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from frontdesk.records import SearchHit, SearchResults
from frontdesk.tools import Tool, schema

_HITS = 10
_MOST_HITS = 50


def search_tool(search: Callable[[str, int], Awaitable[SearchResults]]) -> Tool:
    """`session_search`: `search(query, limit)` gives what is told to the model."""

    async def run(query: str, limit: int | None = None) -> str:
        return _told(await search(query, limit or _HITS))

    limit = {
        "type": "integer",
        "minimum": 1,
        "maximum": _MOST_HITS,
        "description": f"How many hits, {_HITS} if left out.",
    }
    return Tool(
        name="session_search",
        description="Search what was said in all conversations. Any of the words may match; ask in plain words.",
        parameters=schema({"query": {"type": "string", "description": "What to look for."}}, {"limit": limit}),
        run=run,
    )


def _told(results: SearchResults) -> str:
    """Hits as text for a model."""
    if not results:
        return "No results found."
    hits = [f"[{_where(hit)}]\n{hit.snippet}" for hit in results]
    more = results.total - len(results)
    return "\n\n".join([*hits, f"({more} more)"] if more else hits)


def _where(hit: SearchHit) -> str:
    if hit.kind == "session":
        return f"{hit.created_at:%Y-%m-%d} session {hit.session_id}"
    return f"{hit.created_at:%Y-%m-%d} {hit.role} in {hit.session_id}, {hit.message_id}"
