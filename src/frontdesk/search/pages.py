"""The order of hits, and which of them a page gives."""

from __future__ import annotations

from collections.abc import Sequence

from frontdesk.config.runtime import Runtime
from frontdesk.records import SearchResults
from frontdesk.search import answering
from frontdesk.search.attributing import Entry
from frontdesk.search.fusion import fuse
from frontdesk.search.request import Request
from frontdesk.store import IndexMatch
from frontdesk.tree.tree import Tree

NOTHING = SearchResults((), 0, None)


async def page(
    runtime: Runtime,
    request: Request,
    entries: list[Entry],
    near: Sequence[IndexMatch],
    trees: Sequence[Tree] = (),
) -> SearchResults:
    """The hits behind those that earlier pages gave; `near` are the nearest by meaning."""
    ordered = in_order(entries, request, near)
    start = _start(ordered, request)
    end = start + request.limit
    shown = ordered[start:end]
    hits = await answering.hits(runtime, request, shown, trees)
    cursor = request.cursor(end, shown[-1].match.address) if end < len(ordered) else None
    return SearchResults(tuple(hits), len(ordered), cursor)


def in_order(entries: list[Entry], request: Request, near: Sequence[IndexMatch] = ()) -> list[Entry]:
    """Best first or newest first, of equals the newest first; grouped, the hits of a session follow its first."""

    def newest(entry: Entry) -> tuple[int, int, int]:
        return -entry.match.at, -entry.match.address.number, -entry.match.address.position

    ordered = sorted(entries, key=newest if request.newest else lambda entry: (-entry.score, *newest(entry)))
    if near:
        ordered = _fused(ordered, near)
    if request.group:
        first: dict[int, int] = {}
        for index, entry in enumerate(ordered):
            first.setdefault(entry.row.number, index)
        ordered.sort(key=lambda entry: first[entry.row.number])
    return ordered


def _fused(ordered: list[Entry], near: Sequence[IndexMatch]) -> list[Entry]:
    """Best first by words and by meaning. What has no word of the query comes with a score of 0."""
    by_address = {entry.match.address: entry for entry in ordered}
    lexical = [(entry.match.address, entry.score) for entry in ordered if entry.score > 0]
    nearest = [match.address for match in near if match.address in by_address]
    return [by_address[address]._replace(score=score) for address, score in fuse(lexical, nearest)]


def _start(ordered: list[Entry], request: Request) -> int:
    """Where the page begins: behind the last hit that was given, wherever that stands now."""
    if request.behind is not None:
        for index, entry in enumerate(ordered):
            if entry.match.address == request.behind:
                return index + 1
    return request.given
