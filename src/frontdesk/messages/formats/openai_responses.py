"""OpenAI Responses items: one turn of a model is several items, and each is stored as a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontdesk.messages.exact_json import decode_arguments, encode_arguments
from frontdesk.messages.formats.content_blocks import (
    REFUSAL,
    file_at_url,
    is_image,
    list_at,
    other,
    read_file,
    readable,
    result_text,
    safe_name,
    text_at,
    text_of_file,
    type_of,
    types_in,
    url_of,
)
from frontdesk.messages.formats.excerpts import LEAST_CHARS, shorten_content, shorten_output, shorten_texts
from frontdesk.messages.formats.format import Format, Limits, Source
from frontdesk.messages.formats.pairing import CallStep, MessagePiece, safe_id, steps
from frontdesk.messages.formats.summary_tag import wrap_summary
from frontdesk.messages.parts import DataPart, FilePart, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart

NAME = "openai-responses"

_MESSAGE_BLOCKS = frozenset({"input_text", "output_text", "input_image", "input_file"})
_ITEMS = frozenset(
    {
        "compaction",
        "compaction_trigger",
        "configuration_update",
        "item_reference",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_list_tools",
        "program",
        "reasoning",
    }
)
_FROM_USER = frozenset({"mcp_approval_response", "compaction_trigger", "configuration_update"})
_ENVELOPE = frozenset({"type", "id", "call_id", "status", "caller", "name"})
_PRIVATE = frozenset({"created_at", "createdAt", "author", "metadata"})
_LONGEST_CALL_ID = 64
PLACEHOLDER_ID = "__fake_id__"
"""Some libraries write this where a model returned no id: taken as an id, all such items would be the same."""


def matches(raw: dict[str, Any]) -> bool:
    kind = raw.get("type")
    if type(raw.get("role")) is not str:
        return type(kind) is str and (kind in _ITEMS or kind.endswith(("_call", "_output")))
    found = types_in(raw)
    if kind == "additional_tools" or not _MESSAGE_BLOCKS.isdisjoint(found):
        return True
    return kind == "message" and "stop_reason" not in raw and found <= {"refusal"}


def read(raw: dict[str, Any]) -> tuple[Part, ...]:
    if type(raw.get("role")) is not str:
        return (_item(raw, raw["type"]),)
    content = raw.get("content")
    if type(content) is str:
        return (TextPart(content),) if content else ()
    if type(content) is not list:
        return (other(raw),)
    return tuple(map(_part, content))


def item_role(raw: dict[str, Any]) -> str:
    """The role of an item follows from its type, unless it names one."""
    given = raw.get("role")
    if type(given) is str:
        return given
    kind: str = raw["type"]
    if kind in _FROM_USER:
        return "user"
    return "tool" if kind.endswith("_output") else "assistant"


def _item(raw: dict[str, Any], kind: str) -> Part:
    if kind == "reasoning":
        blocks = [*list_at(raw, "summary"), *list_at(raw, "content")]
        texts = [text_at(block, "text") for block in blocks if type(block) is dict]
        return ReasoningPart("\n".join(filter(None, texts)), text_at(raw, "encrypted_content") or None)
    call_id = text_at(raw, "call_id") or (text_at(raw, "id") if kind == "local_shell_call_output" else "")
    if call_id and kind.endswith("_output"):
        return ToolResultPart(call_id, raw.get("output"), text_at(raw, "name") or None)
    if call_id and (kind.endswith("_call") or kind == "program"):
        return _call(raw, kind, call_id)
    return DataPart(kind, raw)


def _call(raw: dict[str, Any], kind: str, call_id: str) -> ToolCallPart:
    name = text_at(raw, "name") or kind.removesuffix("_call")
    if kind == "function_call":
        return ToolCallPart(call_id, name, decode_arguments(text_at(raw, "arguments")))
    if kind == "custom_tool_call":
        return ToolCallPart(call_id, name, text_at(raw, "input"))
    return ToolCallPart(call_id, name, {key: value for key, value in raw.items() if key not in _ENVELOPE})


def _part(block: Any) -> Part:
    match type_of(block):
        case "input_text" | "output_text" | "text" if type(block.get("text")) is str:
            return TextPart(block["text"])
        case "refusal" if type(block.get("refusal")) is str:
            return DataPart(REFUSAL, block["refusal"])
        case "input_image":
            return file_at_url("image/*", text_at(block, "image_url"))
        case "input_file" if text_at(block, "file_url"):
            return file_at_url("application/pdf", block["file_url"], text_at(block, "filename") or None)
        case "input_file":
            return read_file(block, "file_data")
    return other(block)


def write(messages: Sequence[Source]) -> list[dict[str, Any]]:
    """Input items: calls with their outputs after them, reasoning only before the item it led to."""
    items: list[tuple[int, dict[str, Any]]] = []
    for step in steps(messages):
        if step.message.is_summary:
            items.append((-1, {"role": "system", "content": wrap_summary(step.message)}))
        elif step.role in ("user", "system", "developer"):
            items += _input_message(step)
        elif step.role == "assistant":
            items += _model_items(step)
    return _with_whole_turns(items)


def _with_whole_turns(items: list[tuple[int, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Removes reasoning whose next item is missing, and ids of calls whose reasoning is missing."""
    kept: list[tuple[int, dict[str, Any]]] = []
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


def _cleaned(raw: dict[str, Any]) -> dict[str, Any]:
    """An item without our keys, and without an empty id or status."""
    item = {key: value for key, value in raw.items() if key not in _PRIVATE}
    for key in ("id", "status"):
        if item.get(key) in (None, PLACEHOLDER_ID):
            item.pop(key, None)
    return item


def _input_message(step: CallStep) -> list[tuple[int, dict[str, Any]]]:
    raw = step.message.raw
    if type(raw.get("role")) is not str:
        return [] if raw.get("type") == "compaction_trigger" else [(-1, _cleaned(raw))]
    if raw.get("type") == "additional_tools":
        return [(-1, _cleaned(raw))]
    blocks = [block for piece in step.pieces if (block := _input_block(piece, step.role)) is not None]
    if not blocks:
        return []
    if type(raw.get("content")) is str and _is_plain_text(blocks):
        return [(-1, {"role": step.role, "content": blocks[0]["text"]})]
    return [(-1, {"role": step.role, "content": blocks})]


def _is_valid_block(block: Any) -> bool:
    match type_of(block):
        case "input_text":
            return type(block.get("text")) is str
        case "input_image":
            return bool(text_at(block, "image_url") or text_at(block, "file_id"))
        case "input_file":
            return any(text_at(block, key) for key in ("file_data", "file_id", "file_url"))
    return False


def _is_plain_text(blocks: list[dict[str, Any]]) -> bool:
    return len(blocks) == 1 and blocks[0].keys() == {"type", "text"}


def _input_block(piece: MessagePiece, role: str) -> dict[str, Any] | None:
    part, block = piece.part, piece.block
    if _is_valid_block(block) and _part(block) == part:
        return {"detail": "auto", **block} if block["type"] == "input_image" else dict(block)
    if isinstance(part, FilePart) and role == "user" and text_of_file(part) is None:
        url = url_of(part)
        if url is not None and is_image(part):
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        if url is not None and part.data is None:
            return {"type": "input_file", "file_url": url}
        if url is not None:
            return {"type": "input_file", "filename": part.name or "file", "file_data": url}
    text = readable(part)
    return {"type": "input_text", "text": text} if text else None


def _model_items(step: CallStep) -> list[tuple[int, dict[str, Any]]]:
    items: list[tuple[int, dict[str, Any]]] = []
    outputs: list[tuple[int, dict[str, Any]]] = []
    said: set[int] = set()
    pairs = {id(piece): _call_items(piece, call, answer, result) for piece, call, answer, result in step.calls()}
    for piece in step.pieces:
        own = piece.message.shape == NAME
        position = piece.position if own else -1
        if id(piece) in pairs:
            call, output = pairs[id(piece)]
            items.append((position, call))
            outputs.append((-1, output))
        elif own and "role" not in piece.message.raw:
            items.append((position, _cleaned(piece.message.raw)))
        elif piece.position not in said or not own:
            said.add(piece.position)
            message = _output_message(piece.message.raw) if own else None
            message = message or _assistant_text([piece] if not own else _same_message(step, piece))
            items += [(position, message)] if message is not None else []
    return items + outputs


def _same_message(step: CallStep, piece: MessagePiece) -> list[MessagePiece]:
    return [each for each in step.pieces if each.message is piece.message]


def _assistant_text(pieces: list[MessagePiece]) -> dict[str, Any] | None:
    texts = [text for piece in pieces if (text := readable(piece.part))]
    phase = pieces[0].message.raw.get("phase")
    marked = {"phase": phase} if phase in ("commentary", "final_answer") else {}
    return {"role": "assistant", "content": "\n".join(texts), **marked} if texts else None


def _output_message(raw: dict[str, Any]) -> dict[str, Any] | None:
    """A model's message item as it was given, None where the API would not accept it."""
    item = _cleaned(raw)
    blocks = list_at(raw, "content")
    if not blocks or item.get("type") != "message" or not text_at(item, "id"):
        return None
    if not all(_part(block) != other(block) and block["type"] in ("output_text", "refusal") for block in blocks):
        return None
    content = [{"annotations": [], **block} if block["type"] == "output_text" else block for block in blocks]
    return {**item, "status": item.get("status", "completed"), "content": content}


def _call_items(
    piece: MessagePiece, call: ToolCallPart, answer: MessagePiece, result: ToolResultPart
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A call and its output: both of OpenAI's own kind as they were given, otherwise as a function's."""
    raw, answered = piece.message.raw, answer.message.raw
    kind = text_at(raw, "type") if piece.message.shape == NAME else ""
    output_kind = text_at(answered, "type") if answer.message.shape == NAME else ""
    if kind in ("function_call", "custom_tool_call"):
        output = {"type": f"{kind}_output", "call_id": call.id, "output": _output(result.content)}
        return _own_call(raw, kind), output
    if kind and output_kind in (f"{kind}_output", f"{kind.removesuffix('_call')}_output"):
        return _cleaned(raw), _cleaned(answered)
    id = safe_id(call.id, _LONGEST_CALL_ID)
    function = {"name": safe_name(call.name), "arguments": encode_arguments(call.arguments)}
    made = {"type": "function_call", "call_id": id, **function}
    return made, {"type": "function_call_output", "call_id": id, "output": _output(result.content)}


def _own_call(raw: dict[str, Any], kind: str) -> dict[str, Any]:
    item = _cleaned(raw)
    text_key = "arguments" if kind == "function_call" else "input"
    item |= {"name": text_at(raw, "name") or "tool", text_key: text_at(raw, text_key)}
    if not text_at(item, "id").startswith("fc_" if kind == "function_call" else "ctc_"):
        item.pop("id", None)
    return item


def _output(content: Any) -> str | list[Any]:
    is_blocks = type(content) is list and bool(content)
    if is_blocks and all(map(_is_valid_block, content)):
        return list(content)
    return result_text(content)


def shorten(raw: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """Outputs of hosted tools keep their fixed shape."""
    if type(raw.get("role")) is str:
        return {**raw, "content": shorten_content(raw.get("content"), limits)} if "content" in raw else raw
    kind, output = type_of(raw), raw.get("output")
    if type(output) is str or kind in ("function_call_output", "custom_tool_call_output"):
        return raw if output is None else {**raw, "output": shorten_output(output, limits.tool)}
    if kind == "shell_call_output" and type(output) is list and all(type(each) is dict for each in output):
        share = max(LEAST_CHARS, limits.tool // (2 * len(output) or 1))
        return {**raw, "output": [shorten_texts(each, ("stdout", "stderr"), share) for each in output]}
    return raw


FORMAT = Format(NAME, matches, read, write, shorten, item_role)
