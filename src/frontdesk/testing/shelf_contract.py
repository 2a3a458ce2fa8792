"""The contract of a `ShelfStore`: bytes come back exactly and in order, a write happens whole or not at all, and what
is deleted is gone."""

from __future__ import annotations

import asyncio
from itertools import product

import pytest

from frontdesk.errors import StoreClosedError
from frontdesk.messages.ids import new_id
from frontdesk.store import (
    Blob,
    BlobRange,
    OwnerFilter,
    ShelfKey,
    ShelfQuery,
    ShelfStore,
    ShelfVersion,
    ShelfWrite,
    StateOwner,
)
from frontdesk.testing.inputs import HOSTILE_IDS, StoredText

EVERYTHING = BlobRange(b"", b"\xff" * 8)
ANA, BEN = StateOwner("bot", "web", "ana", None), StateOwner("bot", "web", "ben", None)
SECRET = "the-word-that-must-go"


class ShelfContract:
    """Everything that users of a `ShelfStore` rely on.

    A subclass supplies the fixtures `store` and `stored_text`. One database may serve all tests: each test has a
    namespace of its own."""

    @pytest.fixture
    def key(self) -> ShelfKey:
        return ShelfKey(f"contract-{new_id()}", "checkpoints", "thread")

    async def test_any_bytes_come_back_exactly_and_in_the_order_of_their_keys(
        self, store: ShelfStore, key: ShelfKey
    ) -> None:
        keys = [bytes(pair) for pair in product((0, 1, 39, 127, 128, 254), repeat=2)] + [b"a", b"a\0", b"ab", b"\0"]
        blobs = {each: bytes(range(256)) * n for n, each in enumerate(keys)}
        await put(store, key, dict(reversed(blobs.items())))
        assert await read(store, key, EVERYTHING) == [Blob(each, blobs[each]) for each in sorted(keys)]

    async def test_a_range_begins_with_its_first_key_and_ends_before_its_end(
        self, store: ShelfStore, key: ShelfKey
    ) -> None:
        await put(store, key, {each: each for each in (b"a", b"b", b"b\0", b"c", b"d")})
        found = await store.read_shelf(
            key,
            [
                BlobRange(b"b", b"d"),
                BlobRange(b"a", b"d", limit=2),
                BlobRange(b"a", b"d", limit=2, backwards=True),
                BlobRange(b"d", b"a"),
                BlobRange(b"b", b"b\0"),
            ],
        )
        names = [[blob.key for blob in blobs] for blobs in found.found]
        assert names == [[b"b", b"b\0", b"c"], [b"a", b"b"], [b"c", b"b\0"], [], [b"b"]]

    async def test_a_shelf_that_was_never_written_to_is_empty(self, store: ShelfStore, key: ShelfKey) -> None:
        assert await store.read_shelf(key, [EVERYTHING, EVERYTHING]) == (None, [[], []])
        assert await store.list_shelves(query(key)) == []
        assert not await store.delete_shelf(key)

    async def test_one_write_deletes_replaces_and_adds(self, store: ShelfStore, key: ShelfKey) -> None:
        await put(store, key, {b"a": b"1", b"b": b"1", b"c": b"1", b"d": b"1"})
        write = ShelfWrite(
            key=key,
            delete=(BlobRange(b"a", b"c"),),
            put=(Blob(b"b", b"2"), Blob(b"c", b"2")),
            add=(Blob(b"a", b"2"), Blob(b"d", b"2")),
        )
        assert await store.write_shelf(write) is not None
        assert await read(store, key, EVERYTHING) == [(b"a", b"2"), (b"b", b"2"), (b"c", b"2"), (b"d", b"1")]

    async def test_every_write_has_a_new_version_and_those_that_delete_a_new_edition(
        self, store: ShelfStore, key: ShelfKey
    ) -> None:
        first = await put(store, key, {b"a": b"1"})
        second = await put(store, key, {b"b": b"1"})
        third = await store.write_shelf(ShelfWrite(key=key, delete=(BlobRange(b"a", b"b"),)))
        assert third is not None
        assert first.number < second.number < third.number
        assert first.edition == second.edition < third.edition
        assert (await store.read_shelf(key, [])).version == third
        assert await store.delete_shelf(key)
        again = await put(store, key, {b"a": b"1"})
        assert again.number > third.number
        assert again.edition > third.edition

    async def test_a_refused_write_changes_nothing(self, store: ShelfStore, key: ShelfKey) -> None:
        missing = ShelfWrite(key=key, put=(Blob(b"x", b"2"),), if_number=1)
        assert await store.write_shelf(missing) is None
        assert await store.list_shelves(query(key)) == []
        old = await put(store, key, {b"a": b"1", b"c": b"1"})
        deleted = await store.write_shelf(ShelfWrite(key=key, delete=(BlobRange(b"c", b"d"),)))
        assert deleted is not None
        everything = {"put": (Blob(b"x", b"2"),), "delete": (BlobRange(b"a", b"b"),), "owner": BEN}
        for guard in (
            {"if_number": old.number},
            {"if_edition": old.edition},
            {"if_number": deleted.number, "if_edition": old.edition},
            {"if_empty": (BlobRange(b"b", b"c"), BlobRange(b"a", b"b"))},
        ):
            assert await store.write_shelf(ShelfWrite(key=key, **everything, **guard)) is None  # type: ignore[arg-type]
        assert await store.read_shelf(key, [EVERYTHING]) == (deleted, [[(b"a", b"1")]])
        assert await store.delete_owned_shelves(key.namespace, OwnerFilter(peer="ben"), 10) == (0, False)

    async def test_a_write_whose_conditions_hold_is_made(self, store: ShelfStore, key: ShelfKey) -> None:
        empty = BlobRange(b"b", b"z")
        created = await store.write_shelf(ShelfWrite(key=key, put=(Blob(b"a", b"1"),), if_empty=(empty,)))
        assert created is not None
        write = ShelfWrite(
            key=key,
            put=(Blob(b"b", b"1"),),
            if_number=created.number,
            if_edition=created.edition,
            if_empty=(empty,),
        )
        assert await store.write_shelf(write) is not None
        assert await read(store, key, EVERYTHING) == [(b"a", b"1"), (b"b", b"1")]

    async def test_of_writers_that_want_the_same_range_empty_one_succeeds(
        self, store: ShelfStore, key: ShelfKey
    ) -> None:
        wanted = BlobRange(b"i", b"j")
        writes = [ShelfWrite(key=key, put=(Blob(b"i%d" % n, b"%d" % n),), if_empty=(wanted,)) for n in range(8)]
        results = await asyncio.gather(*map(store.write_shelf, writes))
        assert sum(result is not None for result in results) == 1
        assert len(await read(store, key, wanted)) == 1

    async def test_concurrent_writes_to_a_new_shelf_are_all_kept(self, store: ShelfStore, key: ShelfKey) -> None:
        await asyncio.gather(*(put(store, key, {b"%02d" % n: b"x"}) for n in range(12)))
        assert [blob.key for blob in await read(store, key, EVERYTHING)] == [b"%02d" % n for n in range(12)]

    async def test_hostile_ids_names_and_namespaces_are_kept_apart(self, store: ShelfStore, key: ShelfKey) -> None:
        texts = [text for text in HOSTILE_IDS if len(text) <= 100]
        keys = [key._replace(id=id) for id in HOSTILE_IDS]
        keys += [key._replace(name=name) for name in texts]
        keys += [key._replace(namespace=key.namespace + text) for text in texts]
        keys = list(dict.fromkeys(keys))
        for number, each in enumerate(keys):
            await put(store, each, {b"k": b"%d" % number})
        for number, each in enumerate(keys):
            assert await read(store, each, EVERYTHING) == [(b"k", b"%d" % number)], each
        for each in keys[::2]:
            assert await store.delete_shelf(each)
        assert [each for each in keys if (await store.read_shelf(each, [])).version] == keys[1::2]

    async def test_shelves_are_listed_by_id_in_pages(self, store: ShelfStore, key: ShelfKey) -> None:
        ids = ["a", "a%", "a_", "ab", "b", "é", "ﬀ", "🦊"]
        for id in reversed(ids):
            await put(store, key._replace(id=id), {b"k": b""})
        await put(store, key._replace(name="other"), {b"k": b""})
        assert await store.list_shelves(query(key)) == ids
        assert await store.list_shelves(query(key)._replace(limit=3)) == ids[:3]
        assert await store.list_shelves(query(key)._replace(after="ab")) == ids[4:]
        assert await store.list_shelves(query(key)._replace(prefix="a", after="a")) == ["a%", "a_", "ab"]
        assert await store.list_shelves(query(key)._replace(prefix="a_")) == ["a_"]
        assert await store.list_shelves(query(key)._replace(prefix="\U0010ffff")) == []

    async def test_a_deleted_shelf_leaves_nothing_in_the_store(
        self, store: ShelfStore, key: ShelfKey, stored_text: StoredText
    ) -> None:
        async def is_stored() -> bool:
            text = await stored_text()
            return SECRET in text or SECRET.encode().hex() in text

        await put(store, key, {b"a": SECRET.encode()})
        assert await is_stored()
        assert await store.delete_shelf(key)
        assert not await is_stored()
        assert not await store.delete_shelf(key)
        await put(store, key, {b"b": b"1"})
        assert await read(store, key, EVERYTHING) == [(b"b", b"1")]

    async def test_shelves_are_deleted_by_their_owners(self, store: ShelfStore, key: ShelfKey) -> None:
        owners = {"ana": ANA, "ana-2": ANA._replace(thread="t"), "ben": BEN, "nobody": None}
        for id, owner in owners.items():
            await put(store, key._replace(id=id), {b"k": b""}, owner=owner)
        await put(store, key._replace(id="ana"), {b"l": b""})  # keeps its owner
        await put(store, key._replace(namespace=f"{key.namespace}2", id="ana"), {b"k": b""}, owner=ANA)
        assert await store.delete_owned_shelves(key.namespace, OwnerFilter(peer="ana", thread="u"), 10) == (0, False)
        assert await store.delete_owned_shelves(key.namespace, OwnerFilter(agent="bot", peer="ana"), 1) == (1, True)
        assert await store.delete_owned_shelves(key.namespace, OwnerFilter(agent="bot", peer="ana"), 2) == (1, False)
        assert await store.list_shelves(query(key)) == ["ben", "nobody"]
        await put(store, key._replace(id="ben"), {b"l": b""}, owner=ANA)
        assert await store.delete_owned_shelves(key.namespace, OwnerFilter(peer="ben"), 2) == (0, False)
        assert await store.delete_owned_shelves(key.namespace, OwnerFilter(channel="web"), 2) == (1, False)
        assert await store.list_shelves(query(key)) == ["nobody"]
        there = query(key)._replace(namespace=f"{key.namespace}2")
        assert await store.list_shelves(there) == ["ana"]

    async def test_every_call_of_a_closed_store_raises_store_closed(self, store: ShelfStore, key: ShelfKey) -> None:
        await put(store, key, {b"a": b"1"})
        await store.close()  # type: ignore[attr-defined]
        for call in (
            store.read_shelf(key, []),
            store.write_shelf(ShelfWrite(key=key)),
            store.delete_shelf(key),
            store.list_shelves(query(key)),
            store.delete_owned_shelves(key.namespace, OwnerFilter(), 1),
        ):
            with pytest.raises(StoreClosedError):
                await call


def query(key: ShelfKey) -> ShelfQuery:
    return ShelfQuery(key.namespace, key.name, 1000)


async def read(store: ShelfStore, key: ShelfKey, wanted: BlobRange) -> list[Blob]:
    return (await store.read_shelf(key, [wanted])).found[0]


async def put(
    store: ShelfStore, key: ShelfKey, blobs: dict[bytes, bytes], owner: StateOwner | None = None
) -> ShelfVersion:
    version = await store.write_shelf(ShelfWrite(key=key, put=tuple(map(Blob._make, blobs.items())), owner=owner))
    assert version is not None
    return version
