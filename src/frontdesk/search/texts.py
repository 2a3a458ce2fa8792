"""The texts that can be searched: what of a message is searched, which texts a log entry or a family of sessions
concerns, and reading them from the store."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from frontdesk.config.runtime import Runtime
from frontdesk.config.settings import SearchSettings
from frontdesk.errors import StoreCorruptError
from frontdesk.messages import (
    SUMMARY_PREFIX,
    DataPart,
    FilePart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from frontdesk.messages.formats.content_blocks import text_of_file
from frontdesk.search.fields import author_facets, facets_of, speaker_of, text_terms
from frontdesk.search.tokeniser import Tokeniser, tokeniser_for
from frontdesk.store import (
    Address,
    ChangeRow,
    EditItem,
    IndexText,
    Item,
    OverlayItem,
    Piece,
    Place,
    Range,
    SessionRow,
    Span,
    TextKind,
    TreeRows,
)
from frontdesk.tree.items import batches
from frontdesk.tree.tree import Tree

BATCH_SIZE = 1_024
"""how many texts are read, tokenised and written at a time"""
DAMAGE = (StoreCorruptError, UnicodeDecodeError, msgspec.DecodeError)
"""what reading a message raises if its content was damaged in the store"""
SEARCH_TOOLS = frozenset(
    ("session_search", "read_session", "search_sessions", "read_any_session", "search_context", "expand_summary")
)
"""the tools with which a model looks at conversations"""
TEXTS_VERSION = 2
"""to be raised when other texts are searched than before, so that indexes are built again"""
_CALLS_BEFORE = 16
"""how many messages before the result of a tool its call is looked for"""
_FAMILIES = 64
_SHOWN = frozenset(("name", "summary"))
_OPAQUE = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,|[A-Za-z0-9+/_-]{512}")
_log = logging.getLogger("frontdesk.search")
_decode_changed = msgspec.json.Decoder(dict[str, object]).decode


# what of a message is searched


def searchable_text(message: Message, *, reasoning: bool = False, traces: set[str] | None = None) -> str:
    """The name of the author, the text, tool calls with their arguments and results, and the names of files, with the
    content of text files.

    Binary data is left out. So is reasoning, unless `reasoning`. With `traces`, calls of `SEARCH_TOOLS` and their
    results are left out, too: they only repeat what is found elsewhere. `traces` has the ids of earlier such calls, and
    gets those of this message."""
    content = message.raw.get("content") if message.stored.derived is None else None
    if type(content) is str and not reasoning:
        text = content
    else:
        parts: Iterable[Part] = message.plain_parts
        if traces is not None:
            parts = [part for part in parts if not _is_trace(part, traces)]
        text = "\n".join(piece for part in parts for piece in _pieces(part, reasoning) if piece)
    author = message.author
    return f"{author}: {text}" if author else text


def _is_trace(part: Part, traces: set[str]) -> bool:
    if isinstance(part, ToolCallPart) and part.name in SEARCH_TOOLS:
        traces.add(part.id)
        return True
    return isinstance(part, ToolResultPart) and (part.call_id in traces or part.name in SEARCH_TOOLS)


def _pieces(part: Part, reasoning: bool) -> Iterator[str]:
    match part:
        case TextPart():
            yield part.text
        case ToolCallPart():
            yield " ".join((part.name, *_strings(part.arguments)))
        case ToolResultPart():
            yield " ".join((part.name or "", *_strings(part.content)))
        case FilePart():
            yield from _file(part)
        case DataPart():
            yield " ".join(_strings(part.data))
        case ReasoningPart():
            yield part.text if reasoning else ""


def _file(part: FilePart) -> Iterator[str]:
    yield part.name or ""
    if part.url and not part.url.startswith("data:"):
        yield part.url
    yield text_of_file(part) or ""


def _strings(value: Any) -> Iterator[str]:
    """Keys and values of a JSON value, in order, without base64 data."""
    if type(value) is str:
        if not _OPAQUE.match(value):
            yield value
    elif type(value) is dict:
        for key, inner in value.items():
            yield key
            yield from _strings(inner)
    elif type(value) is list:
        for inner in value:
            yield from _strings(inner)
    elif value is not None and type(value) is not bool:
        yield str(value)


# where texts are


class StoredText(NamedTuple):
    """A text as it is stored. It may be written to the index only if the stored `content` is still the same."""

    address: Address
    id: str
    role: str
    at: int
    text: str
    content: tuple[str | None, ...] = ()
    message: Message | None = None
    session: SessionRow | None = None
    author: str | None = None
    """if it is known, `text` starts with it"""

    @property
    def author_facets(self) -> tuple[str, ...]:
        name = self.author or speaker_of(self.text)
        return author_facets(name) if name else ()

    def terms(self, tokeniser: Tokeniser) -> list[str]:
        return text_terms(self.text, self.author, self.role if self.message is not None else "", tokeniser)

    def to_index(self, settings: SearchSettings) -> IndexText:
        return IndexText(
            address=self.address,
            at=self.at,
            terms=self.terms(tokeniser_for(settings.language)),
            facets=[*facets_of(self.address.kind, self.role, self.at), *self.author_facets],
            content=self.content,
        )


@dataclass(slots=True)
class TextSelection:
    """A selection of texts, by their locations."""

    spans: list[Span] = field(default_factory=list)
    edits: dict[int, Place] = field(default_factory=dict)
    overlays: dict[int, None] = field(default_factory=dict)
    sessions: dict[int, None] = field(default_factory=dict)
    forks: dict[int, None] = field(default_factory=dict)
    """new sessions, which may have inherited texts of deleted sessions"""
    owners: dict[tuple[TextKind, int], int] = field(default_factory=dict)
    """for some texts, (kind, number) -> a session of the family that they belong to"""

    def __len__(self) -> int:
        messages = sum(span.last - span.first + 1 for span in self.spans)
        return messages + len(self.edits) + len(self.overlays) + len(self.sessions)

    def add_entry(self, entry: ChangeRow) -> None:
        """Add the texts that a log entry concerns."""
        self.owners["message", entry.segment] = entry.session
        self.owners["edit", entry.number] = self.owners["overlay", entry.number] = entry.session
        match entry.kind:
            case "message.appended":
                self._add_span(entry)
            case "message.updated" if entry.number:
                self.edits[entry.number] = Place(entry.segment, entry.first)
            case "message.updated":
                self._add_span(entry)
            case "compaction.added":
                self.overlays[entry.number] = None
            case "session.created":
                self.sessions[entry.session] = None
                self.forks[entry.session] = None
            case "session.changed":
                changed = _decode_changed(entry.detail).get("changed")
                if not isinstance(changed, list) or not _SHOWN.isdisjoint(changed):
                    self.sessions[entry.session] = None

    def _add_span(self, entry: ChangeRow) -> None:
        last = self.spans[-1] if self.spans else None
        if last is not None and (last.segment, last.last + 1) == (entry.segment, entry.first):
            self.spans[-1] = Span(entry.segment, last.first, entry.last, None)
        else:
            self.spans.append(Span(entry.segment, entry.first, entry.last, None))

    def add_items(self, items: Iterable[Item], owner: int = 0) -> None:
        for item in items:
            kind: TextKind = (
                "message" if isinstance(item, Span) else "edit" if isinstance(item, EditItem) else "overlay"
            )
            self.owners[kind, item.segment if isinstance(item, Span) else item.number] = owner
            if isinstance(item, Span):
                self.spans.append(Span(item.segment, item.first, item.last, None))
            elif isinstance(item, EditItem):
                self.edits[item.number] = item.place
            else:
                self.overlays[item.number] = None

    def add_family(self, rows: TreeRows) -> None:
        """Add everything that any session of a family sees. `rows` must be those of the whole family."""
        owner = rows.session.number
        self.owners.update({("message", row.number): owner for row in rows.segments})
        self.owners.update({("edit", row.number): owner for row in rows.edits})
        self.owners.update({("overlay", row.number): owner for row in rows.overlays})
        self.spans += [Span(row.number, 0, row.next - 1, None) for row in rows.segments if row.next]
        self.edits |= {row.number: Place(row.segment, row.first) for row in rows.edits if row.kind == "replaced"}
        self.overlays |= {row.number: None for row in rows.overlays if row.kind == "summary"}
        self.sessions |= {row.number: None for row in rows.sessions}

    def merge_spans(self) -> None:
        """Merge spans that overlap, as those of several forks do."""
        merged: list[Span] = []
        for span in sorted(self.spans, key=lambda span: (span.segment, span.first)):
            last = merged[-1] if merged else None
            if last is not None and last.segment == span.segment and span.first <= last.last + 1:
                merged[-1] = Span(span.segment, last.first, max(last.last, span.last), None)
            else:
                merged.append(span)
        self.spans = merged

    def add(self, other: TextSelection) -> None:
        """Add the texts of another selection."""
        self.spans += other.spans
        self.edits |= other.edits
        self.overlays |= other.overlays
        self.sessions |= other.sessions
        self.owners |= other.owners

    def ranges(self) -> list[Range]:
        """The same texts as ranges of addresses."""
        singles = [Address("edit", number) for number in self.edits]
        singles += [Address("overlay", number) for number in self.overlays]
        singles += [Address("session", number) for number in self.sessions]
        return [*self.message_ranges(), *((address, address) for address in singles)]

    def message_ranges(self) -> list[Range]:
        """The messages that were appended, without edits, as ranges of addresses."""
        return [
            (Address("message", span.segment, span.first), Address("message", span.segment, span.last))
            for span in self.spans
        ]

    def batches(self) -> Iterator[TextSelection]:
        """The same texts in selections of at most `BATCH_SIZE`."""
        items: list[Item] = [*self.spans, *(EditItem(number, 0, place, None) for number, place in self.edits.items())]
        items += [OverlayItem(number, 0, None) for number in self.overlays]
        for batch in batches(items, BATCH_SIZE):
            part = TextSelection()
            part.add_items(batch)
            yield part
        numbers = list(self.sessions)
        for start in range(0, len(numbers), BATCH_SIZE):
            yield TextSelection(sessions=dict.fromkeys(numbers[start : start + BATCH_SIZE]))


def items_of(tree: Tree, *, replaced: bool = True) -> list[Item]:
    """Every message that a session sees, on any branch, and every summary; without `replaced`, only the summaries that
    its history shows."""
    items = [item for segment in tree.visible_segments() for item in tree.segment_items(segment.number)]
    summaries = [overlay for overlay in tree.overlays if overlay.kind == "summary"]
    items += [OverlayItem(overlay.number, overlay.tokens, None) for overlay in summaries]
    if not replaced and summaries:
        shown = {item.number for item in tree.lay(tree.session.head) if isinstance(item, OverlayItem)}
        items = [item for item in items if not isinstance(item, OverlayItem) or item.number in shown]
    return items


async def families(runtime: Runtime, after: int) -> AsyncIterator[tuple[int, TextSelection]]:
    """The texts of all families with numbers above `after`, a few families at a time, each with the last number."""
    while True:
        numbers = await runtime.store.families(runtime.namespace, after, _FAMILIES)
        if not numbers:
            return
        rows = await runtime.store.relatives(runtime.namespace, numbers)
        one_of_each = {row.family: row.id for row in rows}
        selection = TextSelection()
        for tree in await runtime.store.trees(runtime.namespace, list(one_of_each.values()), family=True):
            selection.add_family(tree)
        after = numbers[-1]
        yield after, selection


async def add_orphans(runtime: Runtime, selection: TextSelection, *, unindexed: bool = True) -> None:
    """Add what new forks inherited from deleted sessions, whose own log entries are gone: with `unindexed` only the
    messages that are not in the index."""
    rows = await runtime.store.sessions(runtime.namespace, list(selection.forks)) if selection.forks else []
    forks = [row for row in rows if row.base is not None]
    if not forks:
        return
    relatives = await runtime.store.relatives(runtime.namespace, [row.family for row in forks])
    living = {row.tree for row in relatives}
    orphans = TextSelection()
    for shape in await runtime.store.trees(runtime.namespace, [row.id for row in forks]):
        orphans.add_items(_items_of_deleted_sessions(Tree(shape), living), shape.session.number)
    orphans.merge_spans()
    if unindexed and orphans.spans:
        missing = await runtime.store.unindexed(runtime.namespace, orphans.message_ranges())
        orphans.spans = [Span(number, position, position, None) for _, number, position in missing]
        orphans.merge_spans()
    selection.add(orphans)


def _items_of_deleted_sessions(tree: Tree, living: Collection[int]) -> list[Item]:
    """What a session sees that was written by sessions whose trees are not in `living`: their messages, their
    summaries, and their replacements of messages."""
    items: list[Item] = []
    for segment in tree.visible_segments():
        if segment.tree not in living:
            items += tree.segment_items(segment.number)
    for place, edit in tree.replaced.items():
        if edit.tree not in living and tree.sees(place):
            items.append(EditItem(edit.number, 0, place, None))
    summaries = (row for row in tree.overlays if row.tree not in living and row.kind == "summary")
    items += [OverlayItem(row.number, 0, None) for row in summaries]
    return items


# reading them


async def load(runtime: Runtime, selection: TextSelection) -> list[StoredText]:
    """The selected texts that still exist and are not empty, in no particular order."""
    settings = runtime.settings.search
    items: list[Item] = list(selection.spans)
    items += [EditItem(number, 0, place, None) for number, place in selection.edits.items()]
    items += [OverlayItem(number, 0, None) for number in selection.overlays]
    found: list[StoredText] = []
    incomplete: list[Item] = []
    complete: list[tuple[Item, list[Message]]] = []
    for item, piece in await read_readable(runtime, items):
        if piece.overlay is not None:
            row = piece.overlay
            address = Address("overlay", row.number)
            found.append(StoredText(address, SUMMARY_PREFIX + row.id, "system", row.created_at, row.summary or ""))
        elif isinstance(item, Span) and len(piece.messages) <= item.last - item.first:
            incomplete += _single_messages(item) if piece.messages else ()
        else:
            complete.append((item, Message.from_run(piece.messages, None)))
    for item, piece in await read_readable(runtime, incomplete):
        complete.append((item, Message.from_run(piece.messages, None)))
    traces = await _earlier_traces(runtime, complete)
    for item, messages in complete:
        found += _messages(item, messages, traces, settings)
    numbers = list(selection.sessions)
    for session in await runtime.store.sessions(runtime.namespace, numbers) if numbers else ():
        found.append(_session(session))
    # A message that was changed after it was appended has two log entries.
    return list({source.address: source for source in found if source.text}.values())


async def read_readable(runtime: Runtime, items: Sequence[Item]) -> list[tuple[Item, Piece]]:
    """The items with what the store has for them. A damaged message does not hide the others: its item is left out, and
    a span with it is replaced by the spans around it."""
    if not items:
        return []
    try:
        return list(zip(items, await runtime.store.read(items), strict=True))
    except DAMAGE:
        halves = _halves(items)
        if not halves:
            _log.warning("a damaged message of namespace %r is left out of search", runtime.namespace)
        return [pair for half in halves for pair in await read_readable(runtime, half)]


def _halves(items: Sequence[Item]) -> list[Sequence[Item]]:
    """Two halves of some items, or of a single span; none of a single message."""
    if len(items) > 1:
        return [items[: len(items) // 2], items[len(items) // 2 :]]
    [item] = items
    if not isinstance(item, Span) or item.first == item.last:
        return []
    middle = (item.first + item.last) // 2
    return [[Span(item.segment, item.first, middle, None)], [Span(item.segment, middle + 1, item.last, None)]]


def _single_messages(span: Span) -> Iterator[Span]:
    """A span for each message: if some messages of a span are gone, the others cannot be assigned to positions."""
    for position in range(span.first, span.last + 1):
        yield Span(span.segment, position, position, None)


async def _earlier_traces(runtime: Runtime, given: Iterable[tuple[Item, list[Message]]]) -> set[str]:
    """The calls of search tools shortly before those messages that begin with the result of a call."""
    before: list[Item] = []
    for item, messages in given:
        if isinstance(item, Span) and item.first and messages and messages[0].tool_result_ids:
            before.append(Span(item.segment, max(0, item.first - _CALLS_BEFORE), item.first - 1, None))
    traces: set[str] = set()
    for _, piece in await read_readable(runtime, before):
        for message in Message.from_run(piece.messages, None):
            with suppress(*DAMAGE):
                searchable_text(message, traces=traces)
    return traces


def _messages(
    item: Item, messages: Sequence[Message], traces: set[str], settings: SearchSettings
) -> Iterator[StoredText]:
    for offset, message in enumerate(messages):
        stored = message.stored
        if isinstance(item, Span):
            address = Address("message", item.segment, item.first + offset)
        else:
            assert isinstance(item, EditItem)
            address = Address("edit", item.number)
        try:
            text = searchable_text(message, reasoning=settings.reasoning, traces=traces)
        except DAMAGE:
            _log.warning("the damaged message %r is left out of search", stored.id)
            continue
        content = (stored.raw,) if address.kind == "message" else ()
        author = message.author
        yield StoredText(address, stored.id, stored.role, stored.created_at, text, content, message, author=author)


def _session(row: SessionRow) -> StoredText:
    text = "\n".join(filter(None, (row.name, row.summary)))
    return StoredText(
        Address("session", row.number), "", "", row.created_at, text, (row.name, row.summary), session=row
    )
