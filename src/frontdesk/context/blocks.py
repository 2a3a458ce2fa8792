"""The records and kinds of context blocks: what the public API returns, and how the kind of a block is determined."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import CodeType
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


def fingerprint(declarations: Sequence[tuple[Declaration, BlockKind, str | None]], renderer: str = "") -> str:
    """A hash of what a prompt is rendered from: declarations, with the kind of each block and the content of those
    that no write changes. The content of other blocks is not included, nor the first value of a writable one."""
    parts = [
        [
            declaration.label,
            declaration.description,
            declaration.max_tokens,
            kind.value,
            declaration.scope,
            declaration.default_content if kind is BlockKind.READONLY else None,
            content,
        ]
        for declaration, kind, content in declarations
    ]
    return digest(msgspec.json.encode([renderer, parts]))


def identity_of(function: object) -> str:
    """What distinguishes a function from others and from its own earlier versions: its name, and its code if it is
    written in Python."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    module = getattr(function, "__module__", "")
    return f"{module}.{name}:{'' if code is None else digest(_describe_code(code))}"


def _describe_code(code: CodeType) -> str:
    return " ".join([code.co_code.hex(), *code.co_names, *map(_describe_constant, code.co_consts)])


def _describe_constant(constant: object) -> str:
    """The same text in every process."""
    if isinstance(constant, CodeType):
        return _describe_code(constant)
    if isinstance(constant, tuple | frozenset):
        parts = [_describe_constant(each) for each in constant]
        return f"({', '.join(sorted(parts) if isinstance(constant, frozenset) else parts)})"
    return repr(constant)


def digest(content: str | bytes) -> str:
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return hashlib.blake2b(data, digest_size=12).hexdigest()
