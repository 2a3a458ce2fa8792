"""Makes text harmless for a terminal. Messages are written by anyone: an escape sequence in one of them could clear
the screen, set the title, or hide what a command prints."""

from __future__ import annotations

import json
import re
from typing import Any

_INVISIBLE = "\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff"
"""characters that change the order of text or are not shown"""
_DANGEROUS = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_INVISIBLE}]")
_IN_JSON = re.compile(f"[\x7f-\x9f{_INVISIBLE}]")
_BREAKS = re.compile(r"[\r\n\t]+ *")


def visible(text: str) -> str:
    """The text with control characters shown as escapes, as in `\\x1b[31m`. Line breaks and tabs stay."""
    return _DANGEROUS.sub(_escape, text.replace("\r\n", "\n"))


def one_line(text: str, width: int | None = None) -> str:
    """The text on one line, at most `width` characters long."""
    line = visible(_BREAKS.sub(" ", text if width is None else text[: width * 4])).strip()
    return line if width is None or len(line) <= width else line[: width - 1] + "…"


def to_json(value: Any) -> str:
    """One line of JSON without a character that a terminal would act on."""
    return _IN_JSON.sub(_escape_json, json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _escape_json(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
