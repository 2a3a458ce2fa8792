"""The records and kinds of context blocks: what the public API returns, and how the kind of a block is determined."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from frontdesk.config.settings import Declaration
from frontdesk.record import Record
from frontdesk.store import Scope


class BlockKind(StrEnum):
    READONLY = "readonly"
    WRITABLE = "writable"
    SKILL = "skill"
    SEARCHABLE = "searchable"


@dataclass(frozen=True, slots=True)
class ContextBlock(Record):
    """A block as it is now. `version` counts the writes to a block in the store; 0 is its first value."""

    label: str
    content: str
    description: str | None
    tokens: int
    max_tokens: int | None
    kind: BlockKind
    scope: Scope
    version: int


@dataclass(frozen=True, slots=True)
class BlockVersion(Record):
    """One value of a block, current or earlier, with its author and time."""

    version: int
    content: str
    author: str | None
    created_at: datetime


def kind_of(declaration: Declaration, provider: Any) -> BlockKind:
    """The kind of a block with this provider (None: the store keeps its content)."""
    if provider is None:
        return BlockKind.READONLY if declaration.readonly else BlockKind.WRITABLE
    if hasattr(provider, "search"):
        return BlockKind.SEARCHABLE
    if hasattr(provider, "load"):
        return BlockKind.SKILL
    return BlockKind.WRITABLE if is_writable(declaration, provider) else BlockKind.READONLY


def is_writable(declaration: Declaration, provider: Any) -> bool:
    return not declaration.readonly and (provider is None or hasattr(provider, "set"))


def fingerprint(declarations: list[tuple[Declaration, BlockKind]], renderer: str) -> str:
    """A hash of everything that the prompt is rendered from, except the current content of writable blocks.

    The `default_content` of a readonly block is included. That of a writable block is not: it is only a first value."""
    parts = [
        [
            declaration.label,
            declaration.description,
            declaration.max_tokens,
            kind.value,
            declaration.scope,
            declaration.default_content if kind is BlockKind.READONLY else None,
        ]
        for declaration, kind in declarations
    ]
    return digest(msgspec.json.encode([renderer, parts]))


def digest(content: str | bytes) -> str:
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return hashlib.blake2b(data, digest_size=12).hexdigest()
