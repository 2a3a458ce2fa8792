"""Rollouts of Codex (`~/.codex/sessions/**/rollout-*.jsonl`): items of the OpenAI Responses API in their order. An
"event_msg" repeats what an item says, so only items are imported. A "thread_rolled_back" takes back turns: what follows
is a branch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from frontdesk.messages import NewMessage, formats
from frontdesk.messages.formats.content_blocks import dict_at, list_at, text_at
from frontdesk.messages.formats.openai_responses import FORMAT as RESPONSES
from frontdesk.messages.parts import TextPart
from frontdesk.transfer.transcripts.jsonl import read_records
from frontdesk.transfer.transcripts.steps import (
    Broken,
    Compacted,
    Described,
    Opened,
    Skipped,
    Step,
    TranscriptEntry,
    TranscriptFile,
    Used,
    count_at,
    time_at,
)


def read(source: TranscriptFile) -> Iterator[Step]:
    reader = _CodexReader(source.path.stem)
    for line, record in read_records(source):
        if isinstance(record, Broken):
            yield record
        else:
            yield from reader.take(line, record)


@dataclass(slots=True)
class _CodexReader:
    stem: str
    is_open: bool = False
    last: str | None = None
    """the id of the last message"""
    asked: tuple[str, str | None] | None = None
    """the text of the last user message, and what it follows, until an event says that the user wrote it"""
    announced: str | None = None
    """the text of an event whose message has not come yet"""
    turns: list[str | None] = field(default_factory=list)
    """what the user's messages on the current branch follow"""
    total: dict[str, Any] = field(default_factory=dict)
    model: str = ""

    def take(self, line: int, record: dict[str, Any]) -> Iterator[Step]:
        kind, payload = text_at(record, "type"), record.get("payload")
        if type(payload) is not dict:  # in the first releases, a line was an item, and the first one had no type
            kind, payload = ("session_meta" if not kind and "id" in record else "response_item"), record
        if not self.is_open:
            yield self._open(payload if kind == "session_meta" else {})
            if kind == "session_meta":
                return
        at = time_at(record, "timestamp")
        match kind:
            case "response_item":
                yield from self._item(line, payload, at)
            case "compacted":
                summary = text_at(payload, "message").strip() or _text_of(list_at(payload, "replacement_history"))
                yield Compacted(line, _id(line), self.last, summary or None, at)
            case "turn_context":
                yield from self._model(text_at(payload, "model"))
            case "event_msg":
                yield from self._event(line, payload, at)
            case _:
                yield Skipped(kind or "unknown")

    def _open(self, meta: dict[str, Any]) -> Opened:
        self.is_open = True
        parent = text_at(meta, "forked_from_id") or text_at(meta, "parent_thread_id")
        return Opened(text_at(meta, "id") or self.stem, time_at(meta, "timestamp"), parent or None)

    def _item(self, line: int, item: dict[str, Any], at: int | None) -> Iterator[Step]:
        if formats.recognise(item) is not RESPONSES:
            yield Skipped(text_at(item, "type") or "unknown")
            return
        if item.get("role") == "user":
            self.asked = (_text_of([item]), self.last)
            if self.announced == self.asked[0]:
                self._begin_turn()
        yield TranscriptEntry(line, _id(line), self.last, NewMessage(item, id=_id(line)), at)
        self.last = _id(line)

    def _model(self, model: str) -> Iterator[Step]:
        yield Skipped("turn_context")
        if model and model != self.model:
            self.model = model
            yield Described({"model": model})

    def _event(self, line: int, event: dict[str, Any], at: int | None) -> Iterator[Step]:
        match text_at(event, "type"):
            case "token_count":
                yield from self._usage(line, dict_at(event, "info"), at)
            case "thread_rolled_back":
                self._roll_back(count_at(event, "num_turns"))
            case "thread_name_updated" if text_at(event, "thread_name"):
                yield Described({"name": text_at(event, "thread_name")})
            case kind:
                if kind == "user_message":
                    self.announced = text_at(event, "message")
                    if self.asked is not None and self.asked[0] == self.announced:
                        self._begin_turn()
                yield Skipped(f"event_msg/{kind}")

    def _begin_turn(self) -> None:
        """Note where a turn begins. Of what has the role of a user, much is context that the tool adds."""
        assert self.asked is not None
        self.turns.append(self.asked[1])
        self.asked = self.announced = None

    def _roll_back(self, count: int) -> None:
        if count and self.turns:
            self.last = self.turns[-min(count, len(self.turns))]
            del self.turns[-count:]

    def _usage(self, line: int, info: dict[str, Any], at: int | None) -> Iterator[Step]:
        """A count whose total is that of the count before repeats it."""
        usage, total = dict_at(info, "last_token_usage"), dict_at(info, "total_token_usage")
        if not usage or (total and total == self.total):
            return
        self.total = total
        tokens = {
            "input_tokens": count_at(usage, "input_tokens"),
            "output_tokens": count_at(usage, "output_tokens"),
            "cache_read_tokens": count_at(usage, "cached_input_tokens"),
            "cache_write_tokens": count_at(usage, "cache_write_input_tokens"),
            "reasoning_tokens": count_at(usage, "reasoning_output_tokens"),
        }
        yield Used(line, _id(line), tokens, at, self.model or None)


def _id(line: int) -> str:
    """Items need not have an id of their own. A rollout only grows, so its lines keep their numbers."""
    return f"line-{line}"


def _text_of(items: list[Any]) -> str:
    """What the messages in a list of items say."""
    parts = [part for item in items if type(item) is dict and RESPONSES.matches(item) for part in RESPONSES.read(item)]
    return "\n".join(part.text for part in parts if isinstance(part, TextPart))
