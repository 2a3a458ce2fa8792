"""Search in one session, or in a small number of them, on all of their branches. The index is queried for what these
sessions see, so that no other session has an influence on the result."""

from __future__ import annotations

from collections.abc import Sequence

from frontdesk.config.runtime import Runtime
from frontdesk.search import candidates, index_snapshot, pages, stored_texts
from frontdesk.search.candidates import CandidatePool
from frontdesk.search.index_snapshot import IndexSnapshot
from frontdesk.search.nearest import find_nearest
from frontdesk.search.owners import Entry, viewers_of_trees
from frontdesk.search.request import Request
from frontdesk.search.results import SearchResults
from frontdesk.search.stored_texts import TextSelection
from frontdesk.store import IndexRow, SessionRow
from frontdesk.tree.tree import Tree


async def search_session(runtime: Runtime, session_id: str | None, request: Request) -> SearchResults:
    """The hits in a session, without its name; none if there is no such session, or if it does not pass the filters."""
    if session_id is None or request.query.is_empty:
        return pages.NO_RESULTS
    # The index is read before the tree. A message that is appended in between may be missing, which is correct: it was
    # written after the search began.
    snapshot = await index_snapshot.snapshot_for_session(runtime)
    shapes = await runtime.store.trees(runtime.namespace, [session_id])
    trees = [tree for tree in map(Tree, shapes) if request.accepts(tree.session)]
    return await _search_trees(runtime, request, trees, snapshot, with_names=False)


async def search_sessions(
    runtime: Runtime, request: Request, rows: Sequence[SessionRow], snapshot: IndexSnapshot
) -> SearchResults:
    """The hits in these sessions, and in their names and summaries. A message that several of them see is returned
    once."""
    if not rows:
        return pages.NO_RESULTS
    shapes = await runtime.store.trees(runtime.namespace, [row.id for row in rows])
    # An id may have been deleted and used again since the row was read.
    numbers = {row.number for row in rows}
    trees = [tree for tree in map(Tree, shapes) if tree.session.number in numbers]
    return await _search_trees(runtime, request, trees, snapshot, with_names=True)


async def _search_trees(
    runtime: Runtime, request: Request, trees: Sequence[Tree], snapshot: IndexSnapshot, *, with_names: bool
) -> SearchResults:
    if not trees:
        return pages.NO_RESULTS
    viewers = viewers_of_trees(trees)
    texts = TextSelection()
    for tree in trees:
        texts.add_items(stored_texts.items_of(tree), tree.session.number)
        if with_names:
            texts.sessions[tree.session.number] = None
    texts.merge_spans()
    pool = CandidatePool()
    await candidates.scan(runtime, request, await _not_indexed(runtime, trees, texts, snapshot), pool)
    pool.keep(lambda match: viewers.first(match) is not None)
    if snapshot.row is not None:
        await _look_up(runtime, request, texts, snapshot.row, pool)
    segments = (segment for tree in trees for segment in tree.visible_segments())
    ranked = await pool.rank(request.query, {segment.number: segment.parent for segment in segments if segment.parent})
    near = await find_nearest(runtime, request, snapshot, within=texts)
    ranked += pool.unmatched(near)
    entries = [
        Entry(score, match, row)
        for score, match in ranked
        if (row := viewers.first(match)) is not None and request.is_in_time(match.time_in(row))
    ]
    return await pages.page(runtime, request, entries, near, trees)


async def _not_indexed(
    runtime: Runtime, trees: Sequence[Tree], texts: TextSelection, snapshot: IndexSnapshot
) -> TextSelection:
    """Those of the sessions' texts that are not in the index."""
    if snapshot.row is None:
        return texts
    selection = TextSelection()
    numbers = {tree.session.number for tree in trees}
    segments = {segment.number for tree in trees for segment in tree.visible_segments()}
    for entry in snapshot.entries:
        if entry.session in numbers or entry.segment in segments or entry.number in texts.overlays:
            selection.add_entry(entry)
    await stored_texts.add_orphans(runtime, selection)
    for number in selection.sessions.keys() - texts.sessions.keys():
        del selection.sessions[number]
    return selection


async def _look_up(
    runtime: Runtime, request: Request, texts: TextSelection, row: IndexRow, pool: CandidatePool
) -> None:
    """Add the matches that the index has for the sessions.

    A small number of texts has its own term statistics. Of a large one only the texts with the rarest words are
    candidates, and the statistics are estimated from those of the namespace."""
    terms = candidates.terms_of(request.query)
    is_small = len(texts) <= candidates.MAX_CANDIDATES
    frequencies = dict.fromkeys(terms, 1)
    if not is_small:
        counted = await runtime.store.frequencies(runtime.namespace, terms) if terms else []
        share = len(texts) / max(row.texts, len(texts))
        frequencies = {term: round(share * n + 0.5) if n else 0 for term, n in zip(terms, counted, strict=True)}
    chosen = candidates.choose_terms(request.query, frequencies)
    ranges = tuple(texts.ranges())
    pool.add_index(await candidates.look_up(runtime, request, chosen, ranges=ranges, by_time=not is_small))
    pool.use_partial_statistics(len(texts), row, None if is_small else frequencies)
