"""Sessions of Pi and OpenClaw (JSONL): a header, and then entries that form a tree by `id` and `parentId`. In the first
version they have no ids, and each follows the one before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from frontdesk.messages import NewMessage
from frontdesk.messages.formats.content_blocks import dict_at, text_at, type_of
from frontdesk.transfer.transcripts.jsonl import read_records
from frontdesk.transfer.transcripts.steps import (
    Broken,
    Compacted,
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

_ROLES = {"user": "user", "assistant": "assistant", "toolResult": "tool"}


def read(source: TranscriptFile) -> Iterator[Step]:
    reader = _PiReader(source.path.stem)
    for line, record in read_records(source):
        if isinstance(record, Broken):
            yield record
        else:
            yield from reader.take(line, record)


@dataclass(slots=True)
class _PiReader:
    stem: str
    index: int = -1
    """the number of the record, from 0 on: the first version refers to entries by it"""
    is_open: bool = False
    last: str | None = None

    def take(self, line: int, record: dict[str, Any]) -> Iterator[Step]:
        self.index += 1
        if not self.is_open:
            self.is_open = True
            header = record if record.get("type") == "session" else {}
            yield Opened(text_at(header, "id") or self.stem, time_at(header, "timestamp"))
            if header:
                if text_at(header, "modelId"):
                    yield Described({"model": text_at(header, "modelId")})
                return
        entry = self._place(line, record)
        match text_at(record, "type"):
            case "message":
                yield from _message(entry, dict_at(record, "message"))
            case "custom_message":
                content = _blocks(record.get("content"))
                yield _with(entry, "user", content, _rest(record, "content", "id", "parentId"))
            case "branch_summary":
                text = f"Summary of the branch that was left: {text_at(record, 'summary')}"
                yield _with(entry, "user", text, _rest(record, "id", "parentId"))
            case "compaction" | "reset" as kind:
                yield _compaction(entry, record, has_summary=kind == "compaction")
            case kind:
                yield entry
                yield from _description(kind, record)

    def _place(self, line: int, record: dict[str, Any]) -> TranscriptEntry:
        """The record as an entry without a message."""
        id = text_at(record, "id")
        parent = (text_at(record, "parentId") or None) if id else self.last
        self.last = id or _id(self.index)
        return TranscriptEntry(
            line, self.last, parent, at=time_at(record, "timestamp"), kind=text_at(record, "type") or "unknown"
        )


def _id(index: int) -> str:
    return f"entry-{index}"


def _description(kind: str, record: dict[str, Any]) -> Iterator[Step]:
    if kind == "session_info" and text_at(record, "name"):
        yield Described({"name": text_at(record, "name")})
    elif kind == "model_change" and text_at(record, "modelId"):
        yield Described({"model": text_at(record, "modelId")})


def _compaction(entry: TranscriptEntry, record: dict[str, Any], *, has_summary: bool) -> Compacted:
    first_kept = text_at(record, "firstKeptEntryId")
    if not first_kept and type(record.get("firstKeptEntryIndex")) is int:
        first_kept = _id(record["firstKeptEntryIndex"])
    summary = text_at(record, "summary") if has_summary else ""
    instead = _with(entry, "user", summary, {}) if summary.strip() else None
    return Compacted(
        entry.line, entry.id, entry.parent, summary or None, entry.at, first_kept or None, instead or entry
    )


# messages


def _message(entry: TranscriptEntry, message: dict[str, Any]) -> Iterator[Step]:
    role = text_at(message, "role")
    rest = _rest(message, "role", "content")
    if role == "toolResult":
        result = {
            "type": "tool-result",
            "call_id": text_at(message, "toolCallId"),
            "name": text_at(message, "toolName"),
            "content": _output(message.get("content")),
            "is_error": message.get("isError") is True,
        }
        yield _with(entry, "tool", [result], _rest(rest, "toolCallId", "toolName", "isError"))
    elif role == "bashExecution":
        text = f"Ran `{text_at(message, 'command')}`\n{text_at(message, 'output')}"
        yield _with(entry, "user", text, message)
    elif role:
        yield _with(entry, _ROLES.get(role, "user"), _blocks(message.get("content")), rest)
        yield from _usage(entry, message)
    else:
        yield Broken(entry.line, "the message has no role")


def _with(entry: TranscriptEntry, role: str, content: str | list[Any], rest: dict[str, Any]) -> TranscriptEntry:
    """The entry with a message in Frontdesk's own format. What that has no place for is kept as metadata."""
    raw: dict[str, Any] = {"role": role, "content": content}
    if rest:
        raw["metadata"] = {"pi": rest}
    return TranscriptEntry(entry.line, entry.id, entry.parent, NewMessage(raw, id=entry.id), entry.at)


def _rest(record: dict[str, Any], *used: str) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in used}


def _blocks(content: Any) -> str | list[Any]:
    if type(content) is str:
        return content
    return [_block(block) for block in content] if type(content) is list else []


def _block(block: Any) -> Any:
    match type_of(block):
        case "text":
            return block
        case "thinking":
            return {
                "type": "reasoning",
                "text": text_at(block, "thinking"),
                "signature": text_at(block, "thinkingSignature"),
            }
        case "toolCall":
            call = {key: block.get(key) for key in ("id", "name", "arguments")}
            return {"type": "tool-call", **call}
        case "image":
            return {"type": "file", "media_type": text_at(block, "mimeType"), "data": text_at(block, "data")}
    return {"type": "data", "data_type": type_of(block) or "unknown", "data": block}


def _output(content: Any) -> Any:
    """What a tool returned: a text, where it consists of texts alone."""
    if type(content) is list and all(type_of(block) == "text" for block in content):
        return "\n".join(text_at(block, "text") for block in content)
    return content


def _usage(entry: TranscriptEntry, message: dict[str, Any]) -> Iterator[Step]:
    usage = dict_at(message, "usage")
    if not usage:
        return
    counts = [count_at(usage, key) for key in ("input", "cacheRead", "cacheWrite", "output")]
    model = text_at(message, "model") or None
    cost = dict_at(usage, "cost").get("total")
    known_cost = str(cost) if type(cost) in (int, float) else "0"
    yield Used(entry.line, entry.id, used_tokens(*counts), entry.at, model, known_cost)
    if model is not None:
        yield Described({"model": model})
