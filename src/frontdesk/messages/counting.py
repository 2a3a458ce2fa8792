"""Counts the tokens of a message from its parts, by one rule for every format, so that budgets agree."""

from __future__ import annotations

import re
from math import ceil, isfinite
from typing import Any

from frontdesk.errors import ConfigurationError
from frontdesk.messages.exact_json import compact
from frontdesk.messages.formats.content_blocks import is_application_data, is_image, text_of_file, type_of
from frontdesk.messages.parts import DataPart, FilePart, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from frontdesk.messages.tokens import FILE_TOKENS, IMAGE_TOKENS, MESSAGE_TOKENS, TokenCounter

MOST_TOKENS = 2**40
"""more than any text has; sums of such counts still fit into 64 bits"""

_IMAGE_TYPES = frozenset({"image", "image_url", "input_image", "computer_screenshot", "image_generation_call"})
_LEAST_BINARY = 1024
_OPAQUE = re.compile(rf"[A-Za-z0-9+/_-]{{{_LEAST_BINARY},}}={{0,2}}")


def count_text(text: str, counter: TokenCounter) -> int:
    """What `counter` says of `text`; raises `ConfigurationError` where that is not a number of tokens."""
    count = counter(text) if text else 0
    if type(count) is int and 0 <= count <= MOST_TOKENS:
        return count
    if isinstance(count, int | float) and isfinite(count) and 0 <= count <= MOST_TOKENS:
        return ceil(count)
    name = getattr(counter, "__qualname__", None) or repr(counter)
    raise ConfigurationError(f"the token counter {name} returned {count!r}: it must return a whole number, 0 or more")


def count_parts(parts: tuple[Part, ...], counter: TokenCounter) -> int:
    """Tokens of a message with these parts. Base64 is never counted as text."""
    return MESSAGE_TOKENS + sum(_count_part(part, counter) for part in parts)


def _count_part(part: Part, counter: TokenCounter) -> int:
    if isinstance(part, (TextPart, ReasoningPart)):
        return count_text(part.text, counter)
    if isinstance(part, ToolCallPart):
        return count_text(part.name, counter) + _count_value(part.arguments, counter)
    if isinstance(part, ToolResultPart):
        return count_text(part.name or "", counter) + _count_value(part.content, counter)
    if isinstance(part, FilePart):
        return _count_file(part, counter)
    return _count_data(part, counter)


def _count_file(part: FilePart, counter: TokenCounter) -> int:
    if is_image(part):
        return IMAGE_TOKENS
    text = text_of_file(part)
    return FILE_TOKENS if text is None else count_text(text, counter)


def _count_data(part: DataPart, counter: TokenCounter) -> int:
    return 0 if is_application_data(part) else _count_value(part.data, counter)


def _count_value(value: Any, counter: TokenCounter) -> int:
    """Tokens of a JSON value as a model sees it, images and other binary inside it at their flat figures."""
    if type(value) is str and len(value) < _LEAST_BINARY:
        return count_text(value, counter)
    flat = 0

    def readable(value: Any) -> Any:
        nonlocal flat
        if type(value) is str:
            if len(value) >= _LEAST_BINARY and (value.startswith("data:") or _OPAQUE.fullmatch(value)):
                flat += IMAGE_TOKENS if value.startswith("data:image/") else FILE_TOKENS
                return ""
            return value
        if type(value) is list:
            return [readable(item) for item in value]
        if type(value) is dict:
            if type_of(value) in _IMAGE_TYPES:
                flat += IMAGE_TOKENS
                return None
            return {key: readable(item) for key, item in value.items()}
        return value

    shown = readable(value)
    if shown is None or shown == "":
        return flat
    return flat + count_text(shown if type(shown) is str else compact(shown), counter)
