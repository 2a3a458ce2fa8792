"""The texts that a search runs on: exactly what some sessions see, or the texts of a namespace.

Both kinds answer the same questions for the pipeline: what is not indexed, what the index has, and to which session a
text is attributed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

import msgspec

from frontdesk.config.runtime import Runtime
from frontdesk.lifecycle.transitions import status_query
from frontdesk.search import candidates, texts
from frontdesk.search.candidates import CandidatePool, Terms
from frontdesk.search.fields import KINDS, QUESTION
from frontdesk.search.index import IndexSnapshot
from frontdesk.search.request import Request
from frontdesk.search.texts import TextSelection
from frontdesk.search.tokeniser import fold, tokeniser_for
from frontdesk.search.visibility import Access, attribute_hits, viewers_of_trees
from frontdesk.store import (
    LONGEST_STRETCH,
    Address,
    IndexMatch,
    IndexQuery,
    IndexRow,
    Range,
    SessionQuery,
    SessionRow,
    SessionSelection,
)
from frontdesk.tree.tree import Tree

_MAX_SESSIONS = 256
"""up to this number, the sessions that pass the filters are searched one by one: exactly what they see. If more pass,
the index is searched for texts of their families, and hits are filtered afterwards"""


class Corpus(Protocol):
    """The texts that a search runs on."""

    trees: Sequence[Tree]
    """the trees of sessions that are loaded already"""
    ranges: tuple[Range, ...] | None
    """where the texts are in the index; None: anywhere"""
    selection: SessionSelection | None
    """the sessions whose families have the texts; None: all"""
    is_narrowed: bool
    """whether many of the texts that the index returns may not be shown"""

    def not_indexed(self) -> AsyncIterator[TextSelection]:
        """The texts that are not in the index."""

    async def frequencies(self, terms: Sequence[str]) -> Mapping[str, int]:
        """How many of the texts have each term, or an estimate."""

    async def known(self, terms: Sequence[str]) -> set[str]:
        """Those of the terms that any of the texts contains, whether or not it passes the filters of the query."""

    async def look_up(self, terms: Terms, after: Address | None) -> list[IndexMatch]: ...

    def use_statistics(self, pool: CandidatePool, row: IndexRow, frequencies: Mapping[str, int]) -> None:
        """Rank the candidates by the statistics of these texts."""

    async def owners(self, matches: Sequence[IndexMatch]) -> dict[Address, SessionRow]:
        """The session to which each text is attributed, without texts that may not be shown."""

    async def parents(self, matches: Sequence[IndexMatch]) -> Mapping[int, tuple[int, int]]:
        """For segments of these texts, the place after which the segment begins."""


class SessionTexts:
    """Exactly what some sessions see, on all of their branches: no other session has an influence on the result.

    A small number of texts has its own term statistics. Of a large one only the texts with the rarest words are
    candidates, and the statistics are estimated from those of the namespace."""

    selection: SessionSelection | None = None
    is_narrowed = False

    def __init__(
        self, runtime: Runtime, request: Request, snapshot: IndexSnapshot, trees: Sequence[Tree], *, names: bool
    ) -> None:
        self._runtime = runtime
        self._request = request
        self._snapshot = snapshot
        self.trees = trees
        self._viewers = viewers_of_trees(trees)
        self._names = names
        self._texts = self._texts_of(trees)
        self._is_small = len(self._texts) <= candidates.MAX_CANDIDATES
        self.ranges: tuple[Range, ...] | None = tuple(self._texts.ranges())

    async def not_indexed(self) -> AsyncIterator[TextSelection]:
        left_out = [tree for tree in self.trees if not self._snapshot.includes(tree.session.family)]
        if left_out:
            yield self._texts_of(left_out)
        if len(left_out) < len(self.trees):
            yield await self._pending()

    def _texts_of(self, trees: Sequence[Tree]) -> TextSelection:
        """What these sessions see."""
        selection = TextSelection()
        for tree in trees:
            items = texts.items_of(tree, replaced=not self._request.for_model)
            selection.add_items(items, tree.session.number)
            if self._names:
                selection.sessions[tree.session.number] = None
        selection.merge_spans()
        return selection

    async def _pending(self) -> TextSelection:
        """Those of the texts that were written after the position of the index."""
        selection = TextSelection()
        numbers = {tree.session.number for tree in self.trees}
        segments = {segment.number for tree in self.trees for segment in tree.visible_segments()}
        for entry in self._snapshot.entries:
            if entry.session in numbers or entry.segment in segments or entry.number in self._texts.overlays:
                selection.add_entry(entry)
        await texts.add_orphans(self._runtime, selection)
        for number in selection.sessions.keys() - self._texts.sessions.keys():
            del selection.sessions[number]
        for number in selection.overlays.keys() - self._texts.overlays.keys():
            del selection.overlays[number]
        return selection

    async def frequencies(self, terms: Sequence[str]) -> Mapping[str, int]:
        if self._is_small or self._snapshot.row is None or not terms:
            return dict.fromkeys(terms, 1)
        counted = await self._runtime.store.frequencies(self._runtime.namespace, terms)
        share = len(self._texts) / max(self._snapshot.row.texts, len(self._texts))
        return {term: round(share * count + 0.5) if count else 0 for term, count in zip(terms, counted, strict=True)}

    async def known(self, terms: Sequence[str]) -> set[str]:
        matches = await _matches(self._runtime, terms, ranges=self.ranges)
        return {term for match in matches if self._viewers.first(match) is not None for term in match.places}

    async def look_up(self, terms: Terms, after: Address | None) -> list[IndexMatch]:
        if self._is_small:
            # A text in the role that "I" or "you" means is a candidate, too: words near it count for it.
            terms = terms._replace(seek=(*terms.seek, *candidates.roles_of(self._request.query)), also=(QUESTION,))
        return await candidates.look_up(
            self._runtime, self._request, terms, ranges=self.ranges, after=after, by_time=not self._is_small
        )

    def use_statistics(self, pool: CandidatePool, row: IndexRow, frequencies: Mapping[str, int]) -> None:
        pool.use_partial_statistics(len(self._texts), row, None if self._is_small else frequencies)

    async def owners(self, matches: Sequence[IndexMatch]) -> dict[Address, SessionRow]:
        found = ((match, self._viewers.first(match)) for match in matches)
        is_in_time = self._request.is_in_time
        return {match.address: row for match, row in found if row is not None and is_in_time(match.time_in(row))}

    async def parents(self, matches: Sequence[IndexMatch]) -> Mapping[int, tuple[int, int]]:
        segments = (segment for tree in self.trees for segment in tree.visible_segments())
        return {segment.number: segment.parent for segment in segments if segment.parent}


class NamespaceTexts:
    """All texts of a namespace, or of the families of some sessions. Which session shows a text, if any, is found out
    for the matches only."""

    trees: Sequence[Tree] = ()
    ranges: tuple[Range, ...] | None = None

    def __init__(
        self,
        runtime: Runtime,
        request: Request,
        access: Access,
        snapshot: IndexSnapshot,
        selection: SessionSelection | None,
    ) -> None:
        self._runtime = runtime
        self._request = request
        self._access = access
        self._snapshot = snapshot
        self.selection = selection
        self.is_narrowed = request.narrows_sessions or access.rule.is_limited

    async def not_indexed(self) -> AsyncIterator[TextSelection]:
        if not self._snapshot.is_complete:
            async for _, family in texts.families(self._runtime, self._snapshot.cursor or 0):
                yield family
        pending = self._snapshot.pending()
        await texts.add_orphans(self._runtime, pending)
        yield pending

    async def frequencies(self, terms: Sequence[str]) -> Mapping[str, int]:
        counted = await self._runtime.store.frequencies(self._runtime.namespace, terms) if terms else []
        return dict(zip(terms, counted, strict=True))

    async def known(self, terms: Sequence[str]) -> set[str]:
        if not self.is_narrowed:
            return {term for term, count in (await self.frequencies(terms)).items() if count}
        matches = await _matches(self._runtime, terms, sessions=self.selection)
        owners = await self.owners(matches)
        return {term for match in matches if match.address in owners for term in match.places}

    async def look_up(self, terms: Terms, after: Address | None) -> list[IndexMatch]:
        return await candidates.look_up(self._runtime, self._request, terms, sessions=self.selection, after=after)

    def use_statistics(self, pool: CandidatePool, row: IndexRow, frequencies: Mapping[str, int]) -> None:
        pool.use_statistics(row, frequencies)

    async def owners(self, matches: Sequence[IndexMatch]) -> dict[Address, SessionRow]:
        return await attribute_hits(self._runtime, self._request, matches, self._access)

    async def parents(self, matches: Sequence[IndexMatch]) -> Mapping[int, tuple[int, int]]:
        starts = candidates.segments_near_start(matches)
        segments = await self._runtime.store.segments(self._runtime.namespace, starts) if starts else []
        return {segment.number: segment.parent for segment in segments if segment.parent}


async def _matches(
    runtime: Runtime,
    terms: Sequence[str],
    *,
    ranges: tuple[Range, ...] | None = None,
    sessions: SessionSelection | None = None,
) -> list[IndexMatch]:
    """The latest texts with any of these terms."""
    limit = candidates.MAX_CANDIDATES
    return await runtime.store.matches(
        IndexQuery(namespace=runtime.namespace, seek=tuple(terms), ranges=ranges, sessions=sessions, limit=limit)
    )


# which of them is searched


async def choose_corpus(
    runtime: Runtime, request: Request, access: Access, snapshot: IndexSnapshot, *, names: bool
) -> Corpus | None:
    """The texts that a request is about; None if no session passes the filters and may be shown."""
    selection = _selection(request, access)
    ids = await _few_sessions(runtime, request, access, snapshot, selection)
    if ids is None:
        return NamespaceTexts(runtime, request, access, snapshot, selection)
    trees = await _admitted_trees(runtime, request, access, ids)
    return SessionTexts(runtime, request, snapshot, trees, names=names) if trees else None


def _selection(request: Request, access: Access) -> SessionSelection | None:
    """What the filters and the rule require of the rows of sessions, as far as an index can look for it."""
    given = access.rule.selection or SessionSelection()
    tags = tuple(sorted(request.query.tags | set(given.tags)))
    selection = msgspec.structs.replace(given, **request.where, tags=tags)
    return None if selection == SessionSelection() else selection


async def _few_sessions(
    runtime: Runtime, request: Request, access: Access, snapshot: IndexSnapshot, selection: SessionSelection | None
) -> list[str] | None:
    """The ids of the sessions that may pass the filters; None if they are too many, or if nothing narrows them."""
    rule = access.rule
    if rule.numbers is not None:
        rows = await runtime.store.sessions(runtime.namespace, sorted(rule.numbers)) if rule.numbers else []
        return [row.id for row in rows]
    if rule.ids is not None:
        return sorted(rule.ids)
    ids: list[str] | None = None
    if selection is not None or request.status is not None:
        ids = await _sessions_by_columns(runtime, request, selection or SessionSelection())
    if ids is None and request.query.sessions:
        ids = await _sessions_by_name(runtime, request, snapshot, selection)
    return ids


async def _sessions_by_columns(runtime: Runtime, request: Request, selection: SessionSelection) -> list[str] | None:
    """The sessions that pass the filters on their rows, and perhaps others; None if they are too many."""
    status = {} if request.status is None else status_query(runtime, request.status.status)
    tag = next(iter(selection.tags), None)
    every = SessionQuery(namespace=runtime.namespace, limit=_MAX_SESSIONS + 1, tag=tag)
    rows = await runtime.store.page(msgspec.structs.replace(every, **selection.parts, **status))
    return None if len(rows) > _MAX_SESSIONS else [row.id for row in rows]


async def _sessions_by_name(
    runtime: Runtime, request: Request, snapshot: IndexSnapshot, selection: SessionSelection | None
) -> list[str] | None:
    """The sessions with one of the requested ids or names. Names are looked up in the index; None if it is not
    complete."""
    if not snapshot.is_complete:
        return None
    numbers = set(snapshot.pending().sessions)
    ids = set(request.query.sessions)
    tokeniser = tokeniser_for(runtime.settings.search.language)
    for name in sorted(request.query.sessions):
        terms = tokeniser.terms(fold(name))[:LONGEST_STRETCH]
        if terms:
            matches = await runtime.store.matches(
                IndexQuery(
                    namespace=runtime.namespace,
                    phrases=((tuple(terms),),),
                    facets=((KINDS["session"],),),
                    sessions=selection,
                    limit=_MAX_SESSIONS,
                )
            )
            numbers |= {match.address.number for match in matches}
    rows = await runtime.store.sessions(runtime.namespace, sorted(numbers)) if numbers else []
    return sorted(ids | {row.id for row in rows if request.accepts(row)})


async def _admitted_trees(runtime: Runtime, request: Request, access: Access, ids: Sequence[str]) -> list[Tree]:
    """The trees of those of the sessions that pass the filters and may be shown, as they are now: an id may have been
    deleted and used again since it was found."""
    shapes = await runtime.store.trees(runtime.namespace, ids) if ids else []
    trees = {shape.session.number: Tree(shape) for shape in shapes if request.accepts(shape.session)}
    admitted = await access.admit([tree.session for tree in trees.values()])
    return [trees[row.number] for row in admitted]
