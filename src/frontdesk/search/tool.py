"""The tools that let a model look into other conversations: `session_search` finds, `read_session` reads on."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from frontdesk.errors import InvalidInputError
from frontdesk.records import SearchHit
from frontdesk.search.query import parse
from frontdesk.search.reading import read_window, told_window
from frontdesk.search.telling import told_hits
from frontdesk.search.tokeniser import TOKENISER
from frontdesk.search.visible import Past
from frontdesk.tools import Tool, schema

_HINT_TOKENS = 50
"""what it costs to say how to go on"""
_HITS = 10
_MOST_HITS = 50
_MOST_SKIPPED = 1_000
_AROUND = 5
_MOST_AROUND = 50
_DATE = re.compile(r"\d{4}(-\d{1,2}){0,2}", re.ASCII)
_ROLE = re.compile(r"[\w.-]+")


def history_tools(past: Past, max_tokens: int) -> dict[str, Tool]:
    """Both tools, by name; an answer costs at most `max_tokens`."""
    tools = (_search_tool(past, max_tokens), _reading_tool(past, max_tokens))
    return {tool.name: tool for tool in tools}


async def find_told(
    past: Past, query: str, max_tokens: int, leave_out: Callable[[SearchHit], bool] | None = None
) -> str | None:
    """The best hits in words; None if there are none."""
    hits, total = await past.look().hits(query, _HITS, leave_out=leave_out)
    told = told_hits(hits, max_tokens - _HINT_TOKENS, past.runtime.settings.counter)
    more = total - len(told)
    return "\n\n".join([*told, f"({more} more: ask with rarer words.)"] if more else told) or None


def _search_tool(past: Past, max_tokens: int) -> Tool:
    async def run(
        query: str,
        session: str | None = None,
        role: str | None = None,
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
        skip: int | None = None,
    ) -> str:
        text = f"{_filters(role, after, before)}{query}"
        first, wanted = skip or 0, limit or _HITS
        hits, total = await past.look().hits(text, first + wanted, session_id=session)
        told = told_hits(hits[first:], max_tokens - _HINT_TOKENS, past.runtime.settings.counter)
        if not told:
            return "No results found." if not total else f"No more results: there are {total}."
        return "\n\n".join([*told, _how_to_go_on(first + len(told), total)])

    return Tool(
        name="session_search",
        description="Search what was said in all conversations, best match first. Any of the words may match: ask in"
        ' plain words, or with "exact phrases", -excluded words and beginnings*. Follow a hit with read_session.',
        parameters=schema(
            {"query": _text("What to look for.")},
            {
                "session": _text("Only in the conversation with this id."),
                "role": _text('Only what one role said, such as "user" or "assistant".'),
                "after": _text("Only from this day on (YYYY-MM-DD, YYYY-MM or YYYY)."),
                "before": _text("Only before this day (YYYY-MM-DD, YYYY-MM or YYYY)."),
                "limit": _number(1, _MOST_HITS, f"How many hits, {_HITS} if left out."),
                "skip": _number(0, _MOST_SKIPPED, "How many hits to pass over, to see those after them."),
            },
        ),
        run=run,
    )


def _filters(role: str | None, after: str | None, before: str | None) -> str:
    """The filters in the words of a query, ahead of it: what follows cannot take them back."""
    filters = ""
    if role:
        if not _ROLE.fullmatch(role):
            raise InvalidInputError(f"the argument 'role' is {role!r:.80}; it must be one word, such as 'user'.")
        filters = f'role:"{role}" '
    for name, given in (("after", after), ("before", before)):
        if given:
            day = given.partition("T")[0].partition(" ")[0]
            if not _DATE.fullmatch(day) or parse(f"{name}:{day}", TOKENISER).has_terms:
                raise InvalidInputError(
                    f"the argument {name!r} is {given!r:.80}; it must be a date: YYYY-MM-DD, YYYY-MM or YYYY."
                )
            filters += f"{name}:{day} "
    return filters


def _how_to_go_on(given: int, total: int) -> str:
    more = f"{total - given} more: search again with skip={given}. " if given < total else ""
    return f"({more}To read around a hit: read_session with its session, and its message as `around`.)"


def _reading_tool(past: Past, max_tokens: int) -> Tool:
    async def run(
        session_id: str, around: str | None = None, before: int | None = None, after: int | None = None
    ) -> str:
        info = await past.look().session(session_id)
        reach = _AROUND if before is None else before, _AROUND if after is None else after
        window = await read_window(past.runtime, info.id, around, *reach)
        return told_window(info, window, max_tokens, past.runtime.settings.counter)

    return Tool(
        name="read_session",
        description="Read part of a conversation as it was written: messages before and after one of them, or the last"
        " ones. What does not fit is left out, and the answer says so.",
        parameters=schema(
            {"session_id": _text("The id of the conversation, as session_search gives it.")},
            {
                "around": _text("The id of a message; the last one if left out."),
                "before": _number(0, _MOST_AROUND, f"How many messages ahead of it, {_AROUND} if left out."),
                "after": _number(0, _MOST_AROUND, f"How many messages behind it, {_AROUND} if left out."),
            },
        ),
        run=run,
    )


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _number(least: int, most: int, description: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most, "description": description}
