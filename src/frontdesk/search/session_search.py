"""Search in one session, on all of its branches. The index is queried for the segments of the session only."""

from __future__ import annotations

from frontdesk.config.runtime import Runtime
from frontdesk.history import trees
from frontdesk.search import candidates, index_snapshot, pages, stored_texts
from frontdesk.search.candidates import CandidatePool
from frontdesk.search.index_snapshot import IndexSnapshot
from frontdesk.search.nearest import find_nearest
from frontdesk.search.owners import Entry, sees
from frontdesk.search.request import Request
from frontdesk.search.results import SearchResults
from frontdesk.search.stored_texts import TextSelection
from frontdesk.store import IndexRow, Item, Span, TextKind
from frontdesk.tree.items import count
from frontdesk.tree.tree import Tree

_MESSAGE_KINDS: tuple[TextKind, ...] = ("message", "edit", "overlay")


async def search_session(runtime: Runtime, session_id: str | None, request: Request) -> SearchResults:
    """The hits in a session; none if there is no such session, or if it does not pass the filters."""
    if session_id is None or request.query.is_empty:
        return pages.NO_RESULTS
    # The index is read before the tree. A message that is appended in between may be missing, which is correct: it was
    # written after the search began.
    snapshot = await index_snapshot.snapshot_for_session(runtime)
    tree = await trees.load_tree(runtime, session_id)
    if tree is None or not request.accepts(tree.session):
        return pages.NO_RESULTS
    items = stored_texts.items_of(tree)
    pool = CandidatePool()
    await candidates.scan(runtime, request, await _not_indexed(runtime, tree, items, snapshot), pool, _MESSAGE_KINDS)
    pool.keep(lambda match: sees(tree, match))
    if snapshot.row is not None:
        await _look_up(runtime, request, tree, items, snapshot.row, pool)
    parents = {segment.number: segment.parent for segment in tree.visible_segments() if segment.parent}
    ranked = await pool.rank(request.query, parents)
    within = TextSelection()
    within.add_items(items)
    near = await find_nearest(runtime, request, snapshot, within=within)
    ranked += pool.unmatched(near)
    entries = [Entry(score, match, tree.session) for score, match in ranked if request.is_in_time(match.at)]
    return await pages.page(runtime, request, entries, near, [tree])


async def _not_indexed(runtime: Runtime, tree: Tree, items: list[Item], snapshot: IndexSnapshot) -> TextSelection:
    """The texts of a session that are not in the index."""
    selection = TextSelection()
    if snapshot.row is None:
        selection.add_items(items, tree.session.number)
        return selection
    segments = {segment.number for segment in tree.visible_segments()}
    overlays = {overlay.number for overlay in tree.overlays}
    for entry in snapshot.entries:
        if entry.session == tree.session.number or entry.segment in segments or entry.number in overlays:
            selection.add_entry(entry)
    await stored_texts.add_orphans(runtime, selection)
    selection.sessions.clear()
    return selection


async def _look_up(
    runtime: Runtime, request: Request, tree: Tree, items: list[Item], row: IndexRow, pool: CandidatePool
) -> None:
    """Add the matches that the index has for a session.

    A small session has its own term statistics. In a large one only the texts with the rarest words are candidates, and
    the statistics are estimated from those of the namespace."""
    texts, terms = count(items), candidates.terms_of(request.query)
    is_small = texts <= candidates.MAX_CANDIDATES
    frequencies = dict.fromkeys(terms, 1)
    if not is_small:
        counted = await runtime.store.frequencies(runtime.namespace, terms)
        share = texts / max(row.texts, texts)
        frequencies = {term: round(share * n + 0.5) if n else 0 for term, n in zip(terms, counted, strict=True)}
    chosen = candidates.choose_terms(request.query, frequencies)
    spans = tuple((item.segment, item.first, item.last) for item in items if isinstance(item, Span))
    pool.add_index(await candidates.look_up(runtime, request, chosen, spans=spans, by_time=not is_small))
    if len(spans) < len(items):
        family = (tree.session.family,)
        more = await candidates.look_up(runtime, request, chosen, kinds=("edit", "overlay"), families=family)
        pool.add_index(match for match in more if sees(tree, match))
    pool.use_partial_statistics(texts, row, None if is_small else frequencies)
