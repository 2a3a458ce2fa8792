"""The items and content blocks of OpenAI Responses: what each may contain, and how a block is read."""

from __future__ import annotations

from typing import Any

from frontdesk.messages.formats.content_blocks import (
    REFUSAL,
    file_at_url,
    keep,
    list_at,
    other,
    read_file,
    text_at,
    type_of,
)
from frontdesk.messages.parts import DataPart, Part, TextPart

PLACEHOLDER_ID = "__fake_id__"
"""Some libraries write this where a model returned no id: taken as an id, all such items would be the same."""

_REQUIRED = {
    "apply_patch_call": ("call_id", "operation", "status"),
    "apply_patch_call_output": ("call_id", "status"),
    "code_interpreter_call": ("id", "code", "container_id", "outputs", "status"),
    "compaction": ("encrypted_content",),
    "computer_call": ("id", "call_id", "pending_safety_checks", "status"),
    "computer_call_output": ("call_id", "output"),
    "configuration_update": (),
    "custom_tool_call": ("call_id", "name", "input"),
    "custom_tool_call_output": ("call_id", "output"),
    "file_search_call": ("id", "queries", "status"),
    "function_call": ("call_id", "name", "arguments"),
    "function_call_output": ("call_id", "output"),
    "image_generation_call": ("id", "result", "status"),
    "item_reference": ("id",),
    "local_shell_call": ("id", "call_id", "action", "status"),
    "local_shell_call_output": ("id", "output"),
    "mcp_approval_request": ("id", "arguments", "name", "server_label"),
    "mcp_approval_response": ("approval_request_id", "approve"),
    "mcp_call": ("id", "arguments", "name", "server_label"),
    "mcp_list_tools": ("id", "server_label", "tools"),
    "program": ("id", "call_id", "code", "fingerprint"),
    "program_output": ("id", "call_id", "result", "status"),
    "reasoning": ("id", "summary"),
    "shell_call": ("call_id", "action"),
    "shell_call_output": ("call_id", "output"),
    "tool_search_call": ("arguments",),
    "tool_search_output": ("tools",),
    "web_search_call": ("id", "action", "status"),
    "additional_tools": ("role", "tools"),
}
"""the keys that an item of each type must have"""

_OPTIONAL = {
    "apply_patch_call": ("id", "caller"),
    "apply_patch_call_output": ("id", "caller", "output"),
    "compaction": ("id",),
    "computer_call": ("action", "actions"),
    "computer_call_output": ("id", "acknowledged_safety_checks", "status"),
    "configuration_update": ("id", "reasoning", "text"),
    "custom_tool_call": ("id", "caller", "namespace", "async"),
    "custom_tool_call_output": ("id", "caller"),
    "file_search_call": ("results",),
    "function_call": ("id", "caller", "namespace", "status", "async"),
    "function_call_output": ("id", "caller", "name", "namespace", "status"),
    "image_generation_call": (
        "action",
        "background",
        "error",
        "output_format",
        "quality",
        "revised_prompt",
        "size",
        "svg_usage",
    ),
    "local_shell_call_output": ("status",),
    "mcp_approval_response": ("id", "reason"),
    "mcp_call": ("approval_request_id", "error", "output", "status"),
    "mcp_list_tools": ("error",),
    "reasoning": ("content", "encrypted_content", "status"),
    "shell_call": ("id", "caller", "environment", "status"),
    "shell_call_output": ("id", "caller", "max_output_length", "status"),
    "tool_search_call": ("id", "call_id", "execution", "status"),
    "tool_search_output": ("id", "call_id", "execution", "status"),
    "additional_tools": ("id",),
}
"""the keys that it may have besides"""

_ID_PREFIXES = {"reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}
_NULLABLE = frozenset({"code", "outputs", "result"})
_BLOCK_KEYS = {
    "input_text": ("type", "text"),
    "input_image": ("type", "image_url", "file_id", "detail"),
    "input_file": ("type", "file_data", "file_id", "file_url", "filename", "detail"),
    "output_text": ("type", "text", "annotations"),
    "refusal": ("type", "refusal"),
}


def clean_item(raw: dict[str, Any]) -> dict[str, Any] | None:
    """The item with the keys that the API knows; None where it does not accept the item."""
    kind = type_of(raw)
    required = _REQUIRED.get(kind)
    if required is None or not all(key in raw and (raw[key] is not None or key in _NULLABLE) for key in required):
        return None
    optional = keep(raw, _OPTIONAL.get(kind, ()))
    item = {"type": kind, **{key: raw[key] for key in required}, **optional}
    id = item.get("id")
    if id == PLACEHOLDER_ID or (id is not None and not str(id).startswith(_ID_PREFIXES.get(kind, ""))):
        if "id" in required:
            return None
        del item["id"]
    return item


def read_block(block: Any) -> Part:
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


def clean_block(block: Any) -> dict[str, Any] | None:
    """The block with the keys that the API knows; None where it does not accept the block."""
    kind = type_of(block)
    if kind not in _BLOCK_KEYS:
        return None
    cleaned = keep(block, _BLOCK_KEYS[kind])
    match kind:
        case "input_text" | "output_text":
            is_complete = bool(text_at(block, "text").strip())
        case "refusal":
            is_complete = bool(text_at(block, "refusal"))
        case "input_image":
            is_complete = bool(text_at(block, "image_url") or text_at(block, "file_id"))
            cleaned.setdefault("detail", "auto")
        case _:
            is_complete = any(text_at(block, key) for key in ("file_data", "file_id", "file_url"))
    if kind == "output_text":
        cleaned["annotations"] = list_at(block, "annotations")
    return cleaned if is_complete else None
