"""What the OpenAI Responses API accepts."""

from __future__ import annotations

from typing import Any, get_type_hints

from openai.types.responses import FunctionToolParam, ResponseInputItemParam
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

from tests.models.strict.rules import TOOL_NAME, adapter, check_tools, check_type, require

_KEYS = frozenset(get_type_hints(ResponseCreateParamsStreaming))
_ITEM = adapter(ResponseInputItemParam)
_TOOLS = adapter(list[FunctionToolParam])
_ID_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}
_PAIRED = ("function_call", "custom_tool_call", "shell_call", "apply_patch_call", "computer_call")


def validate(body: dict[str, Any]) -> None:
    for key in body.keys() - _KEYS:
        require(False, f"Unknown parameter: '{key}'.", key)
    require(isinstance(body.get("instructions", ""), str), "expected a string", "instructions")
    items = body.get("input")
    if not isinstance(items, str):
        require(isinstance(items, list) and items, "[] is too short", "input")
        assert isinstance(items, list)
        for index, item in enumerate(items):
            _check_item(item, f"input[{index}]")
        _check_pairs(items)
        _check_reasoning(items)
        ids = [item["id"] for item in items if item.get("id") and not item["type"].endswith("_output")]
        require(len(set(ids)) == len(ids), "Duplicate item found with id", "input")
    if "tools" in body:
        check_type(_TOOLS, body["tools"], "tools")
        if body["tools"]:  # an empty list is accepted: OpenAI's own Agents SDK sends one
            check_tools(body["tools"], [tool["name"] for tool in body["tools"]])


def _check_item(item: Any, where: str) -> None:
    check_type(_ITEM, item, where)
    kind = item.get("type", "message")
    if item.get("id") and kind in _ID_PREFIXES:
        begins = str(item["id"]).startswith(_ID_PREFIXES[kind])
        require(begins, f"Expected an ID that begins with '{_ID_PREFIXES[kind]}'.", f"{where}.id")
    if kind == "message":
        require(item["content"] not in ("", [], None), "expected content", f"{where}.content")
    if kind in ("function_call", "custom_tool_call"):
        require(TOOL_NAME.fullmatch(item["name"]), "string does not match pattern", f"{where}.name")
    if item.get("call_id") is not None:
        require(0 < len(item["call_id"]) <= 64, "string too long", f"{where}.call_id")


def _check_pairs(items: list[dict[str, Any]]) -> None:
    waiting: dict[str, str] = {}
    for index, item in enumerate(items):
        kind, id = item.get("type", "message"), item.get("call_id")
        if kind in _PAIRED:
            require(id not in waiting, f"Duplicate call id {id}", f"input[{index}]")
            waiting[str(id)] = kind
        elif kind.removesuffix("_output") in _PAIRED:
            call = waiting.pop(str(id), None)
            require(call == kind.removesuffix("_output"), f"No tool call found for call_id {id}.", f"input[{index}]")
    require(not waiting, f"No tool output found for {', '.join(waiting)}.", "input")


def _check_reasoning(items: list[dict[str, Any]]) -> None:
    for item, follower in zip(items, [*items[1:], None], strict=True):
        if item.get("type") == "reasoning":
            kind = "" if follower is None else follower.get("type", "")
            led_to = kind == "reasoning" or kind.endswith("_call") or (follower or {}).get("role") == "assistant"
            require(led_to, f"Item '{item['id']}' was provided without its required following item.", "input")
