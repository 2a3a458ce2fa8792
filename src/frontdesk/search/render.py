"""Rendering search results as compact text for a model, within a token budget."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime

from frontdesk.messages.tokens import TokenCounter
from frontdesk.search.results import SearchHit

_SIMPLE = re.compile(r"[\w.:@/+#~=-]+")
_SPACES = re.compile(r"\s+")
_MAX_TITLE = 80
_MAX_TOKEN_LENGTH = 16
"""at most this number of characters of a text are counted for each token that there is room for"""
_NOTE_TOKENS = 10
"""reserved for the note on how much was cut"""
_SEPARATOR = " · "


def quote(id: str) -> str:
    """An id for use in a line of text, in quotes if it is not a simple word."""
    return id if _SIMPLE.fullmatch(id) else json.dumps(id, ensure_ascii=False)


def title(name: str) -> str:
    """The name of a session, on one line and shortened."""
    line = _SPACES.sub(" ", name).strip()
    return line if len(line) <= _MAX_TITLE else line[: _MAX_TITLE - 1] + "…"


def heading(name: str, at: datetime, *parts: str) -> str:
    """`[Title · 2025-03-04 · more · parts]`."""
    return f"[{_SEPARATOR.join(filter(None, (title(name), f'{at:%Y-%m-%d}', *parts)))}]"


def shorten(text: str, tokens: int, counter: TokenCounter) -> str:
    """A text, or as much of its start as fits into `tokens`, with a note on how much was cut."""
    if len(text) <= tokens * _MAX_TOKEN_LENGTH and counter(text) <= tokens:
        return text
    room = max(tokens - _NOTE_TOKENS, 1)
    start = text[: room * _MAX_TOKEN_LENGTH]
    while (size := counter(start)) > room and len(start) > 1:
        start = start[: max(1, min(len(start) - 1, int(len(start) * room / size)))]
    return f"{start}… ({len(text) - len(start):,} more characters)"


def render_hits(hits: Sequence[SearchHit], max_tokens: int, counter: TokenCounter) -> list[str]:
    """The hits as texts, as many as fit, but at least the first."""
    rendered: list[str] = []
    room = max_tokens
    for hit in hits:
        head = heading(hit.session_name, hit.created_at, hit.role, f"session {quote(hit.session_id)}", _describe(hit))
        text = f"{head}\n{hit.snippet if rendered else shorten(hit.snippet, room - counter(head), counter)}"
        room -= counter(text) + 1
        if room < 0 and rendered:
            break
        rendered.append(text)
    return rendered


def _describe(hit: SearchHit) -> str:
    if hit.kind == "session":
        return "its name and summary"
    return f"{hit.kind} {quote(hit.message_id)}"
