"""`convert`: messages from any format into another one, with a report of what that cannot hold.

What is lost is found by reading the result back, the same way for every format: so nothing can be lost without being in
the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from frontdesk.messages import formats
from frontdesk.messages.exact_json import compact
from frontdesk.messages.formats import (
    MessageFormat,
    Notes,
    Rendering,
    anthropic_blocks,
    openai_chat_blocks,
    openai_responses_items,
    pydantic_ai,
)
from frontdesk.messages.formats.content_blocks import (
    dict_at,
    is_image,
    readable,
    result_text,
    safe_name,
    split_data_url,
    text_at,
    text_of_file,
)
from frontdesk.messages.formats.pairing import role_of
from frontdesk.messages.ingestion import ingest
from frontdesk.messages.message import Message
from frontdesk.messages.new_message import NewMessage
from frontdesk.messages.parts import DataPart, FilePart, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from frontdesk.messages.tokens import estimate_tokens
from frontdesk.record import Record

LossKind: TypeAlias = Literal[
    "author", "data", "error", "file", "metadata", "reasoning", "role", "signature", "text", "tool-call", "tool-result"
]


@dataclass(frozen=True, slots=True)
class Loss(Record):
    """Something that a format cannot hold: the id of its message, and the index of its part (None: of the message
    itself). `kind` is that of the part, or "signature" (of reasoning), "error" (that a tool failed), "role" (it has
    another role), "author" or "metadata"."""

    message_id: str
    kind: LossKind
    part: int | None = None


@dataclass(frozen=True, slots=True)
class Conversion(Record):
    """Messages in another format, and what was lost."""

    messages: list[dict[str, Any]]
    losses: tuple[Loss, ...]


def convert(
    messages: Iterable[Mapping[str, Any] | Message | NewMessage],
    format: MessageFormat,
    *,
    notes: Notes = "user",
    alternate: bool = False,
) -> Conversion:
    """Convert messages of any format that can be appended, even a mixture, into one format, and report what is lost.
    The result is valid for the provider or framework; see `Session.history` for `notes` and `alternate`.

    Message ids, call ids and times may change without being reported. Raises `InvalidInputError`,
    `InvalidMessageError`."""
    given = [each if isinstance(each, Message) else _message(each) for each in messages]
    written = formats.render(given, format, Rendering(notes=notes, alternate=alternate))
    if format == "raw":
        return Conversion(written, ())
    return Conversion(written, tuple(_losses(given, _Held(written, format))))


def _message(given: Mapping[str, Any] | NewMessage) -> Message:
    return Message.from_stored(ingest(given, counter=estimate_tokens), None)


def _losses(messages: Sequence[Message], held: _Held) -> Iterator[Loss]:
    for message in messages:
        role = None if message.is_summary else role_of(message)
        for index, part in enumerate(message.parts):
            for kind in held.missing(part, role):
                yield Loss(message.id, kind, index)
        if message.author is not None and not held.has_text(message.author):
            yield Loss(message.id, "author")
        if message.metadata and message.metadata not in held.metadata:
            yield Loss(message.id, "metadata")


class _Held:
    """What converted messages contain."""

    def __init__(self, written: Sequence[dict[str, Any]], format: str) -> None:
        self.metadata = [raw["metadata"] for raw in written if raw.get("metadata")]
        self._texts: set[tuple[str, str]] = set()
        self._reasoning: dict[str, str | None] = {}
        self._calls: Counter[tuple[str, str]] = Counter()
        self._results: Counter[tuple[str, bool]] = Counter()
        self._files: set[str] = set()
        self._data: list[Any] = []
        for raw in written:
            role = _shared_role(formats.role(raw, format))
            for part in formats.read(raw, format):
                self._add(part, role)
            self._texts |= {("system", text) for text in pydantic_ai.system_prompts(raw)}
        self._all = _plain("\n".join(_strings(written)))

    def has_text(self, text: str) -> bool:
        return _plain(text) in self._all

    def missing(self, part: Part, role: str | None) -> Iterator[LossKind]:
        match part:
            case TextPart(text) if text.strip():
                yield from self._missing_text(text, role)
            case ReasoningPart(text, signature):
                if text not in self._reasoning:
                    yield "reasoning"
                elif signature is not None and self._reasoning[text] != signature:
                    yield "signature"
            case ToolCallPart():
                if not self._take(self._calls, _call(part)):
                    yield "tool-call"
            case ToolResultPart(content=content, is_error=is_error):
                if not self._take(self._results, (result_text(content), is_error)):
                    yield "error" if self._take(self._results, (result_text(content), not is_error)) else "tool-result"
                elif not all(map(self.has_text, _images_in(content))):
                    yield "file"
            case FilePart():
                if not (_address(part) in self._files or self.has_text(text_of_file(part) or "\0")):
                    yield "file"
            case DataPart(data=data):
                shown = readable(part)
                if data not in self._data and not (shown and self.has_text(shown)):
                    yield "data"

    def _missing_text(self, text: str, role: str | None) -> Iterator[LossKind]:
        if role is None or (_shared_role(role), text) in self._texts:
            return
        if not self.has_text(text):
            yield "text"
        elif not any(known == _shared_role(role) and _plain(text) in _plain(said) for known, said in self._texts):
            yield "role"

    def _add(self, part: Part, role: str) -> None:
        match part:
            case TextPart(text):
                self._texts.add((role, text))
            case ReasoningPart(text, signature):
                self._reasoning[text] = signature
            case ToolCallPart():
                self._calls[_call(part)] += 1
            case ToolResultPart(content=content, is_error=is_error):
                self._results[result_text(content), is_error] += 1
            case FilePart():
                self._files.add(_address(part))
            case DataPart(data=data):
                self._data.append(data)

    @staticmethod
    def _take(counter: Counter[Any], key: Any) -> bool:
        """Whether there is one more of these, which then counts as found."""
        if not counter[key]:
            return False
        counter[key] -= 1
        return True


def _plain(text: str) -> str:
    """A text without what makes it safe: see `formats.tags` and `formats.authors`."""
    return text.replace("&lt;", "<").replace("> ", "").strip()


def _shared_role(role: str) -> str:
    roles = {"developer": "system", "model": "assistant", "ai": "assistant", "function": "tool"}
    return roles.get(role, role)


def _call(part: ToolCallPart) -> tuple[str, str]:
    arguments = part.arguments if type(part.arguments) in (dict, str) else {"input": part.arguments}
    return safe_name(part.name), compact({} if part.arguments is None else arguments)


def _address(part: FilePart) -> str:
    inline = split_data_url(part.url)
    return part.data or (inline[1] if inline else part.url) or ""


def _images_in(result: Any) -> Iterator[str]:
    """The data, address or file id of each image in a tool's result. Many formats only have its text `[image]`."""
    for block in result if type(result) is list else ():
        for read in (anthropic_blocks.read_block, openai_chat_blocks.read_block, openai_responses_items.read_block):
            part = read(block)
            if isinstance(part, FilePart) and is_image(part):
                yield _address(part) or text_at(dict_at(block, "source"), "file_id") or text_at(block, "file_id")


def _strings(value: Any) -> Iterator[str]:
    """All texts in a JSON value."""
    if type(value) is str:
        yield value
    elif type(value) is dict:
        for each in value.values():
            yield from _strings(each)
    elif type(value) is list:
        for each in value:
            yield from _strings(each)
