"""A message's way in: checks it, keeps it exactly, and derives once what the layers above ask of every message."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from frontdesk.errors import InvalidIdError, InvalidMessageError, MessageTooLargeError
from frontdesk.messages import (
    SUMMARY_PREFIX,
    Message,
    Reading,
    StoredMessage,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    check_id,
    new_id,
)
from frontdesk.messages.formats import anthropic, openai_chat, openai_responses, ours, ui
from frontdesk.messages.formats.counting import count_parts, count_text
from frontdesk.messages.formats.exact_json import compact, decode, encode
from frontdesk.messages.tokens import MESSAGE_TOKENS, TokenCounter

DEFAULT_MAX_BYTES = 16 * 1024 * 1024

_Shape = tuple[Callable[[dict[str, Any]], bool], Callable[[dict[str, Any]], Reading]]
# The most telling marks first; ours claims what is left.
_SHAPES: tuple[_Shape, ...] = tuple(
    (shape.matches, shape.read) for shape in (ui, openai_responses, openai_chat, anthropic, ours)
)
_PLAIN_KEYS = frozenset({"id", "role", "content"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MILLISECONDS = 100_000_000_000


def ingest(
    given: Mapping[str, Any] | Message,
    *,
    counter: TokenCounter,
    max_bytes: int = DEFAULT_MAX_BYTES,
    now_us: int | None = None,
) -> StoredMessage:
    """What a store keeps of `given`, whose decoded `raw` equals it. A `Message` keeps its id and its time.

    Raises `InvalidMessageError` (with the path to the fault), `InvalidIdError`, or `MessageTooLargeError`.
    """
    if isinstance(given, Message):
        return _ingest_again(given, counter, max_bytes)
    if type(given) is not dict:
        if not isinstance(given, Mapping):
            raise InvalidMessageError(
                f"a message must be a dict or a Message, not {type(given).__name__}: convert it first, for example"
                " with model_dump()"
            )
        given = dict(given)
    encoded = encode(given)
    _check_size(len(encoded), max_bytes)
    id = _own_id(given)
    now = time.time_ns() // 1000 if now_us is None else now_us
    content = given.get("content")
    if type(content) is str and given.keys() <= _PLAIN_KEYS:
        role = _check_role(given.get("role"))
        return StoredMessage(id, role, MESSAGE_TOKENS + count_text(content, counter), now, encoded.decode())
    reading = read(given)
    _check_content(given)
    created_at = _own_time(given)
    tokens = count_parts(reading.parts, counter)
    at = now if created_at is None else created_at
    return StoredMessage(id, reading.role, tokens, at, encoded.decode(), _derive(given, reading))


def read(raw: dict[str, Any]) -> Reading:
    """Role and parts of a raw message in any known shape; raises `InvalidMessageError` where it has no role."""
    for matches, read_shape in _SHAPES:
        if matches(raw):
            reading = read_shape(raw)
            _check_role(reading.role)
            return reading
    _check_role(raw.get("role"))
    raise AssertionError("ours matches everything that has a role")


def _ingest_again(message: Message, counter: TokenCounter, max_bytes: int) -> StoredMessage:
    old = message.stored
    _refuse_summary(old.id)
    _check_size(len(old.raw.encode()), max_bytes)
    tokens = count_parts(read(decode(old.raw)).parts, counter)
    return StoredMessage(old.id, old.role, tokens, old.created_at, old.raw, old.derived)


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise MessageTooLargeError(
            f"the message has {size} bytes as JSON, more than the limit of {max_bytes}: keep large files elsewhere"
            " and store their address",
            size=size,
            limit=max_bytes,
        )


def _check_content(given: dict[str, Any]) -> None:
    content = given.get("content")
    if content is not None and type(content) is not list and type(content) is not str and "parts" not in given:
        raise InvalidMessageError(
            f"content must be a text or a list of parts, not {type(content).__name__}", path="content"
        )


def _check_role(role: object) -> str:
    if role is None:
        raise InvalidMessageError("role is missing", path="role")
    try:
        return check_id(role, "role")
    except InvalidIdError as error:
        raise InvalidMessageError(str(error), path="role") from None


def _own_id(given: dict[str, Any]) -> str:
    id = given.get("id")
    if id is None or id == openai_responses.PLACEHOLDER_ID:
        return new_id()
    return _refuse_summary(check_id(id))


def _refuse_summary(id: str) -> str:
    if id.startswith(SUMMARY_PREFIX):
        raise InvalidMessageError(
            f"{id!r} is a synthetic summary, which history makes from a compaction: it cannot be appended as a message",
            id=id,
        )
    return id


def _own_time(given: dict[str, Any]) -> int | None:
    for key in ("created_at", "createdAt"):
        value = given.get(key)
        if value is not None:
            try:
                return _microseconds(value)
            except (ValueError, OverflowError):
                raise InvalidMessageError(
                    f"{key} is {value!r}, not a time: give an ISO 8601 text or seconds since 1970", path=key
                ) from None
    return None


def _microseconds(value: Any) -> int:
    if type(value) is str:
        moment = datetime.fromisoformat(value)
        moment = moment if moment.utcoffset() is not None else moment.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(microseconds=1)
    if type(value) is not int and type(value) is not float:
        raise ValueError(value)
    # JavaScript counts milliseconds; as seconds they would be in the far future.
    seconds = timedelta(milliseconds=value) if abs(value) >= _FIRST_MILLISECONDS else timedelta(seconds=value)
    return (_EPOCH + seconds - _EPOCH) // timedelta(microseconds=1)


def _derive(raw: dict[str, Any], reading: Reading) -> str | None:
    content = raw.get("content")
    is_text = type(content) is str
    if is_text and reading.role in ("tool", "function"):
        text = content
    else:
        text = "\n".join(part.text for part in reading.parts if type(part) is TextPart)
    derived: dict[str, Any] = {}
    if text != (content if is_text else ""):
        derived["text"] = text
    calls = [part.id for part in reading.parts if type(part) is ToolCallPart]
    if calls:
        derived["calls"] = calls
    results = [part.call_id for part in reading.parts if type(part) is ToolResultPart]
    if results:
        derived["results"] = results
    return compact(derived) if derived else None
