"""`Message`, its parts and its ids: what every layer above passes around, apart from the shapes it may be given in."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, Self, TypeAlias

import msgspec

from frontdesk.errors import InvalidIdError

SUMMARY_PREFIX = "frontdesk-summary:"
MAX_ID_LENGTH = 512

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TextPart(msgspec.Struct, frozen=True):
    """Words of whoever the message is from."""

    text: str


class ReasoningPart(msgspec.Struct, frozen=True):
    """What a model thought; `signature` is the provider's proof or its encrypted form."""

    text: str
    signature: str | None = None


class ToolCallPart(msgspec.Struct, frozen=True):
    """A model's request to run a tool; `arguments` is the JSON value, or the text where that is not JSON."""

    id: str
    name: str
    arguments: Any


class ToolResultPart(msgspec.Struct, frozen=True):
    """What a tool answered to the call `call_id`."""

    call_id: str
    content: Any
    name: str | None = None
    is_error: bool = False


class FilePart(msgspec.Struct, frozen=True):
    """An image, a sound or a document, by `url` or as base64 `data`."""

    media_type: str
    name: str | None = None
    url: str | None = None
    data: str | None = None


class DataPart(msgspec.Struct, frozen=True):
    """Anything else a message carries, under the type its shape gives it."""

    type: str
    data: Any


Part: TypeAlias = TextPart | ReasoningPart | ToolCallPart | ToolResultPart | FilePart | DataPart


class Reading(msgspec.Struct, frozen=True):
    """What one shape's reader finds in a raw message."""

    role: str
    parts: tuple[Part, ...]


class StoredMessage(msgspec.Struct, frozen=True):
    """What a store keeps of a message. `created_at` counts microseconds since 1970 in UTC; `raw` is JSON text.

    `derived` is a JSON object of "text", "calls" and "results" (ids), each only where `raw` does not show it at once.
    """

    id: str
    role: str
    tokens: int
    created_at: int
    raw: str
    derived: str | None = None


class _Derived(msgspec.Struct, frozen=True):
    text: str | None = None
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()


_NOTHING_DERIVED = _Derived()
_decode = msgspec.json.Decoder().decode
_decode_derived = msgspec.json.Decoder(_Derived).decode


class _Draft:
    """A message while it is put together: filling it in costs half of what it costs to get past the frozen class."""

    __slots__ = ("_derived", "_parent_id", "_parts", "_raw", "_stored")

    _stored: StoredMessage
    _parent_id: str | None
    _raw: dict[str, Any] | None
    _parts: tuple[Part, ...] | None
    _derived: _Derived | None


class Message(_Draft):
    """One message of a conversation; frozen. What it holds is decoded when it is first asked for.

    Raises `InvalidMessageError` or `InvalidIdError` for what could not be stored. `tokens` is the default estimate
    until a session with its own counter stores the message.
    """

    __slots__ = ()

    def __init__(
        self,
        id: str | None,
        role: str,
        content: str | Sequence[Part | Mapping[str, Any]],
        *,
        created_at: datetime | None = None,
        author: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        from frontdesk.messages import formats
        from frontdesk.messages.tokens import estimate_tokens

        raw = formats.ours.compose(id, role, content, created_at=created_at, author=author, metadata=metadata)
        _set_stored(self, formats.ingest(raw, counter=estimate_tokens))
        for empty in (_set_parent_id, _set_raw, _set_parts, _set_derived):
            empty(self, None)

    @classmethod
    def from_stored(cls, stored: StoredMessage, parent_id: str | None) -> Self:
        """The message a store kept, at its place below `parent_id`."""
        return cls.from_run((stored,), parent_id)[0]

    @classmethod
    def from_run(cls, run: Iterable[StoredMessage], parent_id: str | None) -> list[Self]:
        """Messages a store kept that follow one another, the first of them below `parent_id`."""
        messages: list[Any] = []
        for stored in run:
            message = _Draft()
            message._stored = stored
            message._parent_id = parent_id
            message._raw = message._parts = message._derived = None
            message.__class__ = cls
            parent_id = stored.id
            messages.append(message)
        return messages

    @classmethod
    def summary(cls, compaction_id: str, text: str, tokens: int, created_at_us: int, parent_id: str | None) -> Self:
        """The synthetic message that stands in history for the range of a compaction."""
        id = SUMMARY_PREFIX + compaction_id
        raw = msgspec.json.encode({"id": id, "role": "system", "content": text}).decode()
        return cls.from_stored(StoredMessage(id, "system", tokens, created_at_us, raw), parent_id)

    @property
    def stored(self) -> StoredMessage:
        """The form in which stores keep it."""
        return self._stored

    @property
    def id(self) -> str:
        return self._stored.id

    @property
    def role(self) -> str:
        return self._stored.role

    @property
    def tokens(self) -> int:
        return self._stored.tokens

    @property
    def parent_id(self) -> str | None:
        """The message this one follows, or None at the beginning of a path."""
        return self._parent_id

    @property
    def is_summary(self) -> bool:
        """Whether it stands for a compacted range and was never written as a message."""
        return self._stored.id.startswith(SUMMARY_PREFIX)

    @property
    def created_at(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self._stored.created_at)

    @property
    def raw(self) -> dict[str, Any]:
        """The message exactly as it was given."""
        raw = self._raw
        if raw is None:
            raw = _decode(self._stored.raw)
            _set_raw(self, raw)
        return raw

    @property
    def parts(self) -> tuple[Part, ...]:
        """The content as parts, whichever shape it was given in."""
        parts = self._parts
        if parts is None:
            from frontdesk.messages import formats

            parts = formats.read(self.raw).parts
            _set_parts(self, parts)
        return parts

    @property
    def content(self) -> str | list[Part]:
        """The text where the content is nothing else, otherwise the parts."""
        content = self.raw.get("content")
        parts = self.parts
        if type(content) is str and (not parts or (len(parts) == 1 and type(parts[0]) is TextPart)):
            return content
        return list(parts)

    @property
    def text(self) -> str:
        """The plain text: no reasoning, no tool arguments or results (but the whole of a tool message that is text)."""
        text = self._read_derived().text
        if text is not None:
            return text
        content = self.raw.get("content")
        return content if type(content) is str else ""

    @property
    def tool_call_ids(self) -> tuple[str, ...]:
        return self._read_derived().calls

    @property
    def tool_result_ids(self) -> tuple[str, ...]:
        """The ids of the calls that this message answers."""
        return self._read_derived().results

    @property
    def author(self) -> str | None:
        """Who wrote it, where that was said."""
        raw = self.raw
        author = raw.get("author")
        if author is None and "type" not in raw and self.role not in ("tool", "function"):
            author = raw.get("name")
        return author if type(author) is str else None

    @property
    def metadata(self) -> dict[str, Any]:
        metadata = self.raw.get("metadata")
        return metadata if type(metadata) is dict else {}

    def _read_derived(self) -> _Derived:
        derived = self._derived
        if derived is None:
            text = self._stored.derived
            derived = _NOTHING_DERIVED if text is None else _decode_derived(text)
            _set_derived(self, derived)
        return derived

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Message is frozen: {name!r} cannot be set; make a new one")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Message is frozen: {name!r} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return self._stored == other._stored and self._parent_id == other._parent_id

    def __hash__(self) -> int:
        return hash((self._stored.id, self._stored.raw))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_stored, (self._stored, self._parent_id)

    def __repr__(self) -> str:
        text = self.text
        shown = text if len(text) <= 40 else text[:39] + "…"
        return f"Message(id={self.id!r}, role={self.role!r}, text={shown!r}, tokens={self.tokens})"


# The slots' own descriptors: the fastest way past a frozen class's `__setattr__`.
_set_stored = _Draft.__dict__["_stored"].__set__
_set_parent_id = _Draft.__dict__["_parent_id"].__set__
_set_raw = _Draft.__dict__["_raw"].__set__
_set_parts = _Draft.__dict__["_parts"].__set__
_set_derived = _Draft.__dict__["_derived"].__set__


def check_id(value: object, what: str = "id") -> str:
    """Return `value` if it can be an id; raise `InvalidIdError`, which calls it `what`, otherwise."""
    if type(value) is not str:
        raise InvalidIdError(f"{what} must be a string, not {type(value).__name__}")
    if not 0 < len(value) <= MAX_ID_LENGTH:
        raise InvalidIdError(f"{what} must have 1 to {MAX_ID_LENGTH} characters, not {len(value)}", length=len(value))
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidIdError(f"{what} {value!r} holds a lone surrogate, which is not text") from None
    if "\0" in value:
        raise InvalidIdError(f"{what} {value!r} holds a NUL character")
    return value


class _IdSource:
    """Time-ordered ids (UUID version 7); each is greater than the one before it in this process."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self._lock = threading.Lock()
        self._milliseconds = 0
        self._prefix = ""
        self._sequence = 0
        self._random: list[str] = []

    def next(self) -> str:
        with self._lock:
            now = time.time_ns() // 1_000_000
            if now > self._milliseconds:
                self._enter(now)
            elif self._sequence == 0xFFF:
                self._enter(self._milliseconds + 1)
            else:
                self._sequence += 1
            if not self._random:
                self._random = _random_ends()
            return f"{self._prefix}{self._sequence:03x}{self._random.pop()}"

    def _enter(self, milliseconds: int) -> None:
        self._milliseconds = milliseconds
        self._sequence = 0
        self._prefix = f"{milliseconds >> 16:08x}-{milliseconds & 0xFFFF:04x}-7"


def _random_ends() -> list[str]:
    """The last two groups of 256 ids: the variant, and 62 random bits."""
    pool = os.urandom(256 * 8)
    variants = ("8", "9", "a", "b")
    ends = (pool[start : start + 8].hex() for start in range(0, len(pool), 8))
    return [f"-{variants[int(end[0], 16) & 3]}{end[1:4]}-{end[4:]}" for end in ends]


_ids = _IdSource()
# A child must neither repeat its parent's randomness nor inherit a lock that some other thread held.
os.register_at_fork(after_in_child=_ids.restart)

new_id = _ids.next
