"""The tools with which a model searches and reads other conversations, and the searchable block over them.

What they say is written for the model. It is the same for a conversation that is out of reach and for one that does not
exist."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from frontdesk.config.runtime import Runtime
from frontdesk.config.settings import HistorySearch
from frontdesk.errors import (
    InvalidCursorError,
    InvalidIdError,
    InvalidInputError,
    MessageNotFoundError,
    SessionNotFoundError,
)
from frontdesk.search.hits import SearchHit
from frontdesk.search.query import parse
from frontdesk.search.rendering import read_excerpt, render_excerpt, render_hits
from frontdesk.search.scopes import OwnSession, ScopedHistory, VisibleHits
from frontdesk.search.tokeniser import TOKENISER
from frontdesk.tools import Tool, schema

_HINT_TOKENS = 50
"""reserved for the hint on how to continue"""
_HITS = 10
_MAX_HITS = 50
_MAX_SKIPPED = 1_000
_INCOMPLETE = "(There are too many conversations to look through all of them at once: search for rarer words"
_AROUND = 5
_MAX_AROUND = 50
_DATE = re.compile(r"\d{4}(-\d{1,2}){0,2}", re.ASCII)
_ROLE = re.compile(r"[\w.-]+")


class ToolNames(NamedTuple):
    """The names of both tools. They differ, so that the tools of a session and those of a manager can be merged without
    one of them replacing the other."""

    search: str
    read: str


OF_SESSION = ToolNames("session_search", "read_session")
OF_MANAGER = ToolNames("search_sessions", "read_any_session")


def history_tools(history: ScopedHistory, names: ToolNames, max_tokens: int) -> dict[str, Tool]:
    """Both tools, by name. A result has at most `max_tokens`."""
    tools = (_search_tool(history, names, max_tokens), _read_tool(history, names, max_tokens))
    return {tool.name: tool for tool in tools}


def _search_tool(history: ScopedHistory, names: ToolNames, max_tokens: int) -> Tool:
    async def run(
        query: str,
        session: str | None = None,
        role: str | None = None,
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
        skip: int | None = None,
        cursor: str | None = None,
    ) -> str:
        text = f"{_filters(role, after, before)}{query}"
        first, wanted = skip or 0, limit or _HITS
        try:
            visible = await history.visible()
            found = await visible.hits(text, first + wanted, session_id=session, cursor=cursor)
        except SessionNotFoundError:
            return _no_conversation(str(session), names)
        except InvalidCursorError:
            return "Error: this cursor is of another search. Repeat the search that returned it, with the same words."
        rendered = render_hits(found.hits[first:], max_tokens - _HINT_TOKENS, history.runtime.settings.counter)
        if not rendered:
            none = f"No more results: there are {_total(found)}." if found.total else "No results found."
            return "\n\n".join([none, *_note_unasked(found)])
        return "\n\n".join([*rendered, _hint(first + len(rendered), found, names), *_note_unasked(found)])

    return Tool(
        name=names.search,
        description="Search earlier conversations, best match first. Any of the words may match: ask in plain words, or"
        ' use "exact phrases", -excluded words, prefixes* and from:name for what somebody said.'
        f" Use {names.read} to read the messages around a hit.",
        parameters=schema(
            {"query": _text("What to look for.")},
            {
                "session": _text("Only in the conversation with this id."),
                "role": _text('Only messages of this role, such as "user" or "assistant".'),
                "after": _text("Only from this day on (YYYY-MM-DD, YYYY-MM or YYYY)."),
                "before": _text("Only before this day (YYYY-MM-DD, YYYY-MM or YYYY)."),
                "limit": _number(1, _MAX_HITS, f"How many hits, {_HITS} if left out."),
                "skip": _number(0, _MAX_SKIPPED, "How many hits to skip, to see the ones after them."),
                "cursor": _text("Continue a search that could not look through all conversations."),
            },
        ),
        run=run,
    )


def _filters(role: str | None, after: str | None, before: str | None) -> str:
    """The filters in the syntax of a query, to be put before the query, which cannot undo them."""
    filters = ""
    if role:
        if not _ROLE.fullmatch(role):
            raise InvalidInputError(f"the argument 'role' is {role!r:.80}; it must be one word, such as 'user'.")
        filters = f'role:"{role}" '
    for name, value in (("after", after), ("before", before)):
        if value:
            day = value.partition("T")[0].partition(" ")[0]
            if not _DATE.fullmatch(day) or parse(f"{name}:{day}", TOKENISER).has_terms:
                raise InvalidInputError(
                    f"the argument {name!r} is {value!r:.80}; it must be a date: YYYY-MM-DD, YYYY-MM or YYYY."
                )
            filters += f"{name}:{day} "
    return filters


def _hint(shown: int, found: VisibleHits, names: ToolNames) -> str:
    how = f"search again with skip={shown}" if shown <= _MAX_SKIPPED else "search for rarer words"
    more = f"{_total(found, shown)} more: {how}. " if shown < found.total else ""
    return f"({more}To read around a hit: {names.read} with its session, and its message as `around`.)"


def _total(found: VisibleHits, shown: int = 0) -> str:
    return f"{'' if found.total_is_exact else 'at least '}{found.total - shown}"


def _note_unasked(found: VisibleHits) -> list[str]:
    """What to do if the scope's function could not be asked about all conversations."""
    go_on = f', or continue with cursor="{found.cursor}"' if found.cursor else ""
    return [f"{_INCOMPLETE}{go_on}.)"] if found.is_exhausted else []


def _no_conversation(session_id: str, names: ToolNames) -> str:
    return f"Error: there is no conversation {session_id!r:.80}. Use an id that {names.search} has returned."


def _read_tool(history: ScopedHistory, names: ToolNames, max_tokens: int) -> Tool:
    async def run(
        session_id: str, around: str | None = None, before: int | None = None, after: int | None = None
    ) -> str:
        reach = _AROUND if before is None else before, _AROUND if after is None else after
        try:
            row = await (await history.visible()).session(session_id)
            excerpt = await read_excerpt(history.runtime, row, around, *reach)
        except SessionNotFoundError:
            return _no_conversation(session_id, names)
        except (InvalidIdError, MessageNotFoundError):
            return (
                f"Error: conversation {session_id!r:.80} has no message {around!r:.80}. Use an id that"
                f" {names.search} or {names.read} has returned, or leave out `around` to read the last messages."
            )
        return render_excerpt(row, excerpt, max_tokens, history.runtime.settings.counter)

    return Tool(
        name=names.read,
        description="Read part of a conversation as it was written: the messages around one of them, or the last ones."
        " If not all of them fit, the result says which are missing.",
        parameters=schema(
            {"session_id": _text("The id of the conversation, as returned by the search.")},
            {
                "around": _text("The id of a message; the last one if left out."),
                "before": _number(0, _MAX_AROUND, f"How many messages before it, {_AROUND} if left out."),
                "after": _number(0, _MAX_AROUND, f"How many messages after it, {_AROUND} if left out."),
            },
        ),
        run=run,
    )


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _number(minimum: int, maximum: int, description: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": minimum, "maximum": maximum, "description": description}


class SearchableHistory:
    """The provider of the block that `with_searchable_history` declares. It searches the conversations in a scope.

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

        return await _search_as_text(self._history, query, self._max_tokens, is_in_own_history)


async def _search_as_text(
    history: ScopedHistory, query: str, max_tokens: int, leave_out: Callable[[SearchHit], bool] | None = None
) -> str | None:
    """The best hits as one text; None if there are none."""
    found = await (await history.visible()).hits(query, _HITS, leave_out=leave_out)
    rendered = render_hits(found.hits, max_tokens - _HINT_TOKENS, history.runtime.settings.counter)
    shown = len(rendered)
    notes = [f"({_total(found, shown)} more: search for rarer words.)"] if shown < found.total else []
    notes += [f"{_INCOMPLETE}.)"] if found.is_exhausted else []
    return "\n\n".join([*rendered, *notes]) or None
