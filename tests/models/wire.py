"""The protocols on the wire: bodies of complete answers, events of streamed ones, and errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from tests.models import responses
from tests.models.steps import Answer, Fault, Protocol, Request, Vectors

_OPENAI_ENDS = {"stop": "stop", "length": "length", "refusal": "content_filter"}
_ANTHROPIC_ENDS = {"stop": "end_turn", "length": "max_tokens", "refusal": "refusal"}
_KINDS = {
    400: ("invalid_request_error", "The request is invalid."),
    401: ("authentication_error", "Incorrect API key provided."),
    404: ("not_found_error", "The model does not exist or you do not have access to it."),
    429: ("rate_limit_error", "Rate limit reached. Please try again later."),
    500: ("api_error", "Internal server error"),
    529: ("overloaded_error", "Overloaded"),
}


def error_body(protocol: Protocol, fault: Fault) -> dict[str, Any]:
    """The JSON of an error."""
    kind, message = _KINDS.get(fault.status, ("api_error", "Something went wrong"))
    error: dict[str, Any] = {"message": fault.message or message, "type": fault.type or kind}
    if protocol == "anthropic":
        return {"type": "error", "error": error, "request_id": "req_scripted"}
    return {"error": {**error, "param": fault.param, "code": fault.code}}


def whole_body(request: Request, answer: Answer) -> dict[str, Any]:
    """The JSON of an answer that is not streamed."""
    if request.path == responses.PATH:
        return responses.whole_body(request, answer)
    return _openai_body(request, answer) if request.protocol == "openai" else _anthropic_body(request, answer)


def vectors_body(request: Request, answer: Vectors) -> dict[str, Any]:
    """The JSON of an answer to a request for embeddings."""
    data = [
        {"object": "embedding", "index": index, "embedding": list(vector)}
        for index, vector in enumerate(answer.vectors)
    ]
    usage = {"prompt_tokens": 8, "total_tokens": 8}
    return {"object": "list", "data": data[::-1], "model": request.body["model"], "usage": usage}


def events(request: Request, answer: Answer) -> Iterator[bytes]:
    """The server-sent events of a streamed answer."""
    if request.path == responses.PATH:
        return responses.events(request, answer)
    return _openai_events(request, answer) if request.protocol == "openai" else _anthropic_events(request, answer)


def error_event(protocol: Protocol) -> bytes:
    """What a provider sends when it fails in the middle of a stream."""
    body = error_body(protocol, Fault(529))
    return _named("error", body) if protocol == "anthropic" else _data(body)


def _pieces(text: str) -> list[str]:
    return [text[start : start + 7] for start in range(0, len(text), 7)]


def _data(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def _named(name: str, value: dict[str, Any]) -> bytes:
    return f"event: {name}\n".encode() + _data({"type": name, **value})


def _openai_usage(answer: Answer) -> dict[str, Any]:
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.cached, "cache_write_tokens": answer.cache_written},
        "completion_tokens_details": {"reasoning_tokens": answer.reasoning},
    }


def _openai_calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
        for call in answer.tool_calls
    ]


def _openai_head(request: Request, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{uuid4().hex}", "object": kind, "created": 1_700_000_000, "model": request.body["model"]}


def _openai_body(request: Request, answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None, "refusal": None}
    if answer.tool_calls:
        message["tool_calls"] = _openai_calls(answer)
    end = "tool_calls" if answer.tool_calls else _OPENAI_ENDS[answer.end]
    choice = {"index": 0, "message": message, "finish_reason": end, "logprobs": None}
    return {**_openai_head(request, "chat.completion"), "choices": [choice], "usage": _openai_usage(answer)}


def _openai_events(request: Request, answer: Answer) -> Iterator[bytes]:
    head = _openai_head(request, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], end: str | None = None) -> bytes:
        return _data({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": end}]})

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(answer.text):
        yield chunk({"content": piece})
    for index, call in enumerate(_openai_calls(answer)):
        yield chunk({"tool_calls": [{"index": index, **call}]})
    yield chunk({}, "tool_calls" if answer.tool_calls else _OPENAI_ENDS[answer.end])
    if (request.body.get("stream_options") or {}).get("include_usage"):
        yield _data({**head, "choices": [], "usage": _openai_usage(answer)})
    yield b"data: [DONE]\n\n"


def _anthropic_usage(answer: Answer) -> dict[str, Any]:
    return {
        "input_tokens": answer.input_tokens - answer.cached - answer.cache_written,
        "cache_read_input_tokens": answer.cached,
        "cache_creation_input_tokens": answer.cache_written,
        "output_tokens": answer.output_tokens,
        "output_tokens_details": {"thinking_tokens": answer.reasoning},
    }


def _anthropic_message(request: Request, **values: Any) -> dict[str, Any]:
    head = {"id": f"msg_{uuid4().hex}", "type": "message", "role": "assistant", "model": request.body["model"]}
    return {**head, "content": [], "stop_reason": None, "stop_sequence": None, **values}


def _anthropic_content(answer: Answer) -> list[dict[str, Any]]:
    text = [{"type": "text", "text": answer.text}] if answer.text else []
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in answer.tool_calls
    ]
    return [*text, *calls]


def _anthropic_end(answer: Answer) -> str:
    return "tool_use" if answer.tool_calls else _ANTHROPIC_ENDS[answer.end]


def _anthropic_body(request: Request, answer: Answer) -> dict[str, Any]:
    return _anthropic_message(
        request,
        content=_anthropic_content(answer),
        stop_reason=_anthropic_end(answer),
        usage=_anthropic_usage(answer),
    )


def _anthropic_events(request: Request, answer: Answer) -> Iterator[bytes]:
    usage = {**_anthropic_usage(answer), "output_tokens": 1, "output_tokens_details": None}
    yield _named("message_start", {"message": _anthropic_message(request, usage=usage)})
    yield _named("ping", {})
    for index, block in enumerate(_anthropic_content(answer)):
        is_text = block["type"] == "text"
        empty = {**block, "text": ""} if is_text else {**block, "input": {}}
        yield _named("content_block_start", {"index": index, "content_block": empty})
        deltas = (
            [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
            if is_text
            else [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        )
        for delta in deltas:
            yield _named("content_block_delta", {"index": index, "delta": delta})
        yield _named("content_block_stop", {"index": index})
    full = _anthropic_usage(answer)
    spent = {name: full[name] for name in ("output_tokens", "output_tokens_details")}
    yield _named(
        "message_delta", {"delta": {"stop_reason": _anthropic_end(answer), "stop_sequence": None}, "usage": spent}
    )
    yield _named("message_stop", {})
