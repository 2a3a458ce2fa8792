"""The result of a model call: the text, and what the call used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """The tokens of one call, counted in the same way for all providers. `input_tokens` is the whole prompt, including
    what was read from or written to the cache. `output_tokens` is the whole answer, including reasoning."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


class Completion(str):
    """The answer of a model: a string with more attributes.

    `model` is the name that the server reported. `usage` is None if the server did not report it. `truncated` is True
    if the answer ended at a token limit."""

    __slots__ = ("model", "truncated", "usage")

    model: str
    usage: ModelUsage | None
    truncated: bool

    def __new__(cls, text: str, *, model: str, usage: ModelUsage | None = None, truncated: bool = False) -> Self:
        completion = super().__new__(cls, text)
        completion.model = model
        completion.usage = usage
        completion.truncated = truncated
        return completion

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        return (str(self),), {"model": self.model, "usage": self.usage, "truncated": self.truncated}
