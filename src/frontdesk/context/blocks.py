"""What a context block is: its declaration, its kind, and its value as the public API gives it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from frontdesk.config.settings import Declaration


class BlockKind(StrEnum):
    READONLY = "readonly"
    WRITABLE = "writable"
    SKILL = "skill"
    SEARCHABLE = "searchable"


@dataclass(frozen=True, slots=True)
class ContextBlock:
    """A block as it is now. `version` counts the writes of one that lives in the store (0: its first value)."""

    label: str
    content: str
    description: str | None
    tokens: int
    max_tokens: int | None
    kind: BlockKind
    shared: bool
    version: int


@dataclass(frozen=True, slots=True)
class BlockVersion:
    """An earlier or the current value of a block: who wrote it, and when."""

    version: int
    content: str
    author: str | None
    created_at: datetime


def kind_of(declaration: Declaration, provider: Any) -> BlockKind:
    """What a block is, given its provider (None: it lives in the store)."""
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
    """Tells whether two sets of declarations would be rendered from the same parts.

    A readonly block's `default_content` counts; a writable one's is only its first value and does not."""
    parts = [
        [
            declaration.label,
            declaration.description,
            declaration.max_tokens,
            kind.value,
            declaration.shared,
            declaration.default_content if kind is BlockKind.READONLY else None,
        ]
        for declaration, kind in declarations
    ]
    return digest(msgspec.json.encode([renderer, parts]))


def digest(content: str | bytes) -> str:
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return hashlib.blake2b(data, digest_size=12).hexdigest()
