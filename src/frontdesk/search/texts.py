"""The texts that can be searched: which of them a log entry or a family of sessions concerns, and reading them from the
store."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from frontdesk.config.runtime import Runtime
from frontdesk.config.settings import SearchSettings
from frontdesk.errors import DamagedRecordError, StoreCorruptError
from frontdesk.messages import SUMMARY_PREFIX, Message
from frontdesk.search.fields import author_facets, facets_of, speaker_of, text_terms
from frontdesk.search.message_text import searchable_text
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
DAMAGE = (DamagedRecordError, StoreCorruptError, UnicodeDecodeError, msgspec.DecodeError)
"""what reading a message raises if its content was damaged in the store"""
TEXTS_VERSION = 3
"""to be raised when other texts are searched than before, so that indexes are built again"""
_CALLS_BEFORE = (16, 256)
"""how many messages before the result of a tool its call is looked for; the second number if it is not among the first,
as after many parallel calls"""
_FAMILIES = 64
_SHOWN = frozenset(("name", "summary"))
_log = logging.getLogger("frontdesk.search")


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


def _may_be_shown(entry: ChangeRow) -> bool:
    """Whether a text of a session may have changed; so it may if the log entry is damaged."""
    try:
        return "changed" not in entry.data or not _SHOWN.isdisjoint(entry.data["changed"])
    except (DamagedRecordError, TypeError):
        return True


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
            case "session.changed" if _may_be_shown(entry):
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
                self.spans.append(item)
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

    def merge_spans(self, gap: int = 1) -> None:
        """Merge spans that overlap, as those of several forks do, and those of a segment that begin less than `gap`
        messages after the end of another one."""
        merged: list[Span] = []
        for span in sorted(self.spans, key=lambda span: (span.segment, span.first)):
            last = merged[-1] if merged else None
            if last is not None and last.segment == span.segment and span.first <= last.last + gap:
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


def messages_of(tree: Tree) -> list[Item]:
    """Every message that a session sees, on any branch."""
    return [item for segment in tree.visible_segments() for item in tree.segment_items(segment.number)]


def wide_messages_of(tree: Tree, gap: int) -> list[Item]:
    """The same and perhaps others, in few items: messages of which fewer than `gap` in a row were removed are among
    them, and so are those that were replaced, as they were before."""
    items: list[Item] = []
    for segment in tree.visible_segments():
        runs = tree.present(segment.number, 0, tree.reach(segment.number), gap=gap)
        items += [Span(segment.number, first, last, None) for first, last in runs]
    return items + [EditItem(edit.number, 0, place, None) for place, edit in tree.replaced.items() if tree.sees(place)]


def summaries_of(tree: Tree, *, replaced: bool = True) -> list[Item]:
    """Every summary that a session sees; without `replaced`, those that its history shows."""
    overlays = tree.overlays
    if not replaced:
        overlays = [overlay for _, _, overlay in tree.outermost(tree.path(tree.session.head))]
    return [OverlayItem(overlay.number, overlay.tokens, None) for overlay in overlays if overlay.kind == "summary"]


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
    """The calls of search tools before those messages that have results of earlier calls."""
    spans = [(item, _calls_wanted(messages)) for item, messages in given if isinstance(item, Span)]
    left = [(span, wanted) for span, wanted in spans if wanted and span.first]
    traces: set[str] = set()
    for reach in _CALLS_BEFORE:
        before: list[Item] = [Span(span.segment, max(0, span.first - reach), span.first - 1, None) for span, _ in left]
        found: set[str] = set()
        for _, piece in await read_readable(runtime, before):
            for message in Message.from_run(piece.messages, None):
                with suppress(*DAMAGE):
                    found.update(message.tool_call_ids)
                    searchable_text(message, traces=traces)
        left = [(span, wanted) for span, wanted in left if not wanted <= found]
    return traces


def _calls_wanted(messages: Iterable[Message]) -> set[str]:
    """The calls that messages have the results of, without those that come before the result among them."""
    wanted: set[str] = set()
    known: set[str] = set()
    for message in messages:
        if message.stored.derived is None:
            continue  # a plain text
        with suppress(*DAMAGE):
            wanted.update(set(message.tool_result_ids) - known)
            known.update(message.tool_call_ids)
    return wanted


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
