"""Long conversations between two people with questions about them: LoCoMo (Maharana et al., ACL 2024)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from frontdesk import Message

_TURN_ID = re.compile(r"D\d+:\d+")
_NO_ANSWER = 5


class Said(NamedTuple):
    """A message of a conversation."""

    id: str
    role: str
    speaker: str
    text: str
    at: datetime

    def to_message(self, *, named: bool) -> Message:
        return Message(self.id, self.role, self.text, created_at=self.at, author=self.speaker if named else None)


class Question(NamedTuple):
    """A question, and the ids of the messages that answer it."""

    text: str
    evidence: frozenset[str]

    def recall(self, found: list[str], depth: int) -> float:
        """The share of the evidence among the first hits."""
        return len(self.evidence.intersection(found[:depth])) / len(self.evidence)


@dataclass(frozen=True, slots=True)
class Conversation:
    name: str
    said: list[Said]
    questions: list[Question]


def load(path: Path) -> list[Conversation]:
    return [_conversation(sample) for sample in json.loads(path.read_text())]


def _conversation(sample: dict[str, Any]) -> Conversation:
    said = list(_messages(sample["conversation"]))
    known = {one.id for one in said}
    questions = [
        Question(asked["question"], evidence)
        for asked in sample["qa"]
        if (evidence := _evidence(asked) & known) and asked["category"] != _NO_ANSWER
    ]
    return Conversation(sample["sample_id"], said, questions)


def _evidence(asked: dict[str, Any]) -> frozenset[str]:
    return frozenset(turn_id for entry in asked.get("evidence") or () for turn_id in _TURN_ID.findall(entry))


def _messages(spoken: dict[str, Any]) -> Iterator[Said]:
    for name, turns in spoken.items():
        if not isinstance(turns, list):
            continue
        at = datetime.strptime(spoken[f"{name}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for turn in turns:
            caption = turn.get("blip_caption")
            text = turn["text"] + (f" [picture: {caption}]" if caption else "")
            role = "user" if turn["speaker"] == spoken["speaker_a"] else "assistant"
            yield Said(turn["dia_id"], role, turn["speaker"], text, at)


def with_pronouns(conversation: Conversation) -> Conversation:
    """The same conversation as one between a user and an assistant: questions say "I" and "you" instead of names."""
    names = {one.role: one.speaker for one in conversation.said}
    questions = [Question(_replace_names(text, names), evidence) for text, evidence in conversation.questions]
    return Conversation(conversation.name, conversation.said, questions)


def _replace_names(text: str, names: dict[str, str]) -> str:
    for role, (subject, possessive) in {"user": ("I", "my"), "assistant": ("you", "your")}.items():
        if role in names:
            text = re.sub(rf"\b{names[role]}['\u2019]s\b", possessive, text)
            text = re.sub(rf"\b{names[role]}\b", subject, text)
    return text
