"""`TermIndex`: the inverted index of one namespace in the memory store."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from frontdesk.store import (
    TEXT_KINDS,
    Address,
    IndexMatch,
    IndexQuery,
    IndexState,
    IndexText,
    Phrase,
    Place,
)

_Places = dict[str, list[int]]


class _Text(NamedTuple):
    place: Place | None
    family: int
    at: int
    length: int
    terms: Collection[str]
    facets: Sequence[str]


class TermIndex:
    """The texts of one namespace, by their terms and facets."""

    def __init__(self) -> None:
        self.state: IndexState | None = None
        self.length = 0
        self.texts: dict[Address, _Text] = {}
        self._terms: defaultdict[str, dict[Address, list[int]]] = defaultdict(dict)
        self._facets: defaultdict[str, set[Address]] = defaultdict(set)
        self._sorted: list[str] | None = None
        self._positions: defaultdict[tuple[str, int], set[int]] = defaultdict(set)

    def put(self, text: IndexText, place: Place | None, family: int) -> None:
        self.drop(text.address)
        places: _Places = {}
        for at, term in enumerate(text.terms):
            places.setdefault(term, []).append(at)
        for term, found in places.items():
            self._terms[term][text.address] = found
        for facet in text.facets:
            self._facets[facet].add(text.address)
        self.texts[text.address] = _Text(place, family, text.at, len(text.terms), places, text.facets)
        self._positions[text.address[:2]].add(text.address.position)
        self.length += len(text.terms)
        self._sorted = None

    def drop_range(self, first: Address, last: Address) -> None:
        """Remove the texts from one address to another of the same kind and number."""
        for address in self._within(first, last):
            self.drop(address)

    def drop(self, address: Address) -> None:
        text = self.texts.pop(address, None)
        if text is None:
            return
        positions = self._positions[address[:2]]
        positions.discard(address.position)
        if not positions:
            del self._positions[address[:2]]
        self.length -= text.length
        for term in text.terms:
            del self._terms[term][address]
            if not self._terms[term]:
                del self._terms[term]
        for facet in text.facets:
            self._facets[facet].discard(address)
        self._sorted = None

    def holding(self, term: str) -> Mapping[Address, list[int]]:
        """The texts with a term, and its places in them."""
        if not term.endswith("*"):
            return self._terms.get(term, {})
        together: dict[Address, list[int]] = {}
        for beginning in self.beginning(term[:-1]):
            for address, places in self._terms[beginning].items():
                together.setdefault(address, []).extend(places)
        return {address: sorted(places) for address, places in together.items()}

    def beginning(self, prefix: str) -> Iterator[str]:
        """The terms that start with a prefix, in order."""
        if self._sorted is None:
            self._sorted = sorted(self._terms)
        for index in range(bisect_left(self._sorted, prefix), len(self._sorted)):
            if not self._sorted[index].startswith(prefix):
                return
            yield self._sorted[index]

    def matches(self, query: IndexQuery, families: Collection[int] | None) -> list[IndexMatch]:
        """The texts that match; with `families`, only those of these families."""
        holding = {term: self.holding(term) for term in dict.fromkeys((*query.seek, *query.count))}
        found = self._candidates(query, holding)
        for facets in query.facets:
            # Each by itself: what a facet holds may be everything, and what was found so far is often little.
            found = set().union(*(found & self._facets[facet] for facet in facets if facet in self._facets))
        if families is not None:
            found = {address for address in found if self.texts[address].family in families}
        if query.after is not None:
            last = _age(query.after)
            found = {address for address in found if _age(address) < last}
        wanted = (address for address in sorted(found, key=_age, reverse=True) if self._passes(address, query))
        return [self._match(address, holding) for address, _ in zip(wanted, range(query.limit), strict=False)]

    def _candidates(self, query: IndexQuery, holding: Mapping[str, Mapping[Address, list[int]]]) -> set[Address]:
        if query.ranges is None:
            return set().union(*(holding[term] for term in query.seek)) if query.seek else set(self.texts)
        if not query.seek:
            return {address for first, last in query.ranges for address in self._within(first, last)}
        ranges = sorted(query.ranges)
        firsts = [first for first, _ in ranges]

        def is_within(address: Address) -> bool:
            index = bisect_right(firsts, address)
            return index > 0 and address[:2] == ranges[index - 1][1][:2] and address <= ranges[index - 1][1]

        return {address for term in query.seek for address in holding[term] if is_within(address)}

    def _within(self, first: Address, last: Address) -> list[Address]:
        """The texts from one address to another of the same kind and number."""
        positions = self._positions.get(first[:2], ())
        return [first._replace(position=at) for at in positions if first.position <= at <= last.position]

    def _passes(self, address: Address, query: IndexQuery) -> bool:
        return all(self._holds(address, phrase) for phrase in query.phrases) and not any(
            self._holds(address, phrase) for phrase in query.excluded
        )

    def _holds(self, address: Address, phrase: Phrase) -> bool:
        return all(self._stands(address, stretch) for stretch in phrase)

    def _stands(self, address: Address, stretch: Sequence[str]) -> bool:
        places = [self._terms.get(term, {}).get(address, ()) for term in stretch]
        return any(all(start + step in at for step, at in enumerate(places)) for start in places[0])

    def _match(self, address: Address, holding: Mapping[str, Mapping[Address, list[int]]]) -> IndexMatch:
        text = self.texts[address]
        places = {term: at[address] for term, at in holding.items() if address in at}
        return IndexMatch(address, text.place, text.family, text.at, text.length, places)


def _age(address: Address) -> tuple[int, int, int]:
    return TEXT_KINDS.index(address.kind), address.number, address.position
