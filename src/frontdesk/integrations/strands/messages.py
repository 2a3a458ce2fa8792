"""Messages as Strands' session messages, also summaries and messages of other frameworks."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, cast

from strands.types.content import Message as StrandsMessage
from strands.types.session import SessionMessage

from frontdesk.messages import Message, formats

_SHAPE = "strands"


def is_own(message: Message) -> bool:
    return message.shape == _SHAPE


def number_of(message: Message) -> int | None:
    """The number that Strands gave to a message of its own."""
    return message.raw["message_id"] if is_own(message) else None


def session_messages(messages: Sequence[Message]) -> list[SessionMessage]:
    """Messages of Strands as they were stored. Others are written for its models; their numbers continue from the
    message before them."""
    written: list[SessionMessage] = []
    for own, run in groupby(messages, key=is_own):
        if own:
            written += [SessionMessage.from_dict(message.raw) for message in run]
        else:
            others = list(run)
            for content in formats.render(others, "anthropic"):
                number = written[-1].message_id + 1 if written else 0
                at = others[-1].created_at.isoformat()
                written.append(SessionMessage(_converse(content), number, created_at=at, updated_at=at))
    return written


def _converse(message: dict[str, Any]) -> StrandsMessage:
    """A message of Anthropic as one of the Converse API."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return cast(
        "StrandsMessage", {"role": message["role"], "content": [made for block in blocks for made in _blocks(block)]}
    )


def _blocks(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    match block["type"]:
        case "text":
            yield {"text": block["text"]}
        case "tool_use":
            yield {"toolUse": {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}}
        case "tool_result":
            content = block.get("content") or ""
            outputs = [{"type": "text", "text": content}] if isinstance(content, str) else content
            status = "error" if block.get("is_error") else "success"
            result = [made for output in outputs for made in _blocks(output)]
            yield {"toolResult": {"toolUseId": block["tool_use_id"], "content": result, "status": status}}
        case "image" | "document" if block["source"]["type"] == "base64":
            source = block["source"]
            kind = source["media_type"].partition("/")[2]
            named = {"name": block.get("title") or "document"} if block["type"] == "document" else {}
            yield {block["type"]: {"format": kind, **named, "source": {"bytes": base64.b64decode(source["data"])}}}
        case kind:
            yield {"text": f"[{kind}]"}
