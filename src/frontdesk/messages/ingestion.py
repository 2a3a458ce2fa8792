"""Checks a message that is appended, keeps it exactly as it was given, and derives what the layers above need."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from frontdesk.errors import InvalidIdError, InvalidMessageError, MessageTooLargeError
from frontdesk.messages.counting import count_parts, count_text
from frontdesk.messages.exact_json import decode, encode
from frontdesk.messages.formats import own, read, recognise
from frontdesk.messages.formats.openai_responses import PLACEHOLDER_ID
from frontdesk.messages.ids import SUMMARY_PREFIX, check_id, new_id
from frontdesk.messages.parts import Part, TextPart, ToolCallPart, ToolResultPart
from frontdesk.messages.stored import DEFAULT_MAX_MESSAGE_BYTES, Derived, StoredMessage, encode_derived, shape_of
from frontdesk.messages.tokens import MESSAGE_TOKENS, TokenCounter
from frontdesk.moments import now, to_datetime, to_microseconds

_PLAIN_KEYS = frozenset({"id", "role", "content"})
_FIRST_MILLISECONDS = 100_000_000_000


class HasStored(Protocol):
    """A `Message`."""

    @property
    def stored(self) -> StoredMessage: ...


def ingest(
    given: Mapping[str, Any] | HasStored,
    *,
    counter: TokenCounter,
    max_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
    now_us: int | None = None,
) -> StoredMessage:
    """What a store keeps of `given`, whose decoded `raw` equals it. A `Message` keeps its id and its time.

    Raises `InvalidMessageError` (with the path to the fault), `InvalidIdError`, or `MessageTooLargeError`.
    """
    if type(given) is not dict:
        if not isinstance(given, Mapping):
            return _recount(_stored_in(given), counter, max_bytes)
        given = dict(given)
    encoded = encode(given)
    _check_size(len(encoded), max_bytes)
    id = _own_id(given)
    at = now() if now_us is None else now_us
    content = given.get("content")
    if type(content) is str and given.keys() <= _PLAIN_KEYS:
        role = _check_role(given.get("role"))
        return StoredMessage(id, role, MESSAGE_TOKENS + count_text(content, counter), at, encoded.decode())
    role, parts, derived = _read(given)
    _check_content(given)
    own_time = _own_time(given)
    tokens = count_parts(parts, counter)
    return StoredMessage(id, role, tokens, at if own_time is None else own_time, encoded.decode(), derived)


def rewrite(old: StoredMessage, raw: dict[str, Any], counter: TokenCounter) -> StoredMessage:
    """A stored message with another content, which is in the same format: id, role and time stay."""
    shape = shape_of(old)
    parts = read(raw, shape)
    derived = _derive(raw, old.role, parts, shape)
    return StoredMessage(old.id, old.role, count_parts(parts, counter), old.created_at, encode(raw).decode(), derived)


def _read(given: dict[str, Any]) -> tuple[str, tuple[Part, ...], str | None]:
    """Role, parts and the text of `Derived`; raises `InvalidMessageError` where there is no role."""
    format = recognise(given)
    role = _check_role(given.get("role") if format is None else format.role(given))
    assert format is not None  # ours takes everything that has a role
    parts = format.read(given)
    shape = None if format is own.FORMAT else format.name
    return role, parts, _derive(given, role, parts, shape)


def _derive(raw: dict[str, Any], role: str, parts: tuple[Part, ...], shape: str | None) -> str | None:
    texts, calls, results = [], [], []
    for part in parts:
        if type(part) is TextPart:
            texts.append(part.text)
        elif type(part) is ToolCallPart:
            calls.append(part.id)
        elif type(part) is ToolResultPart:
            results.append(part.call_id)
    content = raw.get("content")
    shown = content if type(content) is str else ""
    text = content if type(content) is str and role in ("tool", "function") else "\n".join(texts)
    if shape is None and text == shown and not calls and not results:
        return None
    derived = Derived(shape, None if text == shown else text, tuple(calls), tuple(results))
    return encode_derived(derived).decode()


def _stored_in(given: HasStored) -> StoredMessage:
    stored = getattr(given, "stored", None)
    if not isinstance(stored, StoredMessage):
        raise InvalidMessageError(
            f"a message must be a dict or a Message, not {type(given).__name__}: convert it first, for example"
            " with model_dump()"
        )
    return stored


def _recount(old: StoredMessage, counter: TokenCounter, max_bytes: int) -> StoredMessage:
    _refuse_summary(old.id)
    _check_size(len(old.raw.encode()), max_bytes)
    tokens = count_parts(read(decode(old.raw), shape_of(old)), counter)
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
    if id is None or id == PLACEHOLDER_ID:
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
        return to_microseconds(moment if moment.utcoffset() is not None else moment.replace(tzinfo=UTC))
    if type(value) is not int and type(value) is not float:
        raise ValueError(value)
    # JavaScript counts milliseconds; as seconds they would be in the far future.
    since = timedelta(milliseconds=value) if abs(value) >= _FIRST_MILLISECONDS else timedelta(seconds=value)
    # Added to the epoch, so that what no datetime can hold is refused.
    return to_microseconds(to_datetime(0) + since)
