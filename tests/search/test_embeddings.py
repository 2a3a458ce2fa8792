"""Vectors from a user's callable: what is accepted, what is refused, and that they find their way into every store."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontdesk import ConfigurationError, EmbeddingError, ModelError, SessionManager
from frontdesk.scope import DEFAULT_MAX_MESSAGE_BYTES, Scope
from frontdesk.search.embeddings import Embed, EmbeddingSettings, embed_pending, embed_texts, nearest_to
from frontdesk.store import Address, Store
from frontdesk.stores import open_url
from frontdesk.testing.postgres import PostgresServer


def lengths(texts: Sequence[str]) -> list[list[float]]:
    return [[float(len(text)), 1.0] for text in texts]


def vector(data: bytes | None) -> tuple[float, ...]:
    assert data is not None
    return struct.unpack(f"<{len(data) // 4}f", data)


async def embedded(embed: Any, texts: Sequence[str], **options: Any) -> list[bytes | None]:
    return await embed_texts(EmbeddingSettings(embed, **{"dimensions": 2, **options}), texts)


# what is accepted


@pytest.mark.parametrize("kind", ["sync", "async", "numpy", "tuples"])
async def test_a_callable_may_be_sync_or_async_and_give_lists_tuples_or_arrays(kind: str) -> None:
    async def later(texts: list[str]) -> list[list[float]]:
        await asyncio.sleep(0)
        return lengths(texts)

    made: dict[str, Any] = {
        "sync": lengths,
        "async": later,
        "numpy": lambda texts: numpy.array(lengths(texts), dtype=numpy.float16),
        "tuples": lambda texts: tuple(map(tuple, lengths(texts))),
    }
    [first, second] = await embedded(made[kind], ["abc", "abcd"])
    assert vector(first) == pytest.approx((3 / 10**0.5, 1 / 10**0.5))
    assert vector(second) == pytest.approx((4 / 17**0.5, 1 / 17**0.5))


async def test_texts_are_asked_for_in_batches_and_blank_ones_not_at_all() -> None:
    asked: list[list[str]] = []

    def embed(texts: list[str]) -> list[list[float]]:
        asked.append(texts)
        return lengths(texts)

    found = await embedded(embed, ["a", "", "bb", " \n", "ccc", "x" * 100_000], batch_size=2)
    assert asked == [["a", "bb"], ["ccc", "x" * 8_000]]
    assert [one is None for one in found] == [False, True, False, True, False, False]


async def test_a_vector_of_nothing_is_none() -> None:
    assert await embedded(lambda texts: [[0.0, 0.0], [0.0, 2.0]], ["?", "a"]) == [None, struct.pack("<2f", 0, 1)]


@given(st.lists(st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=2), min_size=1, max_size=5))
def test_whatever_its_size_a_vector_has_length_one(rows: list[list[float]]) -> None:
    found = asyncio.run(embedded(lambda texts: rows, ["text"] * len(rows)))
    for given_row, made in zip(rows, found, strict=True):
        if any(given_row):
            assert sum(number * number for number in vector(made)) == pytest.approx(1, abs=1e-5)
        else:
            assert made is None


# what is refused


@pytest.mark.parametrize(
    "given_back",
    [
        [[1.0, 2.0]],
        [[1.0, 2.0]] * 3,
        [[1.0], [2.0]],
        [[1.0, 2.0, 3.0]] * 2,
        [[1.0, 2.0], [1.0]],
        [[1.0, float("nan")], [1.0, 2.0]],
        [[1.0, 2.0], [float("inf"), 2.0]],
        [["a", "b"], ["c", "d"]],
        [[None, 1.0], [1.0, 1.0]],
        [1.0, 2.0],
        [],
        None,
        "vectors",
        {"data": []},
    ],
)
async def test_what_are_not_vectors_is_an_embedding_error(given_back: Any) -> None:
    with pytest.raises(EmbeddingError):
        await embedded(lambda texts: given_back, ["a", "b"])


async def test_a_failing_callable_is_an_embedding_error_that_quotes_nothing() -> None:
    def broken(texts: list[str]) -> list[list[float]]:
        raise RuntimeError(texts[0])

    with pytest.raises(EmbeddingError, match="RuntimeError") as caught:
        await embedded(broken, ["secret"])
    assert "secret" not in str(caught.value)

    def refused(texts: list[str]) -> list[list[float]]:
        raise ModelError("no model", model="m")

    with pytest.raises(ModelError):
        await embedded(refused, ["secret"])


async def test_a_callable_that_hangs_is_given_up() -> None:
    async def hanging(texts: list[str]) -> list[list[float]]:
        await asyncio.Event().wait()
        return []

    with pytest.raises(EmbeddingError, match=r"0\.05 s"):
        await embedded(hanging, ["a"], timeout=0.05)


@pytest.mark.parametrize(
    "options",
    [
        {"embed": "model", "dimensions": 2},
        {"embed": lengths, "dimensions": 0},
        {"embed": lengths, "dimensions": 2.0},
        {"embed": lengths, "dimensions": 20_000},
        {"embed": lengths, "dimensions": 2, "batch_size": 0},
        {"embed": lengths, "dimensions": 2, "timeout": 0},
    ],
)
def test_settings_that_make_no_sense_are_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        SessionManager("memory://").with_embeddings(**options)


async def test_embeddings_are_set_before_first_use() -> None:
    manager = SessionManager("memory://").with_embeddings(lengths, dimensions=2)
    async with manager:
        with pytest.raises(ConfigurationError):
            manager.with_embeddings(lengths, dimensions=2)


# into a store


COLOURS = {"red": (1.0, 0.0, 0.0), "green": (0.0, 1.0, 0.0), "blue": (0.0, 0.0, 1.0)}


def by_colour(texts: list[str]) -> list[list[float]]:
    """Knows what has which colour."""
    things = {"tomato": "red", "rose": "red", "grass": "green", "frog": "green", "sky": "blue", "sea": "blue", **{
        colour: colour for colour in COLOURS
    }}  # fmt: skip
    return [[sum(COLOURS[things[word]][axis] for word in text.split()) for axis in range(3)] for text in texts]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/vectors.db"}
    url = urls.get(request.param) or request.getfixturevalue("postgres_url")
    store = open_url(url)
    yield store
    await store.close()


def scope_of(store: Store, embed: Embed, dimensions: int = 3) -> Scope:
    scope = Scope(store, "default", DEFAULT_MAX_MESSAGE_BYTES)
    scope.set_settings(EmbeddingSettings(embed, dimensions))
    return scope


async def said(store: Store, *words: str) -> list[tuple[Address, str, str | None]]:
    """A message for each word, as what is pending."""
    manager = SessionManager(store)
    await manager.session("chat").append_all([{"id": word, "role": "user", "content": word} for word in words])
    rows = await store.tree("default", "chat", find=words)
    assert rows is not None
    return [(Address("message", *found.place), found.id, None) for found in rows.found]


async def test_what_is_pending_is_embedded_and_found_by_meaning(store: Store) -> None:
    scope = scope_of(store, by_colour)
    pending = await said(store, "tomato", "grass", "sky", "rose")
    assert await embed_pending(scope, pending) == 4
    names = {address: word for address, word, _ in pending}
    found = [names[address] for address in await nearest_to(scope, "red", 2)]
    assert sorted(found) == ["rose", "tomato"]
    assert await nearest_to(scope, "  ", 2) == []
    only = next(address for address, word, _ in pending if word == "sky")
    assert await nearest_to(scope, "red", 2, [(only, only)]) == [only]
    await SessionManager(store).session("chat").delete_messages(["rose"])
    assert [names[address] for address in await nearest_to(scope, "red", 1)] == ["tomato"]


async def test_without_embeddings_nothing_is_computed(store: Store) -> None:
    scope = Scope(store, "default", DEFAULT_MAX_MESSAGE_BYTES)
    assert await embed_pending(scope, await said(store, "sky")) == 0
    assert await nearest_to(scope, "blue", 2) == []


async def test_another_model_with_other_dimensions_is_told_what_to_do(store: Store) -> None:
    pending = await said(store, "sky")
    await embed_pending(scope_of(store, by_colour), pending)
    other = scope_of(store, lengths, 2)
    for attempt in (embed_pending(other, pending), nearest_to(other, "blue", 2)):
        with pytest.raises(EmbeddingError, match="3 dimensions, not 2"):
            await attempt


async def test_a_role_that_may_not_create_the_extension_is_told_what_is_missing(postgres: PostgresServer) -> None:
    url = postgres.create_database()
    owner = await asyncpg.connect(url)
    try:
        store = open_url(url)
        await store.open()
        await store.close()
        await owner.execute("CREATE ROLE frontdesk_guest LOGIN")
        await owner.execute("GRANT USAGE ON SCHEMA frontdesk TO frontdesk_guest")
        await owner.execute("GRANT ALL ON ALL TABLES IN SCHEMA frontdesk TO frontdesk_guest")
        guest = open_url(url.replace("postgres@", "frontdesk_guest@"))
        with pytest.raises(ConfigurationError, match="pgvector"):
            await nearest_to(scope_of(guest, by_colour), "red", 2)
        await guest.close()
        await owner.execute("DROP OWNED BY frontdesk_guest; DROP ROLE frontdesk_guest")
    finally:
        await owner.close()
        postgres.drop_database(url)
