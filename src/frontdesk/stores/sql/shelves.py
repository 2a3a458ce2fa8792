"""Shelves: bytes under ordered keys. The writer of a shelf locks its row, so that there is one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
    StateOwner,
    Swept,
    prefix_end,
)
from frontdesk.stores.sql.database import Database

_FIND = (
    "SELECT s.ns, s.number, s.version, s.edition FROM {schema}.shelves s"
    " WHERE s.ns = {here} AND s.name = :name AND s.id = :id"
)
_CREATE = (
    "INSERT INTO {schema}.shelves (ns, {number,} name, id, version, edition)"
    " SELECT :ns, {:number,} :name, :id, t.at, t.at FROM (SELECT {now} AS at LIMIT 1) t WHERE true {keep}"
)
_OF = "ns = :ns AND name = :name AND id = :id"
_CHANGE = f"UPDATE {{schema}}.shelves SET version = :number, edition = :edition WHERE {_OF}"
_OWN = (
    f"UPDATE {{schema}}.shelves SET agent = :agent, channel = :channel, peer = :peer, thread = :thread WHERE {_OF}"
    " AND NOT (peer IS NOT NULL AND agent = :agent AND channel = :channel AND peer = :peer"
    " AND coalesce(thread, '') = coalesce(CAST(:thread AS text), ''))"
)
_IN_RANGE = "{schema}.blobs WHERE {ns} shelf = :shelf AND key >= :first AND key < :end"
_INSERT = "INSERT INTO {schema}.blobs ({ns,} shelf, key, value) VALUES ({:ns,} :shelf, :key, :value)"
_PUT = f"{_INSERT} {{replace {{ns,}} shelf, key: value}}"
_ADD = f"{_INSERT} {{keep}}"
_READ = f"SELECT CAST(:index AS integer), key, value FROM {_IN_RANGE} ORDER BY key%s LIMIT :limit"
_FORWARDS, _BACKWARDS = _READ % "", _READ % " DESC"
_PAGE = (
    "SELECT s.id FROM {schema}.shelves s WHERE s.ns = {here} AND s.name = :name AND s.id >= :prefix AND s.id > :after"
)
_AFTER = (
    "SELECT s.name, s.id, s.version, s.edition, s.agent, s.channel, s.peer, s.thread FROM {schema}.shelves s"
    " WHERE s.ns = {here} AND (s.name, s.id) > (:name, :id) ORDER BY s.name, s.id LIMIT :limit"
)
_OWNED = "SELECT s.ns, s.number, s.name, s.id FROM {schema}.shelves s WHERE s.ns = {here} AND s.peer IS NOT NULL"


async def read(db: Database, key: ShelfKey, ranges: Sequence[BlobRange]) -> ShelfRead:
    found: list[list[Blob]] = [[] for _ in ranges]
    row = await db.fetch_row(_FIND, **key._asdict())
    if row is None:
        return ShelfRead(None, found)
    for statement, backwards in ((_FORWARDS, False), (_BACKWARDS, True)):
        wanted = [
            {"ns": row[0], "shelf": row[1], "index": index, **each._asdict()}
            for index, each in enumerate(ranges)
            if each.backwards == backwards
        ]
        for index, *blob in await db.fetch_many(statement, wanted) if wanted else ():
            found[index].append(Blob(*blob))
    return ShelfRead(ShelfVersion(row[2], row[3]), found)


async def after(db: Database, namespace: str, name: str, id: str, limit: int) -> list[ShelfRow]:
    return [
        ShelfRow(
            ShelfKey(namespace, of, found),
            ShelfVersion(number, edition),
            None if owner[2] is None else StateOwner(*owner),
        )
        for of, found, number, edition, *owner in await db.fetch(
            _AFTER, namespace=namespace, name=name, id=id, limit=limit
        )
    ]


async def restore(db: Database, shelf: ShelfRow, blobs: Sequence[Blob]) -> None:
    """Write a shelf as it is, with these blobs. Needs a transaction."""
    key = shelf.key._asdict()
    while (row := await db.fetch_row(f"{_FIND} {{lock}}", **key)) is None:
        await db.execute(_CREATE, ns=await db.namespace(shelf.key.namespace), **key)
    ns, number = row[:2]
    await db.execute(_CHANGE, ns=ns, **key, **shelf.version._asdict())
    if shelf.owner is not None:
        await db.execute(_OWN, ns=ns, **key, **shelf.owner._asdict())
    await db.execute_many(_PUT, [{"ns": ns, "shelf": number, **blob._asdict()} for blob in blobs])


async def write(db: Database, given: ShelfWrite) -> ShelfVersion | None:
    """Needs a transaction."""
    key = given.key._asdict()
    row = await db.fetch_row(f"{_FIND} {{lock}}", **key)
    if not given.allows(None if row is None else ShelfVersion(row[2], row[3])):
        return None
    while row is None:
        await db.execute(_CREATE, ns=await db.namespace(given.key.namespace), **key)
        row = await db.fetch_row(f"{_FIND} {{lock}}", **key)
    ns, shelf, number, edition = row
    for wanted in given.if_empty:
        if await db.fetch_value(f"SELECT 1 FROM {_IN_RANGE} LIMIT 1", **_range(ns, shelf, wanted)) is not None:
            return None
    version = ShelfVersion(number + 1, number + 1 if given.delete else edition)
    await db.execute(_CHANGE, ns=ns, **key, **version._asdict())
    if given.owner is not None:
        await db.execute(_OWN, ns=ns, **key, **given.owner._asdict())
    await db.execute_many(f"DELETE FROM {_IN_RANGE}", [_range(ns, shelf, each) for each in given.delete])
    for statement, blobs in ((_PUT, given.put), (_ADD, given.add)):
        await db.execute_many(statement, [{"ns": ns, "shelf": shelf, **blob._asdict()} for blob in blobs])
    return version


async def delete(db: Database, key: ShelfKey) -> bool:
    """Needs a transaction."""
    row = await db.fetch_row(f"{_FIND} {{lock}}", **key._asdict())
    if row is None:
        return False
    await _remove(db, row[0], row[1], key.name, key.id)
    return True


async def page(db: Database, query: ShelfQuery) -> list[str]:
    end = prefix_end(query.prefix)
    before = "" if end is None else " AND s.id < :end"
    rows = await db.fetch(f"{_PAGE}{before} ORDER BY s.id LIMIT :limit", **query._asdict(), end=end)
    return [id for (id,) in rows]


async def delete_owned(db: Database, namespace: str, owners: OwnerFilter, limit: int) -> Swept:
    """Needs a transaction."""
    given = {part: wanted for part, wanted in owners._asdict().items() if wanted is not None}
    conditions = "".join(f" AND s.{part} = :{part}" for part in given)
    # Rows are locked in one order, so that two removals do not wait for each other.
    found = await db.fetch(
        f"{_OWNED}{conditions} ORDER BY s.name, s.id LIMIT :limit {{lock}}", namespace=namespace, limit=limit, **given
    )
    for row in found:
        await _remove(db, *row)
    return Swept(len(found), len(found) == limit)


async def _remove(db: Database, ns: Any, shelf: int, name: str, id: str) -> None:
    rows = "DELETE FROM {schema}.blobs WHERE {ns} shelf = :shelf"
    await db.execute_many(rows, [{"ns": ns, "shelf": shelf}], unlimited=True)
    await db.execute(f"DELETE FROM {{schema}}.shelves WHERE {_OF}", ns=ns, name=name, id=id)


def _range(ns: Any, shelf: int, wanted: BlobRange) -> dict[str, Any]:
    return {"ns": ns, "shelf": shelf, "first": wanted.first, "end": wanted.end}
