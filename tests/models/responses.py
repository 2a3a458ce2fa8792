"""The OpenAI Responses API on the wire: an answer is a list of items."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from tests.models.steps import Answer, Request

PATH = "/v1/responses"


def whole_body(request: Request, answer: Answer) -> dict[str, Any]:
    """The JSON of an answer that is not streamed."""
    return _response(request, answer, _items(answer))


def events(request: Request, answer: Answer) -> Iterator[bytes]:
    """The server-sent events of a streamed answer."""
    number = 0

    def event(kind: str, **values: Any) -> bytes:
        nonlocal number
        number += 1
        data = json.dumps({"type": kind, "sequence_number": number, **values}, ensure_ascii=False)
        return f"event: {kind}\ndata: {data}\n\n".encode()

    id = f"resp_{uuid4().hex}"
    yield event("response.created", response=_response(request, answer, [], id=id, status="in_progress"))
    items = _items(answer)
    for index, item in enumerate(items):
        at = {"output_index": index, "item_id": item["id"]}
        if item["type"] == "function_call":
            yield event("response.output_item.added", output_index=index, item={**item, "arguments": ""})
            yield event("response.function_call_arguments.delta", **at, delta=item["arguments"])
            yield event("response.function_call_arguments.done", **at, name=item["name"], arguments=item["arguments"])
        else:
            part = item["content"][0]
            yield event("response.output_item.added", output_index=index, item={**item, "content": []})
            yield event("response.content_part.added", **at, content_index=0, part={**part, "text": ""})
            for start in range(0, len(part["text"]), 7):
                piece = part["text"][start : start + 7]
                yield event("response.output_text.delta", **at, content_index=0, delta=piece, logprobs=[])
            yield event("response.output_text.done", **at, content_index=0, text=part["text"], logprobs=[])
            yield event("response.content_part.done", **at, content_index=0, part=part)
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.completed", response=_response(request, answer, items, id=id))


def _items(answer: Answer) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if answer.text:
        content = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
        head = {"id": f"msg_{uuid4().hex}", "type": "message", "role": "assistant", "status": "completed"}
        items.append({**head, "content": [content]})
    for call in answer.tool_calls:
        head = {"id": f"fc_{uuid4().hex}", "type": "function_call", "status": "completed", "call_id": call.id}
        items.append({**head, "name": call.name, "arguments": json.dumps(call.arguments)})
    return items


def _response(request: Request, answer: Answer, items: list[dict[str, Any]], **values: Any) -> dict[str, Any]:
    usage = {
        "input_tokens": answer.input_tokens,
        "input_tokens_details": {"cached_tokens": answer.cached, "cache_write_tokens": answer.cache_written},
        "output_tokens": answer.output_tokens,
        "output_tokens_details": {"reasoning_tokens": answer.reasoning},
        "total_tokens": answer.input_tokens + answer.output_tokens,
    }
    cut = answer.end == "length"
    return {
        "id": f"resp_{uuid4().hex}",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": request.body["model"],
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "error": None,
        "instructions": request.body.get("instructions"),
        "metadata": {},
        "output": items,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": request.body.get("tools", []),
        "top_p": 1.0,
        "usage": usage,
        **values,
    }
