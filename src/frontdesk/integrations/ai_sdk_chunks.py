"""The chunks of the AI SDK's UI message stream: joined while they are kept, put together to the message that they
describe, and made from a message again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Chunk: TypeAlias = Mapping[str, Any]
"""one chunk of a UI message stream, such as {"type": "text-delta", "id": "t1", "delta": "Hel"}"""

_DELTAS = {"text-delta": "delta", "reasoning-delta": "delta", "tool-input-delta": "inputTextDelta"}
"""chunks whose texts can be joined, and the field that has the text"""
_WHOLE = ("source-url", "source-document", "file")


def add_chunk(chunks: list[dict[str, Any]], chunk: Chunk) -> None:
    """Add a chunk to a list; a delta that continues the last chunk is joined with it, so that the list stays short."""
    kind = str(chunk["type"])
    last = chunks[-1] if chunks else {}
    name = _DELTAS.get(kind)
    same = name is not None and last.keys() == chunk.keys()
    if name is not None and same and all(last[field] == chunk[field] for field in chunk if field != name):
        chunks[-1] = {**last, name: last[name] + chunk[name]}
    else:
        chunks.append(dict(chunk))


class Seen:
    """How much of a list of chunks a reader has received. The last chunk may have grown since."""

    def __init__(self) -> None:
        self._count = 0
        self._length = 0

    def take_new(self, chunks: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The chunks, and the rest of the one that has grown, that the reader has not received yet."""
        if self._count:
            last = chunks[self._count - 1]
            name = _DELTAS.get(last["type"])
            if name is not None and len(last[name]) > self._length:
                yield {**last, name: last[name][self._length :]}
        yield from chunks[self._count :]
        self._count = len(chunks)
        name = _DELTAS.get(chunks[-1]["type"]) if chunks else None
        self._length = 0 if name is None else len(chunks[-1][name])


def build_message(id: str, chunks: Sequence[Chunk]) -> dict[str, Any]:
    """The UIMessage of the assistant that a stream describes. Chunks that it does not know leave no trace."""
    message: dict[str, Any] = {"id": id, "role": "assistant", "parts": []}
    by_id: dict[tuple[str, str], dict[str, Any]] = {}
    for chunk in chunks:
        _apply(message, by_id, chunk)
    for part in message["parts"]:
        if part["type"] in ("text", "reasoning"):
            part["state"] = "done"
    return message


def split_message(message: dict[str, Any], number: int = 0) -> Iterator[dict[str, Any]]:
    """The chunks that describe a UIMessage, without its start and end. `number` keeps the ids of texts apart when
    several messages become one stream."""
    if message.get("metadata"):
        yield {"type": "message-metadata", "messageMetadata": message["metadata"]}
    for index, part in enumerate(message["parts"]):
        kind = str(part.get("type"))
        if kind == "step-start":
            yield {"type": "start-step"}
        elif kind in ("text", "reasoning"):
            id = part.get("id", f"{number}-{index}")
            yield {"type": f"{kind}-start", "id": id}
            yield {"type": f"{kind}-delta", "id": id, "delta": part.get("text", "")}
            yield {"type": f"{kind}-end", "id": id}
        elif kind == "dynamic-tool" or kind.startswith("tool-"):
            yield from _split_tool(part, kind)
        elif kind.startswith("data-") or kind in _WHOLE:
            yield part


def _split_tool(part: dict[str, Any], kind: str) -> Iterator[dict[str, Any]]:
    id = {"toolCallId": part["toolCallId"]}
    is_dynamic = kind == "dynamic-tool"
    name = part["toolName"] if is_dynamic else kind.removeprefix("tool-")
    named = {**id, "toolName": name, **({"dynamic": True} if is_dynamic else {})}
    state = part.get("state")
    if state == "input-streaming":
        yield {"type": "tool-input-start", **named}
        return
    yield {"type": "tool-input-available", **named, "input": part.get("input")}
    if state == "output-available":
        yield {"type": "tool-output-available", **id, "output": part.get("output")}
    elif state == "output-error":
        yield {"type": "tool-output-error", **id, "errorText": part.get("errorText", "")}
    elif state == "output-denied":
        yield {"type": "tool-output-denied", **id}


def _apply(message: dict[str, Any], by_id: dict[tuple[str, str], dict[str, Any]], chunk: Chunk) -> None:
    kind = str(chunk["type"])
    parts: list[dict[str, Any]] = message["parts"]
    family, _, step = kind.partition("-")
    if kind == "start-step":
        parts.append({"type": "step-start"})
    elif family in ("text", "reasoning") and step in ("start", "delta"):
        part = by_id.get((family, chunk["id"]))
        if part is None or step == "start":
            part = by_id[family, chunk["id"]] = {"type": family, "text": ""}
            parts.append(part)
        part["text"] += chunk.get("delta", "")
    elif family == "tool":
        _apply_tool(parts, by_id, kind, chunk)
    elif kind.startswith("data-") and not chunk.get("transient"):
        _set_data(parts, by_id, kind, chunk)
    elif kind in _WHOLE:
        parts.append(dict(chunk))
    elif chunk.get("messageMetadata"):
        message["metadata"] = {**message.get("metadata", {}), **chunk["messageMetadata"]}


def _apply_tool(
    parts: list[dict[str, Any]], by_id: dict[tuple[str, str], dict[str, Any]], kind: str, chunk: Chunk
) -> None:
    key = ("tool", str(chunk.get("toolCallId")))
    part = by_id.get(key)
    if part is None:
        if "toolName" not in chunk:
            return
        name = chunk["toolName"]
        named = {"type": "dynamic-tool", "toolName": name} if chunk.get("dynamic") else {"type": f"tool-{name}"}
        part = by_id[key] = {**named, "toolCallId": chunk["toolCallId"], "state": "input-streaming"}
        parts.append(part)
    if kind == "tool-input-available":
        part |= {"state": "input-available", "input": chunk.get("input")}
    elif kind == "tool-output-available":
        part |= {"state": "output-available", "output": chunk.get("output")}
    elif kind in ("tool-input-error", "tool-output-error"):
        part |= {"state": "output-error", "errorText": chunk.get("errorText", "")}
        part.setdefault("input", chunk.get("input"))
    elif kind == "tool-output-denied":
        part["state"] = "output-denied"


def _set_data(
    parts: list[dict[str, Any]], by_id: dict[tuple[str, str], dict[str, Any]], kind: str, chunk: Chunk
) -> None:
    """A data part; one with the id of an earlier one replaces its data."""
    known = by_id.get((kind, str(chunk["id"]))) if "id" in chunk else None
    if known is not None:
        known["data"] = chunk.get("data")
        return
    part = {name: chunk[name] for name in ("type", "id", "data") if name in chunk}
    parts.append(part)
    if "id" in chunk:
        by_id[kind, str(chunk["id"])] = part
