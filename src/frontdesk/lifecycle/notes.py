"""A hook that writes a short note on every conversation that ends, by day, into a context block or into files."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2s
from os import PathLike
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from frontdesk.errors import ConfigurationError
from frontdesk.messages import Message
from frontdesk.records import EndReason, SessionInfo

_MIN_MESSAGES = 3
_MAX_CHARACTERS = 200
_LAST_MESSAGES = 200
_MAX_NAME = 120


class EndingSession(Protocol):
    """What a note needs from the session that it is about."""

    async def info(self) -> SessionInfo: ...

    async def history(self, *, last: int) -> Sequence[Message]: ...

    async def append_context_block(self, label: str, text: str, *, made_from: Sequence[str]) -> Any: ...


class DailyNotes:
    """A hook for `register_hook` that writes a note when a session with three or more messages ends: its title, end
    reason, duration and counts, and its summary, or else the first question and the last answer.

    With `directory`, the notes of a day (UTC) go to one Markdown file, `<namespace>/<date>.md`, which any number of
    workers may share. With `block`, they go to that context block; declare it with `scope="guest"`, so that later
    sessions of the guest see them and no other guest does. A note in a block is removed with the session, with the
    guest, or with a message that it quotes or whose summary it contains. A deleted session leaves no note.
    `clock` returns the time, as for `SessionManager`.

    Raises `ConfigurationError` unless exactly one of `directory` and `block` is given."""

    def __init__(
        self,
        directory: str | PathLike[str] | None = None,
        *,
        block: str | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        if (directory is None) == (block is None):
            raise ConfigurationError("daily notes go either to a directory or to a block: pass one of them")
        self._directory = None if directory is None else Path(directory)
        self._block = block
        self._clock = clock

    async def on_session_end(self, session: EndingSession, reason: str) -> None:
        info = await session.info()
        if info.message_count < _MIN_MESSAGES or reason in (EndReason.DELETE, EndReason.ERASE):
            return
        now = datetime.now(UTC) if self._clock is None else self._clock().astimezone(UTC)
        view = await session.history(last=_LAST_MESSAGES)
        quoted = [] if info.summary else _quoted(view)
        note = _note(info, reason, now, quoted)
        if self._block is not None:
            await session.append_context_block(self._block, note, made_from=[message.id for message in quoted])
        elif self._directory is not None:
            folder = self._directory / _file_name(info.namespace)
            await asyncio.to_thread(_append_to_file, folder / f"{now.date().isoformat()}.md", note)


def _quoted(view: Sequence[Message]) -> list[Message]:
    """The messages that a note contains: the summaries, or else the first question and the last answer."""
    said = [message for message in view if message.text.strip()]
    questions = [message for message in said if message.role == "user"]
    answers = [message for message in said if message.role == "assistant"]
    return [message for message in view if message.is_summary] or [*questions[:1], *answers[-1:]]


def _note(info: SessionInfo, reason: str, now: datetime, quoted: Sequence[Message]) -> str:
    lines = [
        f"## {_shorten(info.name or info.id)}",
        "",
        f"- ended {now:%Y-%m-%d %H:%M} UTC (reason {reason}) after {_duration(info.last_active_at - info.created_at)}",
        f"- session {_shorten(info.id)}" + ("" if info.key is None else f", key {_shorten(str(info.key))}"),
        f"- {info.message_count} messages, {info.compaction_count} compactions,"
        f" {info.input_tokens} tokens in, {info.output_tokens} out",
    ]
    if info.summary:
        lines.append(f"- summary: {_shorten(info.summary, _MAX_CHARACTERS * 5)}")
    elif quoted and quoted[0].is_summary:
        summary = "\n".join(message.text for message in quoted)
        lines.append(f"- summary: {_shorten(summary, _MAX_CHARACTERS * 5)}")
    else:
        names = {"user": "first question", "assistant": "last answer"}
        lines += [f"- {names[message.role]}: {_shorten(message.text)}" for message in quoted]
    return "\n".join(lines) + "\n"


def _shorten(text: str, limit: int = _MAX_CHARACTERS) -> str:
    """A text on one line, so that none of it can pass for a heading."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _duration(duration: timedelta) -> str:
    minutes = duration // timedelta(minutes=1)
    days, hours = minutes // 1440, minutes // 60 % 24
    parts = [f"{number} {unit}" for number, unit in ((days, "d"), (hours, "h"), (minutes % 60, "min")) if number]
    return " ".join(parts) or "less than a minute"


def _file_name(text: str) -> str:
    """A name for any text that every file system accepts; different for different texts."""
    safe = quote(text, safe=" -_").replace(".", "%2E").replace("~", "%7E")
    if len(safe) <= _MAX_NAME and safe.strip() == safe:
        return safe
    return f"{quote(safe[:_MAX_NAME].strip(), safe='%-_')}~{blake2s(text.encode(), digest_size=8).hexdigest()}"


def _append_to_file(path: Path, note: str) -> None:
    """Append with O_APPEND, which writes at the current end of the file: workers do not overwrite each other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        data = f"{note}\n".encode()
        while data:
            data = data[os.write(file, data) :]
        os.fsync(file)
    finally:
        os.close(file)
