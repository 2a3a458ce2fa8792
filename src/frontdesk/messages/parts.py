"""The parts that the content of a message consists of, whichever format it was given in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from frontdesk.record import Record


class _Part(Record):
    """`to_dict` of a part is its block in Frontdesk's own format: its fields, and a `type` that distinguishes parts."""

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[Record], handler: Callable[[object], Any]) -> Any:
        from frontdesk.messages.pydantic_schema import part_schema

        return part_schema(source, handler(source))


@dataclass(frozen=True, slots=True)
class TextPart(_Part):
    """Words of the author of the message."""

    text: str

    def to_dict(self) -> dict[str, Any]:
        return {"type": "text", "text": self.text}


@dataclass(frozen=True, slots=True)
class ReasoningPart(_Part):
    """The reasoning of a model; `signature` is the provider's proof of it, or its encrypted form."""

    text: str
    signature: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return _without_none({"type": "reasoning", "text": self.text, "signature": self.signature})


@dataclass(frozen=True, slots=True)
class ToolCallPart(_Part):
    """A model's request to run a tool; `arguments` is the JSON value, or the text where that is not JSON."""

    id: str
    name: str
    arguments: Any

    def to_dict(self) -> dict[str, Any]:
        return {"type": "tool-call", "id": self.id, "name": self.name, "arguments": self.arguments}


@dataclass(frozen=True, slots=True)
class ToolResultPart(_Part):
    """The answer of a tool to the call `call_id`."""

    call_id: str
    content: Any
    name: str | None = None
    is_error: bool = False

    def to_dict(self) -> dict[str, Any]:
        block = {"type": "tool-result", "call_id": self.call_id, "content": self.content}
        return block | _without_none({"name": self.name, "is_error": self.is_error or None})


@dataclass(frozen=True, slots=True)
class FilePart(_Part):
    """An image, a sound or a document, by `url` or as base64 `data`."""

    media_type: str
    name: str | None = None
    url: str | None = None
    data: str | None = None

    def to_dict(self) -> dict[str, Any]:
        fields = {"media_type": self.media_type, "name": self.name, "url": self.url, "data": self.data}
        return _without_none({"type": "file"} | fields)


@dataclass(frozen=True, slots=True)
class DataPart(_Part):
    """Anything else that a message contains, under the type that it has in its format."""

    type: str
    data: Any

    def to_dict(self) -> dict[str, Any]:
        named = {} if self.type == "data" else {"data_type": self.type}
        return {"type": "data", **named, "data": self.data}


Part: TypeAlias = TextPart | ReasoningPart | ToolCallPart | ToolResultPart | FilePart | DataPart


def _without_none(block: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if value is not None}
