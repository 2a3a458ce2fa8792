"""The order of hits, and the hits of one page."""

from __future__ import annotations

from collections.abc import Sequence

from frontdesk.config.runtime import Runtime
from frontdesk.search.fusion import fuse
from frontdesk.search.hits import load_hits
from frontdesk.search.owners import Entry
from frontdesk.search.request import Request
from frontdesk.search.results import SearchResults
from frontdesk.store import IndexMatch
from frontdesk.tree.tree import Tree

NO_RESULTS = SearchResults((), 0, None)


async def page(
    runtime: Runtime,
    request: Request,
    entries: list[Entry],
    near: Sequence[IndexMatch],
    trees: Sequence[Tree] = (),
) -> SearchResults:
    """The hits after those of earlier pages. `near` are the texts nearest in meaning, nearest first."""
    ordered = sort_entries(entries, request, near)
    start = _start(ordered, request)
    end = start + request.limit
    shown = ordered[start:end]
    hits = await load_hits(runtime, request, shown, trees)
    cursor = request.cursor(end, shown[-1].match.address) if end < len(ordered) else None
    return SearchResults(tuple(hits), len(ordered), cursor)


def sort_entries(entries: list[Entry], request: Request, near: Sequence[IndexMatch] = ()) -> list[Entry]:
    """Sort entries by score or by time, newest first among equals. If grouped, the hits of a session follow its first
    hit."""

    def newest(entry: Entry) -> tuple[int, int, int]:
        return -entry.match.at, -entry.match.address.number, -entry.match.address.position

    ordered = sorted(entries, key=newest if request.newest else lambda entry: (-entry.score, *newest(entry)))
    if near:
        ordered = _fuse(ordered, near)
    if request.group:
        first: dict[int, int] = {}
        for index, entry in enumerate(ordered):
            first.setdefault(entry.row.number, index)
        ordered.sort(key=lambda entry: first[entry.row.number])
    return ordered


def _fuse(ordered: list[Entry], near: Sequence[IndexMatch]) -> list[Entry]:
    """Combine the order by words with the order by meaning. Entries without a word of the query have a score of 0."""
    by_address = {entry.match.address: entry for entry in ordered}
    lexical = [(entry.match.address, entry.score) for entry in ordered if entry.score > 0]
    nearest = [match.address for match in near if match.address in by_address]
    return [by_address[address]._replace(score=score) for address, score in fuse(lexical, nearest)]


def _start(ordered: list[Entry], request: Request) -> int:
    """The index of the first hit of the page: after the last hit of the previous page, wherever that is now."""
    if request.last_hit is not None:
        for index, entry in enumerate(ordered):
            if entry.match.address == request.last_hit:
                return index + 1
    return request.returned
