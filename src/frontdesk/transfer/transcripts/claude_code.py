"""Transcripts of Claude Code (`~/.claude/projects/*/*.jsonl`): a tree of records with `uuid` and `parentUuid`. A rewind
is a branch. A compaction is a "compact_boundary", which the summary follows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from frontdesk.messages import NewMessage
from frontdesk.messages.formats import claude_code
from frontdesk.messages.formats.content_blocks import dict_at, text_at
from frontdesk.messages.parts import TextPart
from frontdesk.transfer.transcripts.jsonl import read_records
from frontdesk.transfer.transcripts.steps import (
    Broken,
    Compacted,
    Current,
    Described,
    Opened,
    Skipped,
    Step,
    TranscriptEntry,
    TranscriptFile,
    Used,
    count_at,
    time_at,
    used_tokens,
)

_NAMES = {"custom-title": "customTitle", "ai-title": "aiTitle"}
_MADE_BY_THE_TOOL = "<synthetic>"
"""the model of messages that no model wrote, such as errors"""
_CALLS = 8
"""how many calls may be going on at once, of subagents too"""


def read(source: TranscriptFile) -> Iterator[Step]:
    reader = _ClaudeCodeReader(source.path.stem)
    for line, record in read_records(source):
        if isinstance(record, Broken):
            yield record
        else:
            yield from reader.take(line, record)
    yield from reader.finish()


@dataclass(slots=True)
class _ClaudeCodeReader:
    stem: str
    is_open: bool = False
    is_named: bool = False
    model: str = ""
    boundary: Compacted | None = None
    """a compaction whose summary has not been read yet"""
    is_boundary_passed: bool = False
    """whether messages came after it"""
    usage: dict[str, Used] = field(default_factory=dict)
    """of the last model calls: the records of a call repeat its usage, and the last one has the final counts"""
    main: str | None = None
    """the last message that was not written by a subagent"""
    has_sidechain: bool = False

    def take(self, line: int, record: dict[str, Any]) -> Iterator[Step]:
        kind = text_at(record, "type") or "unknown"
        if not self.is_open and (record.get("sessionId") or record.get("uuid")):
            yield self._open(record)
        if kind in _NAMES:
            yield from self._name(kind, record)
        elif not text_at(record, "uuid"):
            yield Skipped(kind)
        elif kind == "system" and record.get("subtype") == "compact_boundary":
            yield from self._begin_compaction(line, record)
        elif claude_code.matches(record):
            yield from self._message(line, record)
        else:
            yield _entry(line, record, kind=text_at(record, "subtype") or kind)

    def finish(self) -> Iterator[Step]:
        yield from self._end_boundary()
        yield from self.usage.values()
        if self.has_sidechain and self.main is not None:
            yield Current(self.main)

    def _open(self, record: dict[str, Any]) -> Opened:
        """A file of a subagent is a session of its own."""
        self.is_open = True
        session_id, agent = text_at(record, "sessionId"), text_at(record, "agentId")
        if session_id and agent and record.get("isSidechain") is True:
            return Opened(f"{session_id}/{agent}", parent=session_id)
        return Opened(session_id or self.stem)

    def _name(self, kind: str, record: dict[str, Any]) -> Iterator[Step]:
        """The title that the user chose counts more than one that the tool made."""
        name = text_at(record, _NAMES[kind])
        if name and (kind == "custom-title" or not self.is_named):
            self.is_named = self.is_named or kind == "custom-title"
            yield Described({"name": name})

    def _begin_compaction(self, line: int, record: dict[str, Any]) -> Iterator[Step]:
        yield from self._end_boundary()
        last = text_at(record, "logicalParentUuid") or text_at(record, "parentUuid") or self.main
        kept = dict_at(dict_at(record, "compactMetadata"), "preservedSegment")
        at = time_at(record, "timestamp")
        uuid = text_at(record, "uuid")
        yield TranscriptEntry(line, uuid, last, at=at, kind="")
        self.boundary = Compacted(line, uuid, uuid, None, at, text_at(kept, "headUuid") or None)

    def _end_boundary(self) -> Iterator[Step]:
        """A boundary without a summary hides what came before it. At the end of a file, the summary may still come."""
        if self.boundary is not None and self.is_boundary_passed:
            yield self.boundary
        self.boundary, self.is_boundary_passed = None, False

    def _message(self, line: int, record: dict[str, Any]) -> Iterator[Step]:
        entry = _entry(line, record, NewMessage(record, id=record["uuid"]))
        if record.get("isCompactSummary") is True and self.boundary is not None:
            begun, self.boundary = self.boundary, None
            text = "\n".join(part.text for part in claude_code.read(record) if isinstance(part, TextPart))
            yield Compacted(line, begun.id, begun.last, text or None, begun.at, begun.first_kept, entry)
            return
        yield entry
        self.is_boundary_passed = self.boundary is not None
        if record.get("isSidechain") is True:
            self.has_sidechain = True
        else:
            self.main = entry.id
        yield from self._usage(line, record)

    def _usage(self, line: int, record: dict[str, Any]) -> Iterator[Step]:
        message = record["message"]
        usage, model = dict_at(message, "usage"), text_at(message, "model")
        if not usage or model == _MADE_BY_THE_TOOL:
            return
        call = text_at(message, "id") or record["uuid"]
        if model and model != self.model:
            self.model = model
            yield Described({"model": model})
        read, written = count_at(usage, "cache_read_input_tokens"), count_at(usage, "cache_creation_input_tokens")
        tokens = used_tokens(count_at(usage, "input_tokens"), read, written, count_at(usage, "output_tokens"))
        self.usage[call] = Used(line, call, tokens, time_at(record, "timestamp"), model or None)
        if len(self.usage) > _CALLS:
            yield self.usage.pop(next(iter(self.usage)))


def _entry(
    line: int, record: dict[str, Any], message: NewMessage | None = None, kind: str = "message"
) -> TranscriptEntry:
    parent = text_at(record, "parentUuid") or None
    return TranscriptEntry(line, text_at(record, "uuid"), parent, message, time_at(record, "timestamp"), kind)
