"""`Format`: the functions that a message format consists of, and what it gets to render messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from frontdesk.messages.parts import Part

Raw = dict[str, Any]


class Source(Protocol):
    """What a writer needs of a message; a `Message` has it all."""

    @property
    def id(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def shape(self) -> str | None: ...
    @property
    def raw(self) -> Raw: ...
    @property
    def parts(self) -> tuple[Part, ...]: ...
    @property
    def text(self) -> str: ...
    @property
    def metadata(self) -> dict[str, Any]: ...
    @property
    def is_summary(self) -> bool: ...


class Limits(NamedTuple):
    """The most characters of a tool output, and of any other text."""

    tool: int
    text: int


def role_given(raw: Raw) -> str:
    """The role of a message that must name it."""
    role: str = raw["role"]
    return role


@dataclass(frozen=True, slots=True)
class Format:
    """A shape of messages: how to recognise it, what to read from it, how to write it, and how to shorten it.

    `matches` is called once, when a message is appended; `read` and `role` only for what it accepted. `write` returns
    a list that is valid in a call of the provider, whatever formats the messages were given in. `shorten` cuts texts
    and tool outputs to the limits and keeps everything else."""

    name: str
    matches: Callable[[Raw], bool]
    read: Callable[[Raw], tuple[Part, ...]]
    write: Callable[[Sequence[Source]], list[Raw]]
    shorten: Callable[[Raw, Limits], Raw]
    role: Callable[[Raw], str] = role_given
