"""How values travel between a client and its server: arguments into queries and bodies, and answers into records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any

import msgspec

from frontdesk import ANY_HEAD, FOLLOW_HEAD
from frontdesk.errors import InvalidInputError, StoreError
from frontdesk.http.addresses import write_query_ref
from frontdesk.keys import SessionKey
from frontdesk.messages import Message, NewMessage
from frontdesk.messages.exact_form import from_exact
from frontdesk.messages.ingestion import ingest_message
from frontdesk.messages.stored import derived_of
from frontdesk.moments import now, to_datetime

NOT_GIVEN = (FOLLOW_HEAD, ANY_HEAD)
"""values that mean the same as leaving the argument out"""
_NO_LIMIT = 1 << 40


def to_body(values: Mapping[str, Any]) -> bytes:
    """Arguments as a JSON object. Raises `InvalidInputError`."""
    given = {name: _plain(value) for name, value in values.items() if not any(value is each for each in NOT_GIVEN)}
    try:
        return msgspec.json.encode(given, enc_hook=_to_list)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidInputError(f"the arguments cannot be written as JSON: {error}") from None


def _plain(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _to_list(value: Any) -> Any:
    """What msgspec does not know: an iterable."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"{type(value).__name__} is not a value of JSON")


def to_query(values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as the parameters of a query. Raises `InvalidInputError`."""
    try:
        return {name: _parameter(name, value) for name, value in values.items() if value is not None}
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidInputError(f"the arguments do not fit into a URL: {error}") from None


def _parameter(name: str, value: Any) -> Any:
    if isinstance(value, SessionKey) or (name == "session" and isinstance(value, str)):
        return write_query_ref(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return _pairs(value) if name == "exclude" else msgspec.json.encode(value).decode()
    if isinstance(value, list | tuple):
        return [_parameter("", each) for each in value]
    return value


def _pairs(fields: Mapping[str, Any]) -> list[str]:
    return [
        f"{field}:{each}" for field, value in fields.items() for each in ([value] if isinstance(value, str) else value)
    ]


# messages


def write_message(given: Any, *, needs_id: bool) -> dict[str, Any]:
    """A message for a request: exactly what was given, with what it does not say itself. With `needs_id`, one without
    an id gets one here, so that the request can be repeated. Raises the errors of `append`."""
    ingested = ingest_message(given, len, _NO_LIMIT, now())
    stored = ingested.stored
    written: dict[str, Any] = {"message": msgspec.Raw(stored.raw.encode())}
    message = given.value if isinstance(given, NewMessage) else given
    if ingested.id_given or needs_id:
        written["id"] = stored.id
    if isinstance(message, Message) or (isinstance(given, NewMessage) and given.role is not None):
        written["role"] = stored.role
    derived = derived_of(stored)
    if derived.text_given:
        written["text"] = derived.text
    if isinstance(message, Message):
        written["created_at"] = to_datetime(stored.created_at)
    return written


# answers


def read_answer(content: bytes, kind: Any, name: str | None) -> Any:
    """The value of an answer, or of one of its fields, as a type of Python. Raises `StoreError` for anything else."""
    try:
        decoded = _decoder(kind, name).decode(content)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise StoreError(
            f"this client cannot read the server's answer: use the same version of Frontdesk on both sides ({error})"
        ) from None
    return decoded if name is None else getattr(decoded, name)


@cache
def _decoder(kind: Any, name: str | None) -> msgspec.json.Decoder[Any]:
    wanted = kind if name is None else msgspec.defstruct("Answer", [(name, kind)])
    return msgspec.json.Decoder(wanted, dec_hook=_decode)


def _decode(kind: type, value: Any) -> Any:
    if kind is Message:
        return from_exact(value)
    raise NotImplementedError(kind)
