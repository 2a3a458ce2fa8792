"""LlamaIndex's chat messages as messages, and messages as chat messages, also summaries and messages of other
frameworks."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ImageBlock, MessageRole, TextBlock, ToolCallBlock

from frontdesk.messages import FilePart, Message, NewMessage, Part, ToolCallPart, ToolResultPart, formats, new_id
from frontdesk.messages.formats.content_blocks import NO_TEXT, is_image, readable_from_user, result_text
from frontdesk.messages.formats.pairing import MessagePiece, pair

_SHAPE = "llama-index"
_ROLES = {role.value: role for role in MessageRole}


def to_value(message: ChatMessage) -> dict[str, Any]:
    """A chat message as it is stored."""
    return message.model_dump(mode="json")


def to_message(message: ChatMessage) -> NewMessage:
    return NewMessage(to_value(message), id=new_id())


def chat_messages(messages: Sequence[Message]) -> list[ChatMessage]:
    return [made for made, _ in chat_messages_with_sources(messages)]


def chat_messages_with_sources(messages: Sequence[Message]) -> list[tuple[ChatMessage, Message]]:
    """Chat messages, each with the message that it was made from. A message becomes as many as it would alone, so that
    positions do not depend on which messages are read with it.

    Calls of other frameworks that have no result among these messages are left out."""
    return [
        (made, message)
        for message, row in zip(messages, pair(messages), strict=True)
        for made in _chat_messages_of(message, [piece.part for piece in row if not _is_unanswered(piece)])
    ]


def _is_unanswered(piece: MessagePiece) -> bool:
    return isinstance(piece.part, ToolCallPart) and piece.answer is None


def _chat_messages_of(message: Message, parts: Sequence[Part]) -> Iterator[ChatMessage]:
    """A message of LlamaIndex as it was stored. One of another framework may become several: each tool result is a
    message here."""
    if message.shape == _SHAPE:
        yield ChatMessage.model_validate_json(message.stored.raw)
    elif message.is_summary:
        yield ChatMessage(role=MessageRole.USER, content=formats.render([message], "openai")[0]["content"])
    else:
        yield from map(_result, (part for part in parts if isinstance(part, ToolResultPart)))
        blocks = [block for part in parts if (block := _block(part)) is not None]
        if len(parts) < len(message.parts) and not blocks:
            blocks = [TextBlock(text=NO_TEXT)]  # in place of its calls
        if blocks:
            # What comes with the results of tools is no result itself.
            role = MessageRole.USER if message.role == "tool" else _ROLES.get(message.role, MessageRole.USER)
            yield ChatMessage(role=role, blocks=blocks)


def _result(part: ToolResultPart) -> ChatMessage:
    named = {"tool_call_id": part.call_id, **({} if part.name is None else {"name": part.name})}
    return ChatMessage(role=MessageRole.TOOL, content=result_text(part.content), additional_kwargs=named)


def _block(part: Part) -> TextBlock | ToolCallBlock | ImageBlock | None:
    if isinstance(part, ToolResultPart):
        return None
    if isinstance(part, ToolCallPart):
        arguments = part.arguments if isinstance(part.arguments, dict | str) else {"input": part.arguments}
        return ToolCallBlock(tool_call_id=part.id, tool_name=part.name, tool_kwargs=arguments)
    if isinstance(part, FilePart) and is_image(part) and (part.data or part.url):
        known = None if "*" in part.media_type else part.media_type
        data = None if part.data is None else base64.b64decode(part.data)
        return ImageBlock(image=data, url=part.url, image_mimetype=known)
    text = readable_from_user(part)
    return TextBlock(text=text) if text else None
