"""What is read from a message when it is appended: its format, role, id, time, parts and text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from frontdesk.errors import InvalidIdError, InvalidMessageError
from frontdesk.messages.formats import adk, opaque, own, recognise
from frontdesk.messages.formats.openai_responses import PLACEHOLDER_ID
from frontdesk.messages.ids import SUMMARY_PREFIX, check_id
from frontdesk.messages.parts import Part, TextPart, ToolCallPart, ToolResultPart
from frontdesk.messages.stored import Derived, encode_derived
from frontdesk.moments import to_datetime, to_microseconds

_FIRST_MILLISECONDS = 100_000_000_000


def read_message(given: dict[str, Any]) -> tuple[str, tuple[Part, ...], str | None]:
    """Role, parts and the text of `Derived`; raises `InvalidMessageError` where there is no role."""
    format = recognise(given)
    role = check_role(given.get("role") if format is None else format.role(given))
    assert format is not None  # ours takes everything that has a role
    if format is not adk.FORMAT:  # whose content is an object
        _check_content(given)
    parts = format.read(given)
    shape = None if format is own.FORMAT else format.name
    return role, parts, derive(given, role, parts, shape)


def read_as(raw: Any, role: str) -> tuple[tuple[Part, ...], str | None]:
    """Parts and the text of `Derived` of a value whose role was given: in a known format, or opaque."""
    format = recognise(raw) if type(raw) is dict else None
    if format is None or (format is own.FORMAT and not _has_content(raw)):
        text = opaque.text_in(raw)
        return opaque.parts_of(text), encode_derived(Derived(opaque.NAME, text)).decode()
    parts = format.read(raw)
    return parts, derive(raw, role, parts, None if format is own.FORMAT else format.name)


def derive(raw: dict[str, Any], role: str, parts: tuple[Part, ...], shape: str | None) -> str | None:
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


def _has_content(given: dict[str, Any]) -> bool:
    """Whether its content can be read."""
    content = given.get("content")
    return content is None or type(content) is list or type(content) is str or "parts" in given


def _check_content(given: dict[str, Any]) -> None:
    if not _has_content(given):
        kind = type(given["content"]).__name__
        raise InvalidMessageError(f"content must be a text or a list of parts, not {kind}", path="content")


def check_role(role: object) -> str:
    if role is None:
        raise InvalidMessageError("role is missing: add it to the message, or pass `role=`", path="role")
    try:
        return check_id(role, "role")
    except InvalidIdError as error:
        raise InvalidMessageError(str(error), path="role") from None


def own_id_of(given: dict[str, Any]) -> str | None:
    id = given.get("id")
    if id is None or id == PLACEHOLDER_ID:
        return None
    if type(id) is not str:
        raise InvalidIdError(f"id must be a string, not {type(id).__name__}: pass the id to store it under as `id=`")
    return refuse_summary(check_id(id))


def refuse_summary(id: str) -> str:
    if id.startswith(SUMMARY_PREFIX):
        raise InvalidMessageError(
            f"{id!r} is a synthetic summary, which history makes from a compaction: it cannot be appended as a message",
            id=id,
        )
    return id


def time_of(given: dict[str, Any], now_us: int) -> int:
    """The time that a message names, otherwise now."""
    for key in ("created_at", "createdAt"):
        value = given.get(key)
        if value is not None:
            try:
                return _microseconds(value)
            except (ValueError, OverflowError):
                raise InvalidMessageError(
                    f"{key} is {value!r}, not a time: use an ISO 8601 text, or seconds since 1970", path=key
                ) from None
    return now_us


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
