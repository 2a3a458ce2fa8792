"""The one way that every search takes: in one session, in the sessions of a scope, or in a whole namespace.

A request arrives parsed (`request`, `query`), with the sessions that may be shown (`visibility`). The pipeline takes a
snapshot of the `index`, chooses the texts to search (`corpus`), reads those that are not indexed and looks up the
others (`candidates`), keeps what a session that may be shown sees (`visibility`), ranks it (`ranking`), and loads the
hits of one page (`hits`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from frontdesk.config.runtime import Runtime
from frontdesk.deadlines import one_call
from frontdesk.search import candidates, hits, index
from frontdesk.search.candidates import CandidatePool, Nearest, Ranked, find_nearest
from frontdesk.search.corpus import Corpus, choose_corpus
from frontdesk.search.hits import SearchResults
from frontdesk.search.index import IndexSnapshot
from frontdesk.search.request import Request, correct_typos, starts_of_typos
from frontdesk.search.visibility import Access, Entry
from frontdesk.store import Address, IndexMatch

_FEW_HITS = 3
"""if fewer texts contain the phrases of a question, other texts with their words are found, too"""
_MAX_ROUNDS = 10
"""how often more candidates are looked up if too few of them can be shown"""
_MAX_IN_ROUND = 16_000
"""each round looks up twice as many candidates as the one before it, up to this number"""


@one_call
async def search(runtime: Runtime, request: Request, access: Access, *, names: bool = True) -> SearchResults:
    """One page of the hits in all sessions that may be shown; with `names`, also in their names and summaries. A
    message that several of them see is returned once.

    If a question quotes something that hardly any text contains, its words are searched for: 'who wrote "A Tale of Two
    Cities"?' also finds "the tale of the two cities"."""
    if request.is_empty:
        return hits.NO_RESULTS
    results = await _search(runtime, request, access, names=names)
    query = request.query
    if query.phrases and query.quotes_in_question and results.total < _FEW_HITS:
        loose = replace(request, query=replace(query, phrases=()))
        return await _search(runtime, loose, access, names=names)
    return results


async def _search(runtime: Runtime, request: Request, access: Access, *, names: bool) -> SearchResults:
    rule = access.rule
    # The index is read before any tree. A message that is appended in between may be missing, which is correct: it was
    # written after the search began.
    snapshot = await index.snapshot(runtime, wait=rule.numbers is None and rule.ids is None)
    corpus = await choose_corpus(runtime, request, access, snapshot, names=names)
    return hits.NO_RESULTS if corpus is None else await _Search(runtime, request, access, snapshot, corpus).page()


class _Search:
    """A walk through the index in rounds, from the latest texts to the earliest, until there is more than the page
    needs. Hits of later rounds come after those of earlier ones, so that the next page continues this one. The last
    page of a walk that did not come to its end has a cursor that continues the walk."""

    def __init__(
        self, runtime: Runtime, request: Request, access: Access, snapshot: IndexSnapshot, corpus: Corpus
    ) -> None:
        self._runtime = runtime
        self._request = request
        self._access = access
        self._snapshot = snapshot
        self._corpus = corpus
        self._entries: dict[Address, Entry] = {}
        self._resume: Address | None = None
        self._is_exact = True
        self._seen: set[str] = set()
        """terms of the query that some of the texts contain"""
        self._read: set[str] = set()
        """terms of texts that are not indexed which words of the query may be typos of"""

    async def page(self) -> SearchResults:
        await self._walk()
        known = self._corpus.known if self._snapshot.row is not None else _know_nothing
        corrected = await correct_typos(self._runtime, self._request, self._seen, known, self._read)
        if corrected is not self._request:
            self._request = corrected
            self._entries = {}
            await self._walk()
        near = Nearest() if self._request.resume else await self._nearest()
        walked = hits.Walked(list(self._entries.values()), near, self._resume, is_exact=self._is_exact)
        return await hits.load_page(self._runtime, self._request, walked, self._corpus.trees)

    async def _walk(self) -> None:
        pool = await self._scan()
        read_directly = frozenset(pool.matches)
        request, corpus = self._request, self._corpus
        if request.resume is not None:
            pool = CandidatePool()  # what was read directly was on the first pages of the walk
        if self._snapshot.row is None:
            await self._add(pool, {})
            self._is_exact = not self._access.is_exhausted
            return
        frequencies = await corpus.frequencies(candidates.terms_of(request.query))
        chosen = candidates.choose_terms(request.query, frequencies)
        after = request.resume
        for number in range(_MAX_ROUNDS):
            matches = await corpus.look_up(chosen, after)
            pool.add_index(
                match
                for match in matches
                if match.address not in read_directly and self._snapshot.includes(match.family)
            )
            await self._add(pool, frequencies, number)
            after = self._resume = matches[-1].address if len(matches) >= chosen.limit else None
            self._is_exact = after is None and chosen.is_complete and not self._access.is_exhausted
            if self._access.is_exhausted:
                self._stop_at_unasked(matches)
            if after is None or self._is_enough() or self._access.is_exhausted:
                return
            chosen = chosen._replace(limit=min(2 * chosen.limit, _MAX_IN_ROUND))
            pool = CandidatePool()

    async def _scan(self) -> CandidatePool:
        """The texts that match among those that are not indexed."""
        pool = CandidatePool()
        starts = starts_of_typos(self._runtime, self._request.query)
        async for selection in self._corpus.not_indexed():
            await candidates.scan(self._runtime, self._request, selection, pool, starts)
        owners = await self._corpus.owners([match for match, _ in pool.read_terms.values()])
        self._read.update(*(terms for address, (_, terms) in pool.read_terms.items() if address in owners))
        return pool

    def _is_enough(self) -> bool:
        return not self._corpus.is_narrowed or len(self._entries) > self._request.returned + self._request.limit

    async def _add(self, pool: CandidatePool, frequencies: Mapping[str, int], number: int = 0) -> None:
        """Rank the candidates that can be shown, and add them after those of earlier rounds."""
        owners = await self._corpus.owners(list(pool.matches.values()))
        pool.keep(lambda match: match.address in owners)
        self._seen.update(term for match in pool.matches.values() for term in match.places)
        if self._snapshot.row is not None:
            self._corpus.use_statistics(pool, self._snapshot.row, frequencies)
        parents = await self._corpus.parents(list(pool.matches.values()))
        ranked = await pool.rank(self._request.query, parents)
        scale = _scale([entry.score for entry in self._entries.values()], ranked)
        for score, match in ranked:
            self._entries[match.address] = Entry(score * scale, match, owners[match.address], number)

    def _stop_at_unasked(self, matches: Sequence[IndexMatch]) -> None:
        """End the walk before the first text of a session that the scope's function was not asked about, so that the
        next page begins with that text. At least one text is passed, so that the pages come to an end."""
        unasked = self._access.unasked
        stop = next((at for at, match in enumerate(matches) if match.family in unasked), len(matches))
        if stop < len(matches):
            stop = max(stop, 1)
            self._resume = matches[stop - 1].address
            for match in matches[stop:]:
                self._entries.pop(match.address, None)

    async def _nearest(self) -> Nearest:
        """The nearest texts that can be shown; those that were not found by words get a score of 0."""

        async def keep(matches: list[IndexMatch]) -> list[IndexMatch]:
            owners = await self._corpus.owners([match for match in matches if match.address not in self._entries])
            for match in matches:
                if match.address in owners:
                    self._entries[match.address] = Entry(0.0, match, owners[match.address])
            return [match for match in matches if match.address in self._entries]

        corpus = self._corpus
        return await find_nearest(
            self._runtime,
            self._request,
            self._snapshot,
            keep,
            ranges=corpus.ranges,
            sessions=corpus.selection,
            is_narrowed=corpus.is_narrowed,
        )


async def _know_nothing(terms: Sequence[str]) -> set[str]:
    return set()


def _scale(earlier: Sequence[float], ranked: Sequence[Ranked]) -> float:
    """The factor by which the scores of a round become lower than those of earlier rounds."""
    lowest, best = min(earlier, default=None), max((score for score, _ in ranked), default=0.0)
    return 1.0 if lowest is None or best < lowest else 0.999 * lowest / best if best else 1.0
