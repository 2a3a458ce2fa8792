"""Writes a conversation as Anthropic messages. Each block is put together from keys that the API knows, so that nothing
else of a stored message goes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontdesk.messages.formats.alternation import BEFORE_ASSISTANT
from frontdesk.messages.formats.anthropic_blocks import IMAGE_TYPES, clean_block, read_block
from frontdesk.messages.formats.authors import Speakers
from frontdesk.messages.formats.content_blocks import (
    NO_TEXT,
    is_image,
    readable,
    readable_from_user,
    result_text,
    safe_name,
    split_data_url,
    text_of_file,
)
from frontdesk.messages.formats.format import Rendering, Source
from frontdesk.messages.formats.notes import note_of
from frontdesk.messages.formats.pairing import CallIds, CallStep, MessagePiece, steps
from frontdesk.messages.parts import DataPart, FilePart, ReasoningPart, TextPart, ToolCallPart, ToolResultPart

Block = dict[str, Any]
CACHED = {"type": "ephemeral"}
"""the value of `cache_control` that marks the end of a part to be cached"""

_LONGEST_CALL_ID = 64
_NOT_CACHED = ("thinking", "redacted_thinking")


def write(messages: Sequence[Source], rendering: Rendering) -> list[dict[str, Any]]:
    """Messages that begin with the user and alternate; results come first after their calls. There are no system
    messages: leading ones, and those in the middle, become notes in a user message."""
    writer = _AnthropicWriter(messages, rendering)
    for step in steps(messages):
        writer.add(step)
    return writer.finish()


class _AnthropicWriter:
    def __init__(self, messages: Sequence[Source], rendering: Rendering) -> None:
        self._rendering = rendering
        self._speakers = Speakers(messages)
        self._ids = CallIds(_LONGEST_CALL_ID)
        self._written: list[dict[str, Any]] = []
        self._summary_end: Block | None = None
        self._stable_end: Block | None = None

    def add(self, step: CallStep) -> None:
        if step.role == "assistant":
            self._put("assistant", self._assistant_blocks(step))
            self._put("user", [self._result(piece, answer, part) for piece, _, answer, part in step.calls()])
        elif step.role == "user":
            self._put("user", self._user_blocks(step))
        else:
            note = note_of(step, self._rendering)
            self._put("user", [] if note is None else [{"type": "text", "text": note.tagged}])
        last = self._last_block()
        if self._rendering.stable is not None and last is not None and step.position < self._rendering.stable:
            self._stable_end = last
            self._summary_end = last if step.message.is_summary else self._summary_end

    def finish(self) -> list[dict[str, Any]]:
        for end in (self._summary_end, self._stable_end):
            if end is not None:
                end["cache_control"] = dict(CACHED)
        last = self._last_block()
        if last is not None and last["type"] == "text" and self._written[-1]["role"] == "assistant":
            last["text"] = last["text"].rstrip()  # an answer to be continued must not end in whitespace
        return self._written

    def _last_block(self) -> Block | None:
        block: Block | None = self._written[-1]["content"][-1] if self._written else None
        return block if block is None or block["type"] not in _NOT_CACHED else None

    def _put(self, role: str, blocks: list[Block]) -> None:
        if not blocks:
            return
        if not self._written and role == "assistant":
            self._put("user", [{"type": "text", "text": BEFORE_ASSISTANT}])
        if self._written and self._written[-1]["role"] == role:
            self._written[-1]["content"] += blocks
        else:
            self._written.append({"role": role, "content": blocks})

    def _user_blocks(self, step: CallStep) -> list[Block]:
        blocks = [block for piece in step.pieces if (block := _user_block(piece)) is not None]
        if not blocks and step.is_blank:
            blocks = [{"type": "text", "text": NO_TEXT}]
        return self._speakers.mark(step.message, blocks, "text") if blocks else []

    def _assistant_blocks(self, step: CallStep) -> list[Block]:
        if step.is_blank:
            return [{"type": "text", "text": NO_TEXT}]
        blocks = [block for piece in step.pieces if (block := self._assistant_block(piece)) is not None]
        while blocks and blocks[-1]["type"] in _NOT_CACHED:
            blocks.pop()  # reasoning must lead to something
        return blocks

    def _assistant_block(self, piece: MessagePiece) -> Block | None:
        part, given = piece.part, _given_block(piece)
        if isinstance(part, ToolCallPart):
            arguments = part.arguments if type(part.arguments) is dict else {"input": part.arguments}
            made = {"type": "tool_use", "input": {} if part.arguments is None else arguments}
            return {**(given or made), "id": self._ids.of(piece), "name": safe_name(part.name)}
        if isinstance(part, ReasoningPart):
            return given if part.signature is not None else None
        if isinstance(part, DataPart) and given is not None and part.type != "search_result":
            return given
        if isinstance(part, TextPart) and given is not None:
            return given
        text = readable(part)
        return {"type": "text", "text": text} if text and text.strip() else None

    def _result(self, call: MessagePiece, answer: MessagePiece, result: ToolResultPart) -> Block:
        given = _given_block(answer)
        if given is not None:
            return {**given, "tool_use_id": self._ids.of(call)}
        block = {"type": "tool_result", "tool_use_id": self._ids.of(call), "content": result_text(result.content)}
        return {**block, "is_error": True} if result.is_error else block


def _given_block(piece: MessagePiece) -> Block | None:
    """The block as it was given, where Anthropic accepts it and it reads as this very part."""
    block = piece.block
    return clean_block(block) if block is not None and read_block(block) == piece.part else None


def _user_block(piece: MessagePiece) -> Block | None:
    part, given = piece.part, _given_block(piece)
    if given is not None and given["type"] in ("text", "image", "document", "search_result", "container_upload"):
        return given
    if isinstance(part, FilePart) and (block := _file_block(part)) is not None:
        return block
    text = readable_from_user(part)
    return {"type": "text", "text": text} if text and text.strip() else None


def _file_block(part: FilePart) -> Block | None:
    media_type, data = split_data_url(part.url) or (part.media_type, part.data)
    text = text_of_file(part)
    titled = {"title": part.name} if part.name else {}
    if text is not None and text.strip():
        return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}, **titled}
    by_url = part.url is not None and part.url.startswith(("https://", "http://"))
    if is_image(part):
        if data and media_type in IMAGE_TYPES:
            return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
        return {"type": "image", "source": {"type": "url", "url": part.url}} if by_url else None
    if media_type != "application/pdf":
        return None
    if data:
        return {"type": "document", "source": {"type": "base64", "media_type": media_type, "data": data}, **titled}
    return {"type": "document", "source": {"type": "url", "url": part.url}, **titled} if by_url else None
