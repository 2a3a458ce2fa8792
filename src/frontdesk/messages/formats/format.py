"""`Format`: the functions that a message format consists of, and what they get to render messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from frontdesk.messages.parts import Part

Raw = dict[str, Any]
Notes: TypeAlias = Literal["user", "system"]
"""the role of what the application says in the middle of a conversation"""


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
    def author(self) -> str | None: ...
    @property
    def metadata(self) -> dict[str, Any]: ...
    @property
    def is_summary(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Rendering:
    """How messages are written for a provider.

    `notes` and `alternate` are those of `Session.history`. `outdated` are the ids of notes on context changes that the
    prompt contains by now. `stable` says how many of the messages will be the same in the next call: a provider whose
    cache needs it gets breakpoints at the end of the last summary and of the last stable message."""

    notes: Notes = "user"
    alternate: bool = False
    outdated: frozenset[str] = frozenset()
    stable: int | None = None


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
    a list that is valid in a call of the provider, whatever formats the messages were given in, and drops nothing that
    was said. `shorten` cuts texts and tool outputs to the limits and keeps everything else."""

    name: str
    matches: Callable[[Raw], bool]
    read: Callable[[Raw], tuple[Part, ...]]
    write: Callable[[Sequence[Source], Rendering], list[Raw]]
    shorten: Callable[[Raw, Limits], Raw]
    role: Callable[[Raw], str] = role_given
