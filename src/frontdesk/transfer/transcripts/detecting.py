"""Finds transcripts in a folder, and recognises the format of a file by how it begins."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from frontdesk.transfer.transcripts import TranscriptFormat, chatgpt, claude_code, codex, hermes, pi
from frontdesk.transfer.transcripts.jsonl import read_records
from frontdesk.transfer.transcripts.steps import Broken, Reader, TranscriptFile

READERS: dict[TranscriptFormat, Reader] = {
    "claude-code": claude_code.read,
    "codex": codex.read,
    "pi": pi.read,
    "chatgpt": chatgpt.read,
    "hermes": hermes.read,
}
NAMES = ("*.jsonl", "conversations*.json", "state.db")
"""the files that are looked for in a folder"""
_FIRST = 4096
_RECORDS = 50
"""how many records are looked at, at most"""


def find_files(path: Path) -> Iterator[Path]:
    """The file itself, or all files in a folder that may be transcripts. Raises `OSError`s."""
    if not path.is_dir():
        path.stat()
        yield path
        return
    found = {each for name in NAMES for each in path.rglob(name) if each.is_file()}
    yield from sorted(found)


def detect_format(path: Path) -> TranscriptFormat | None:
    """The format of a file; None if it is not known."""
    with path.open("rb") as file:
        first = file.read(_FIRST).removeprefix(BOM_UTF8)
    if first.startswith(b"SQLite format 3\0"):
        return "hermes"
    if first.lstrip()[:1] == b"[":
        return "chatgpt"
    for _, record in islice(read_records(TranscriptFile(path)), _RECORDS):
        format = None if isinstance(record, Broken) else _format_of(record)
        if format is not None:
            return format
    return "chatgpt" if b'"mapping"' in first else None  # one conversation


def _format_of(record: dict[str, Any]) -> TranscriptFormat | None:
    kind = record.get("type")
    if type(record.get("payload")) is dict and "timestamp" in record:
        return "codex"
    if "parentUuid" in record or "leafUuid" in record or "sessionId" in record or kind == "file-history-snapshot":
        return "claude-code"
    if kind == "session" and "id" in record:
        return "pi"
    return "codex" if kind is None and "id" in record and "instructions" in record else None
