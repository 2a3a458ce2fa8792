"""Which texts there are: what a line of the log or a family is about, and reading them from the store, many at once."""

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
    SessionRow,
    Span,
    TextKind,
    TreeRows,
)
from frontdesk.tree.items import batches
from frontdesk.tree.tree import Tree

PORTION = 1_024
"""texts that are read, parted into terms and written at a time"""
_FAMILIES = 64
_NOWHERE = Place(0, 0)
_SHOWN = frozenset(("name", "summary"))
_decode_changed = msgspec.json.Decoder(dict[str, object]).decode


class Source(NamedTuple):
    """A text as it is stored; `content` is what it must still be when it is written to the index."""

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
class Wanted:
    """Texts by where they are."""

    spans: list[Span] = field(default_factory=list)
    edits: dict[int, Place] = field(default_factory=dict)
    overlays: dict[int, None] = field(default_factory=dict)
    sessions: dict[int, None] = field(default_factory=dict)
    forks: dict[int, None] = field(default_factory=dict)
    """sessions that may have inherited what nobody else tells of any more"""
    owners: dict[tuple[TextKind, int], int] = field(default_factory=dict)
    """(kind, number) of some texts, and a session of the family that they belong to"""

    def __len__(self) -> int:
        messages = sum(span.last - span.first + 1 for span in self.spans)
        return messages + len(self.edits) + len(self.overlays) + len(self.sessions)

    def add_line(self, line: ChangeRow) -> None:
        """Take in what a line of the log is about."""
        self.owners["message", line.segment] = line.session
        self.owners["edit", line.number] = self.owners["overlay", line.number] = line.session
        match line.kind:
            case "message.appended":
                self._add_span(line)
            case "message.updated" if line.number:
                self.edits[line.number] = Place(line.segment, line.first)
            case "message.updated":
                self._add_span(line)
            case "compaction.added":
                self.overlays[line.number] = None
            case "session.created":
                self.sessions[line.session] = None
                self.forks[line.session] = None
            case "session.changed":
                changed = _decode_changed(line.detail).get("changed")
                if not isinstance(changed, list) or not _SHOWN.isdisjoint(changed):
                    self.sessions[line.session] = None

    def _add_span(self, line: ChangeRow) -> None:
        last = self.spans[-1] if self.spans else None
        if last is not None and (last.segment, last.last + 1) == (line.segment, line.first):
            self.spans[-1] = Span(line.segment, last.first, line.last, None)
        else:
            self.spans.append(Span(line.segment, line.first, line.last, None))

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
        """Everything that anybody in a family sees. Wants the whole family."""
        owner = rows.session.number
        self.owners.update({("message", row.number): owner for row in rows.segments})
        self.owners.update({("edit", row.number): owner for row in rows.edits})
        self.owners.update({("overlay", row.number): owner for row in rows.overlays})
        self.spans += [Span(row.number, 0, row.next - 1, None) for row in rows.segments if row.next]
        self.edits |= {row.number: Place(row.segment, row.first) for row in rows.edits if row.kind == "replaced"}
        self.overlays |= {row.number: None for row in rows.overlays if row.kind == "summary"}
        self.sessions |= {row.number: None for row in rows.sessions}

    def portions(self) -> Iterator[Wanted]:
        """The same in parts of at most `PORTION` texts."""
        items: list[Item] = [*self.spans, *(EditItem(number, 0, place, None) for number, place in self.edits.items())]
        items += [OverlayItem(number, 0, None) for number in self.overlays]
        for batch in batches(items, PORTION):
            part = Wanted()
            part.add_items(batch)
            yield part
        numbers = list(self.sessions)
        for start in range(0, len(numbers), PORTION):
            yield Wanted(sessions=dict.fromkeys(numbers[start : start + PORTION]))


def items_of(tree: Tree) -> list[Item]:
    """Every message that a session sees, on whichever branch, and every summary."""
    items = [item for segment in tree.visible_segments() for item in tree.segment_items(segment.number)]
    summaries = [overlay for overlay in tree.overlays if overlay.kind == "summary"]
    items += [OverlayItem(overlay.number, overlay.tokens, None) for overlay in summaries]
    return items


async def families(runtime: Runtime, after: int) -> AsyncIterator[tuple[int, Wanted]]:
    """The texts of the namespace by family, those with higher numbers than `after`; some families at a time."""
    while True:
        numbers = await runtime.store.families(runtime.namespace, after, _FAMILIES)
        if not numbers:
            return
        rows = await runtime.store.relatives(runtime.namespace, numbers)
        one_of_each = {row.family: row.id for row in rows}
        wanted = Wanted()
        for tree in await runtime.store.trees(runtime.namespace, list(one_of_each.values()), family=True):
            wanted.add_family(tree)
        after = numbers[-1]
        yield after, wanted


async def add_orphans(runtime: Runtime, wanted: Wanted) -> None:
    """Take in what forks inherited from sessions that are gone: of these the log tells nothing any more."""
    rows = await runtime.store.sessions(runtime.namespace, list(wanted.forks)) if wanted.forks else []
    forks = [row for row in rows if row.base is not None]
    if not forks:
        return
    relatives = await runtime.store.relatives(runtime.namespace, [row.family for row in forks])
    living = {row.tree for row in relatives}
    for shape in await runtime.store.trees(runtime.namespace, [row.id for row in forks]):
        wanted.add_items(_inherited_from_the_gone(Tree(shape), living), shape.session.number)


def _inherited_from_the_gone(tree: Tree, living: Collection[int]) -> list[Item]:
    """What a session sees that was written by sessions whose trees are not among the living: their messages, their
    summaries, and the messages of others that they replaced."""
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


async def load(runtime: Runtime, wanted: Wanted) -> list[Source]:
    """The texts that are still there, in no particular order; without those that say nothing."""
    settings = runtime.settings.search
    items: list[Item] = [*wanted.spans, *(EditItem(number, 0, place, None) for number, place in wanted.edits.items())]
    items += [OverlayItem(number, 0, None) for number in wanted.overlays]
    found: list[Source] = []
    torn: list[Item] = []
    for item, piece in zip(items, await runtime.store.read(items) if items else (), strict=True):
        if piece.overlay is not None:
            row = piece.overlay
            address = Address("overlay", row.number)
            found.append(Source(address, SUMMARY_PREFIX + row.id, "system", row.created_at, row.summary or ""))
        elif isinstance(item, Span) and len(piece.messages) <= item.last - item.first:
            torn += _apart(item) if piece.messages else ()
        else:
            found += _messages(item, Message.from_run(piece.messages, None), settings)
    for item, piece in zip(torn, await runtime.store.read(torn) if torn else (), strict=True):
        found += _messages(item, Message.from_run(piece.messages, None), settings)
    numbers = list(wanted.sessions)
    for session in await runtime.store.sessions(runtime.namespace, numbers) if numbers else ():
        found.append(_session(session))
    # Of a message that was changed after it was appended the log tells twice.
    return list({source.address: source for source in found if source.text}.values())


def _apart(span: Span) -> Iterator[Span]:
    """Each message by itself: where some are gone, the rest do not tell where they stand."""
    for position in range(span.first, span.last + 1):
        yield Span(span.segment, position, position, None)


def _messages(item: Item, messages: Sequence[Message], settings: SearchSettings) -> Iterator[Source]:
    for offset, message in enumerate(messages):
        stored = message.stored
        if isinstance(item, Span):
            address = Address("message", item.segment, item.first + offset)
        else:
            assert isinstance(item, EditItem)
            address = Address("edit", item.number)
        text = searchable_text(message, reasoning=settings.reasoning)
        content = (stored.raw,) if address.kind == "message" else ()
        yield Source(address, stored.id, stored.role, stored.created_at, text, content, message)


def _session(row: SessionRow) -> Source:
    text = "\n".join(filter(None, (row.name, row.summary)))
    return Source(Address("session", row.number), "", "", row.created_at, text, (row.name, row.summary), session=row)
