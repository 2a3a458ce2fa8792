"""What a search reads and computes does not grow when a conversation is forked, deleted or cleared."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import apsw
import pytest

from frontdesk import SearchResults, SessionManager, Store
from frontdesk.search import index, trees
from frontdesk.store import Item, Piece, SessionRow, Span, TreeRows
from frontdesk.stores import open_url

MESSAGES = 3_000
DELETED_EVERY = 5
FORKS = 120


class Reads:
    """Counts the messages and the trees that a store is asked for, and how often it is asked for related sessions."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.messages = self.trees = self.relatives = 0
        read, trees, relatives = store.read, store.trees, store.relatives

        async def counted_read(items: Sequence[Item]) -> Sequence[Piece]:
            self.messages += sum(item.last - item.first + 1 if isinstance(item, Span) else 1 for item in items)
            return await read(items)

        async def counted_trees(namespace: str, ids: Sequence[str], **options: Any) -> list[TreeRows]:
            self.trees += len(ids)
            return await trees(namespace, ids, **options)

        async def counted_relatives(namespace: str, families: Sequence[int], **options: Any) -> list[SessionRow]:
            self.relatives += 1
            return await relatives(namespace, families, **options)

        monkeypatch.setattr(store, "read", counted_read)
        monkeypatch.setattr(store, "relatives", counted_relatives)
        monkeypatch.setattr(store, "trees", counted_trees)

    async def of_search(self, manager: SessionManager, session: str, hits: int) -> tuple[int, int]:
        """The messages and trees that are read for a search in the namespace and one in a session."""
        self.messages = self.trees = self.relatives = 0
        for search in (manager.search, manager.session(session).search):
            assert (await search("zanzibar")).total == hits
        return self.messages, self.trees


Search = Callable[[str], Awaitable[SearchResults]]


class Work(NamedTuple):
    steps: int
    """of SQLite's virtual machine: they grow with the rows that a statement looks at"""
    calls: int
    """of functions, by the code that runs in the event loop"""


class WorkCounter:
    """Counts the work of searches, which does not depend on how fast the machine is."""

    def __init__(self) -> None:
        self.steps = self.calls = 0

    def trace(self, connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._count_steps)

    def _count_steps(self, event: dict[str, Any]) -> None:
        if "'main'." not in event["sql"]:  # FTS5's own statements, which never start to count again
            self.steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    def _count_call(self, frame: FrameType, event: str, argument: object) -> None:
        self.calls += event in ("call", "c_call")

    async def of_search(self, search: Search, query: str) -> Work:
        self.steps = self.calls = 0
        sys.setprofile(self._count_call)
        try:
            assert (await search(query)).total > 0
        finally:
            sys.setprofile(None)
        return Work(self.steps, self.calls)


@pytest.fixture
def counter() -> Iterator[WorkCounter]:
    counter = WorkCounter()
    apsw.connection_hooks.append(counter.trace)
    yield counter
    apsw.connection_hooks.remove(counter.trace)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path, counter: WorkCounter) -> AsyncIterator[Store]:
    store = open_url("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/costs.db")
    yield store
    await store.close()


@pytest.fixture
async def manager(store: Store) -> AsyncIterator[SessionManager]:
    """A manager of one long session, `source`, with three messages to be found."""
    async with SessionManager(store) as manager:
        texts = ["zanzibar" if number % 1_000 == 500 else f"lamp {number}" for number in range(MESSAGES)]
        messages = [{"id": f"m{number}", "role": "user", "content": text} for number, text in enumerate(texts)]
        await manager.session("source").append_all(messages)
        await manager.reindex()
        yield manager


@pytest.mark.parametrize("is_indexed", [False, True])
async def test_a_search_reads_no_more_after_a_fork_whose_source_is_changed_cleared_and_deleted(
    store: Store, manager: SessionManager, monkeypatch: pytest.MonkeyPatch, is_indexed: bool
) -> None:
    reads = Reads(store, monkeypatch)
    messages, trees = await reads.of_search(manager, "source", 3)
    assert messages < 20

    async def check() -> None:
        if is_indexed:
            await index.update(manager._runtime)
        more_messages, more_trees = await reads.of_search(manager, "fork", 3)
        assert more_messages <= 2 * messages
        assert more_trees <= 2 * trees + 4

    await manager.fork("source", new_id="fork")
    await check()
    await manager.session("source").delete_messages(["m7", "m500"])
    await check()
    await manager.session("source").clear_messages()
    await check()
    await manager.delete("source")
    await check()


async def test_a_search_in_a_large_family_reads_few_of_its_trees(
    store: Store, manager: SessionManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(FORKS):
        await manager.fork("source", new_id=f"f{number}")
    await manager.session("f3").delete_messages(["m500"])
    await manager.session("f4").clear_messages()
    await manager.delete("source")
    await index.update(manager._runtime)
    reads = Reads(store, monkeypatch)
    messages, trees = await reads.of_search(manager, "f7", 3)
    assert messages < 20
    assert trees < 20
    assert reads.relatives == 2  # those with the latest activity, and those that wrote the messages


async def test_few_trees_are_kept_in_memory(
    store: Store, manager: SessionManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    await manager.fork("source", new_id="fork")
    await manager.session("source").delete_messages(["m7", "m77"])
    await index.update(manager._runtime)
    reads = Reads(store, monkeypatch)

    async def loaded() -> int:
        """How many trees are loaded for a search in one session after another."""
        reads.trees = 0
        for session in ("source", "fork", "source", "fork"):
            assert (await manager.session(session).search("zanzibar")).total == 3
        return reads.trees

    assert await loaded() == 2
    assert await loaded() == 0
    monkeypatch.setattr(trees, "_MAX_ROWS", 5)
    assert await loaded() > 2


@pytest.mark.parametrize("query", ["zanzibar", "lamp", "lamp 78 zanzibar"])
async def test_a_search_does_no_more_work_after_scattered_messages_were_deleted(
    counter: WorkCounter, manager: SessionManager, query: str
) -> None:
    """Each leaves a hole, so that the session's messages are hundreds of ranges. A fork still has them all, so that
    they stay in the index. Only the first search after that loads the holes, and not the first one after an append."""
    source = manager.session("source")
    before = {}
    for search in (source.search, manager.search):
        await search(query)  # fills caches
        before[search] = await counter.of_search(search, query)
    await manager.fork("source", new_id="fork")
    await source.delete_messages([f"m{number}" for number in range(7, MESSAGES, DELETED_EVERY)])
    await index.update(manager._runtime)
    fork = manager.session("fork").search
    for search in (source.search, fork, manager.search):
        await search(query)
    for search in (source.search, fork, manager.search):
        await source.append({"role": "user", "content": "nothing"})
        await index.update(manager._runtime)
        after = await counter.of_search(search, query)
        allowed = before[manager.search if search == manager.search else source.search]
        assert after.steps <= 2 * allowed.steps
        assert after.calls <= 2 * allowed.calls
