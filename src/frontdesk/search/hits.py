"""Loads the hits of one page: their texts, their positions and the messages around them, in a few reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from frontdesk.config.runtime import Runtime
from frontdesk.history.views import to_messages
from frontdesk.messages import Message
from frontdesk.moments import to_datetime
from frontdesk.records import key_of
from frontdesk.search import stored_texts
from frontdesk.search.owners import Entry, sees
from frontdesk.search.request import Request
from frontdesk.search.results import SearchHit
from frontdesk.search.settings import tokeniser
from frontdesk.search.snippets import snippet
from frontdesk.search.stored_texts import StoredText, TextSelection
from frontdesk.store import Address, Item, OverlayItem, Place, Span
from frontdesk.tree.items import drop_first, first_items, last_items, position_of
from frontdesk.tree.tree import Tree

_KINDS = {"message": "message", "edit": "message", "overlay": "summary", "session": "session"}


class _Location(NamedTuple):
    """The location of a hit, with the fields of `SearchHit`, but items to be read in place of messages."""

    position: int | None = None
    visible: bool = False
    branch: Sequence[Item] = ()
    before: Sequence[Item] = ()
    after: Sequence[Item] = ()


async def load_hits(
    runtime: Runtime, request: Request, entries: Sequence[Entry], known: Sequence[Tree] = ()
) -> list[SearchHit]:
    """The hits for these entries, without those that have been deleted since. `known` are trees that are already
    loaded."""
    sources = await _sources(runtime, entries)
    trees = {tree.session.id: tree for tree in known}
    unknown = {entry.row.id for entry in entries if entry.match.address.kind != "session"} - set(trees)
    if unknown:
        shapes = await runtime.store.trees(runtime.namespace, sorted(unknown))
        trees |= {shape.session.id: Tree(shape) for shape in shapes}
    # Between the choice of a session and the load of its tree, messages may have been deleted, or all of them cleared.
    present = [entry for entry in entries if entry.match.address in sources and _is_seen(trees, entry)]
    locations = [_locate(trees.get(entry.row.id), entry, request.context) for entry in present]
    read = _ItemReader(chain.from_iterable((*s.branch, *s.before, *s.after) for s in locations))
    await read.all(runtime)
    return [
        _hit(runtime, request, entry, sources[entry.match.address], location, read)
        for entry, location in zip(present, locations, strict=True)
    ]


def _is_seen(trees: Mapping[str, Tree], entry: Entry) -> bool:
    """Whether the session to which a hit is attributed still sees the text."""
    tree = trees.get(entry.row.id)
    return entry.match.address.kind == "session" or (tree is not None and sees(tree, entry.match))


async def _sources(runtime: Runtime, entries: Iterable[Entry]) -> dict[Address, StoredText]:
    selection = TextSelection()
    for entry in entries:
        kind, number, position = entry.match.address
        match kind:
            case "message":
                selection.spans.append(Span(number, position, position, None))
            case "edit":
                selection.edits[number] = entry.match.place or Place(0, 0)
            case "overlay":
                selection.overlays[number] = None
            case "session":
                selection.sessions[number] = None
    return {source.address: source for source in await stored_texts.load(runtime, selection)}


class _ItemReader:
    """Reads items in one call."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = list(dict.fromkeys(items))
        self._messages: dict[Item, list[Message]] = {}

    async def all(self, runtime: Runtime) -> None:
        pieces = await runtime.store.read(self._items) if self._items else ()
        for item, piece in zip(self._items, pieces, strict=True):
            self._messages[item] = to_messages([item], [piece])

    def messages(self, items: Iterable[Item]) -> tuple[Message, ...]:
        return tuple(message for item in items for message in self._messages[item])


def _locate(tree: Tree | None, entry: Entry, context: int) -> _Location:
    kind, number, _ = entry.match.address
    if tree is None or kind == "session":
        return _Location()
    head = tree.session.head
    view = tree.lay(head)
    place = entry.match.place
    if kind == "overlay" or place is None:
        return _Location(None, any(isinstance(item, OverlayItem) and item.number == number for item in view))
    path = tree.lay(head, overlays=False)
    position = at = position_of(path, place)
    branch: list[Item] = []
    if position is None:
        leaf = Place(place.segment, tree.last_in(place.segment))
        path = tree.lay(leaf, overlays=False)
        at = position_of(path, place)
        branch = last_items(path, 1)
    before: list[Item] = []
    after: list[Item] = []
    if context and at is not None:
        before = last_items(first_items(path, at), context)
        after = first_items(drop_first(path, at + 1), context)
    return _Location(position, position_of(view, place) is not None, branch, before, after)


def _hit(
    runtime: Runtime, request: Request, entry: Entry, source: StoredText, location: _Location, read: _ItemReader
) -> SearchHit:
    row, kind = entry.row, entry.match.address.kind
    branch = read.messages(location.branch)
    return SearchHit(
        session_id=row.id,
        message_id=source.id,
        role=source.role,
        score=entry.score,
        snippet=snippet(source.text, request.query, tokeniser(runtime.settings.search)),
        created_at=to_datetime(row.last_active_at if kind == "session" else source.at),
        kind=_KINDS[kind],  # type: ignore[arg-type]
        session_name=row.name,
        position=location.position,
        visible=location.visible,
        key=key_of(row),
        branch=branch[-1].id if branch else None,
        context_before=read.messages(location.before),
        context_after=read.messages(location.after),
    )
