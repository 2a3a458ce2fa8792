"""Opaque page cursors. A cursor contains a position and a hash of the call that it belongs to, so that an altered
cursor, or one from another call, is refused instead of returning a wrong page."""

from __future__ import annotations

import base64
import binascii
from hashlib import blake2s
from typing import Any

import msgspec

from frontdesk.errors import InvalidCursorError

_HASH_BYTES = 8


def seal(position: list[Any], call: Any) -> str:
    """A cursor for a position in the results of a call. `call` is any JSON value that identifies the call."""
    body = msgspec.json.encode(position)
    return base64.urlsafe_b64encode(_digest(body, call) + body).decode().rstrip("=")


def unseal(cursor: str, call: Any) -> list[Any]:
    """The position in a cursor that `seal` made for the same call. Raises `InvalidCursorError`."""
    try:
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        if data[:_HASH_BYTES] == _digest(data[_HASH_BYTES:], call):
            position: list[Any] = msgspec.json.decode(data[_HASH_BYTES:], type=list)
            return position
    except (binascii.Error, ValueError, TypeError, UnicodeError, msgspec.DecodeError):
        pass
    raise InvalidCursorError(
        "this cursor was altered or belongs to another call: pass `next_cursor` of the previous page"
        " together with the same arguments"
    )


def _digest(body: bytes, call: Any) -> bytes:
    return blake2s(body + b"\0" + msgspec.json.encode(call), digest_size=_HASH_BYTES, person=b"frontdsk").digest()
