"""Hits: what they say, their order, and loading those of one page, with their texts, their positions and the messages
around them, in a few reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Literal, NamedTuple, overload

from frontdesk.config.runtime import Runtime
from frontdesk.history.views import to_messages
from frontdesk.keys import SessionKey
from frontdesk.messages import Message
from frontdesk.moments import to_datetime
from frontdesk.record import Record
from frontdesk.records import key_of
from frontdesk.search import texts
from frontdesk.search.candidates import Nearest
from frontdesk.search.ranking import fuse
from frontdesk.search.request import Request
from frontdesk.search.snippets import snippet
from frontdesk.search.texts import StoredText, TextSelection
from frontdesk.search.tokeniser import Tokeniser, tokeniser_for
from frontdesk.search.trees import load_trees
from frontdesk.search.visibility import Entry, count_hits, sees
from frontdesk.store import Address, IndexMatch, Item, Place, Span
from frontdesk.tree.tree import Tree

_KINDS = {"message": "message", "edit": "message", "overlay": "summary", "session": "session"}


@dataclass(frozen=True, slots=True)
class SearchHit(Record):
    """A match. `snippet` is the part of its text around the matching words, which are marked `**like this**`.

    `author` is the name of the message's author, if it was given. `kind` is "message", "summary" or "session". For the
    summary of a compaction, `message_id` is the id of the synthetic message. For the name and summary of a session, it
    is empty. `position` counts the messages before the hit on the path to the head. It is None on another branch, and
    then `branch` is the last message of that branch. `visible` says whether the history at the head shows the message:
    if it was compacted or is on another branch, it does not. `context_before` and `context_after` are the messages
    around it, if they were requested. `parent_session_id` is that of the session, for example if it is a fork.

    `corrected` are pairs of a word of the query that no text contains, and a similar word that this text contains."""

    session_id: str
    message_id: str
    role: str
    score: float
    snippet: str
    created_at: datetime
    kind: Literal["message", "summary", "session"] = "message"
    session_name: str = ""
    position: int | None = None
    visible: bool = True
    key: SessionKey | None = None
    branch: str | None = None
    author: str | None = None
    corrected: tuple[tuple[str, str], ...] = ()
    parent_session_id: str | None = None
    context_before: tuple[Message, ...] = ()
    context_after: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchResults(Record, Sequence[SearchHit]):
    """One page of hits, best first. Pass `next_cursor` as `cursor` for the next page; it is None on the last one.

    `total` counts all matches if `total_is_exact`. Otherwise there are at least that many: for very common words, the
    latest 1,000 texts are ranked first, and the earlier ones follow on later pages."""

    hits: tuple[SearchHit, ...]
    total: int
    next_cursor: str | None
    total_is_exact: bool = True

    @overload
    def __getitem__(self, index: int) -> SearchHit: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[SearchHit, ...]: ...

    def __getitem__(self, index: int | slice) -> SearchHit | tuple[SearchHit, ...]:
        return self.hits[index]

    def __len__(self) -> int:
        return len(self.hits)

    @property
    def by_session(self) -> dict[str, tuple[SearchHit, ...]]:
        """The hits of each session, in the order in which the sessions first appear."""
        found: dict[str, list[SearchHit]] = {}
        for hit in self.hits:
            found.setdefault(hit.session_id, []).append(hit)
        return {session_id: tuple(hits) for session_id, hits in found.items()}


NO_RESULTS = SearchResults((), 0, None)


# pages


class Walked(NamedTuple):
    """What the walk through the index found: the entries, and the texts nearest in meaning. `resume` is
    where the walk can be continued (None: it came to its end)."""

    entries: list[Entry]
    near: Nearest
    resume: Address | None
    is_exact: bool


async def load_page(runtime: Runtime, request: Request, walked: Walked, trees: Sequence[Tree] = ()) -> SearchResults:
    """The hits after those of earlier pages."""
    ordered = sort_entries(walked.entries, request, walked.near)
    start = _start(ordered, request)
    end = start + request.limit
    shown = ordered[start:end]
    hits = await load_hits(runtime, request, shown, trees)
    is_last = end >= len(ordered)
    # What was found on earlier pages, or is to be found on later ones, is counted separately.
    is_part = request.resume is not None or (is_last and walked.resume is not None)
    total = request.counted + await count_hits(runtime, ordered, is_part=is_part)
    cursor: str | None = None
    if not is_last:
        cursor = request.cursor(end, shown[-1].match.address)
    elif walked.resume is not None:
        cursor = request.cursor_after(walked.resume, total)
    return SearchResults(tuple(hits), total, cursor, walked.is_exact)


def sort_entries(entries: list[Entry], request: Request, near: Nearest) -> list[Entry]:
    """Sort entries by score or by time, newest first among equals. If grouped, the hits of a session follow its first
    hit. Those of later rounds come after all others: there are more rounds on later pages, which must continue the
    earlier ones."""

    def newest(entry: Entry) -> tuple[int, int, int]:
        return -entry.match.at, -entry.match.address.number, -entry.match.address.position

    ordered = sorted(entries, key=newest if request.newest else lambda entry: (-entry.score, *newest(entry)))
    if near.matches or near.similarities:
        ordered = _fuse(ordered, near)
    ordered.sort(key=lambda entry: entry.round)
    if request.group:
        first: dict[tuple[int, int], int] = {}
        for index, entry in enumerate(ordered):
            first.setdefault((entry.round, entry.row.number), index)
        ordered.sort(key=lambda entry: first[entry.round, entry.row.number])
    return ordered


def _fuse(ordered: list[Entry], near: Nearest) -> list[Entry]:
    """Combine the order by words with the order by meaning. Entries without a word of the query have a score of 0."""
    by_address = {entry.match.address: entry for entry in ordered}
    lexical = [(entry.match.address, entry.score) for entry in ordered if entry.score > 0]
    nearest = [match.address for match in near.matches if match.address in by_address]
    fused = fuse(lexical, nearest, near.similarities)
    return [by_address[address]._replace(score=score) for address, score in fused]


def _start(ordered: list[Entry], request: Request) -> int:
    """The index of the first hit of the page: after the last hit of the previous page, wherever that is now."""
    if request.last_hit is not None:
        for index, entry in enumerate(ordered):
            if entry.match.address == request.last_hit:
                return index + 1
    return request.returned


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
    context = request.context
    sources = await _sources(runtime, entries)
    trees = {tree.session.id: tree for tree in known}
    unknown = {entry.row.id for entry in entries if entry.match.address.kind != "session"} - set(trees)
    if unknown:
        trees |= {tree.session.id: tree for tree in await load_trees(runtime, sorted(unknown))}
    # Between the choice of a session and the load of its tree, messages may have been deleted, or all of them cleared.
    present = [entry for entry in entries if entry.match.address in sources and _is_seen(trees, entry)]
    if request.choose is not None:
        said = ((sources[entry.match.address].text, entry.match.time_in(entry.row)) for entry in present)
        present = [present[index] for index in request.choose(said)]
    locators = {session_id: _Locator(tree) for session_id, tree in trees.items()}
    locations = [
        _Location() if entry.match.address.kind == "session" else locators[entry.row.id].locate(entry.match, context)
        for entry in present
    ]
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
    return {source.address: source for source in await texts.load(runtime, selection)}


class _ItemReader:
    """Reads items in one call."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = list(dict.fromkeys(items))
        self._messages: dict[Item, list[Message]] = {}

    async def all(self, runtime: Runtime) -> None:
        for item, piece in await texts.read_readable(runtime, self._items):
            self._messages[item] = to_messages([item], [piece])

    def messages(self, items: Iterable[Item]) -> tuple[Message, ...]:
        return tuple(message for item in items for message in self._messages.get(item, ()))


class _Locator:
    """Finds where hits are in one session."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._path = tree.path(tree.session.head)
        self._covers = tree.outermost(self._path)

    def locate(self, match: IndexMatch, context: int) -> _Location:
        kind, number, _ = match.address
        tree, path, place = self._tree, self._path, match.place
        if kind == "overlay" or place is None:
            return _Location(None, any(cover.number == number for _, _, cover in self._covers))
        position = tree.position_on(path, place)
        visible = position is not None and not self._is_covered(place)
        branch: list[Item] = []
        if position is None:
            leaf = Place(place.segment, tree.last_in(place.segment))
            path = tree.path(leaf)
            branch = [tree.item_at(leaf)]
        before = _steps(tree.before, place, context)[::-1]
        after = _steps(partial(tree.after, path), place, context)
        return _Location(position, visible, branch, list(map(tree.item_at, before)), list(map(tree.item_at, after)))

    def _is_covered(self, place: Place) -> bool:
        at = next(index for index, end in enumerate(self._path) if end.segment == place.segment), place.position
        return any(start <= at <= end for start, end, _ in self._covers)


def _steps(step: Callable[[Place], Place | None], place: Place, count: int) -> list[Place]:
    """Up to `count` places, each of which is one step from the one before it."""
    places: list[Place] = []
    while len(places) < count:
        found = step(place)
        if found is None:
            break
        places.append(found)
        place = found
    return places


def _hit(
    runtime: Runtime, request: Request, entry: Entry, source: StoredText, location: _Location, read: _ItemReader
) -> SearchHit:
    row, kind = entry.row, entry.match.address.kind
    branch = read.messages(location.branch)
    tokeniser = tokeniser_for(runtime.settings.search.language)
    return SearchHit(
        session_id=row.id,
        message_id=source.id,
        role=source.role,
        score=entry.score,
        snippet=snippet(source.text, request.query, tokeniser),
        created_at=to_datetime(row.last_active_at if kind == "session" else source.at),
        kind=_KINDS[kind],  # type: ignore[arg-type]
        session_name=row.name,
        position=location.position,
        visible=location.visible,
        key=key_of(row),
        branch=branch[-1].id if branch else None,
        author=source.author,
        corrected=_corrected(request, entry, source.text, tokeniser),
        parent_session_id=row.parent_session_id,
        context_before=read.messages(location.before),
        context_after=read.messages(location.after),
    )


def _corrected(request: Request, entry: Entry, text: str, tokeniser: Tokeniser) -> tuple[tuple[str, str], ...]:
    """Pairs of a typo in the query, and the word of the text that was found instead."""
    found = {term: typed for term, typed in request.query.corrected if term in entry.match.places}
    if not found:
        return ()
    written: dict[str, str] = {}
    for word in tokeniser.written_words(text):
        written.setdefault(word.term, word.text)
    return tuple((typed, written.get(term, term)) for term, typed in found.items())
