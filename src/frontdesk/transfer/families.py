"""`Family`: everything that belongs to the sessions that share messages, except the messages themselves, as of one
moment; and how its numbers are replaced by others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from frontdesk.compaction import facts
from frontdesk.config.runtime import Runtime
from frontdesk.errors import ConfigurationError
from frontdesk.store import (
    DocumentRow,
    EditItem,
    EditRow,
    Item,
    Lineage,
    OverlayItem,
    OverlayRow,
    Owner,
    Place,
    PromptRow,
    SegmentRow,
    SessionRow,
    Span,
    Store,
    TransferStore,
    ViewRow,
)
from frontdesk.tree.owners import key_of

P = TypeVar("P", bound="Place | None")
BATCH = 500
"""rows that are read or written at once"""


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a family, each kind in the order of its numbers."""

    number: int
    sessions: tuple[SessionRow, ...]
    views: dict[int, ViewRow]
    """the stored views, by the number of their session"""
    segments: tuple[SegmentRow, ...]
    overlays: tuple[OverlayRow, ...]
    edits: tuple[EditRow, ...]
    lineage: tuple[Lineage, ...]
    prompts: dict[str, PromptRow]
    documents: dict[str, tuple[DocumentRow, ...]]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(row.id for row in self.sessions)


class Renumbering(NamedTuple):
    """New numbers for old ones."""

    session: Callable[[int], int]
    """of sessions, trees and families"""
    segments: Mapping[int, int]
    overlays: Mapping[int, int]
    edits: Mapping[int, int]

    def place(self, place: Place | None) -> Place | None:
        return None if place is None else self.kept_place(place)

    def kept_place(self, place: Place) -> Place:
        return Place(self.segments[place.segment], place.position)


def current_key(session: SessionRow) -> tuple[str, str, str, str | None] | None:
    """The key under which a session is the current one."""
    return key_of(session) if session.key_current else None


def transfer_store(runtime: Runtime) -> TransferStore:
    """The store, for rows as they are. Raises `ConfigurationError` if it cannot do that."""
    store: Store = runtime.store
    if not isinstance(store, TransferStore):
        raise ConfigurationError(f"{type(store).__name__} cannot be exported: it does not implement TransferStore")
    return store


async def load_family(runtime: Runtime, number: int) -> Family | None:
    """A family; None if it does not exist any more."""
    store, namespace = runtime.store, runtime.namespace
    members = await store.relatives(namespace, [number])
    trees = await store.trees(namespace, [members[0].id], family=True) if members else []
    if not trees:
        return None
    tree = trees[0]
    sessions = tuple(sorted(tree.sessions, key=lambda row: row.number))
    views = {}
    for row in sessions:
        read = await store.view(namespace, row.id, 0) if row.view == "stored" else None
        if read is not None:
            views[row.number] = read.view
    return Family(
        number=number,
        sessions=sessions,
        views=views,
        segments=tuple(sorted(tree.segments, key=lambda row: row.number)),
        overlays=await _with_texts(store, sorted(tree.overlays, key=lambda row: row.number)),
        edits=tuple(sorted(tree.edits, key=lambda row: row.number)),
        lineage=tuple(sorted(tree.lineage, key=lambda row: row.tree)),
        prompts=await _prompts(runtime, sessions),
        documents={row.id: await load_documents(runtime, Owner("session", row.id)) for row in sessions},
    )


async def load_documents(runtime: Runtime, owner: Owner) -> tuple[DocumentRow, ...]:
    """All versions of all documents of an owner, in order."""
    rows = await transfer_store(runtime).documents_of(runtime.namespace, owner)
    return tuple(sorted(rows, key=lambda row: (row.label, row.key, row.version)))


async def _prompts(runtime: Runtime, sessions: Sequence[SessionRow]) -> dict[str, PromptRow]:
    found = {row.id: await runtime.store.get_prompt(runtime.namespace, row.id) for row in sessions}
    return {session_id: prompt for session_id, prompt in found.items() if prompt is not None}


async def _with_texts(store: Store, overlays: Sequence[OverlayRow]) -> tuple[OverlayRow, ...]:
    """The overlays with their summaries, which the shape of a tree leaves out."""
    whole: list[OverlayRow] = []
    for start in range(0, len(overlays), BATCH):
        items = [OverlayItem(row.number, row.tokens, None) for row in overlays[start : start + BATCH]]
        whole += [piece.overlay for piece in await store.read(items) if piece.overlay is not None]
    return tuple(whole)


async def is_unchanged(runtime: Runtime, family: Family) -> bool:
    """Whether nothing but appends has happened since a family was loaded."""
    now = await runtime.store.relatives(runtime.namespace, [family.number])
    return sorted(map(_fixed, now)) == sorted(map(_fixed, family.sessions))


def _fixed(row: SessionRow) -> tuple[int, int, int, int, str, int]:
    """What an append at the head leaves as it is, and a usage entry that adds nothing to the totals: a session is the
    same with it and without it."""
    return row.number, row.revision, row.input_tokens, row.output_tokens, row.cost, row.prompt_tokens


# numbers


def renumbered(family: Family, numbers: Renumbering, namespace: str) -> Family:
    """The same family with other numbers, in another namespace."""
    return Family(
        number=numbers.session(family.number),
        sessions=tuple(_session(row, numbers, namespace) for row in family.sessions),
        views={numbers.session(number): _view(view, numbers) for number, view in family.views.items()},
        segments=tuple(_segment(row, numbers) for row in family.segments),
        overlays=tuple(_overlay(row, numbers) for row in family.overlays),
        edits=tuple(_edit(row, numbers) for row in family.edits),
        lineage=tuple(
            Lineage(numbers.session(row.tree), numbers.session(row.ancestor), row.until) for row in family.lineage
        ),
        prompts=family.prompts,
        documents={
            session_id: tuple(facts.renumber(row, session_id, numbers.segments) for row in rows)
            for session_id, rows in family.documents.items()
        },
    )


def _session(row: SessionRow, numbers: Renumbering, namespace: str) -> SessionRow:
    return replace(
        row,
        namespace=namespace,
        number=numbers.session(row.number),
        tree=numbers.session(row.tree),
        family=numbers.session(row.family),
        base=numbers.place(row.base),
        head=numbers.place(row.head),
        is_leased=False,
    )


def _segment(row: SegmentRow, numbers: Renumbering) -> SegmentRow:
    return replace(
        row, number=numbers.segments[row.number], tree=numbers.session(row.tree), parent=numbers.place(row.parent)
    )


def _overlay(row: OverlayRow, numbers: Renumbering) -> OverlayRow:
    return replace(
        row,
        number=numbers.overlays[row.number],
        tree=numbers.session(row.tree),
        start=numbers.kept_place(row.start),
        end=numbers.kept_place(row.end),
    )


def _edit(row: EditRow, numbers: Renumbering) -> EditRow:
    return replace(
        row,
        number=numbers.edits[row.number],
        tree=numbers.session(row.tree),
        segment=numbers.segments.get(row.segment, 0),
        overlay=None if row.overlay is None else numbers.overlays.get(row.overlay),
    )


def _view(view: ViewRow, numbers: Renumbering) -> ViewRow:
    return replace(
        view,
        items=tuple(_item(item, numbers) for item in view.items),
        before=numbers.place(view.before),
        own=tuple(numbers.kept_place(Place(*place)) for place in view.own),
    )


def _item(item: Item, numbers: Renumbering) -> Item:
    before = numbers.place(item.before)
    if isinstance(item, Span):
        return replace(item, segment=numbers.segments[item.segment], before=before)
    if isinstance(item, OverlayItem):
        return replace(item, number=numbers.overlays[item.number], before=before)
    assert isinstance(item, EditItem)
    return replace(item, number=numbers.edits[item.number], place=numbers.kept_place(item.place), before=before)


def ordinals(numbers: Sequence[int], new: Sequence[int] | None = None) -> dict[int, int]:
    """A number for each: given ones, or 1, 2, 3 and so on."""
    return dict(zip(numbers, range(1, len(numbers) + 1) if new is None else new, strict=True))
