"""Validates requests as strictly as the providers do: by the types of their own packages, and by the rules that their
documentation and error messages state. Nothing here is shared with the code that writes requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.models.strict import anthropic, openai_chat, openai_responses
from tests.models.strict.rules import RefusedError

__all__ = ["RefusedError", "validate"]

_BY_PATH: dict[str, Callable[[dict[str, Any]], None]] = {
    "/v1/chat/completions": openai_chat.validate,
    "/v1/responses": openai_responses.validate,
    "/v1/messages": anthropic.validate,
}


def validate(path: str, body: dict[str, Any]) -> None:
    """Raises `RefusedError` if the provider would refuse the request."""
    check = _BY_PATH.get(path)
    if check is not None:
        check(body)
