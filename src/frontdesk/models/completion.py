"""What a model gives back: its text, which is all that most callers want, and beside it what the call cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one call. `input_tokens` is the whole prompt with what was read from or written to the cache,
    `output_tokens` the whole answer with its reasoning, whatever the provider's own way of counting."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


class Completion(str):
    """The answer of a model, usable wherever a string is.

    `model` is the name the server gave itself, `usage` is None if the server did not say, and `truncated` tells that
    the answer ended at a token limit."""

    __slots__ = ("model", "truncated", "usage")

    model: str
    usage: Usage | None
    truncated: bool

    def __new__(cls, text: str, *, model: str, usage: Usage | None = None, truncated: bool = False) -> Self:
        completion = super().__new__(cls, text)
        completion.model = model
        completion.usage = usage
        completion.truncated = truncated
        return completion

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        return (str(self),), {"model": self.model, "usage": self.usage, "truncated": self.truncated}
