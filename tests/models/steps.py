"""The steps of a scripted server, independent of the protocol of the request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Protocol = Literal["openai", "anthropic"]


@dataclass(frozen=True)
class Request:
    """A request: the protocol of its path, its headers (with names in lower case) and its body."""

    protocol: Protocol
    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        """The text of the last message."""
        messages = self.body["messages"] if "messages" in self.body else self.body["input"]
        content = messages if isinstance(messages, str) else messages[-1]["content"]
        return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


@dataclass(frozen=True)
class ToolCall:
    """A tool call in an answer."""

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """A complete answer. `cached` and `cache_written` are parts of `input_tokens`, `reasoning` is part of
    `output_tokens`; each protocol counts them in its own way."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    end: Literal["stop", "length", "refusal"] = "stop"
    input_tokens: int = 10
    output_tokens: int = 5
    cached: int = 0
    cache_written: int = 0
    reasoning: int = 0


@dataclass(frozen=True)
class Vectors:
    """Vectors for the texts of a request, listed in reverse: their order is given by their index."""

    vectors: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Fault:
    """An HTTP error, by default with the provider's usual message."""

    status: int = 500
    message: str | None = None
    type: str | None = None
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    param: str | None = None


@dataclass(frozen=True)
class Interrupted:
    """An answer that starts but does not end: the body stops, the connection is reset, nothing more comes, or an
    error comes instead of the next chunk."""

    text: str = "Half an ans"
    how: Literal["end", "reset", "hang", "error"] = "end"


@dataclass(frozen=True)
class Hang:
    """The request is read, and never answered."""


@dataclass(frozen=True)
class Reset:
    """The connection is reset before the first byte of the answer."""


Step = Answer | Vectors | Fault | Interrupted | Hang | Reset
Script = Step | Callable[[Request], Step]


def rate_limit(retry_after: float | None = 0.01) -> Fault:
    """429, with the pause that the server requests."""
    return Fault(429, headers={} if retry_after is None else {"retry-after": f"{retry_after:g}"})


def overflow(protocol: Protocol, *, tokens: int = 213_462, window: int = 200_000) -> Fault:
    """The context-length error in the words of the provider."""
    if protocol == "anthropic":
        return Fault(400, f"prompt is too long: {tokens} tokens > {window} maximum", "invalid_request_error")
    return Fault(
        400,
        f"This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens."
        " Please reduce the length of the messages.",
        "invalid_request_error",
        "context_length_exceeded",
    )
