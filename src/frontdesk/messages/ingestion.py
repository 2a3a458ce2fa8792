"""Checks a message that is appended, keeps it exactly as it was given, and derives what the layers above need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from frontdesk.errors import InvalidIdError, InvalidMessageError, MessageTooLargeError
from frontdesk.messages.counting import count_parts, count_text
from frontdesk.messages.deriving import check_role, derive, own_id_of, read_as, read_message, refuse_summary, time_of
from frontdesk.messages.exact_json import decode, encode
from frontdesk.messages.formats import read
from frontdesk.messages.ids import check_id, new_id
from frontdesk.messages.model_objects import is_model, message_in
from frontdesk.messages.new_message import NewMessage
from frontdesk.messages.stored import DEFAULT_MAX_MESSAGE_BYTES, StoredMessage, derived_of, encode_derived
from frontdesk.messages.tokens import MESSAGE_TOKENS, TokenCounter
from frontdesk.moments import now

_PLAIN_KEYS = frozenset({"id", "role", "content"})


class Ingested(msgspec.Struct, frozen=True, gc=False):
    """What a store keeps of a message, and whether its id was given: then another message with it is a repetition."""

    stored: StoredMessage
    id_given: bool


def ingest(
    given: object,
    *,
    counter: TokenCounter,
    max_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
    now_us: int | None = None,
) -> StoredMessage:
    """What a store keeps of a message; see `ingest_message`."""
    return ingest_message(given, counter, max_bytes, now() if now_us is None else now_us).stored


def ingest_message(given: object, counter: TokenCounter, max_bytes: int, now_us: int) -> Ingested:
    """What a store keeps of a dict, a `Message`, a `NewMessage` or a model of a provider SDK. Its decoded `raw` equals
    what was given. A `Message` keeps its id and its time.

    Raises `InvalidMessageError` (with the path to the fault), `InvalidIdError`, or `MessageTooLargeError`.
    """
    if type(given) is not dict:
        if isinstance(given, NewMessage):
            return _ingest_new(given, counter, max_bytes, now_us)
        if (stored := _stored_in(given)) is not None:
            return Ingested(_recount(stored, counter, max_bytes), True)
        given = _object_in(given)
    raw, encoded = encode(given)
    _check_size(len(encoded), max_bytes)
    own_id = own_id_of(raw)
    id = new_id() if own_id is None else own_id
    content = raw.get("content")
    if type(content) is str and raw.keys() <= _PLAIN_KEYS:
        role = check_role(raw.get("role"))
        tokens = MESSAGE_TOKENS + count_text(content, counter)
        return Ingested(StoredMessage(id, role, tokens, now_us, encoded.decode()), own_id is not None)
    role, parts, derived = read_message(raw)
    tokens = count_parts(parts, counter)
    return Ingested(
        StoredMessage(id, role, tokens, time_of(raw, now_us), encoded.decode(), derived), own_id is not None
    )


def rewrite(old: StoredMessage, raw: dict[str, Any], counter: TokenCounter) -> StoredMessage:
    """A stored message with another content, which is in the same format: id, role, time and a given text stay."""
    before = derived_of(old)
    encoded = encode(raw)[1].decode()
    if before.text_given:
        return replace(old, raw=encoded)
    parts = read(raw, before.shape)
    derived = derive(raw, old.role, parts, before.shape)
    return StoredMessage(old.id, old.role, count_parts(parts, counter), old.created_at, encoded, derived)


# what is given with an id, a role or a text


def _ingest_new(new: NewMessage, counter: TokenCounter, max_bytes: int, now_us: int) -> Ingested:
    id = None if new.id is None else refuse_summary(check_id(_exact(new.id)))
    role = None if new.role is None else check_role(_exact(new.role))
    text = _check_text(new.text)
    message = _stored_in(new.value)
    own_id: str | None
    if message is not None:
        own_id = message.id
        stored = replace(_recount(message, counter, max_bytes), id=id or message.id, role=role or message.role)
    else:
        stored, own_id = _store_new(new.value, id, role, counter, max_bytes, now_us)
    if text is not None:
        derived = replace(derived_of(stored), text=text, text_given=True)
        tokens = MESSAGE_TOKENS + count_text(text, counter)
        stored = replace(stored, tokens=tokens, derived=encode_derived(derived).decode())
    return Ingested(stored, id is not None or own_id is not None)


def _store_new(
    value: object, id: str | None, role: str | None, counter: TokenCounter, max_bytes: int, now_us: int
) -> tuple[StoredMessage, str | None]:
    """What is stored of a value, and its own id. With a role, any JSON value is accepted."""
    raw, encoded = encode(_object_in(value) if role is None else _message_in(value))
    _check_size(len(encoded), max_bytes)
    if role is None:
        own_id = own_id_of(raw) if id is None else None
        role, parts, derived = read_message(raw)
        at = time_of(raw, now_us)
    else:
        own_id = None if id is not None else _usable_id(raw)
        parts, derived = read_as(raw, role)
        at = _usable_time(raw, now_us)
    tokens = count_parts(parts, counter)
    return StoredMessage(id or own_id or new_id(), role, tokens, at, encoded.decode(), derived), own_id


def _usable_id(raw: Any) -> str | None:
    """The id of a value that was given with its role, if it has one that can be an id."""
    try:
        return own_id_of(raw) if type(raw) is dict else None
    except InvalidIdError:
        return None


def _usable_time(raw: Any, now_us: int) -> int:
    try:
        return time_of(raw, now_us) if type(raw) is dict else now_us
    except InvalidMessageError:
        return now_us


def _check_text(text: object) -> str | None:
    if text is None:
        return None
    exact = _exact(text)
    if type(exact) is not str:
        raise InvalidMessageError(f"text must be a string, not {type(text).__name__}", path="text")
    try:
        exact.encode()
    except UnicodeEncodeError:
        raise InvalidMessageError("text contains a lone surrogate, which is not text", path="text") from None
    return exact


def _exact(value: object) -> object:
    """A string as a plain string: members of string enums are given, too."""
    return str.__str__(value) if isinstance(value, str) else value


def missing_id() -> InvalidMessageError:
    """The error for a change of a message that does not say which one."""
    return InvalidMessageError("id is missing: add the id of the message to update", path="id")


# where the message is


def _stored_in(given: object) -> StoredMessage | None:
    """What a `Message` keeps."""
    stored = getattr(given, "stored", None)
    return stored if isinstance(stored, StoredMessage) else None


def _object_in(given: object) -> object:
    """The mapping that a message is given as, or that a model of a provider SDK contains."""
    if isinstance(given, Mapping):
        return given
    found = _message_in(given) if is_model(given) else None
    if type(found) is dict:
        return found
    raise InvalidMessageError(
        f"a message must be a dict, a Message, or an object of a provider's SDK, not {type(given).__name__}: to store"
        " any other JSON value as it is, pass `role=`"
    )


def _message_in(given: object) -> object:
    """The message in a model of a provider SDK; anything else as it is."""
    if not is_model(given):
        return given
    dumped = encode(given)[0]
    found = message_in(dumped)
    if found is dumped and type(found) is dict and found.get("object") in ("chat.completion", "response"):
        raise InvalidMessageError(
            f"{type(given).__name__} is a whole response with several messages: append the message of one of its"
            " `choices`, or `append_all` its `output`"
        )
    return found


def _recount(old: StoredMessage, counter: TokenCounter, max_bytes: int) -> StoredMessage:
    refuse_summary(old.id)
    _check_size(len(old.raw.encode()), max_bytes)
    derived = derived_of(old)
    if derived.text_given:
        tokens = MESSAGE_TOKENS + count_text(derived.text or "", counter)
    else:
        tokens = count_parts(read(decode(old.raw), derived.shape), counter)
    return StoredMessage(old.id, old.role, tokens, old.created_at, old.raw, old.derived)


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise MessageTooLargeError(
            f"the message has {size} bytes as JSON, more than the limit of {max_bytes}: keep large files elsewhere"
            " and store their address",
            size=size,
            limit=max_bytes,
        )
