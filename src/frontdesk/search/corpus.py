"""The texts that a search runs on: exactly what some sessions see, or the texts of a namespace.

Both kinds answer the same questions for the pipeline: what is not indexed, what the index has, and to which session a
text is attributed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from math import ceil
from typing import Protocol

import msgspec

from frontdesk.config.runtime import Runtime
from frontdesk.lifecycle.transitions import status_query
from frontdesk.search import candidates, texts
from frontdesk.search.candidates import CandidatePool, SoughtTerms
from frontdesk.search.fields import KINDS, QUESTION
from frontdesk.search.index import IndexSnapshot
from frontdesk.search.request import Request
from frontdesk.search.texts import TextSelection
from frontdesk.search.tokeniser import fold, tokeniser_for
from frontdesk.search.trees import load_trees
from frontdesk.search.visibility import Access, attribute_hits, viewers_of_trees
from frontdesk.store import (
    LONGEST_STRETCH,
    Address,
    IndexMatch,
    IndexQuery,
    IndexRow,
    Item,
    Range,
    SessionQuery,
    SessionRow,
    SessionSelection,
)
from frontdesk.tree.tree import Tree

_MAX_SESSIONS = 256
"""up to this number, the sessions that pass the filters are searched one by one: exactly what they see. If more pass,
the index is searched for texts of their families, and hits are filtered afterwards"""


_WIDE_GAP = 1_000
"""in one segment, the index is searched in one range instead of two if fewer messages than this are between them"""
_FEW = 50
"""fewer matches than this are not worth a lookup"""


class Corpus(Protocol):
    """The texts that a search runs on."""

    trees: Sequence[Tree]
    """the trees of sessions that are loaded already"""
    selection: SessionSelection | None
    """the sessions whose families have the texts; None: all"""
    is_narrowed: bool
    """whether many of the texts that the index returns may not be shown"""

    def ranges(self) -> tuple[Range, ...] | None:
        """Where exactly the texts are in the index; None: anywhere."""

    def not_indexed(self) -> AsyncIterator[TextSelection]:
        """The texts that are not in the index."""

    async def frequencies(self, terms: Sequence[str]) -> Mapping[str, int]:
        """How many of the texts have each term, or an estimate."""

    async def known(self, terms: Sequence[str]) -> set[str]:
        """Those of the terms that any of the texts contains, whether or not it passes the filters of the query."""

    async def look_up(self, terms: SoughtTerms, after: Address | None) -> list[IndexMatch]: ...

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
        self._owners: dict[Address, SessionRow | None] = {}
        self._names = names
        # Scattered messages may have been deleted, which leaves thousands of ranges. Looking for texts in each of them
        # takes longer than looking through a few wide ranges, and leaving out what no session here sees.
        self._texts = self._select(trees, partial(texts.wide_messages_of, gap=_WIDE_GAP), _WIDE_GAP)
        self._wide_ranges = tuple(self._texts.ranges())
        messages = sum(tree.count(segment.number) for tree in trees for segment in tree.visible_segments())
        seen = messages + len(self._texts.overlays) + len(self._texts.sessions)
        # What several sessions share is in `seen` several times, and the wide ranges have texts that none of them sees.
        self._count = min(seen, len(self._texts))
        self._is_small = self._count <= candidates.MAX_CANDIDATES

    def ranges(self) -> tuple[Range, ...] | None:
        return tuple(self._select(self.trees, texts.messages_of).ranges())

    async def not_indexed(self) -> AsyncIterator[TextSelection]:
        left_out = [tree for tree in self.trees if not self._snapshot.includes(tree.session.family)]
        if left_out:
            yield self._select(left_out, texts.messages_of)
        if len(left_out) < len(self.trees):
            yield await self._pending()

    def _select(self, trees: Sequence[Tree], messages_of: Callable[[Tree], list[Item]], gap: int = 1) -> TextSelection:
        """What these sessions see."""
        selection = TextSelection()
        for tree in trees:
            items = [*messages_of(tree), *texts.summaries_of(tree, replaced=not self._request.for_model)]
            selection.add_items(items, tree.session.number)
            if self._names:
                selection.sessions[tree.session.number] = None
        if len(trees) > 1:
            selection.merge_spans(gap)
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
        share = self._count / max(self._snapshot.row.texts, self._count)
        return {term: min(ceil(share * count), self._count) for term, count in zip(terms, counted, strict=True)}

    async def known(self, terms: Sequence[str]) -> set[str]:
        async def look_up(after: Address | None, limit: int) -> list[IndexMatch]:
            return await self._runtime.store.matches(
                IndexQuery(
                    namespace=self._runtime.namespace,
                    seek=tuple(terms),
                    ranges=self._wide_ranges,
                    after=after,
                    limit=limit,
                )
            )

        matches = await self._seen(look_up, candidates.MAX_CANDIDATES)
        return {term for match in matches for term in match.places}

    async def look_up(self, terms: SoughtTerms, after: Address | None) -> list[IndexMatch]:
        if self._is_small:
            # A text in the role that "I" or "you" means is a candidate, too: words near it count for it.
            terms = terms._replace(seek=(*terms.seek, *candidates.roles_of(self._request.query)), also=(QUESTION,))

        async def look_up(after: Address | None, limit: int) -> list[IndexMatch]:
            return await candidates.look_up(
                self._runtime,
                self._request,
                terms._replace(limit=limit),
                ranges=self._wide_ranges,
                after=after,
                by_time=not self._is_small,
            )

        return await self._seen(look_up, terms.limit, after)

    async def _seen(
        self,
        look_up: Callable[[Address | None, int], Awaitable[list[IndexMatch]]],
        limit: int,
        after: Address | None = None,
    ) -> list[IndexMatch]:
        """The latest matches that one of the sessions sees. `look_up` returns up to a number of matches after a text.
        If some of them are not seen, no more are looked up than are probably needed instead."""
        seen: list[IndexMatch] = []
        wanted = limit
        while True:
            matches = await look_up(after, wanted)
            seen += [match for match in matches if self._owner(match) is not None]
            if len(matches) < wanted or len(seen) >= limit:
                return seen[:limit]
            after = matches[-1].address
            wanted = min(max(2 * (limit - len(seen)), _FEW), limit)

    def use_statistics(self, pool: CandidatePool, row: IndexRow, frequencies: Mapping[str, int]) -> None:
        pool.use_partial_statistics(self._count, row, None if self._is_small else frequencies)

    async def owners(self, matches: Sequence[IndexMatch]) -> dict[Address, SessionRow]:
        found = ((match, self._owner(match)) for match in matches)
        is_in_time = self._request.is_in_time
        return {match.address: row for match, row in found if row is not None and is_in_time(match.time_in(row))}

    def _owner(self, match: IndexMatch) -> SessionRow | None:
        if match.address not in self._owners:
            self._owners[match.address] = self._viewers.first(match)
        return self._owners[match.address]

    async def parents(self, matches: Sequence[IndexMatch]) -> Mapping[int, tuple[int, int]]:
        segments = (segment for tree in self.trees for segment in tree.visible_segments())
        return {segment.number: segment.parent for segment in segments if segment.parent}


class NamespaceTexts:
    """All texts of a namespace, or of the families of some sessions. Which session shows a text, if any, is found out
    for the matches only."""

    trees: Sequence[Tree] = ()

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

    def ranges(self) -> tuple[Range, ...] | None:
        return None

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
        matches = await self._runtime.store.matches(
            IndexQuery(
                namespace=self._runtime.namespace,
                seek=tuple(terms),
                sessions=self.selection,
                limit=candidates.MAX_CANDIDATES,
            )
        )
        owners = await self.owners(matches)
        return {term for match in matches if match.address in owners for term in match.places}

    async def look_up(self, terms: SoughtTerms, after: Address | None) -> list[IndexMatch]:
        return await candidates.look_up(self._runtime, self._request, terms, sessions=self.selection, after=after)

    def use_statistics(self, pool: CandidatePool, row: IndexRow, frequencies: Mapping[str, int]) -> None:
        pool.use_statistics(row, frequencies)

    async def owners(self, matches: Sequence[IndexMatch]) -> dict[Address, SessionRow]:
        return await attribute_hits(self._runtime, self._request, matches, self._access)

    async def parents(self, matches: Sequence[IndexMatch]) -> Mapping[int, tuple[int, int]]:
        starts = candidates.segments_near_start(matches)
        segments = await self._runtime.store.segments(self._runtime.namespace, starts) if starts else []
        return {segment.number: segment.parent for segment in segments if segment.parent}


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
    """What the filters and the rule require of the rows of sessions, if the index of a table can select by it."""
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
    found = await load_trees(runtime, ids) if ids else []
    trees = {tree.session.number: tree for tree in found if request.accepts(tree.session)}
    admitted = await access.admit([tree.session for tree in trees.values()])
    return [trees[row.number] for row in admitted]
