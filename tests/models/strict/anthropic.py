"""What the Anthropic messages API accepts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_type_hints

from anthropic.types import ContentBlockParam, TextBlockParam, ToolParam
from anthropic.types.message_create_params import MessageCreateParamsStreaming

from tests.models.strict.rules import TOOL_NAME, adapter, blocks_of, check_tools, check_type, require

_OF_OLDER_MODELS = frozenset({"temperature", "top_k", "top_p"})
_KEYS = frozenset(get_type_hints(MessageCreateParamsStreaming)) | _OF_OLDER_MODELS
_BLOCKS = adapter(list[ContentBlockParam])
_SYSTEM = adapter(list[TextBlockParam])
_TOOLS = adapter(list[ToolParam])
_CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
_MOST_BREAKPOINTS = 4


def validate(body: dict[str, Any]) -> None:
    for key in body.keys() - _KEYS:
        require(False, "Extra inputs are not permitted", key)
    require(type(body.get("max_tokens")) is int, "Field required", "max_tokens")
    messages = body.get("messages")
    require(isinstance(messages, list) and messages, "at least one message is required", "messages")
    assert isinstance(messages, list)
    for index, message in enumerate(messages):
        _check_message(message, index)
    _check_calls(messages)
    _check_end(messages[-1])
    system = body.get("system")
    if isinstance(system, list):
        check_type(_SYSTEM, system, "system")
    for block in blocks_of(system):
        require(block["text"].strip(), "text content blocks must be non-empty", "system")
    if "tools" in body:
        check_type(_TOOLS, body["tools"], "tools")
        check_tools(body["tools"], [tool["name"] for tool in body["tools"]])
    breakpoints = sum("cache_control" in block for block in _cacheable(body))
    require(
        breakpoints <= _MOST_BREAKPOINTS,
        f"A maximum of 4 blocks with cache_control may be provided. Found {breakpoints}.",
        "cache_control",
    )


def _check_message(message: Any, index: int) -> None:
    where = f"messages.{index}"
    require(isinstance(message, dict) and message.keys() == {"role", "content"}, "Extra inputs or no content", where)
    role, content = message["role"], message["content"]
    require(role in ("user", "assistant"), "Unexpected role", f"{where}.role")
    require(
        role == ("user", "assistant")[index % 2],
        'first message must use the "user" role, and roles must alternate',
        where,
    )
    if isinstance(content, str):
        require(content.strip(), "text content must be non-empty", where)
        return
    require(isinstance(content, list) and content, "content must be non-empty", where)
    check_type(_BLOCKS, content, where)
    for block in content:
        if block["type"] == "text":
            require(block["text"].strip(), "text content blocks must contain non-whitespace text", where)
        if block["type"] == "tool_use":
            require(role == "assistant", "`tool_use` blocks can only be in `assistant` messages", where)
            require(_CALL_ID.fullmatch(block["id"]), "String should match pattern '^[a-zA-Z0-9_-]+$'", where)
            require(TOOL_NAME.fullmatch(block["name"]), "invalid tool name", where)
        if block["type"] == "tool_result":
            require(role == "user", "`tool_result` blocks can only be in `user` messages", where)
        if block["type"] in ("thinking", "redacted_thinking"):
            require(role == "assistant", "`thinking` blocks can only be in `assistant` messages", where)
            require("cache_control" not in block, "`thinking` blocks cannot be cached", where)


def _check_calls(messages: list[dict[str, Any]]) -> None:
    seen: set[str] = set()
    waiting: list[str] = []
    for index, message in enumerate(messages):
        where = f"messages.{index}"
        blocks = list(blocks_of(message["content"]))
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        require(
            sorted(results) == sorted(waiting),
            "`tool_use` ids without `tool_result` blocks immediately after, or the reverse",
            where,
        )
        first = [block["type"] for block in blocks[: len(results)]]
        require(first == ["tool_result"] * len(results), "`tool_result` blocks must come first", where)
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        require(len(set(waiting)) == len(waiting) and not seen & set(waiting), "`tool_use` ids must be unique", where)
        seen |= set(waiting)
    require(not waiting, "`tool_use` ids were found without `tool_result` blocks", "messages")


def _check_end(last: dict[str, Any]) -> None:
    if last["role"] != "assistant":
        return
    content = last["content"]
    end = {"type": "text", "text": content} if isinstance(content, str) else content[-1]
    require(end["type"] not in ("thinking", "redacted_thinking"), "the final block cannot be `thinking`", "messages")
    if end["type"] == "text":
        require(
            end["text"] == end["text"].rstrip(),
            "final assistant content cannot end with trailing whitespace",
            "messages",
        )


def _cacheable(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from body.get("tools", [])
    yield from blocks_of(body.get("system"))
    for message in body["messages"]:
        for block in blocks_of(message["content"]):
            yield block
            yield from blocks_of(block.get("content"))
