"""Search by meaning in 100,000 vectors, on every store: how long it takes, and how many of the nearest it finds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy

from bench import minilm
from bench.locomo import load
from bench.speed import Timer, verdict
from frontdesk import SessionManager
from frontdesk.search.ranking import COMPARED
from frontdesk.store import Near, VectorStore
from tests.servers.postgres import PostgresServer

Matrix = Any
_NEAREST_MS = 50.0
_RECALL = 0.95
_BATCH = 5_000
_CLUSTERS = 300
_QUERIES = 40


async def measure_vectors(count: int, locomo: Path) -> None:
    vectors, queries = _vectors(count, locomo)
    print(f"{count:,} vectors of {minilm.DIMENSIONS} numbers; the nearest {COMPARED}, milliseconds of CPU (wall)")
    exact = [set((-(vectors @ query)).argsort()[:COMPARED].tolist()) for query in queries]
    with TemporaryDirectory(prefix="frontdesk-bench-") as folder, PostgresServer() as server:
        sqlite = f"sqlite:///{Path(folder) / 'vectors.db'}?synchronous=normal"
        for url in ("memory://", sqlite, server.create_database()):
            await _measure(url, vectors, queries, exact)
    print(f"  targets: <= {_NEAREST_MS:g} ms, recall >= {_RECALL:g}")


async def _measure(url: str, vectors: Matrix, queries: Matrix, exact: Sequence[set[int]]) -> None:
    def embed(texts: Sequence[str]) -> Matrix:
        return vectors[[int(text) if text.isdecimal() else 0 for text in texts]]

    manager = SessionManager(url).with_embeddings(embed, dimensions=minilm.DIMENSIONS, batch_size=_BATCH)
    async with manager:
        for first in range(0, len(vectors), _BATCH):
            notes = [{"id": f"m{n}", "role": "user", "content": str(n)} for n in range(first, first + _BATCH)]
            await manager.session("notes").append_all(notes)
        await manager.reindex()
        timer = await Timer.of(url)
        store = cast(VectorStore, manager._runtime.store)
        spent, shares = [], []
        for query, wanted in zip(queries, exact, strict=True):
            search = partial(store.nearest, manager.namespace, query.astype("<f4").tobytes(), COMPARED)
            found: list[Near] = []

            async def run(search: Any = search, found: list[Near] = found) -> None:
                found += await search()

            spent.append(await timer.time(run))
            shares.append(len(wanted & {near.address.position for near in found}) / len(wanted))
    cpu, wall = (1000 * median(column) for column in zip(*[(one.cpu, one.wall) for one in spent], strict=True))
    recall = sum(shares) / len(shares)
    met = verdict(cpu <= _NEAREST_MS and recall >= _RECALL)
    print(f"  {met} {url.partition(':')[0]:12} {cpu:6.1f} ({wall:6.1f}), recall {recall:.3f}", flush=True)


def _vectors(count: int, locomo: Path) -> tuple[Matrix, Matrix]:
    """Vectors, and queries. With the model and LoCoMo, they are mixtures of the vectors of two real messages, and real
    questions; otherwise they are in clusters."""
    rng = numpy.random.default_rng(1)
    if minilm.is_installed() and locomo.exists():
        conversations = load(locomo)
        real = minilm.embed([f"{one.speaker}: {one.text}" for chat in conversations for one in chat.said])
        queries = minilm.embed([question.text for question in conversations[0].questions][:_QUERIES])
    else:
        real = rng.normal(size=(_CLUSTERS, minilm.DIMENSIONS))
        queries = real[:_QUERIES] + rng.normal(0, 0.5, (_QUERIES, minilm.DIMENSIONS))
    one, two = rng.integers(0, len(real), (2, count))
    share = rng.uniform(0.3, 1, (count, 1))
    mixed = share * real[one] + (1 - share) * real[two] + rng.normal(0, 0.02, (count, minilm.DIMENSIONS))
    return _normalised(mixed), _normalised(queries)


def _normalised(vectors: Matrix) -> Matrix:
    return (vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True)).astype("<f4")
