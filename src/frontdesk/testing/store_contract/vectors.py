"""Vectors: the optional ability of a store that is a `VectorStore`."""

from __future__ import annotations

import asyncio
import math
import random
import struct
from collections.abc import Sequence
from typing import Protocol

import pytest

from frontdesk.errors import EmbeddingError
from frontdesk.store import (
    Address,
    IndexState,
    NewSession,
    NewVector,
    Place,
    Position,
    SessionSelection,
    Store,
    VectorRow,
    VectorStore,
)
from frontdesk.store.vectors import COMPARED_IN_FULL
from frontdesk.testing.store_contract.search_index import index_all
from frontdesk.testing.store_contract.steps import (
    NAMESPACE,
    NOW,
    add,
    at,
    change,
    cover,
    delete,
    delete_session,
    fork,
    message,
    place,
    replace,
    row,
    tree,
)
from frontdesk.tree import plans

DIMENSIONS = 8


def unit(*numbers: float) -> bytes:
    """A vector of length one that starts with these numbers, scaled."""
    padded = [*numbers, *(0.0 for _ in range(DIMENSIONS - len(numbers)))]
    length = math.sqrt(sum(number * number for number in padded))
    return struct.pack(f"<{DIMENSIONS}f", *(number / length for number in padded))


def place_address(place: Place) -> Address:
    return Address("message", *place)


class StoreWithVectors(Store, VectorStore, Protocol):
    """A store that is both."""


async def put(store: StoreWithVectors, vectors: Sequence[NewVector], namespace: str = NAMESPACE) -> int:
    await store.prepare_vectors(namespace, DIMENSIONS)
    return await store.put_vectors(namespace, DIMENSIONS, vectors)


async def near(store: StoreWithVectors, vector: bytes, limit: int = 10, namespace: str = NAMESPACE) -> list[Address]:
    return [near.address for near in await store.nearest(namespace, vector, limit)]


async def spoken_by(store: StoreWithVectors, *ids: str) -> dict[str, Address]:
    """A session with these messages, each with a vector in a direction of its own."""
    await add(store, "chat", *ids)
    found = await tree(store, "chat", *ids)
    addresses = {id: place_address(at(found, id)) for id in ids}
    directions = {id: unit(*(1.0 if index == turn else 0.1 for index in range(3))) for turn, id in enumerate(ids)}
    assert await put(store, [NewVector(addresses[id], directions[id]) for id in ids]) == len(ids)
    return addresses


class VectorContract:
    async def test_the_nearest_vectors_come_first_with_their_cosine_similarity(self, store: StoreWithVectors) -> None:
        spoken = await spoken_by(store, "a", "b", "c")
        found = await store.nearest(NAMESPACE, unit(0.1, 1, 0.2), 2)
        assert [near.address for near in found] == [spoken["b"], spoken["c"]]
        expected = sum(
            x * y
            for x, y in zip(
                struct.unpack("<8f", unit(0.1, 1, 0.2)), struct.unpack("<8f", unit(0.1, 1, 0.1)), strict=True
            )
        )
        assert found[0].similarity == pytest.approx(expected, abs=1e-5)
        assert found[0].similarity > found[1].similarity

    async def test_only_vectors_in_the_given_ranges_are_searched(self, store: StoreWithVectors) -> None:
        spoken = await spoken_by(store, "a", "b", "c")
        query = unit(1)
        ranges = [(spoken["b"], spoken["c"]), (spoken["b"], spoken["b"])]
        found = [near.address for near in await store.nearest(NAMESPACE, query, 10, ranges)]
        assert sorted(found) == [spoken["b"], spoken["c"]]
        assert await store.nearest(NAMESPACE, query, 10, []) == []
        many = [(Address("edit", number), Address("edit", number)) for number in range(1, 3_000)]
        found = [near.address for near in await store.nearest(NAMESPACE, query, 10, [*many, ranges[1]])]
        assert found == [spoken["b"]]

    async def test_only_vectors_of_selected_sessions_are_searched(self, store: StoreWithVectors) -> None:
        addresses = {}
        for peer in ("ana", "ben"):
            await store.create(NewSession(namespace=NAMESPACE, id=peer, now=NOW, agent="bot", channel="web", peer=peer))
            await index_all(store, peer, {peer: "word"})
            addresses[peer] = place_address(await place(store, peer, peer))
        await put(store, [NewVector(addresses["ana"], unit(0, 1)), NewVector(addresses["ben"], unit(1))])
        found = await store.nearest(NAMESPACE, unit(1), 1, sessions=SessionSelection(agent="bot", peer="ana"))
        assert [near.address for near in found] == [addresses["ana"]]
        assert await store.nearest(NAMESPACE, unit(1), 1, sessions=SessionSelection(peer="eve")) == []

    async def test_the_nearest_vectors_are_those_that_an_exhaustive_comparison_finds(
        self, store: StoreWithVectors
    ) -> None:
        rng = random.Random(7)
        ids = [f"m{number}" for number in range(300)]
        await add(store, "chat", *ids)
        found = await tree(store, "chat", *ids)
        vectors = {place_address(at(found, id)): unit(*(rng.gauss(0, 1) for _ in range(DIMENSIONS))) for id in ids}
        await put(store, [NewVector(address, vector) for address, vector in vectors.items()])
        query = unit(*(rng.gauss(0, 1) for _ in range(DIMENSIONS)))
        numbers = struct.unpack("<8f", query)

        def cosine(address: Address) -> float:
            return float(sum(x * y for x, y in zip(numbers, struct.unpack("<8f", vectors[address]), strict=True)))

        assert await near(store, query, 20) == sorted(vectors, key=cosine, reverse=True)[:20]

    async def test_the_nearest_of_very_many_vectors_is_found(self, store: StoreWithVectors) -> None:
        rng = random.Random(8)
        ids = [f"m{number}" for number in range(COMPARED_IN_FULL + 500)]
        await add(store, "chat", *ids)
        first, last = [at(await tree(store, "chat", ids[0], ids[-1]), id) for id in (ids[0], ids[-1])]
        addresses = [
            Address("message", first.segment, position) for position in range(first.position, last.position + 1)
        ]
        vectors = {address: unit(*(rng.gauss(0, 1) for _ in range(DIMENSIONS))) for address in addresses}
        assert await put(store, [NewVector(address, vector) for address, vector in vectors.items()]) == len(ids)
        for address in rng.sample(addresses, 20):
            for ranges in (None, [(addresses[0], addresses[-1])]):
                [found] = await store.nearest(NAMESPACE, vectors[address], 1, ranges)
                assert found.address == address
                assert found.similarity == pytest.approx(1, abs=1e-5)

    async def test_a_new_vector_replaces_the_old_one(self, store: StoreWithVectors) -> None:
        spoken = await spoken_by(store, "a", "b")
        await put(store, [NewVector(spoken["a"], unit(0, 0, 0, 1))])
        assert (await near(store, unit(0, 0, 0, 1)))[0] == spoken["a"]
        assert len(await near(store, unit(1))) == 2

    async def test_deleted_or_changed_texts_get_no_vector(self, store: StoreWithVectors) -> None:
        spoken = await spoken_by(store, "a", "b")
        missing = [Address("message", 1 << 20, 0), Address("edit", 99), Address("overlay", 99), Address("session", 99)]
        assert await put(store, [NewVector(address, unit(1)) for address in missing]) == 0
        assert await put(store, [NewVector(spoken["a"], unit(0, 0, 0, 1), "another content")]) == 0
        assert await put(store, [NewVector(spoken["a"], unit(0, 0, 0, 1), message("a").raw)]) == 1

    async def test_namespaces_do_not_see_the_vectors_of_each_other(self, store: StoreWithVectors) -> None:
        await spoken_by(store, "a", "b")
        assert await near(store, unit(1), namespace="elsewhere") == []
        await store.prepare_vectors("elsewhere", 3)
        await store.drop_vectors("elsewhere")
        assert len(await near(store, unit(1))) == 2

    async def test_other_dimensions_are_refused_until_the_vectors_are_dropped(self, store: StoreWithVectors) -> None:
        spoken = await spoken_by(store, "a")
        with pytest.raises(EmbeddingError, match="8 dimensions, not 3"):
            await store.prepare_vectors(NAMESPACE, 3)
        with pytest.raises(EmbeddingError, match="8 dimensions, not 3"):
            await store.put_vectors(NAMESPACE, 3, [])
        await store.drop_vectors(NAMESPACE)
        assert await near(store, unit(1)) == []
        await store.prepare_vectors(NAMESPACE, 3)
        assert await store.put_vectors(NAMESPACE, 3, [NewVector(spoken["a"], struct.pack("<3f", 1, 0, 0))]) == 1

    async def test_the_state_is_set_only_if_it_is_the_expected_one(self, store: StoreWithVectors) -> None:
        await store.prepare_vectors(NAMESPACE, DIMENSIONS)
        assert await store.vector_state(NAMESPACE) is None
        first = IndexState(made_with="a model", position=Position(0, 0), cursor=0)
        then = IndexState(made_with="a model", position=Position(7, 1))
        assert not await store.mark_vectors(NAMESPACE, DIMENSIONS, then, first)
        assert await store.mark_vectors(NAMESPACE, DIMENSIONS, None, first)
        assert not await store.mark_vectors(NAMESPACE, DIMENSIONS, None, then)
        assert await store.mark_vectors(NAMESPACE, DIMENSIONS, first, then)
        assert await store.vector_state(NAMESPACE) == VectorRow(DIMENSIONS, then)
        assert await store.vector_state("elsewhere") is None
        with pytest.raises(EmbeddingError, match="8 dimensions, not 3"):
            await store.mark_vectors(NAMESPACE, 3, then, first)
        await store.drop_vectors(NAMESPACE)
        assert await store.vector_state(NAMESPACE) is None

    async def test_texts_without_a_vector_are_listed_and_vectors_are_counted(self, store: StoreWithVectors) -> None:
        spoken = await spoken_by(store, "a", "b")
        missing = [Address("message", 1 << 20, 0), Address("edit", spoken["a"].number)]
        asked = [missing[0], *spoken.values(), missing[1]]
        assert await store.without_vectors(NAMESPACE, asked) == missing
        assert await store.without_vectors(NAMESPACE, []) == []
        assert (await store.count_vectors(NAMESPACE), await store.count_vectors("elsewhere")) == (2, 0)
        await delete(store, "chat", "a")
        assert await store.without_vectors(NAMESPACE, list(spoken.values())) == [spoken["a"]]
        assert await store.count_vectors(NAMESPACE) == 1

    async def test_vectors_are_deleted_with_their_messages(self, store: StoreWithVectors) -> None:
        spoken = await spoken_by(store, "a", "b", "c")
        await delete(store, "chat", "b")
        assert set(await near(store, unit(1))) == {spoken["a"], spoken["c"]}
        await replace(store, "chat", message("a", "changed"))
        assert await near(store, unit(1)) == [spoken["c"]]
        await change(store, "chat", lambda seen: plans.clear_messages(seen.rows, NOW))
        assert await near(store, unit(1)) == []

    async def test_a_summary_that_is_cut_loses_its_vector_and_gets_no_other(self, store: StoreWithVectors) -> None:
        await spoken_by(store, "a", "b")
        await cover(store, "chat", "o", "a", "b")
        [overlay] = (await tree(store, "chat")).overlays
        vector = NewVector(address=Address("overlay", overlay.number), vector=unit(0, 1))
        assert await put(store, [vector]) == 1
        await delete(store, "chat", "a")
        assert vector.address not in await near(store, unit(0, 1))
        assert await put(store, [vector]) == 0

    async def test_a_message_that_a_fork_still_sees_keeps_its_vector(self, store: StoreWithVectors) -> None:
        spoken = await spoken_by(store, "a", "b")
        await fork(store, "chat", "copy")
        await delete(store, "chat", "a")
        assert set(await near(store, unit(1))) == set(spoken.values())
        for session_id in ("chat", "copy"):
            await delete_session(store, session_id)
        assert await near(store, unit(1)) == []

    async def test_vectors_of_summaries_and_sessions_are_deleted_with_them(self, store: StoreWithVectors) -> None:
        await add(store, "chat", "a", "b")
        await cover(store, "chat", "summary", "a", "b")
        [overlay] = (await tree(store, "chat")).overlays
        session = await row(store, "chat")
        addresses = [Address("overlay", overlay.number), Address("session", session.number)]
        assert await put(store, [NewVector(address, unit(1)) for address in addresses]) == 2
        assert sorted(await near(store, unit(1))) == addresses
        assert await store.apply(plans.change_row(await row(store, "chat"), NOW, name="Another"))
        assert await near(store, unit(1)) == addresses[:1]
        await delete_session(store, "chat")
        assert await near(store, unit(1)) == []

    async def test_no_vector_outlives_a_message_that_is_deleted_concurrently(self, store: StoreWithVectors) -> None:
        ids = [f"m{number}" for number in range(20)]
        spoken = await spoken_by(store, *ids)
        again = [NewVector(address, unit(1)) for address in spoken.values()]
        await asyncio.gather(*(put(store, again) for _ in range(4)), delete(store, "chat", *ids[:10]))
        assert set(await near(store, unit(1), 100)) == {spoken[id] for id in ids[10:]}
