"""What both contracts use: ids that break careless stores, and the fixture that returns everything that is stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

StoredText = Callable[[], Awaitable[str]]
"""What the fixture `stored_text` returns: reads everything that the store keeps, past the store itself, as one text."""

HOSTILE_IDS = (
    "../../x",
    "a:b",
    "a%",
    "a_",
    "ab",
    "%",
    "_",
    "'; drop table sessions; --",
    '"; drop table sessions; --',
    "\\",
    "$1",
    "?1",
    ":name",
    "🦊👩‍👩‍👧‍👦",
    "会" * 500,
    "x" * 512,
    "x" * 511,
    "\U0001f98a" * 512,
    "Case",
    "case",
    "trailing",
    "trailing ",
    " trailing",
    "trailing\n",
    "\u00e9",
    "e\u0301",
    "0",
    "00",
    "null",
)
