"""`Message`: a message of a conversation, in whichever format it was given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn, Self

import msgspec

from frontdesk.errors import DamagedRecordError
from frontdesk.messages import formats
from frontdesk.messages.formats import opaque, own
from frontdesk.messages.ids import SUMMARY_PREFIX
from frontdesk.messages.ingestion import ingest
from frontdesk.messages.parts import Part, TextPart
from frontdesk.messages.stored import Derived, StoredMessage, derived_of
from frontdesk.messages.tokens import estimate_tokens
from frontdesk.moments import to_datetime

_decode = msgspec.json.Decoder().decode


class _MessageDraft:
    """A message while it is built: filling in its slots costs half as much as getting past the frozen class."""

    __slots__ = ("_derived", "_parent_id", "_parts", "_raw", "_stored")

    _stored: StoredMessage
    _parent_id: str | None
    _raw: Any
    _parts: tuple[Part, ...] | None
    _derived: Derived | None


class Message(_MessageDraft):
    """One message of a conversation; frozen. Its content is decoded when it is first needed.

    Raises `InvalidMessageError` or `InvalidIdError` for what cannot be stored. `tokens` is the default estimate until a
    session with its own counter stores the message."""

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
        raw = own.compose(id, role, content, created_at=created_at, author=author, metadata=metadata)
        _set_stored(self, ingest(raw, counter=estimate_tokens))
        for empty in (_set_parent_id, _set_raw, _set_parts, _set_derived):
            empty(self, None)

    @classmethod
    def from_stored(cls, stored: StoredMessage, parent_id: str | None) -> Self:
        """The message that a store kept, at its place after `parent_id`."""
        return cls.from_run((stored,), parent_id)[0]

    @classmethod
    def from_run(cls, run: Iterable[StoredMessage], parent_id: str | None) -> list[Self]:
        """Consecutive messages that a store kept, the first of them after `parent_id`."""
        messages: list[Any] = []
        for stored in run:
            message = _MessageDraft()
            message._stored = stored
            message._parent_id = parent_id
            message._raw = message._parts = message._derived = None
            message.__class__ = cls
            parent_id = stored.id
            messages.append(message)
        return messages

    @classmethod
    def summary(cls, compaction_id: str, text: str, tokens: int, created_at_us: int, parent_id: str | None) -> Self:
        """The synthetic message that replaces the range of a compaction in history."""
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
        """Whether it is the summary of a compaction, which was never written as a message."""
        return self._stored.id.startswith(SUMMARY_PREFIX)

    @property
    def created_at(self) -> datetime:
        return to_datetime(self._stored.created_at)

    @property
    def raw(self) -> Any:
        """The message exactly as it was given: a dict in a known format, or any JSON value if its role was given.

        Raises `DamagedRecordError` if the storage engine returned something else."""
        raw = self._raw
        if raw is None:
            try:
                raw = _decode(self._stored.raw)
            except (msgspec.DecodeError, TypeError):
                raise DamagedRecordError("message", self.id) from None
            _set_raw(self, raw)
        return raw

    @property
    def shape(self) -> str | None:
        """The format that it was given in ("openai", "anthropic", ...); None for Frontdesk's own."""
        return self._read_derived().shape

    @property
    def parts(self) -> tuple[Part, ...]:
        """The content as parts, whichever format it was given in."""
        parts = self._parts
        if parts is None:
            shape = self.shape
            parts = opaque.parts_of(self.text) if shape == opaque.NAME else formats.read(self.raw, shape)
            _set_parts(self, parts)
        return parts

    @property
    def has_given_text(self) -> bool:
        """Whether its text was given with it, instead of derived from it."""
        return self._read_derived().text_given

    @property
    def plain_parts(self) -> tuple[Part, ...]:
        """The parts that search, token counts and summaries use: the text alone, where it was given."""
        return opaque.parts_of(self.text) if self.has_given_text else self.parts

    @property
    def content(self) -> str | list[Part]:
        """The text if the content is only text, otherwise the parts."""
        shape = self.shape
        if shape == opaque.NAME:
            return self.text
        content = self.raw.get("content")
        if shape is None and type(content) is str:
            return content
        parts = self.parts
        if type(content) is str and (not parts or (len(parts) == 1 and type(parts[0]) is TextPart)):
            return content
        return list(parts)

    @property
    def text(self) -> str:
        """The plain text, or the text that was given with the message. It has no reasoning and no tool arguments or
        results, except for a tool message that is only text: that text is all of it."""
        text = self._read_derived().text
        if text is not None:
            return text
        content = self.raw.get("content")
        return content if type(content) is str else ""

    @property
    def tool_call_ids(self) -> tuple[str, ...]:
        """The ids of the calls in this message."""
        return self._read_derived().calls

    @property
    def tool_result_ids(self) -> tuple[str, ...]:
        """The ids of the calls that this message answers."""
        return self._read_derived().results

    @property
    def author(self) -> str | None:
        """The name of its author, if one was given. A name that only repeats the role does not count."""
        raw = self.raw
        if type(raw) is not dict:
            return None
        author = raw.get("author")
        if author is None and "type" not in raw and self.role not in ("tool", "function"):
            author = raw.get("name")
        return author if type(author) is str and author != self.role else None

    @property
    def metadata(self) -> dict[str, Any]:
        raw = self.raw
        metadata = raw.get("metadata") if type(raw) is dict else None
        return metadata if type(metadata) is dict else {}

    def to_dict(self) -> dict[str, Any]:
        """The message as JSON-ready values in Frontdesk's own format, whichever format it was given in.

        `raw` is left out: it is the message as it was given."""
        stored, content = self._stored, self.content
        return {
            "id": stored.id,
            "role": stored.role,
            "content": content if type(content) is str else [part.to_dict() for part in self.parts],
            "author": self.author,
            "metadata": self.metadata,
            "created_at": msgspec.to_builtins(to_datetime(stored.created_at)),
            "parent_id": self._parent_id,
            "tokens": stored.tokens,
        }

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> Any:
        """Lets pydantic, and with it FastAPI, write messages, and read them from any dict that `append` accepts."""
        from frontdesk.messages.pydantic_schema import message_schema

        return message_schema(cls, lambda raw: cls.from_stored(ingest(raw, counter=estimate_tokens), None))

    def _read_derived(self) -> Derived:
        derived = self._derived
        if derived is None:
            try:
                derived = derived_of(self._stored)
            except (msgspec.DecodeError, TypeError):
                raise DamagedRecordError("message", self.id) from None
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
_set_stored = _MessageDraft.__dict__["_stored"].__set__
_set_parent_id = _MessageDraft.__dict__["_parent_id"].__set__
_set_raw = _MessageDraft.__dict__["_raw"].__set__
_set_parts = _MessageDraft.__dict__["_parts"].__set__
_set_derived = _MessageDraft.__dict__["_derived"].__set__
