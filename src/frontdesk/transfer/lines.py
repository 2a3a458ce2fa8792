"""The lines of an export: one JSON object each, with its `type`. Documented in docs/export.md.

Numbers in a file are those of the file. Sessions, trees and families are counted from the first family on, segments,
overlays and edits within their family. JSON that a store keeps as text (`raw`, `derived`, `tags`, `metadata`,
`details`, `blocks`) is written as it is, so that not a byte of it changes."""

from __future__ import annotations

from typing import Any

import msgspec

from frontdesk.messages.stored import StoredMessage
from frontdesk.store import Lineage, Owner, SessionRow, StateOwner, ViewRow

VERSION = 1
NULL = msgspec.Raw(b"null")
Pair = tuple[int, int]


class Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """One line."""


class Header(Line, frozen=True, kw_only=True, tag="frontdesk"):
    version: int
    namespace: str


class FamilyLine(Line, frozen=True, kw_only=True, tag="family"):
    """Begins a family: the sessions that share messages, with all that belongs to them, up to the line "end"."""

    number: int
    ids: tuple[str, ...]
    segments: int = 0
    overlays: int = 0
    edits: int = 0
    lineage: tuple[Lineage, ...] = ()


class SegmentLine(Line, frozen=True, kw_only=True, tag="segment"):
    number: int
    tree: int
    parent: Pair | None = None
    last: int
    next: int
    shared: int
    tokens: int


class MessageLine(Line, frozen=True, kw_only=True, tag="message"):
    segment: int
    position: int
    running: int
    id: str
    role: str
    tokens: int
    created_at: int
    raw: msgspec.Raw
    derived: msgspec.Raw = NULL


class OverlayLine(Line, frozen=True, kw_only=True, tag="overlay"):
    number: int
    tree: int
    revision: int
    id: str
    kind: str
    start: Pair
    end: Pair
    tokens: int
    created_at: int
    stale: bool = False
    summary: str | None = None
    details: msgspec.Raw


class EditLine(Line, frozen=True, kw_only=True, tag="edit"):
    number: int
    tree: int
    revision: int
    kind: str
    segment: int = 0
    first: int = 0
    last: int = 0
    tokens: int = 0
    overlay: int | None = None
    message: MessageLine | None = None


class SessionLine(Line, frozen=True, kw_only=True, tag="session"):
    """`row` has the columns of a session, without its tags and metadata. `view` is its stored view, if it has one."""

    row: SessionRow
    tags: msgspec.Raw
    metadata: msgspec.Raw
    view: ViewRow | None = None


class PromptLine(Line, frozen=True, kw_only=True, tag="prompt"):
    session: str
    number: int
    text: str
    tokens: int
    fingerprint: str
    blocks: msgspec.Raw
    created_at: int
    deployed_at: int


class DocumentLine(Line, frozen=True, kw_only=True, tag="document"):
    owner: Owner
    label: str
    key: str = ""
    version: int
    content: str
    description: str | None = None
    author: str | None = None
    created_at: int


class UsageLine(Line, frozen=True, kw_only=True, tag="usage"):
    """A usage entry of a session."""

    session: str
    id: str
    day: str
    model: str | None = None
    at: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    cost: str


class EndLine(Line, frozen=True, kw_only=True, tag="end"):
    """Ends a family, or a shelf."""


class DayLine(Line, frozen=True, kw_only=True, tag="usage-day"):
    """A total of usage, with that of deleted sessions."""

    day: str
    model: str | None = None
    agent: str | None = None
    channel: str | None = None
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    cost: str


class StateLine(Line, frozen=True, kw_only=True, tag="state"):
    id: str
    name: str
    value: msgspec.Raw
    mark: str
    version: int
    ttl: int | None
    created_at: int
    accessed_at: int
    type_version: int
    owner: StateOwner | None = None


class ShelfLine(Line, frozen=True, kw_only=True, tag="shelf"):
    """Begins a shelf: its blobs follow, up to the line "end"."""

    name: str
    id: str
    number: int
    edition: int
    owner: StateOwner | None = None


class BlobLine(Line, frozen=True, kw_only=True, tag="blob"):
    """Bytes on a shelf: key and value in base64."""

    key: bytes
    value: bytes


class StateStoreLine(Line, frozen=True, kw_only=True, tag="state-store"):
    url: str


class LastLine(Line, frozen=True, kw_only=True, tag="complete"):
    """The last line: without it, the file was cut off. `lines` counts the lines before it."""

    lines: int


AnyLine = (
    Header
    | FamilyLine
    | SegmentLine
    | MessageLine
    | OverlayLine
    | EditLine
    | SessionLine
    | PromptLine
    | DocumentLine
    | UsageLine
    | EndLine
    | DayLine
    | StateLine
    | ShelfLine
    | BlobLine
    | StateStoreLine
    | LastLine
)

encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(AnyLine).decode


def decode(text: str | bytes) -> AnyLine:
    """Raises `msgspec.DecodeError` for what is not a line of an export."""
    line: AnyLine = _decode(text)
    return line


def is_header(line: bytes) -> bool:
    """Whether it is the first line of an export."""
    try:
        return isinstance(decode(line), Header)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


def text_of(value: msgspec.Raw) -> str:
    return bytes(value).decode()


def message_line(message: StoredMessage, **place: Any) -> MessageLine:
    derived = NULL if message.derived is None else raw(message.derived)
    return MessageLine(
        id=message.id,
        role=message.role,
        tokens=message.tokens,
        created_at=message.created_at,
        raw=raw(message.raw),
        derived=derived,
        **place,
    )


def stored_message(line: MessageLine) -> StoredMessage:
    """Raises `msgspec.ValidationError` if nothing says what the value of a message means."""
    raw, derived = text_of(line.raw), text_of(line.derived)
    if derived == "null" and not raw.startswith("{"):
        raise msgspec.ValidationError("`raw` is not an object, and `derived` is missing")
    return StoredMessage(line.id, line.role, line.tokens, line.created_at, raw, None if derived == "null" else derived)
