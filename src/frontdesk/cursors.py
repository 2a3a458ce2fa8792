"""Opaque page cursors: they carry a position and a seal over the call they belong to, so that an altered one, or one
from another call, is refused instead of giving a wrong page."""

from __future__ import annotations

import base64
import binascii
from hashlib import blake2s
from typing import Any

import msgspec

from frontdesk.errors import InvalidCursorError

_SEAL = 8


def seal(position: list[Any], call: Any) -> str:
    """A cursor for a position within a call (any JSON value that tells calls apart)."""
    body = msgspec.json.encode(position)
    return base64.urlsafe_b64encode(_digest(body, call) + body).decode().rstrip("=")


def unseal(cursor: str, call: Any) -> list[Any]:
    """The position that `seal` was given for the same call. Raises `InvalidCursorError`."""
    try:
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        if data[:_SEAL] == _digest(data[_SEAL:], call):
            position: list[Any] = msgspec.json.decode(data[_SEAL:], type=list)
            return position
    except (binascii.Error, ValueError, TypeError, UnicodeError, msgspec.DecodeError):
        pass
    raise InvalidCursorError(
        "this cursor was altered or belongs to another call: pass `next_cursor` of the previous page"
        " together with the same arguments"
    )


def _digest(body: bytes, call: Any) -> bytes:
    return blake2s(body + b"\0" + msgspec.json.encode(call), digest_size=_SEAL, person=b"frontdsk").digest()
