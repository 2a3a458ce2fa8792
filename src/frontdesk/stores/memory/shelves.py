"""Shelves in the memory store."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import islice

from frontdesk.moments import now
from frontdesk.store import (
    Blob,
    BlobRange,
    OwnerFilter,
    ShelfKey,
    ShelfQuery,
    ShelfRead,
    ShelfRow,
    ShelfVersion,
    ShelfWrite,
    Swept,
)
from frontdesk.stores.memory.rows import MemoryShelf, Rows


def read(rows: Rows, key: ShelfKey, ranges: Sequence[BlobRange]) -> ShelfRead:
    shelf = rows.shelves.get(key)
    if shelf is None:
        return ShelfRead(None, [[] for _ in ranges])
    found = [[Blob(each, shelf.blobs[each]) for each in _keys(shelf, wanted)] for wanted in ranges]
    return ShelfRead(shelf.version, found)


def after(rows: Rows, namespace: str, name: str, id: str, limit: int) -> list[ShelfRow]:
    keys = sorted(key for key in rows.shelves if key.namespace == namespace and key[1:] > (name, id))[:limit]
    return [ShelfRow(key, rows.shelves[key].version, rows.shelves[key].owner) for key in keys]


def restore(rows: Rows, row: ShelfRow, blobs: Sequence[Blob]) -> None:
    shelf = rows.shelves.setdefault(row.key, MemoryShelf(row.version))
    shelf.version, shelf.owner = row.version, row.owner or shelf.owner
    for blob in blobs:
        _set(shelf, blob)


def write(rows: Rows, given: ShelfWrite) -> ShelfVersion | None:
    shelf = rows.shelves.get(given.key)
    if not given.allows(None if shelf is None else shelf.version):
        return None
    if shelf is None:
        at = now()
        shelf = rows.shelves[given.key] = MemoryShelf(ShelfVersion(at, at))
    elif any(_keys(shelf, wanted) for wanted in given.if_empty):
        return None
    else:
        number = shelf.version.number + 1
        shelf.version = ShelfVersion(number, number if given.delete else shelf.version.edition)
    shelf.owner = given.owner or shelf.owner
    for gone in given.delete:
        for key in _keys(shelf, gone):
            del shelf.blobs[key]
            del shelf.keys[bisect_left(shelf.keys, key)]
    for blob in given.put:
        _set(shelf, blob)
    for blob in given.add:
        if blob.key not in shelf.blobs:
            _set(shelf, blob)
    return shelf.version


def delete(rows: Rows, key: ShelfKey) -> bool:
    return rows.shelves.pop(key, None) is not None


def page(rows: Rows, query: ShelfQuery) -> list[str]:
    here = (key.id for key in rows.shelves if key[:2] == (query.namespace, query.name))
    return sorted(id for id in here if id.startswith(query.prefix) and id > query.after)[: query.limit]


def delete_owned(rows: Rows, namespace: str, owners: OwnerFilter, limit: int) -> Swept:
    owned = (
        key
        for key, shelf in rows.shelves.items()
        if key.namespace == namespace and shelf.owner is not None and owners.matches(shelf.owner)
    )
    keys = [*islice(owned, limit)]
    for key in keys:
        del rows.shelves[key]
    return Swept(len(keys), len(keys) == limit)


def _keys(shelf: MemoryShelf, wanted: BlobRange) -> list[bytes]:
    start, end = bisect_left(shelf.keys, wanted.first), bisect_left(shelf.keys, wanted.end)
    if wanted.backwards:
        return shelf.keys[max(start, end - wanted.limit) : end][::-1]
    return shelf.keys[start : min(end, start + wanted.limit)]


def _set(shelf: MemoryShelf, blob: Blob) -> None:
    if blob.key not in shelf.blobs:
        insort(shelf.keys, blob.key)
    shelf.blobs[blob.key] = blob.value
