"""Decodes the JSON of a transcript."""

from __future__ import annotations

import json
from typing import Any

import msgspec

_decode = msgspec.json.Decoder().decode
HALF_CHARACTER = "half of a character, which is not text, was replaced by a question mark"


def decode(text: bytes) -> tuple[Any, bool]:
    """The value, and whether halves of characters (lone surrogates) had to be replaced in it: a tool that cuts a text
    off after so many characters may write them. Raises `ValueError` for what is not JSON."""
    try:
        return _decode(text), False
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    except RecursionError:
        raise ValueError("too deeply nested") from None
    try:
        whole = json.dumps(json.loads(text), ensure_ascii=False).encode(errors="replace")
        return _decode(whole), True
    except RecursionError:
        raise ValueError("too deeply nested") from None
