"""A hook that keeps a diary: a short note on every conversation that ends, by day, in a context block or in files."""

from __future__ import annotations

import asyncio
import os
from datetime import datetime, timedelta
from hashlib import blake2s
from os import PathLike
from pathlib import Path
from urllib.parse import quote

from frontdesk.errors import ConfigurationError
from frontdesk.messages import Message
from frontdesk.records import EndReason, SessionInfo, to_datetime
from frontdesk.session import Session

_LEAST_MESSAGES = 3
_MOST_CHARACTERS = 200
_LOOKED_AT = 200
_LONGEST_NAME = 120


class DailyNotes:
    """A hook for `register_hook` that writes a note when a session of three or more messages ends: title, reason,
    duration, counts, and its summary, or the first question and the last answer.

    With `directory` the notes of a day (UTC) go to one Markdown file, `<namespace>/<date>.md`, which any number of
    workers may share; with `block` to that context block (declare it `shared` for the next sessions to see it). A
    deleted session leaves no note. Raises `ConfigurationError` unless exactly one of the two is given."""

    def __init__(self, directory: str | PathLike[str] | None = None, *, block: str | None = None) -> None:
        if (directory is None) == (block is None):
            raise ConfigurationError("daily notes go either to a directory or to a block: give one of them")
        self._directory = None if directory is None else Path(directory)
        self._block = block

    async def on_session_end(self, session: Session, reason: str) -> None:
        info = await session.info()
        if info.message_count < _LEAST_MESSAGES or reason in (EndReason.DELETE, EndReason.ERASE):
            return
        now = to_datetime(session._runtime.now())
        note = _note(info, reason, now, await session.history(last=_LOOKED_AT))
        if self._block is not None:
            await session.append_context_block(self._block, note)
        elif self._directory is not None:
            folder = self._directory / _file_name(info.namespace)
            await asyncio.to_thread(_add, folder / f"{now.date().isoformat()}.md", note)


def _note(info: SessionInfo, reason: str, now: datetime, view: list[Message]) -> str:
    lines = [
        f"## {_short(info.name or info.id)}",
        "",
        f"- ended {now:%Y-%m-%d %H:%M} UTC (reason {reason}) after {_span(info.last_active_at - info.created_at)}",
        f"- session {_short(info.id)}" + ("" if info.key is None else f", key {_short(str(info.key))}"),
        f"- {info.message_count} messages, {info.compaction_count} compactions,"
        f" {info.input_tokens} tokens in, {info.output_tokens} out",
    ]
    summaries = [message.text for message in view if message.is_summary]
    if summary := info.summary or "\n".join(summaries):
        lines.append(f"- summary: {_short(summary, _MOST_CHARACTERS * 5)}")
    else:
        asked = [message.text for message in view if message.role == "user" and message.text.strip()]
        answered = [message.text for message in view if message.role == "assistant" and message.text.strip()]
        lines += [f"- asked first: {_short(text)}" for text in asked[:1]]
        lines += [f"- answered last: {_short(text)}" for text in answered[-1:]]
    return "\n".join(lines) + "\n"


def _short(text: str, most: int = _MOST_CHARACTERS) -> str:
    """A text on one line, so that it cannot pass for a heading of its own."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _span(duration: timedelta) -> str:
    minutes = duration // timedelta(minutes=1)
    days, hours = minutes // 1440, minutes // 60 % 24
    parts = [f"{number} {unit}" for number, unit in ((days, "d"), (hours, "h"), (minutes % 60, "min")) if number]
    return " ".join(parts) or "less than a minute"


def _file_name(text: str) -> str:
    """A name that every file system takes, for any text, and no two alike."""
    safe = quote(text, safe=" -_").replace(".", "%2E").replace("~", "%7E")
    if len(safe) <= _LONGEST_NAME and safe.strip() == safe:
        return safe
    return f"{quote(safe[:_LONGEST_NAME].strip(), safe='%-_')}~{blake2s(text.encode(), digest_size=8).hexdigest()}"


def _add(path: Path, note: str) -> None:
    """Append in one write at the end of the file, wherever that is by then: workers do not overwrite each other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        data = f"{note}\n".encode()
        while data:
            data = data[os.write(file, data) :]
        os.fsync(file)
    finally:
        os.close(file)
