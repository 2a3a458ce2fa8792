"""The database of Hermes (`state.db`, SQLite): sessions, and their messages in the order of their numbers. Messages
that the user took back form a branch; what was compacted is hidden, and the summary is the message after it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import msgspec

from frontdesk.messages import NewMessage
from frontdesk.transfer.transcripts.steps import (
    Broken,
    Compacted,
    Current,
    Described,
    Opened,
    Step,
    TranscriptEntry,
    TranscriptFile,
    Used,
    count_at,
    time_at,
    used_tokens,
)

_JSON = "\0json:"
"""how a content begins that is not a text"""
_MESSAGE = ("id", "session_id", "role", "content", "tool_calls", "tool_call_id", "tool_name", "timestamp")
_TOTALS = ("model", "billing_provider", "billing_base_url", "billing_mode", "task")
_SYSTEM_PROMPT = "system-prompt"
Row = dict[str, Any]


def read(source: TranscriptFile) -> Iterator[Step]:
    """The numbers of messages take the place of the numbers of lines."""
    try:
        with closing(_open(source)) as database:
            sessions = list(database.execute("SELECT id FROM sessions ORDER BY started_at, id"))
            for done, row in enumerate(sessions, 1):
                yield from _session(database, row["id"])
                source.advance(source.size * done // len(sessions))
    except sqlite3.Error as error:
        yield Broken(0, f"it cannot be read as a database of Hermes ({error}); to move a Frontdesk store, use `copy`")


def _open(source: TranscriptFile) -> sqlite3.Connection:
    """The database, for reading only. What its schema calls is not trusted."""
    database = sqlite3.connect(f"{source.path.resolve().as_uri()}?mode=ro", uri=True)
    database.row_factory = lambda cursor, row: {
        column[0]: value for column, value in zip(cursor.description, row, strict=True)
    }
    database.execute("PRAGMA trusted_schema = OFF")
    return database


def _session(database: sqlite3.Connection, session_id: str) -> Iterator[Step]:
    session = database.execute("SELECT * FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if session is None:
        yield Broken(0, "a session has no id, or was deleted while it was read")
        return
    yield Opened(session_id, time_at(session, "started_at"), session.get("parent_session_id"))
    if name := session.get("title") or session.get("display_name"):
        yield Described({"name": str(name)})
    if session.get("model"):
        yield Described({"model": str(session["model"])})
    reader = _HermesReader()
    yield from reader.begin(session)
    for row in database.execute("SELECT * FROM messages WHERE session_id = ? ORDER BY id", (session_id,)):
        yield from reader.take(row)
    yield from reader.finish()
    yield from _usage(database, session)


class _HermesReader:
    """Puts the messages of one session into a tree."""

    def __init__(self) -> None:
        self._live: str | None = None
        """the last message that was not taken back"""
        self._taken_back: str | None = None
        self._compacted: str | None = None

    def begin(self, session: Row) -> Iterator[Step]:
        if prompt := session.get("system_prompt"):
            self._live = _SYSTEM_PROMPT
            message = NewMessage({"role": "system", "content": str(prompt)}, id=_SYSTEM_PROMPT)
            yield TranscriptEntry(0, _SYSTEM_PROMPT, None, message, time_at(session, "started_at"))

    def take(self, row: Row) -> Iterator[Step]:
        id = str(row["id"])
        is_active, is_compacted = bool(row.get("active", 1)), bool(row.get("compacted", 0))
        parent = self._live
        if is_active or is_compacted:
            self._live, self._taken_back = id, None
        else:
            parent, self._taken_back = self._taken_back or self._live, id
        if is_compacted:
            self._compacted = id
        message = NewMessage(_raw(row), id=id)
        yield TranscriptEntry(row["id"], id, parent, message, time_at(row, "timestamp"))

    def finish(self) -> Iterator[Step]:
        """Hide what was compacted, up to the last message of it."""
        if self._compacted is not None:
            yield Compacted(0, f"compacted-{self._compacted}", self._compacted, None)
        if self._live is not None:
            yield Current(self._live)


def _raw(row: Row) -> dict[str, Any]:
    """A message of the OpenAI chat format. What that has no place for is kept as metadata."""
    raw: dict[str, Any] = {"role": row["role"], "content": _content(row["content"])}
    calls = _json(row.get("tool_calls"))
    if calls:
        raw["tool_calls"] = calls
    if row.get("tool_call_id"):
        raw["tool_call_id"] = row["tool_call_id"]
    if row.get("tool_name"):
        raw["name"] = row["tool_name"]
    reasoning = row.get("reasoning_content") or row.get("reasoning")
    if reasoning:
        raw["reasoning_content"] = reasoning
    rest = {key: value for key, value in row.items() if key not in _MESSAGE and value not in (None, "")}
    return {**raw, "metadata": {"hermes": rest}}


def _content(content: Any) -> Any:
    if type(content) is str and content.startswith(_JSON):
        return _json(content.removeprefix(_JSON))
    return content if type(content) is str else ("" if content is None else str(content))


def _json(text: Any) -> Any:
    """A value that is stored as JSON; the text itself where it is none."""
    try:
        return msgspec.json.decode(text) if text else None
    except (msgspec.DecodeError, TypeError, RecursionError):
        return text


def _usage(database: sqlite3.Connection, session: Row) -> Iterator[Step]:
    """Hermes counts totals: by model and task, or in older versions of the session alone."""
    try:
        totals = list(database.execute("SELECT * FROM session_model_usage WHERE session_id = ?", (session["id"],)))
    except sqlite3.OperationalError:
        totals = []
    for row in totals or [session]:
        counts = [count_at(row, f"{name}_tokens") for name in ("input", "cache_read", "cache_write", "output")]
        if not any(counts):
            continue
        name = "/".join(str(row.get(column) or "") for column in _TOTALS)
        model = row.get("model")
        cost = row.get("actual_cost_usd") or row.get("estimated_cost_usd") or 0
        at = time_at(row, "last_seen") or time_at(session, "ended_at") or time_at(session, "started_at")
        tokens = {**used_tokens(*counts), "reasoning_tokens": count_at(row, "reasoning_tokens")}
        yield Used(0, f"hermes:{name}", tokens, at, str(model) if model else None, str(cost))
