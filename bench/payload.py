"""The messages that all contenders store: about 495 bytes of JSON each, a different one for each number."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any

JSON_BYTES = 495

_ENDINGS = ("",) * 10 + (",", ".")
_PROSE = (
    "the order was shipped on Monday but we have not seen it yet so could you please look up where it is and tell me "
    "when it will arrive because our customers are waiting and the invoice number is on the second page of the letter "
    "that I sent together with a photo of the damaged box thank you very much for your help in this matter"
)


def _text(length: int, source: random.Random) -> str:
    vocabulary = _PROSE.split()
    words: list[str] = []
    while sum(map(len, words)) + len(words) <= length:
        words.append(source.choice(vocabulary) + source.choice(_ENDINGS))
    return " ".join(words)[:length]


def _texts(count: int) -> list[str]:
    source = random.Random(495)
    frame = len(json.dumps({"id": message_id(0), "role": "assistant", "content": ""}, separators=(",", ":")))
    return [_text(JSON_BYTES - frame, source) for _ in range(count)]


def message_id(number: int) -> str:
    return f"msg-{number:012d}"


def message(number: int) -> dict[str, Any]:
    """Message `number` of a session. Ids are ordered by number."""
    role = "assistant" if number % 2 else "user"
    return {"id": message_id(number), "role": role, "content": _TEXTS[number % len(_TEXTS)]}


def messages(numbers: Iterable[int]) -> list[dict[str, Any]]:
    return [message(number) for number in numbers]


_TEXTS = _texts(64)
