"""The searchable texts in the store: which texts a log entry or a family of sessions concerns, and reading them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from frontdesk.config.runtime import Runtime
from frontdesk.config.settings import SearchSettings
from frontdesk.messages import SUMMARY_PREFIX, Message
from frontdesk.search.facets import facets_of
from frontdesk.search.settings import tokeniser
from frontdesk.search.texts import searchable_text
from frontdesk.store import (
    Address,
    ChangeRow,
    EditItem,
    IndexText,
    Item,
    OverlayItem,
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
_FAMILIES = 64
_SHOWN = frozenset(("name", "summary"))
_decode_changed = msgspec.json.Decoder(dict[str, object]).decode


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

    def to_index(self, settings: SearchSettings) -> IndexText:
        return IndexText(
            address=self.address,
            at=self.at,
            terms=tokeniser(settings).terms(self.text),
            facets=facets_of(self.address.kind, self.role, self.at),
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

    def ranges(self) -> list[Range]:
        """The same texts as ranges of addresses."""
        runs = [(Address("message", span.segment, span.first), span.last) for span in self.spans]
        runs += [(Address("edit", number), 0) for number in self.edits]
        runs += [(Address("overlay", number), 0) for number in self.overlays]
        runs += [(Address("session", number), 0) for number in self.sessions]
        return [(first, first._replace(position=last)) for first, last in runs]

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


def items_of(tree: Tree) -> list[Item]:
    """Every message that a session sees, on any branch, and every summary."""
    items = [item for segment in tree.visible_segments() for item in tree.segment_items(segment.number)]
    summaries = [overlay for overlay in tree.overlays if overlay.kind == "summary"]
    items += [OverlayItem(overlay.number, overlay.tokens, None) for overlay in summaries]
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


async def add_orphans(runtime: Runtime, selection: TextSelection) -> None:
    """Add what new forks inherited from deleted sessions, whose own log entries may be gone."""
    rows = await runtime.store.sessions(runtime.namespace, list(selection.forks)) if selection.forks else []
    forks = [row for row in rows if row.base is not None]
    if not forks:
        return
    relatives = await runtime.store.relatives(runtime.namespace, [row.family for row in forks])
    living = {row.tree for row in relatives}
    for shape in await runtime.store.trees(runtime.namespace, [row.id for row in forks]):
        selection.add_items(_items_of_deleted_sessions(Tree(shape), living), shape.session.number)


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


async def load(runtime: Runtime, selection: TextSelection) -> list[StoredText]:
    """The selected texts that still exist and are not empty, in no particular order."""
    settings = runtime.settings.search
    items: list[Item] = list(selection.spans)
    items += [EditItem(number, 0, place, None) for number, place in selection.edits.items()]
    items += [OverlayItem(number, 0, None) for number in selection.overlays]
    found: list[StoredText] = []
    incomplete: list[Item] = []
    for item, piece in zip(items, await runtime.store.read(items) if items else (), strict=True):
        if piece.overlay is not None:
            row = piece.overlay
            address = Address("overlay", row.number)
            found.append(StoredText(address, SUMMARY_PREFIX + row.id, "system", row.created_at, row.summary or ""))
        elif isinstance(item, Span) and len(piece.messages) <= item.last - item.first:
            incomplete += _single_messages(item) if piece.messages else ()
        else:
            found += _messages(item, Message.from_run(piece.messages, None), settings)
    for item, piece in zip(incomplete, await runtime.store.read(incomplete) if incomplete else (), strict=True):
        found += _messages(item, Message.from_run(piece.messages, None), settings)
    numbers = list(selection.sessions)
    for session in await runtime.store.sessions(runtime.namespace, numbers) if numbers else ():
        found.append(_session(session))
    # A message that was changed after it was appended has two log entries.
    return list({source.address: source for source in found if source.text}.values())


def _single_messages(span: Span) -> Iterator[Span]:
    """A span for each message: if some messages of a span are gone, the others cannot be assigned to positions."""
    for position in range(span.first, span.last + 1):
        yield Span(span.segment, position, position, None)


def _messages(item: Item, messages: Sequence[Message], settings: SearchSettings) -> Iterator[StoredText]:
    for offset, message in enumerate(messages):
        stored = message.stored
        if isinstance(item, Span):
            address = Address("message", item.segment, item.first + offset)
        else:
            assert isinstance(item, EditItem)
            address = Address("edit", item.number)
        text = searchable_text(message, reasoning=settings.reasoning)
        content = (stored.raw,) if address.kind == "message" else ()
        yield StoredText(address, stored.id, stored.role, stored.created_at, text, content, message)


def _session(row: SessionRow) -> StoredText:
    text = "\n".join(filter(None, (row.name, row.summary)))
    return StoredText(
        Address("session", row.number), "", "", row.created_at, text, (row.name, row.summary), session=row
    )
