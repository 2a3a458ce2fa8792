"""Writes a conversation as OpenAI Responses items. Each is put together from keys that the API knows, so that nothing
else of a stored message goes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontdesk.messages.exact_json import encode_arguments
from frontdesk.messages.formats.alternation import alternate_items
from frontdesk.messages.formats.authors import Speakers
from frontdesk.messages.formats.content_blocks import (
    NO_TEXT,
    is_image,
    list_at,
    readable,
    readable_from_user,
    result_text,
    safe_name,
    text_at,
    text_of_file,
    url_of,
)
from frontdesk.messages.formats.format import Rendering, Source
from frontdesk.messages.formats.notes import note_of, system_text
from frontdesk.messages.formats.openai_responses_items import clean_block, clean_item, read_block
from frontdesk.messages.formats.pairing import CallIds, CallStep, MessagePiece, steps
from frontdesk.messages.parts import FilePart, ToolCallPart, ToolResultPart

NAME = "openai-responses"

Placed = tuple[int, dict[str, Any]]
"""an item, with the position of the stored item that it is; -1 where it was made from something else"""

_LONGEST_CALL_ID = 64
_OF_APPLICATIONS = ("function_call", "custom_tool_call")


def write(messages: Sequence[Source], rendering: Rendering) -> list[dict[str, Any]]:
    """Input items: calls with their outputs after them, reasoning only before the item it led to."""
    writer = _ResponsesWriter(messages, rendering)
    written = _with_whole_turns([item for step in steps(messages) for item in writer.write(step)])
    return alternate_items(written) if rendering.alternate else written


def _with_whole_turns(items: list[Placed]) -> list[dict[str, Any]]:
    """Removes reasoning whose next item is missing, and ids of calls whose reasoning is missing."""
    kept: list[Placed] = []
    for position, item in reversed(items):
        if item.get("type") != "reasoning" or (kept and 0 <= position == kept[-1][0] - 1):
            kept.append((position, item))
    written: list[dict[str, Any]] = []
    reasoned = False
    for position, item in reversed(kept):
        reasoned = position >= 0 and (reasoned or item.get("type") == "reasoning")
        if item.get("type") == "function_call" and not reasoned:
            item.pop("id", None)
        written.append(item)
    return written


class _ResponsesWriter:
    def __init__(self, messages: Sequence[Source], rendering: Rendering) -> None:
        self._rendering = rendering
        self._speakers = Speakers(messages)
        self._ids = CallIds(_LONGEST_CALL_ID)

    def write(self, step: CallStep) -> list[Placed]:
        raw = step.message.raw
        if raw.get("type") == "additional_tools" and (item := clean_item(raw)) is not None:
            return [(-1, item)]
        match step.role:
            case "assistant":
                return self._model_items(step)
            case "note":
                return self._note(step)
            case "user":
                return self._user_items(step)
        text = system_text(step.message, self._rendering)
        return [(-1, {"role": step.role, "content": text})] if text.strip() else []

    def _note(self, step: CallStep) -> list[Placed]:
        note = note_of(step, self._rendering)
        if note is None:
            return []
        if self._rendering.notes == "system" and note.plain is not None:
            role = "developer" if step.message.role == "developer" else "system"
            return [(-1, {"role": role, "content": note.plain})]
        return [(-1, {"role": "user", "content": note.tagged})]

    def _user_items(self, step: CallStep) -> list[Placed]:
        raw = step.message.raw
        if step.message.shape == NAME and type(raw.get("role")) is not str:
            item = clean_item(raw)
            return [] if item is None else [(-1, item)]
        blocks = [block for piece in step.pieces if (block := _input_block(piece)) is not None]
        if not blocks and step.is_blank:
            blocks = [{"type": "input_text", "text": NO_TEXT}]
        if not blocks:
            return []
        blocks = self._speakers.mark(step.message, blocks, "input_text")
        if type(raw.get("content")) is not list and len(blocks) == 1 and blocks[0]["type"] == "input_text":
            return [(-1, {"role": "user", "content": blocks[0]["text"]})]
        return [(-1, {"role": "user", "content": blocks})]

    def _model_items(self, step: CallStep) -> list[Placed]:
        if step.is_blank:
            return [(-1, {"role": "assistant", "content": NO_TEXT})]
        items: list[Placed] = []
        outputs: list[Placed] = []
        said: set[int] = set()
        pairs = {id(piece): self._pair(piece, call, answer, part) for piece, call, answer, part in step.calls()}
        for piece in step.pieces:
            own = piece.message.shape == NAME
            if id(piece) in pairs:
                call, output = pairs[id(piece)]
                items.append(call)
                outputs.append((-1, output))
            elif own and "role" not in piece.message.raw:
                item = clean_item(piece.message.raw)
                items += [] if item is None else [(piece.position, item)]
            elif piece.position not in said or not own:
                said.add(piece.position)
                as_given = own and not self._rendering.alternate  # messages with ids cannot be merged
                items += _said_items(step, piece) if as_given else _text_items(_same_message(step, piece, own))
        return items + outputs

    def _pair(
        self, piece: MessagePiece, call: ToolCallPart, answer: MessagePiece, result: ToolResultPart
    ) -> tuple[Placed, dict[str, Any]]:
        """A call and its output: both of OpenAI's own kind as they were given, otherwise as a function's."""
        raw, answered = piece.message.raw, answer.message.raw
        own = clean_item(raw) if piece.message.shape == NAME else None
        kind = text_at(raw, "type") if own is not None else ""
        id = self._ids.of(piece, trusted=own is not None)
        if own is not None and kind in _OF_APPLICATIONS:
            output = {"type": f"{kind}_output", "call_id": id, "output": _output(result.content)}
            return (piece.position, {**own, "call_id": id, "name": safe_name(call.name)}), output
        output_kind = text_at(answered, "type") if answer.message.shape == NAME else ""
        if own is not None and output_kind in (f"{kind}_output", f"{kind.removesuffix('_call')}_output"):
            cleaned = clean_item(answered)
            if cleaned is not None and id == call.id:
                return (piece.position, own), cleaned
        function = {"name": safe_name(call.name), "arguments": encode_arguments(call.arguments)}
        made = {"type": "function_call", "call_id": id, **function}
        return (-1, made), {"type": "function_call_output", "call_id": id, "output": _output(result.content)}


def _said_items(step: CallStep, piece: MessagePiece) -> list[Placed]:
    """A model's message item as it was given, or its text where the API would not accept it."""
    raw = piece.message.raw
    blocks = [clean_block(block) for block in list_at(raw, "content")]
    is_output = all(block is not None and block["type"] in ("output_text", "refusal") for block in blocks)
    if raw.get("type") == "message" and text_at(raw, "id").startswith("msg") and blocks and is_output:
        status = raw.get("status") if raw.get("status") in ("in_progress", "incomplete") else "completed"
        item = {"type": "message", "id": raw["id"], "role": "assistant", "status": status, "content": blocks}
        return [(piece.position, {**item, **_phase(raw)})]
    return _text_items(_same_message(step, piece, True))


def _same_message(step: CallStep, piece: MessagePiece, whole: bool) -> list[MessagePiece]:
    return [each for each in step.pieces if each.message is piece.message] if whole else [piece]


def _text_items(pieces: list[MessagePiece]) -> list[Placed]:
    texts = [text for piece in pieces if (text := readable(piece.part)) and text.strip()]
    if not texts:
        return []
    return [(-1, {"role": "assistant", "content": "\n".join(texts), **_phase(pieces[0].message.raw)})]


def _phase(raw: dict[str, Any]) -> dict[str, Any]:
    phase = raw.get("phase")
    return {"phase": phase} if phase in ("commentary", "final_answer") else {}


def _input_block(piece: MessagePiece) -> dict[str, Any] | None:
    part, given = piece.part, clean_block(piece.block)
    if given is not None and given["type"].startswith("input_") and read_block(piece.block) == part:
        return given
    if isinstance(part, FilePart) and text_of_file(part) is None:
        url = url_of(part)
        if url is not None and is_image(part):
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        if url is not None and part.data is None:
            return {"type": "input_file", "file_url": url}
        if url is not None:
            return {"type": "input_file", "filename": part.name or "file", "file_data": url}
    text = readable_from_user(part)
    return {"type": "input_text", "text": text} if text and text.strip() else None


def _output(content: Any) -> str | list[dict[str, Any]]:
    if type(content) is list and content:
        blocks = [clean_block(block) for block in content]
        if all(block is not None and block["type"].startswith("input_") for block in blocks):
            return [block for block in blocks if block is not None]
    return result_text(content)
