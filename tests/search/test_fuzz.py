"""Any text is a valid query: on no store does it raise, or do anything but search."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from frontdesk import SessionManager

_BITS = [
    '"', "'", "“", "”", "-", "*", "(", ")", "AND", "OR", "NOT", "NEAR(", "^", ":", "role:", "session:", "tag:",
    "before:", "after:", "2024", "-01", "lamp", "部署", "部", "🦊", "\0", "\ud800", "&", "|", "!", "<->", ":*", "\\",
    "'; DROP TABLE sessions; --", "$1", "%", "_", "é", "ﷺ", "\u200d", "\n", "terms:", "facets : x", "a/b.py", "x" * 200,
]  # fmt: skip
QUERIES = st.one_of(st.text(), st.lists(st.sampled_from([*_BITS, " "]), max_size=12).map("".join))
_SETTINGS = settings(
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
TEXTS = ["a lamp", '"lamp" AND (部署 OR 🦊)', "role:user src/a/b.py", "nothing 'of' it \\ $1 %_", "éa ﷺ"]


class _Searched:
    """A manager with a few indexed messages, and its own event loop."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        self._manager = SessionManager(url)
        self._runner.run(self._fill())

    async def _fill(self) -> None:
        await self._manager.session("s").append_all({"role": "user", "content": text} for text in TEXTS)
        await self._manager.reindex()

    def search(self, query: str) -> None:
        for search in (self._manager.search, self._manager.session("s").search):
            results = self._runner.run(search(query))
            assert results.total <= len(TEXTS)
            assert all(hit.session_id == "s" for hit in results)

    def close(self) -> None:
        self._runner.run(self._manager.close())
        self._runner.close()


@pytest.fixture
def memory() -> Iterator[_Searched]:
    searched = _Searched("memory://")
    yield searched
    searched.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[_Searched]:
    searched = _Searched(f"sqlite:///{tmp_path / 'fuzz.db'}")
    yield searched
    searched.close()


@pytest.fixture
def postgresql(postgres_url: str) -> Iterator[_Searched]:
    searched = _Searched(postgres_url)
    yield searched
    searched.close()


@settings(_SETTINGS, max_examples=1_000)
@given(query=QUERIES)
def test_a_thousand_queries_on_memory(memory: _Searched, query: str) -> None:
    memory.search(query)


@pytest.mark.long
@settings(_SETTINGS, max_examples=10_000)
@given(query=QUERIES)
def test_ten_thousand_queries_on_memory(memory: _Searched, query: str) -> None:
    memory.search(query)


@settings(_SETTINGS, max_examples=500)
@given(query=QUERIES)
def test_five_hundred_queries_on_sqlite(sqlite: _Searched, query: str) -> None:
    sqlite.search(query)


@settings(_SETTINGS, max_examples=200)
@given(query=QUERIES)
def test_two_hundred_queries_on_postgresql(postgresql: _Searched, query: str) -> None:
    postgresql.search(query)


@pytest.mark.parametrize("query", ['"' * 10_000, "lamp " * 3_000, "部署" * 6_000, "-" + "x " * 5_000, '"a b" ' * 2_000])
def test_very_long_queries(memory: _Searched, sqlite: _Searched, postgresql: _Searched, query: str) -> None:
    for searched in (memory, sqlite, postgresql):
        searched.search(query)
