"""What a context block is: its declaration, its kind, and its value as the public API gives it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from frontdesk.checks import check_count, check_text
from frontdesk.errors import ConfigurationError
from frontdesk.messages import check_id

SYSTEM_LABEL = "system"
RESERVED = "frontdesk:"


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


@dataclass(frozen=True, slots=True)
class Declaration:
    """A block as `with_context` declares it; `provider` is an object, a factory `(session_id) -> provider`, or None."""

    label: str
    description: str | None = None
    default_content: str = ""
    max_tokens: int | None = None
    readonly: bool = False
    shared: bool = False
    provider: Any = None

    def __post_init__(self) -> None:
        check_id(self.label, "label")
        check_text(self.default_content, "default_content")
        if self.description is not None:
            check_text(self.description, "description")
        check_count(self.max_tokens, "max_tokens")
        if any(not character.isprintable() for character in self.label + (self.description or "")):
            raise ConfigurationError(
                f"label and description of block {self.label!r} must be one line of printable text"
            )
        if self.label == SYSTEM_LABEL or self.label.startswith(RESERVED):
            raise ConfigurationError(f"the label {self.label!r} is taken by Frontdesk itself: choose another")
        if self.provider is not None and not (callable(self.provider) or hasattr(self.provider, "get")):
            raise ConfigurationError(
                f"the provider of block {self.label!r} has no `get`: give an object that has, or a factory for one"
            )
        if self.provider is not None and (self.default_content or self.shared):
            raise ConfigurationError(f"block {self.label!r} has a provider: default_content and shared are up to that")

    @property
    def makes_provider(self) -> bool:
        """Whether `provider` is a factory."""
        return isinstance(self.provider, type) or (callable(self.provider) and not hasattr(self.provider, "get"))

    def kind(self, provider: Any) -> BlockKind:
        """What the block is, given its provider (None: it lives in the store)."""
        if provider is None:
            return BlockKind.READONLY if self.readonly else BlockKind.WRITABLE
        if hasattr(provider, "search"):
            return BlockKind.SEARCHABLE
        if hasattr(provider, "load"):
            return BlockKind.SKILL
        return BlockKind.WRITABLE if self.is_writable(provider) else BlockKind.READONLY

    def is_writable(self, provider: Any) -> bool:
        return not self.readonly and (provider is None or hasattr(provider, "set"))


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
