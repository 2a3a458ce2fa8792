"""The steps that a transcript consists of, in whatever format it was written. A reader yields them in the order of the
file; nothing is kept in memory for longer than a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from frontdesk.errors import InvalidMessageError
from frontdesk.messages import NewMessage
from frontdesk.messages.deriving import time_of


@dataclass(frozen=True, slots=True)
class Opened:
    """The steps that follow belong to this session. Its time is that of its first entry, unless it has its own."""

    id: str
    at: int | None = None
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class TranscriptEntry:
    """A record at its place in the tree: after the entry `parent`, or (None) at a root. An entry without a `message`
    is not stored, but others may follow it; it is counted as its `kind`."""

    line: int
    id: str
    parent: str | None
    message: NewMessage | None = None
    at: int | None = None
    kind: str = "message"


@dataclass(frozen=True, slots=True)
class Compacted:
    """Everything up to the entry `last`, or up to the one before `first_kept`, is replaced by a summary, or (None)
    hidden. If there is nothing to cover, `instead` is stored, so that the summary is not lost."""

    line: int
    id: str
    last: str | None
    summary: str | None
    at: int | None = None
    first_kept: str | None = None
    instead: TranscriptEntry | None = None


@dataclass(frozen=True, slots=True)
class Used:
    """The usage of a model call, or of all calls so far. What an earlier import has recorded under this id is
    subtracted, so the counts may grow."""

    line: int
    id: str
    tokens: dict[str, int]
    at: int | None = None
    model: str | None = None
    cost: str = "0"


@dataclass(frozen=True, slots=True)
class Described:
    """What the transcript says about the session. It is set unless the session has a value already."""

    values: dict[str, str]
    """by column: "name" or "model", or both"""


@dataclass(frozen=True, slots=True)
class Current:
    """The entry at which the conversation is now. Without this step, it is the last one."""

    id: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that is no message, and that nothing follows."""

    kind: str


@dataclass(frozen=True, slots=True)
class Broken:
    """A record that cannot be read."""

    line: int
    problem: str


Step = Opened | TranscriptEntry | Compacted | Used | Described | Current | Skipped | Broken


@dataclass(slots=True)
class TranscriptFile:
    """A file that is read, and how many of its bytes were."""

    path: Path
    size: int = 0
    done: int = 0
    on_progress: Callable[[int], Any] = field(default=lambda done: None)

    def advance(self, done: int) -> None:
        self.done = done
        self.on_progress(done)


Reader = Callable[[TranscriptFile], Iterator[Step]]


def time_at(record: dict[str, Any], key: str) -> int | None:
    """The time under `key`: ISO 8601, or seconds or milliseconds since 1970. None where there is none."""
    try:
        return time_of({"created_at": record.get(key)}, -1) if record.get(key) is not None else None
    except InvalidMessageError:
        return None


def count_at(record: dict[str, Any], key: str) -> int:
    """The count under `key`, 0 where there is none."""
    value = record.get(key)
    return value if type(value) is int and value > 0 else 0


def used_tokens(fresh: int, read: int, written: int, output: int) -> dict[str, int]:
    """The tokens of a call whose input is counted without what the cache held. Frontdesk's count includes it."""
    return {
        "input_tokens": fresh + read + written,
        "output_tokens": output,
        "cache_read_tokens": read,
        "cache_write_tokens": written,
        "reasoning_tokens": 0,
    }
