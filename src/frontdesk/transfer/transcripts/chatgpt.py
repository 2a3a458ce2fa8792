"""ChatGPT's data export (`conversations.json`): a list of conversations, each a tree of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from frontdesk.messages import NewMessage
from frontdesk.messages.exact_json import decode_arguments
from frontdesk.messages.formats.content_blocks import dict_at, list_at, text_at
from frontdesk.transfer.transcripts.decoding import HALF_CHARACTER, decode
from frontdesk.transfer.transcripts.json_array import LONGEST, ElementTooLongError, read_elements
from frontdesk.transfer.transcripts.steps import (
    Broken,
    Current,
    Described,
    Opened,
    Step,
    TranscriptEntry,
    TranscriptFile,
    time_at,
)

_USED = ("id", "author", "content", "create_time")


def read(source: TranscriptFile) -> Iterator[Step]:
    """Their numbers, from 1 on, take the place of the numbers of lines."""
    number = 0
    try:
        for number, text in enumerate(read_elements(source), 1):
            yield from _conversation(number, text)
    except ElementTooLongError:
        yield Broken(number + 1, f"the conversation is longer than {LONGEST:,} bytes: the rest was not read")


def _conversation(number: int, text: bytes) -> Iterator[Step]:
    try:
        found, is_repaired = decode(text)
    except ValueError:
        yield Broken(number, "the conversation is not JSON: it may have been cut off")
        return
    if is_repaired:
        yield Broken(number, HALF_CHARACTER)
    nodes = dict_at(found, "mapping")
    session_id = text_at(found, "conversation_id") or text_at(found, "id")
    if not session_id or not nodes:
        yield Broken(number, "this is not a conversation: it has no id, or no messages")
        return
    yield Opened(session_id, time_at(found, "create_time"))
    described = {"name": text_at(found, "title"), "model": text_at(found, "default_model_slug")}
    yield Described({name: value for name, value in described.items() if value})
    known = {id: node for id, node in nodes.items() if type(node) is dict}
    current = text_at(found, "current_node")
    yield from _tree(number, known, _path(known, current))
    if current in known:
        yield Current(current)


def _path(known: dict[str, Any], current: str) -> set[str]:
    """The node at which the conversation is now, and those before it."""
    path: set[str] = set()
    while current in known and current not in path:
        path.add(current)
        current = text_at(known[current], "parent")
    return path


def _tree(number: int, known: dict[str, Any], path: set[str]) -> Iterator[Step]:
    """Every node after its parent, and those of the path after their siblings, so that it ends at the current node. A
    node whose parent is missing is a root, and so is one that only a cycle leads to."""
    seen: set[str] = set()
    roots = [id for id, node in known.items() if text_at(node, "parent") not in known]
    for root in [*sorted(roots, key=path.__contains__), *known]:
        # (a node, the node that it follows, the call that a tool's message after it answers)
        waiting: list[tuple[str, str | None, str | None]] = [(root, None, None)]
        while waiting:
            id, parent, call = waiting.pop()
            if id in seen:
                continue
            seen.add(id)
            entry, call = _entry(number, id, parent, known[id], call)
            yield entry
            children = [child for child in list_at(known[id], "children") if type(child) is str and child in known]
            children.sort(key=path.__contains__)
            waiting += [(child, id, call) for child in reversed(children)]  # the last one is taken first


def _entry(
    number: int, id: str, parent: str | None, node: dict[str, Any], call: str | None
) -> tuple[TranscriptEntry, str | None]:
    message = dict_at(node, "message")
    role = text_at(dict_at(message, "author"), "role")
    if not role:
        return TranscriptEntry(number, id, parent, kind=""), call
    content, call = _content(id, role, message, call)
    if not content:
        return TranscriptEntry(number, id, parent, kind="empty message"), call
    raw: dict[str, Any] = {"role": role, "content": content}
    if name := text_at(dict_at(message, "author"), "name"):
        raw["author"] = name
    raw["metadata"] = {"chatgpt": {key: value for key, value in message.items() if key not in _USED}}
    return TranscriptEntry(number, id, parent, NewMessage(raw, id=id), time_at(message, "create_time")), call


def _content(id: str, role: str, message: dict[str, Any], call: str | None) -> tuple[list[Any], str | None]:
    """The parts of a message, and the call that the next message may answer. A message to a tool is a call."""
    parts = _parts(dict_at(message, "content"))
    recipient = text_at(message, "recipient") or "all"
    if role == "assistant" and recipient != "all":
        text = "\n".join(part["text"] for part in parts if part["type"] == "text")
        arguments = decode_arguments(text)
        called = {
            "type": "tool-call",
            "id": id,
            "name": recipient,
            "arguments": arguments if type(arguments) is dict else {"input": text},
        }
        return [*(part for part in parts if part["type"] != "text"), called], id
    if role == "tool" and call is not None:
        if all(part["type"] == "text" for part in parts):
            return [{"type": "tool-result", "call_id": call, "content": "\n".join(p["text"] for p in parts)}], None
        return [{"type": "tool-result", "call_id": call, "content": parts}], None
    return parts, call if role == "tool" else None


def _parts(content: dict[str, Any]) -> list[Any]:
    match text_at(content, "content_type"):
        case "text" | "multimodal_text":
            return [part for each in list_at(content, "parts") if (part := _part(each))]
        case "code" | "execution_output" | "system_error" | "tether_quote":
            return [{"type": "text", "text": content["text"]}] if text_at(content, "text") else []
        case "thoughts":
            thoughts = [each for each in list_at(content, "thoughts") if type(each) is dict]
            return [{"type": "reasoning", "text": text_at(each, "content")} for each in thoughts]
        case "":
            return []
        case kind:
            return [{"type": "data", "data_type": kind, "data": content}]


def _part(part: Any) -> dict[str, Any] | None:
    if type(part) is str:
        return {"type": "text", "text": part} if part else None
    if type(part) is dict and text_at(part, "asset_pointer") and "image" in text_at(part, "content_type"):
        return {"type": "file", "media_type": "image/*", "url": part["asset_pointer"]}
    return {"type": "data", "data_type": "chatgpt", "data": part}
