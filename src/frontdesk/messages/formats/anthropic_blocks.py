"""The content blocks of Anthropic messages: what each may contain, and how it is read."""

from __future__ import annotations

import base64
from typing import Any

from frontdesk.messages.formats.content_blocks import dict_at, keep, list_at, other, text_at, type_of
from frontdesk.messages.parts import FilePart, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart

IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
KEYS = {
    "text": ("type", "text", "citations"),
    "image": ("type", "source", "transformations"),
    "document": ("type", "source", "title", "context", "citations"),
    "search_result": ("type", "source", "title", "content", "citations"),
    "container_upload": ("type", "file_id"),
    "thinking": ("type", "thinking", "signature"),
    "redacted_thinking": ("type", "data"),
    "tool_use": ("type", "id", "name", "input", "caller", "toolset_name"),
    "tool_result": ("type", "tool_use_id", "content", "is_error", "toolset_name"),
    "server_tool_use": ("type", "id", "name", "input", "caller"),
    "tool_reference": ("type", "tool_name"),
    "web_search_tool_result": ("type", "tool_use_id", "content", "caller"),
    "web_fetch_tool_result": ("type", "tool_use_id", "content", "caller"),
    "code_execution_tool_result": ("type", "tool_use_id", "content"),
    "bash_code_execution_tool_result": ("type", "tool_use_id", "content"),
    "text_editor_code_execution_tool_result": ("type", "tool_use_id", "content"),
    "tool_search_tool_result": ("type", "tool_use_id", "content"),
}
"""what the API accepts in a block of each type, except `cache_control`: breakpoints of one request would add up in the
next one, so they are set for each request"""

_CITATIONS = {
    "char_location": ("document_index", "document_title", "start_char_index", "end_char_index"),
    "page_location": ("document_index", "document_title", "start_page_number", "end_page_number"),
    "content_block_location": ("document_index", "document_title", "start_block_index", "end_block_index"),
    "search_result_location": ("search_result_index", "source", "title", "start_block_index", "end_block_index"),
    "web_search_result_location": ("encrypted_index", "title", "url"),
}
_IN_RESULTS = frozenset({"text", "image", "search_result", "document", "tool_reference"})
_SERVER_TOOLS = frozenset(
    {
        "web_search",
        "web_fetch",
        "code_execution",
        "bash_code_execution",
        "text_editor_code_execution",
        "tool_search_tool_regex",
        "tool_search_tool_bm25",
    }
)


def read_block(block: Any) -> Part:
    match type_of(block):
        case "text" if type(block.get("text")) is str:
            return TextPart(block["text"])
        case "thinking" if type(block.get("thinking")) is str:
            return ReasoningPart(block["thinking"], text_at(block, "signature") or None)
        case "redacted_thinking":
            return ReasoningPart("", text_at(block, "data") or None)
        case "tool_use" if text_at(block, "id"):
            return ToolCallPart(block["id"], text_at(block, "name"), block.get("input"))
        case "tool_result" if text_at(block, "tool_use_id"):
            is_error = block.get("is_error") is True
            return ToolResultPart(block["tool_use_id"], block.get("content", ""), is_error=is_error)
        case "image":
            return _file(dict_at(block, "source"), "image/*", None) or other(block)
        case "document":
            return _file(dict_at(block, "source"), "application/pdf", text_at(block, "title") or None) or other(block)
    return other(block)


def _file(source: dict[str, Any], media_type: str, name: str | None) -> FilePart | None:
    match type_of(source):
        case "base64":
            return FilePart(text_at(source, "media_type") or media_type, name, data=text_at(source, "data") or None)
        case "url":
            return FilePart(media_type, name, url=text_at(source, "url") or None)
        case "text":
            return FilePart("text/plain", name, data=base64.b64encode(text_at(source, "data").encode()).decode())
        case "file":
            return FilePart(media_type, name)
    return None


def clean_block(block: Any) -> dict[str, Any] | None:
    """The block with the keys that the API knows; None where it does not accept the block."""
    kind = type_of(block)
    if kind not in KEYS or not _is_complete(block, kind):
        return None
    cleaned = keep(block, KEYS[kind])
    if kind == "text" and "citations" in cleaned:
        cleaned["citations"] = [citation for each in list_at(block, "citations") if (citation := _citation(each))]
        if not cleaned["citations"]:
            del cleaned["citations"]
    if kind in ("tool_result", "search_result") and type(cleaned.get("content")) is list:
        cleaned["content"] = [clean_block(each) for each in cleaned["content"]]
    return cleaned


def _citation(given: Any) -> dict[str, Any] | None:
    keys = _CITATIONS.get(type_of(given))
    if keys is None or type(given.get("cited_text")) is not str or not all(key in given for key in keys):
        return None
    return {key: given[key] for key in ("type", "cited_text", *keys)}


def _is_complete(block: dict[str, Any], kind: str) -> bool:
    match kind:
        case "text":
            return bool(text_at(block, "text").strip())
        case "tool_use":
            return bool(text_at(block, "id") and text_at(block, "name")) and type(block.get("input")) is dict
        case "server_tool_use":
            is_known = text_at(block, "name") in _SERVER_TOOLS
            return is_known and bool(text_at(block, "id")) and type(block.get("input")) is dict
        case "tool_result":
            return bool(text_at(block, "tool_use_id")) and _is_complete_result(block.get("content", ""))
        case "thinking" | "redacted_thinking":
            return bool(text_at(block, "signature" if kind == "thinking" else "data"))
        case "image" | "document":
            return _is_complete_source(dict_at(block, "source"), kind)
        case "search_result":
            content = list_at(block, "content")
            texts = all(type_of(each) == "text" and clean_block(each) is not None for each in content)
            return bool(text_at(block, "source") and text_at(block, "title") and content) and texts
        case "container_upload":
            return bool(text_at(block, "file_id"))
        case "tool_reference":
            return bool(text_at(block, "tool_name"))
    return bool(text_at(block, "tool_use_id")) and "content" in block


def _is_complete_source(source: dict[str, Any], kind: str) -> bool:
    source_kind = type_of(source)
    if source_kind == "base64" and source.get("media_type") not in (
        IMAGE_TYPES if kind == "image" else ("application/pdf",)
    ):
        return False
    if source_kind == "text" and (kind == "image" or source.get("media_type") != "text/plain"):
        return False
    keys = {"base64": "data", "url": "url", "text": "data", "file": "file_id"}
    return bool(text_at(source, keys.get(source_kind, "")))


def _is_complete_result(content: Any) -> bool:
    if type(content) is not list:
        return type(content) is str
    return bool(content) and all(type_of(each) in _IN_RESULTS and clean_block(each) is not None for each in content)
