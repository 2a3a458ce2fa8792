"""How values travel: JSON answers, streams of lines, paths as they were sent, keys and times."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.responses import Response, StreamingResponse

from frontdesk.errors import FrontdeskError, InvalidInputError, InvalidKeyError
from frontdesk.keys import SessionKey
from frontdesk.messages import Message
from frontdesk.messages.exact_form import to_exact
from frontdesk.server.problems import failure

NDJSON = "application/x-ndjson"
_LINES = 64 * 1024
"""bytes of lines that are sent at once"""
sends_stored: ContextVar[bool] = ContextVar("sends_stored", default=False)
"""whether the caller of this request wants messages as they are stored; the gate sets it"""


def encode_value(value: Any) -> Any:
    """What msgspec does not know: a `Message`, and records in it."""
    if isinstance(value, Message) and sends_stored.get():
        return to_exact(value)
    to_dict = getattr(value, "to_dict", None)
    if to_dict is None:
        raise TypeError(f"{type(value).__name__} cannot be written as JSON")
    return to_dict()


encode = msgspec.json.Encoder(enc_hook=encode_value).encode


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer. Records are written as `to_dict` writes them."""
    return Response(encode(value), status, None if headers is None else dict(headers), "application/json")


def lines(values: AsyncIterable[Any]) -> StreamingResponse:
    """An answer of one JSON value per line, sent while it is read. If that fails, the last line is the problem."""
    return StreamingResponse(_in_portions(values), media_type=NDJSON)


async def _in_portions(values: AsyncIterable[Any]) -> AsyncIterator[bytes]:
    portion = bytearray()
    try:
        async for value in values:
            portion += encode(value)
            portion += b"\n"
            if len(portion) >= _LINES:
                yield bytes(portion)
                portion.clear()
    except FrontdeskError as error:  # the answer has begun: what is wrong becomes its last line
        portion += b'{"problem":%b}\n' % bytes(failure(error).body)
    if portion:
        yield bytes(portion)


def split_path(raw: bytes) -> str:
    """A path as it was sent, so that `/` and `%` inside of a part stay escaped. Raises `UnicodeDecodeError`."""
    parts = (unquote_to_bytes(part).decode() for part in raw.split(b"/"))
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)


def key_from(value: Mapping[str, Any] | str | None) -> SessionKey | None:
    """A key as JSON has it: its parts, or its text. Raises `InvalidKeyError`."""
    if value is None:
        return None
    if isinstance(value, str):
        return SessionKey.parse(value)
    unknown = sorted(set(value) - {"agent", "channel", "peer", "thread"})
    if unknown:
        raise InvalidKeyError(f"a key has no {unknown[0]!r}: write agent, channel, peer and thread")
    return SessionKey(value.get("agent", ""), value.get("channel", ""), value.get("peer", ""), value.get("thread"))


def moment(text: str | None, what: str) -> datetime | None:
    """A time with a time zone, in ISO 8601."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInputError(f"{what} must be a time in ISO 8601, such as 2026-01-31T12:00:00Z") from None
    if found.tzinfo is None:
        raise InvalidInputError(f"{what} needs a time zone, such as 2026-01-31T12:00:00Z")
    return found
