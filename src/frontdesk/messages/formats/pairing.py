"""Pairs tool calls with their results, and splits a model's turns into steps, as all providers require."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from frontdesk.messages.formats.format import Source
from frontdesk.messages.parts import DataPart, Part, ToolCallPart, ToolResultPart

_ROLES = {
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "developer": "developer",
    "function": "function",
    "system": "system",
    "tool": "tool",
}
_OUTSIDE_SAFE_ID = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(slots=True, eq=False)
class MessagePiece:
    """One part at its place; `answer` is the result of an answered call."""

    message: Source
    position: int
    index: int
    part: Part
    answer: MessagePiece | None = None

    @property
    def block(self) -> Any:
        """The block of the raw content that the part was read from, None where the shape has no such blocks."""
        content = self.message.raw.get("content")
        return content[self.index] if type(content) is list and self.index < len(content) else None


@dataclass(slots=True)
class CallStep:
    """Neighbouring pieces of one role. Calls in it are answered; their results come directly after it.

    `complete` says that it is the whole of one message, except for calls that were not answered.
    """

    role: str
    pieces: list[MessagePiece] = field(default_factory=list)
    complete: bool = True

    @property
    def message(self) -> Source:
        return self.pieces[0].message

    def calls(self) -> Iterator[tuple[MessagePiece, ToolCallPart, MessagePiece, ToolResultPart]]:
        """(call, its part, result, its part) for each call."""
        for piece in self.pieces:
            if type(piece.part) is ToolCallPart and piece.answer is not None:
                result = piece.answer.part
                assert type(result) is ToolResultPart
                yield piece, piece.part, piece.answer, result


def role_of(message: Source) -> str:
    """The role in the words that providers share; a role that they do not know speaks as a user."""
    return _ROLES.get(message.role, "user")


def pair(messages: Sequence[Source]) -> list[list[MessagePiece]]:
    """The pieces of each message, each call with the first later result that names it.

    Of calls with the same id the last one before the result is answered.
    """
    waiting: dict[str, MessagePiece] = {}
    rows: list[list[MessagePiece]] = []
    for position, message in enumerate(messages):
        row = [MessagePiece(message, position, index, part) for index, part in enumerate(message.parts)]
        rows.append(row)
        for piece in row:
            if type(piece.part) is ToolCallPart and role_of(message) == "assistant":
                waiting[piece.part.id] = piece
            elif type(piece.part) is ToolResultPart:
                call = waiting.pop(piece.part.call_id, None)
                if call is not None:
                    call.answer = piece
    return rows


def steps(messages: Sequence[Source]) -> list[CallStep]:
    """The conversation as steps, without results and without calls that have none."""
    result: list[CallStep] = []
    for row in pair(messages):
        made = _steps_of(row)
        if result and made and _continues(result[-1], made[0]):
            result[-1].pieces += made[0].pieces
            result[-1].complete = False
            del made[0]
        result += made
    return result


def _steps_of(row: list[MessagePiece]) -> list[CallStep]:
    """A message may contain several steps: what follows a result was written with the result known."""
    made: list[CallStep] = []
    answered = True
    for piece in row:
        kind = type(piece.part)
        if kind is ToolResultPart:
            answered = True
        elif kind is not ToolCallPart or piece.answer is not None:
            starts = answered and kind is not ToolCallPart
            if not made or starts or (type(piece.part) is DataPart and piece.part.type == "step-start"):
                made.append(CallStep(role_of(piece.message)))
            answered = False
            made[-1].pieces.append(piece)
    if len(made) > 1:
        for step in made:
            step.complete = False
    return made


def _continues(step: CallStep, next_step: CallStep) -> bool:
    last, first = step.pieces[-1], next_step.pieces[0]
    return first.position == last.position + 1 and in_one_turn(last.message, first.message)


def in_one_turn(message: Source, next_message: Source) -> bool:
    """Whether both are items of one model turn, which OpenAI Responses returns one by one."""
    if role_of(message) != "assistant" or role_of(next_message) != "assistant":
        return False
    return type(message.raw.get("type")) is str and type(next_message.raw.get("type")) is str


def safe_id(id: str, longest: int) -> str:
    """An id for a provider that accepts only short ids of plain characters; the same for the same `id`."""
    if len(id) <= longest and not _OUTSIDE_SAFE_ID.search(id):
        return id
    return "call_" + hashlib.blake2b(id.encode(), digest_size=12).hexdigest()
