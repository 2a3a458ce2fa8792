"""What a search reads from the store does not grow when a conversation is forked, deleted or cleared."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from frontdesk import SessionManager, Store
from frontdesk.search import index
from frontdesk.store import Item, Piece, Span, TreeRows
from frontdesk.stores import open_url

MESSAGES = 3_000
FORKS = 120


class Reads:
    """Counts the messages and the trees that a store is asked for."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.messages = self.trees = 0
        read, trees = store.read, store.trees

        async def counted_read(items: Sequence[Item]) -> Sequence[Piece]:
            self.messages += sum(item.last - item.first + 1 if isinstance(item, Span) else 1 for item in items)
            return await read(items)

        async def counted_trees(namespace: str, ids: Sequence[str], **options: Any) -> list[TreeRows]:
            self.trees += len(ids)
            return await trees(namespace, ids, **options)

        monkeypatch.setattr(store, "read", counted_read)
        monkeypatch.setattr(store, "trees", counted_trees)

    async def of_search(self, manager: SessionManager, session: str, hits: int) -> tuple[int, int]:
        """The messages and trees that are read for a search in the namespace and one in a session."""
        self.messages = self.trees = 0
        for search in (manager.search, manager.session(session).search):
            assert (await search("zanzibar")).total == hits
        return self.messages, self.trees


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
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
    messages, trees = await Reads(store, monkeypatch).of_search(manager, "f7", 3)
    assert messages < 20
    assert trees < 20
