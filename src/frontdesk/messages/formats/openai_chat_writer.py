"""Writes a conversation as OpenAI chat messages. Each is put together from keys that the API knows, so that nothing
else of a stored message goes out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from frontdesk.messages.exact_json import encode_arguments
from frontdesk.messages.formats.alternation import alternate_chat
from frontdesk.messages.formats.authors import Speakers
from frontdesk.messages.formats.content_blocks import (
    NO_TEXT,
    dict_at,
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
from frontdesk.messages.formats.openai_chat_blocks import clean_block, read_block, read_call
from frontdesk.messages.formats.pairing import CallIds, CallStep, MessagePiece, steps
from frontdesk.messages.parts import FilePart, ToolCallPart, ToolResultPart

NAME = "openai"
_NAME = re.compile(r"[^\s<|\\/>]{1,64}")
_LONGEST_CALL_ID = 40
_AUDIO_FORMATS = {"audio/wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}


def write(messages: Sequence[Source], rendering: Rendering) -> list[dict[str, Any]]:
    """Chat messages: each assistant message with calls is followed directly by all their results."""
    writer = _ChatWriter(messages, rendering)
    written = [message for step in steps(messages) for message in writer.write(step)]
    return alternate_chat(written) if rendering.alternate else written


def _is_name(author: str) -> bool:
    return _NAME.fullmatch(author) is not None


class _ChatWriter:
    def __init__(self, messages: Sequence[Source], rendering: Rendering) -> None:
        self._rendering = rendering
        # Merged messages cannot have different names, so each text gets its author as a prefix.
        self._speakers = Speakers(messages) if rendering.alternate else Speakers(messages, _is_name)
        self._ids = CallIds(_LONGEST_CALL_ID)

    def write(self, step: CallStep) -> list[dict[str, Any]]:
        match step.role:
            case "assistant":
                return self._assistant(step)
            case "note":
                return self._note(step)
            case "user":
                content = self._user_content(step)
            case _:
                content = system_text(step.message, self._rendering)
        if not content or (type(content) is str and not content.strip()):
            return []
        name = self._speakers.name(step.message)
        return [{"role": step.role, "content": content, **({"name": name} if name else {})}]

    def _note(self, step: CallStep) -> list[dict[str, Any]]:
        note = note_of(step, self._rendering)
        if note is None:
            return []
        if self._rendering.notes == "system" and note.plain is not None:
            return [{"role": "developer" if step.message.role == "developer" else "system", "content": note.plain}]
        return [{"role": "user", "content": note.tagged}]

    def _user_content(self, step: CallStep) -> str | list[dict[str, Any]]:
        blocks = [block for piece in step.pieces if (block := _user_block(piece)) is not None]
        if not blocks and step.is_blank:
            blocks = [{"type": "text", "text": NO_TEXT}]
        blocks = self._speakers.mark(step.message, blocks, "text") if blocks else []
        keeps_list = type(step.message.raw.get("content")) is list and not self._rendering.alternate
        if keeps_list or any(block["type"] != "text" for block in blocks):
            return blocks
        return "\n".join(block["text"] for block in blocks)

    def _assistant(self, step: CallStep) -> list[dict[str, Any]]:
        message = self._as_given(step) or _built(step)
        calls = [self._call(piece, call) for piece, call, _, _ in step.calls()]
        if calls:
            message["tool_calls"] = calls
        elif not message.get("content") and message.keys() <= {"role", "content", "name"}:
            if not step.is_blank:
                return []  # reasoning, or what an application keeps for itself
            message["content"] = NO_TEXT
        if step.message.shape == NAME and text_at(step.message.raw, "reasoning_content"):
            # OpenAI never returns it. Servers that do ignore it or, like DeepSeek after a tool call, insist on it.
            message["reasoning_content"] = step.message.raw["reasoning_content"]
        return [message, *(self._result(*call) for call in step.calls())]

    def _as_given(self, step: CallStep) -> dict[str, Any] | None:
        """The message with the keys that the API knows, where it is a chat message that the API accepts."""
        raw = step.message.raw
        if self._rendering.alternate or not step.complete or step.message.shape != NAME or step.is_blank:
            return None
        content = raw.get("content")
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if type(content) is list:
            message["content"] = [clean_block(block, "assistant") for block in content]
            if not content or None in message["content"]:
                return None
        elif content is not None and type(content) is not str:
            return None
        if text_at(raw, "refusal"):
            message["refusal"] = raw["refusal"]
        if text_at(dict_at(raw, "audio"), "id"):
            message["audio"] = {"id": raw["audio"]["id"]}
        name = self._speakers.name(step.message)
        return {**message, **({"name": name} if name else {})}

    def _call(self, piece: MessagePiece, call: ToolCallPart) -> dict[str, Any]:
        given = _given_call(piece)
        id = self._ids.of(piece, trusted=given is not None)
        if given is not None and given.get("type") == "custom":
            return {"id": id, "type": "custom", "custom": {"name": safe_name(call.name), "input": call.arguments}}
        function = dict_at(given or {}, "function")
        arguments = text_at(function, "arguments") or encode_arguments(call.arguments)
        return {"id": id, "type": "function", "function": {"name": safe_name(call.name), "arguments": arguments}}

    def _result(
        self, piece: MessagePiece, call: ToolCallPart, answer: MessagePiece, result: ToolResultPart
    ) -> dict[str, Any]:
        content = result.content
        blocks = [clean_block(block, "tool") for block in content] if type(content) is list else []
        written = blocks if blocks and None not in blocks else result_text(content)
        return {"role": "tool", "tool_call_id": self._ids.of(piece), "content": written}


def _given_call(piece: MessagePiece) -> dict[str, Any] | None:
    """The entry of `tool_calls` that a call was read from."""
    for call in list_at(piece.message.raw, "tool_calls"):
        if read_call(call) == piece.part:
            found: dict[str, Any] = call
            return found
    return None


def _built(step: CallStep) -> dict[str, Any]:
    texts = [text for piece in step.pieces if piece.answer is None and (text := readable(piece.part))]
    return {"role": "assistant", "content": "\n".join(text for text in texts if text.strip()) or None}


def _user_block(piece: MessagePiece) -> dict[str, Any] | None:
    part, given = piece.part, clean_block(piece.block, "user")
    if given is not None and read_block(piece.block) == part:
        return given
    if isinstance(part, FilePart) and text_of_file(part) is None:
        url = url_of(part)
        if is_image(part) and url is not None:
            return {"type": "image_url", "image_url": {"url": url}}
        if part.data and part.media_type in _AUDIO_FORMATS:
            audio = {"data": part.data, "format": _AUDIO_FORMATS[part.media_type]}
            return {"type": "input_audio", "input_audio": audio}
        if part.data:
            return {"type": "file", "file": {"filename": part.name or "file", "file_data": url}}
    text = readable_from_user(part)
    return {"type": "text", "text": text} if text and text.strip() else None
