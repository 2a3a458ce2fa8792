"""How what was found is put into words for a model: compact lines, within a budget of tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime

from frontdesk.messages.tokens import TokenCounter
from frontdesk.records import SearchHit

_SIMPLE = re.compile(r"[\w.:@/+#~=-]+")
_SPACES = re.compile(r"\s+")
_LONGEST_TITLE = 80
_WIDEST_TOKEN = 16
"""characters of a text that are looked at for each token there is room for"""
_NOTE_TOKENS = 10
"""what it costs to say how much was cut"""
_PART = " · "


def quoted(id: str) -> str:
    """An id as it stands in a line: in quotes where it could be taken for something else."""
    return id if _SIMPLE.fullmatch(id) else json.dumps(id, ensure_ascii=False)


def titled(name: str) -> str:
    """A session's name in one short line."""
    line = _SPACES.sub(" ", name).strip()
    return line if len(line) <= _LONGEST_TITLE else line[: _LONGEST_TITLE - 1] + "…"


def headed(name: str, at: datetime, *parts: str) -> str:
    """`[Title · 2025-03-04 · more · parts]`."""
    return f"[{_PART.join(filter(None, (titled(name), f'{at:%Y-%m-%d}', *parts)))}]"


def shortened(text: str, tokens: int, counter: TokenCounter) -> str:
    """A text, or as much of its beginning as `tokens` allow, with what was cut."""
    if len(text) <= tokens * _WIDEST_TOKEN and counter(text) <= tokens:
        return text
    room = max(tokens - _NOTE_TOKENS, 1)
    start = text[: room * _WIDEST_TOKEN]
    while (size := counter(start)) > room and len(start) > 1:
        start = start[: max(1, min(len(start) - 1, int(len(start) * room / size)))]
    return f"{start}… ({len(text) - len(start):,} more characters)"


def told_hits(hits: Sequence[SearchHit], max_tokens: int, counter: TokenCounter) -> list[str]:
    """The hits in words, as many as fit, and the first in any case."""
    told: list[str] = []
    room = max_tokens
    for hit in hits:
        head = headed(hit.session_name, hit.created_at, hit.role, f"session {quoted(hit.session_id)}", _what(hit))
        text = f"{head}\n{hit.snippet if told else shortened(hit.snippet, room - counter(head), counter)}"
        room -= counter(text) + 1
        if room < 0 and told:
            break
        told.append(text)
    return told


def _what(hit: SearchHit) -> str:
    if hit.kind == "session":
        return "its name and summary"
    return f"{hit.kind} {quoted(hit.message_id)}"
