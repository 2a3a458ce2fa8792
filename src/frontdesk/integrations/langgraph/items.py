"""The items of a namespace, on a shelf of their own, and an index of their words, so that a query reads only the items
that have one of its words, and a list of the newest items only those.

The keys on the shelf:

- `k` and the key of an item: the item.
- `n` and the number of an item: its key. Each change gives an item a new number, so the last one was changed last.
- `t`, a term, a zero byte and the number of an item that has the term: the key of the item.
- `s`: the sums over all items.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
from langgraph.store.base import PutOp
from langgraph.store.base.embed import get_text_at_path

from frontdesk.checks import check_json
from frontdesk.errors import InvalidInputError
from frontdesk.keys import SessionKey
from frontdesk.moments import now
from frontdesk.search.query import Query
from frontdesk.search.ranking import Candidate, Matcher, Statistics, rank
from frontdesk.search.tokeniser import TOKENISER
from frontdesk.states.shelves import BlobRange, Shelves, one, starting_with

_SUMS = b"s"
_NUMBERS = starting_with(b"n")
_MOST_MATCHES = 1_000
"""how many items a word of a query finds, and how many are ranked: those with the rarest words"""
_LONGEST_TERM = 500
"""bytes of a term in a key"""
_PAGE = 50


class ItemRecord(msgspec.Struct, frozen=True, array_like=True):
    """An item. `value` is JSON, and `index` says what of it a query finds: None means all texts. `terms` are those of
    its texts, in their order, as they were indexed."""

    key: str
    number: int
    created_at: int
    updated_at: int
    index: Literal[False] | list[str] | None
    value: str
    terms: list[str]


class _Sums(msgspec.Struct, frozen=True, array_like=True):
    """The highest number so far, and how many items have terms, with how many in all."""

    last: int = 0
    texts: int = 0
    length: int = 0


_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(ItemRecord).decode


@dataclass
class _Change:
    """What a write puts on a shelf, and deletes from it."""

    sums: _Sums
    put: dict[bytes, bytes] = field(default_factory=dict)
    delete: list[BlobRange] = field(default_factory=list)

    def remove(self, record: ItemRecord) -> None:
        self.delete += map(one, [_item_key(record.key), *_index_keys(record)])
        self._count(-1, record)

    def add(self, op: PutOp, value: str, before: ItemRecord | None) -> None:
        at = now()
        record = ItemRecord(
            key=op.key,
            number=self.sums.last + 1,
            created_at=at if before is None else before.created_at,
            updated_at=at,
            index=op.index,
            value=value,
            terms=TOKENISER.terms("\n".join(_texts(op, msgspec.json.decode(value)))),
        )
        self.sums = msgspec.structs.replace(self.sums, last=record.number)
        self.put[_item_key(record.key)] = _encode(record)
        self.put |= dict.fromkeys(_index_keys(record), _encoded(record.key))
        self._count(1, record)

    def _count(self, sign: int, record: ItemRecord) -> None:
        if record.terms:
            texts, length = self.sums.texts + sign, self.sums.length + sign * len(record.terms)
            self.sums = msgspec.structs.replace(self.sums, texts=texts, length=length)


class Items:
    """Reads and writes the items of one shelf."""

    def __init__(self, shelves: Shelves, id: str) -> None:
        self._shelves = shelves
        self._id = id

    async def get(self, key: str) -> ItemRecord | None:
        (found,) = (await self._shelves.read(self._id, one(_item_key(key)))).found
        return _decode(found[0].value) if found else None

    async def write(self, items: Mapping[str, PutOp], owner: SessionKey | None) -> None:
        """Write items. One that is there already keeps the time of its creation."""
        values = {key: check_json(dict(op.value), "value") for key, op in items.items() if op.value is not None}
        while True:
            wanted = [one(_SUMS), *(one(_item_key(key)) for key in items)]
            version, (sums, *found) = await self._shelves.read(self._id, *wanted)
            before = {key: _decode(blobs[0].value) for key, blobs in zip(items, found, strict=True) if blobs}
            if not values and not before:
                return
            change = _Change(msgspec.msgpack.decode(sums[0].value, type=_Sums) if sums else _Sums())
            for record in before.values():
                change.remove(record)
            for key, value in values.items():
                change.add(items[key], value, before.get(key))
            written = await self._shelves.write(
                self._id,
                put={**change.put, _SUMS: _encode(change.sums)},
                delete=change.delete,
                owner=owner,
                if_number=None if version is None else version.number,
                if_empty=[one(_SUMS)] if version is None else [],
            )
            if written is not None:
                return

    async def is_empty(self) -> bool:
        (found,) = (await self._shelves.read(self._id, _NUMBERS._replace(limit=1))).found
        return not found

    async def newest(self) -> AsyncIterator[ItemRecord]:
        """All items, the one that was changed last first."""
        wanted = _NUMBERS._replace(limit=_PAGE, backwards=True)
        while numbers := (await self._shelves.read(self._id, wanted)).found[0]:
            for record in await self._read(blob.value for blob in numbers):
                yield record
            wanted = wanted._replace(end=numbers[-1].key)

    async def match(self, query: Query, statistics: Statistics) -> list[ItemRecord]:
        """Items that have a word of the query, and the statistics of all items with respect to it, which are added to
        `statistics`."""
        ranges = {word: starting_with(_term_key(word) + b"\0") for word in query.words}
        ranges |= {f"{prefix}*": starting_with(_term_key(prefix)) for prefix in query.prefixes}
        limited = [each._replace(limit=_MOST_MATCHES, backwards=True) for each in ranges.values()]
        _, (sums, *found) = await self._shelves.read(self._id, one(_SUMS), *limited)
        if not sums:
            return []
        _, texts, length = msgspec.structs.astuple(msgspec.msgpack.decode(sums[0].value, type=_Sums))
        statistics.texts += texts
        statistics.length += length
        keys = {term: dict.fromkeys(blob.value for blob in blobs) for term, blobs in zip(ranges, found, strict=True)}
        for term, having in keys.items():
            statistics.frequencies[term] = statistics.frequencies.get(term, 0) + len(having)
        rarest_first = dict.fromkeys(key for having in sorted(keys.values(), key=len) for key in having)
        return await self._read(list(rarest_first)[:_MOST_MATCHES])

    async def _read(self, keys: Iterator[bytes] | list[bytes]) -> list[ItemRecord]:
        """The items with these keys, without those that were deleted meanwhile."""
        found = (await self._shelves.read(self._id, *(one(b"k" + key) for key in keys))).found
        return [_decode(blob.value) for blobs in found for blob in blobs]


def rank_items(query: Query, records: list[ItemRecord], statistics: Statistics) -> list[tuple[int, float]]:
    """(index, score) of the items that match a query, best first."""
    matcher = Matcher(query)
    found = ((index, matcher.find(record.terms)) for index, record in enumerate(records))
    matched = [(index, places) for index, places in found if places is not None]
    scores = rank(query, [Candidate(places) for _, places in matched], statistics)
    pairs = [(index, score) for (index, _), score in zip(matched, scores, strict=True) if score > 0]
    return sorted(pairs, key=lambda pair: -pair[1])


def _item_key(key: str) -> bytes:
    return b"k" + _encoded(key)


def _encoded(key: str) -> bytes:
    try:
        return key.encode()
    except UnicodeEncodeError:
        raise InvalidInputError("the key of an item contains half of a character, which is not text") from None


def _term_key(term: str) -> bytes:
    """A long term shares its key with those that begin like it: what the items say decides."""
    return b"t" + term.encode()[:_LONGEST_TERM]


def _index_keys(record: ItemRecord) -> Iterator[bytes]:
    number = record.number.to_bytes(8)
    yield b"n" + number
    for term in dict.fromkeys(record.terms):
        yield _term_key(term) + b"\0" + number


def _texts(op: PutOp, value: Any) -> Iterator[str]:
    """What a query finds of an item."""
    if op.index is None:
        yield op.key
        yield from _strings(value)
    elif op.index:
        for path in op.index:
            yield from get_text_at_path(value, path)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)
    elif value is not None:
        yield str(value)
