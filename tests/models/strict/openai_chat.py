"""What the OpenAI chat completions API accepts."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, get_type_hints

from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

from tests.models.strict.rules import TOOL_NAME, adapter, check_tools, check_type, require

_KEYS = frozenset(get_type_hints(CompletionCreateParamsStreaming))
_MESSAGE = adapter(ChatCompletionMessageParam)
_TOOLS = adapter(list[ChatCompletionToolParam])
_NAME = re.compile(r"[^\s<|\\/>]{1,64}")


def validate(body: dict[str, Any]) -> None:
    for key in body.keys() - _KEYS:
        require(False, f"Unrecognized request argument supplied: {key}", key)
    require(isinstance(body.get("model"), str), "you must provide a model parameter", "model")
    messages = body.get("messages")
    require(isinstance(messages, list) and messages, "[] is too short - 'messages'", "messages")
    assert isinstance(messages, list)
    for index, message in enumerate(messages):
        _check_message(message, f"messages.[{index}]")
    _check_pairs(messages)
    if "tools" in body:
        check_type(_TOOLS, body["tools"], "tools")
        check_tools(body["tools"], [tool["function"]["name"] for tool in body["tools"]])


def _check_message(message: Any, where: str) -> None:
    if message.get("role") == "assistant" and "reasoning_content" in message:
        # Servers of this API that return it accept it.
        require(isinstance(message["reasoning_content"], str), "expected a string", f"{where}.reasoning_content")
        message = {key: value for key, value in message.items() if key != "reasoning_content"}
    check_type(_MESSAGE, message, where)
    role, content = message["role"], message.get("content")
    require(role != "function", "the role 'function' is no longer supported", f"{where}.role")
    if "name" in message:
        require(_NAME.fullmatch(message["name"]), "string does not match pattern", f"{where}.name")
    if role != "assistant":
        require(content is not None, "expected a string or a list, got null", f"{where}.content")
    require(content != [], "[] is too short", f"{where}.content")
    if "tool_calls" in message:
        require(message["tool_calls"], "[] is too short", f"{where}.tool_calls")
        for call in message["tool_calls"]:
            name = call[call["type"]]["name"]
            require(TOOL_NAME.fullmatch(name), "string does not match pattern", f"{where}.tool_calls.name")
            require(0 < len(call["id"]) <= 40, "string too long", f"{where}.tool_calls.id")
    elif role == "assistant":
        said = content or message.get("refusal") or message.get("audio")
        require(said, "expected content, since there are no tool calls", f"{where}.content")


def _check_pairs(messages: list[dict[str, Any]]) -> None:
    waiting: list[str] = []
    for index, message in enumerate(messages):
        where = f"messages.[{index}]"
        if message["role"] == "tool":
            require(
                message["tool_call_id"] in waiting,
                "messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
                f"{where}.role",
            )
            waiting.remove(message["tool_call_id"])
            continue
        require(not waiting, f"tool_call_ids did not have response messages: {waiting}", where)
        waiting = [call["id"] for call in message.get("tool_calls", [])]
        require(len(set(waiting)) == len(waiting), "duplicate tool call ids", f"{where}.tool_calls")
    require(not waiting, f"tool_call_ids did not have response messages: {waiting}", "messages")


def check_template(messages: list[dict[str, Any]]) -> None:
    """The chat templates of Qwen, Llama, Gemma and Mistral servers: a system message only at the beginning, then the
    user and the assistant in turn. Calls and their results are part of the assistant's turn."""
    talk = messages[1:] if messages and messages[0]["role"] == "system" else messages
    require(talk, "there is no user message", "messages")
    spoken = [message for message in talk if message["role"] != "tool" and not message.get("tool_calls")]
    expected = "user"
    for message in spoken:
        require(message["role"] == expected, "roles must alternate user/assistant/user/assistant", "messages")
        expected = "assistant" if expected == "user" else "user"
    for first, second in pairwise(talk):
        same = first["role"] == second["role"] and first["role"] != "tool" and not first.get("tool_calls")
        require(not same, "neighbours of one role", "messages")
    require(talk[0]["role"] == "user", "the first message must be the user's", "messages")
