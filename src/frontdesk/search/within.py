"""Search in one session, on all of its branches: by the ranges of its segments, never by filtering a global result."""

from __future__ import annotations

from frontdesk.config.runtime import Runtime
from frontdesk.history import reading
from frontdesk.records import SearchResults
from frontdesk.search import finding, freshness, loading, meaning, pages
from frontdesk.search.attributing import Entry, sees
from frontdesk.search.finding import Findings
from frontdesk.search.freshness import Met
from frontdesk.search.loading import Wanted
from frontdesk.search.request import Request
from frontdesk.store import IndexRow, Item, Span, TextKind
from frontdesk.tree.items import count
from frontdesk.tree.tree import Tree

_SAID: tuple[TextKind, ...] = ("message", "edit", "overlay")


async def search_session(runtime: Runtime, session_id: str | None, request: Request) -> SearchResults:
    """The hits in a session; none if there is no such session, or if it does not pass the filters."""
    if session_id is None or request.query.is_empty:
        return pages.NOTHING
    # The index is met ahead of the tree: what comes between is in neither of the two, and comes after the search.
    met = await freshness.for_session(runtime)
    tree = await reading.load_tree(runtime, session_id)
    if tree is None or not request.wants(tree.session):
        return pages.NOTHING
    items = loading.items_of(tree)
    findings = Findings()
    await finding.scan(runtime, request, await _not_indexed(runtime, tree, items, met), findings, _SAID)
    findings.keep(lambda match: sees(tree, match))
    if met.row is not None:
        await _look_up(runtime, request, tree, items, met.row, findings)
    parents = {segment.number: segment.parent for segment in tree.visible_segments() if segment.parent}
    ranked = await findings.ranked(request.query, parents)
    within = Wanted()
    within.add_items(items)
    near = await meaning.near(runtime, request, met, within=within)
    ranked += findings.lacking(near)
    entries = [Entry(score, match, tree.session) for score, match in ranked if request.is_in_time(match.at)]
    return await pages.page(runtime, request, entries, near, [tree])


async def _not_indexed(runtime: Runtime, tree: Tree, items: list[Item], met: Met) -> Wanted:
    """The texts of a session that are to be read directly."""
    wanted = Wanted()
    if met.row is None:
        wanted.add_items(items, tree.session.number)
        return wanted
    segments = {segment.number for segment in tree.visible_segments()}
    overlays = {overlay.number for overlay in tree.overlays}
    for line in met.lines:
        if line.session == tree.session.number or line.segment in segments or line.number in overlays:
            wanted.add_line(line)
    await loading.add_orphans(runtime, wanted)
    wanted.sessions.clear()
    return wanted


async def _look_up(
    runtime: Runtime, request: Request, tree: Tree, items: list[Item], row: IndexRow, findings: Findings
) -> None:
    """Take in what the index holds of a session. Few texts give their own figures; of many only those with the rarest
    words are looked at, and the figures are estimated from those of the namespace."""
    texts, terms = count(items), finding.terms_of(request.query)
    is_small = texts <= finding.MOST_CANDIDATES
    frequencies = dict.fromkeys(terms, 1)
    if not is_small:
        counted = await runtime.store.frequencies(runtime.namespace, terms)
        share = texts / max(row.texts, texts)
        frequencies = {term: round(share * n + 0.5) if n else 0 for term, n in zip(terms, counted, strict=True)}
    wanted = finding.split(request.query, frequencies)
    spans = tuple((item.segment, item.first, item.last) for item in items if isinstance(item, Span))
    findings.add_index(await finding.look_up(runtime, request, wanted, spans=spans, by_time=not is_small))
    if len(spans) < len(items):
        family = (tree.session.family,)
        more = await finding.look_up(runtime, request, wanted, kinds=("edit", "overlay"), families=family)
        findings.add_index(match for match in more if sees(tree, match))
    findings.take_figures_of_part(texts, row, None if is_small else frequencies)
