"""Pairs tool calls with their results, and splits a conversation into the steps that all providers require: calls
directly followed by all their results, and notes of the application."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from frontdesk.messages.formats.format import Source
from frontdesk.messages.parts import DataPart, Part, TextPart, ToolCallPart, ToolResultPart

_ROLES = {
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "developer": "developer",
    "function": "function",
    "system": "system",
    "tool": "tool",
}
NO_RESULT = "(No result of this call was recorded.)"
_OUTSIDE_SAFE_ID = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(slots=True, eq=False)
class MessagePiece:
    """One part at its place. `answer` is the result of an answered call; `is_answer` says that it is such a result."""

    message: Source
    position: int
    index: int
    part: Part
    answer: MessagePiece | None = None
    is_answer: bool = False

    @property
    def block(self) -> Any:
        """The block of the raw content that the part was read from, None where the shape has no such blocks."""
        content = self.message.raw.get("content")
        return content[self.index] if type(content) is list and self.index < len(content) else None


@dataclass(slots=True)
class CallStep:
    """Neighbouring pieces of one role. Every call in it has a result, and the results come directly after it.

    The role is that of leading system messages ("system", "developer"), "user", "assistant" or "note": a system message
    in the middle, a summary, or a result without its call. `complete` says that it is the whole of one message."""

    role: str
    message: Source
    position: int
    pieces: list[MessagePiece] = field(default_factory=list)
    complete: bool = True

    @property
    def is_blank(self) -> bool:
        """Whether nothing was said: there is no content, or only whitespace."""
        return all(type(piece.part) is TextPart and not piece.part.text.strip() for piece in self.pieces)

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


def count_leading(messages: Sequence[Source]) -> int:
    """How many system messages the conversation begins with."""
    for index, message in enumerate(messages):
        if message.is_summary or role_of(message) not in ("system", "developer"):
            return index
    return len(messages)


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
                    piece.is_answer = True
    return rows


def steps(messages: Sequence[Source]) -> list[CallStep]:
    """The conversation as steps. A call without a result gets one that says so; a result without a call is a note."""
    result: list[CallStep] = []
    leading = count_leading(messages)
    for position, (message, row) in enumerate(zip(messages, pair(messages), strict=True)):
        role = role_of(message)
        if role in ("system", "developer") or message.is_summary:
            made = [CallStep(role if position < leading else "note", message, position)]
        elif role in ("tool", "function") and not any(type(piece.part) is ToolResultPart for piece in row):
            made = [CallStep("note", message, position)]
        else:
            made = _steps_of(message, position, row, role)
        if result and made and _continues(result[-1], made[0]):
            result[-1].pieces += made[0].pieces
            result[-1].complete = False
            del made[0]
        result += made
    return result


def _steps_of(message: Source, position: int, row: list[MessagePiece], role: str) -> list[CallStep]:
    """A message may contain several steps: what follows a result was written with the result known."""
    if not row:
        return [CallStep(role, message, position)]
    made: list[CallStep] = []
    answered = True
    for piece in row:
        part = piece.part
        if type(part) is ToolResultPart:
            answered = True
            if not piece.is_answer:
                made.append(CallStep("note", message, position, [piece]))
            continue
        if type(part) is ToolCallPart and role == "assistant" and piece.answer is None:
            nothing = ToolResultPart(part.id, NO_RESULT, part.name)
            piece.answer = MessagePiece(message, position, piece.index, nothing, is_answer=True)
        starts = answered and type(part) is not ToolCallPart
        if not made or made[-1].role == "note" or starts or (type(part) is DataPart and part.type == "step-start"):
            made.append(CallStep(_speaker(role), message, position))
        answered = False
        made[-1].pieces.append(piece)
    if len(made) > 1:
        for step in made:
            step.complete = False
    return made


def _speaker(role: str) -> str:
    """What a tool message says besides results is a note: a user did not say it."""
    return role if role in ("assistant", "user") else "note"


def _continues(step: CallStep, next_step: CallStep) -> bool:
    if not step.pieces or not next_step.pieces or (step.role, next_step.role) != ("assistant", "assistant"):
        return False
    last, first = step.pieces[-1], next_step.pieces[0]
    return first.position == last.position + 1 and in_one_turn(last.message, first.message)


def in_one_turn(message: Source, next_message: Source) -> bool:
    """Whether both are items of one model turn, which OpenAI Responses returns one by one."""
    if role_of(message) != "assistant" or role_of(next_message) != "assistant":
        return False
    return type(message.raw.get("type")) is str and type(next_message.raw.get("type")) is str


def is_in_order(messages: Sequence[Source]) -> bool:
    """Whether each call is answered by the message after it, and each result follows its call."""
    waiting: set[str] = set()
    for message in messages:
        results = {part.call_id for part in message.parts if isinstance(part, ToolResultPart)}
        if results != waiting:
            return False
        waiting = {part.id for part in message.parts if isinstance(part, ToolCallPart)}
    return not waiting


class CallIds:
    """Ids of calls as a provider accepts them, each used once in a request.

    An id is kept if it is not longer than `longest` and has only plain characters, or if it is `trusted`: made by this
    provider."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._by_call: dict[int, str] = {}
        self._taken: set[str] = set()

    def of(self, call: MessagePiece, *, trusted: bool = False) -> str:
        known = self._by_call.get(id(call))
        if known is not None:
            return known
        assert isinstance(call.part, ToolCallPart)
        given = call.part.id
        wanted = chosen = given if trusted and len(given) <= self._longest else safe_id(given, self._longest)
        while chosen in self._taken:
            chosen = safe_id(f"{wanted}:{len(self._taken)}", 0)
        self._taken.add(chosen)
        self._by_call[id(call)] = chosen
        return chosen


def safe_id(id: str, longest: int) -> str:
    """An id for a provider that accepts only short ids of plain characters; the same for the same `id`."""
    if len(id) <= longest and not _OUTSIDE_SAFE_ID.search(id):
        return id
    return "call_" + hashlib.blake2b(id.encode(), digest_size=12).hexdigest()
