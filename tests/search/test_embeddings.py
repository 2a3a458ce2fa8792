"""Vectors from a user's callable: what is accepted, what is refused, and what happens after failures."""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncpg
import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontdesk import ConfigurationError, EmbeddingError, ModelError, SessionManager
from frontdesk.config.runtime import Runtime
from frontdesk.config.settings import EmbeddingSettings
from frontdesk.messages.stored import DEFAULT_MAX_MESSAGE_BYTES
from frontdesk.search import vectors
from frontdesk.search.vectors import EmbeddingHealth, embed_texts
from frontdesk.stores import open_url
from tests.servers.postgres import PostgresServer


def lengths(texts: Sequence[str]) -> list[list[float]]:
    return [[float(len(text)), 1.0] for text in texts]


def vector(data: bytes | None) -> tuple[float, ...]:
    assert data is not None
    return struct.unpack(f"<{len(data) // 4}f", data)


async def embedded(embed: Any, texts: Sequence[str], **options: Any) -> list[bytes | None]:
    return await embed_texts(EmbeddingSettings(embed, **{"dimensions": 2, **options}), texts)


# what is accepted


@pytest.mark.parametrize("kind", ["sync", "async", "numpy", "tuples"])
async def test_a_callable_may_be_sync_or_async_and_return_lists_tuples_or_arrays(kind: str) -> None:
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


async def test_texts_are_embedded_in_batches_and_blank_ones_not_at_all() -> None:
    asked: list[list[str]] = []

    def embed(texts: list[str]) -> list[list[float]]:
        asked.append(texts)
        return lengths(texts)

    found = await embedded(embed, ["a", "", "bb", " \n", "ccc", "x" * 100_000], batch_size=2)
    assert asked == [["a", "bb"], ["ccc", "x" * 8_000]]
    assert [one is None for one in found] == [False, True, False, True, False, False]


async def test_a_zero_vector_is_none() -> None:
    assert await embedded(lambda texts: [[0.0, 0.0], [0.0, 2.0]], ["?", "a"]) == [None, struct.pack("<2f", 0, 1)]


@given(st.lists(st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=2), min_size=1, max_size=5))
def test_every_vector_is_normalised_to_length_one(rows: list[list[float]]) -> None:
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
async def test_a_result_that_is_not_vectors_is_an_embedding_error(given_back: Any) -> None:
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


async def test_a_callable_that_hangs_is_abandoned() -> None:
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
def test_invalid_embedding_settings_are_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        SessionManager("memory://").with_embeddings(**options)


async def test_embeddings_are_set_before_first_use() -> None:
    manager = SessionManager("memory://").with_embeddings(lengths, dimensions=2)
    async with manager:
        with pytest.raises(ConfigurationError):
            manager.with_embeddings(lengths, dimensions=2)


# with stores


class Stubborn:
    """Refuses the first calls, and counts all of them."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.asked = 0

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.asked += 1
        if self.asked <= self.refusals:
            raise ConnectionError
        return lengths(texts)


async def test_after_a_failure_searches_do_not_call_the_embedding_for_a_while() -> None:
    stubborn = Stubborn(1_000)
    health = EmbeddingHealth()
    store = open_url("memory://")
    async with SessionManager(store).with_embeddings(lengths, dimensions=2) as working:
        await working.append("chat", {"role": "user", "content": "a lamp"})
        await working.reindex()
    async with SessionManager(store).with_embeddings(stubborn, dimensions=2) as manager:
        for _ in range(5):
            assert len(await manager.search("lamp")) == 1
        assert stubborn.asked == 1
    rests = []
    for _ in range(12):
        health.record_failure(EmbeddingError("down"))
        rests.append(round(health.pause))
    assert rests[:4] == [1, 2, 4, 8]
    assert rests[-1] == 300
    health.record_success()
    assert (health.pause, health.error) == (0.0, None)


async def test_the_text_of_a_foreign_error_is_not_repeated() -> None:
    health = EmbeddingHealth()
    health.record_failure(ModelError("your input 'secret' is too long", model="m"))
    assert health.error == "the embedding failed (ModelError)"


async def test_after_a_failure_only_the_missing_texts_are_embedded(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/vectors.db"
    asked: list[str] = []

    def embed(texts: list[str]) -> list[list[float]]:
        if len(asked) == 4:
            asked.append("")
            raise SystemExit
        asked.extend(texts)
        return lengths(texts)

    texts = [f"text {'x' * number}" for number in range(10)]
    async with SessionManager(url) as manager:
        await manager.session("chat").append_all([{"role": "user", "content": text} for text in texts])
    runtime = Runtime(url, "default", DEFAULT_MAX_MESSAGE_BYTES)
    runtime.configure(embeddings=EmbeddingSettings(embed, 2, batch_size=2))
    with pytest.raises(SystemExit):
        await vectors.update(runtime)
    await vectors.update(runtime)
    assert sorted(filter(None, asked)) == sorted(texts)
    await runtime.close()


async def test_without_embeddings_no_package_for_them_is_imported() -> None:
    """In its own process: here everything has been imported already."""
    program = (
        "import asyncio, sys\n"
        "from frontdesk import SessionManager\n"
        "async def main():\n"
        "    async with SessionManager('memory://') as manager:\n"
        "        await manager.append('chat', {'role': 'user', 'content': 'a lamp'})\n"
        "        await manager.reindex()\n"
        "        assert len(await manager.search('lamp')) == 1\n"
        "        assert (await manager.search_info()).mode == 'lexical'\n"
        "asyncio.run(main())\n"
        "assert not {'numpy', 'sqlite_vec'} & set(sys.modules), 'loaded'\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
    assert await process.wait() == 0


async def test_a_role_that_may_not_create_the_extension_gets_an_error_that_says_so(postgres: PostgresServer) -> None:
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
        async with SessionManager(guest).with_embeddings(lengths, dimensions=2) as manager:
            assert "pgvector" in str((await manager.search_info()).embedding_error)
        await guest.close()
        await owner.execute("DROP OWNED BY frontdesk_guest; DROP ROLE frontdesk_guest")
    finally:
        await owner.close()
        postgres.drop_database(url)
