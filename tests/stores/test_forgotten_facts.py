"""After messages are deleted, a store keeps nothing of the facts that were extracted from them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest

from frontdesk import SessionKey, SessionManager
from frontdesk.store import DocumentRow, Owner, Plan, Store
from frontdesk.stores.memory import MemoryStore
from frontdesk.stores.postgres import PostgresStore
from frontdesk.stores.sqlite import SQLiteStore
from frontdesk.testing import StoredText
from tests.stores.dumps import PostgresSchema
from tests.stores.engines import OnMemory, OnPostgres, OnSQLite

T = TypeVar("T")
WORDS = ("agouti", "bongo", "civet", "dugong", "echidna", "fossa", "gaur", "hoatzin")
ANA = SessionKey("bot", "web", "ana")
WORK = SessionKey("bot", "web", "ana", "work")
SECRET = "quagga"  # no number: one could be a part of a time
ANSWERS = {
    "m1": "- likes tea and cake",
    "m2": f"- the PIN of her safe is {SECRET}\n- likes tea and cake",
}


def extract(prompt: str) -> str:
    if "<facts>" in prompt:
        return f"- tea; PIN {SECRET}"
    return next(answer for word, answer in ANSWERS.items() if word in prompt.partition("<conversation>")[2])


async def learned(store: Store, max_tokens: int) -> SessionManager:
    """A manager whose guest has told a secret in one of two threads, with frozen prompts that show it."""
    manager = SessionManager(store).with_token_counter(len).with_cached_prompt()
    manager.with_context("memory", scope="guest", max_tokens=max_tokens)
    manager.with_memory_refresh(extract, enabled=False)
    for key, word in ((ANA, "m1"), (WORK, "m2")):
        await manager.session(key).append({"id": word, "role": "user", "content": word})
        await manager.session(key).refresh_memory()
    for key in (ANA, WORK):
        assert SECRET in await manager.session(key).refresh_system_prompt()
    return manager


async def delete_messages(manager: SessionManager) -> None:
    await manager.session(WORK).delete_messages(["m2"])


async def clear_messages(manager: SessionManager) -> None:
    await manager.session(WORK).clear_messages()


async def delete(manager: SessionManager) -> None:
    await manager.delete(WORK)


async def erase(manager: SessionManager) -> None:
    await manager.erase(key=WORK)


class ForgottenFacts:
    @pytest.mark.parametrize("max_tokens", [1000, 50], ids=["as they were", "consolidated"])
    @pytest.mark.parametrize("remove", [delete_messages, clear_messages, delete, erase])
    async def test_no_trace_of_a_fact_is_left(
        self,
        store: Store,
        stored_text: StoredText,
        remove: Callable[[SessionManager], Awaitable[None]],
        max_tokens: int,
    ) -> None:
        manager = await learned(store, max_tokens)
        assert SECRET in await stored_text()
        await remove(manager)
        assert SECRET not in await stored_text()
        assert (await manager.session(ANA).context_block("memory")).content == "- likes tea and cake"

    async def test_an_interrupted_deletion_is_finished_by_repeating_it(
        self, store: Store, stored_text: StoredText, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        manager = await learned(store, 50)
        for method in ("put_document", "rewrite_document", "apply"):
            for calls in range(1, 4):
                interrupt(monkeypatch, store, method, calls)
                try:
                    await manager.session(WORK).delete_messages(["m2"])
                except ConnectionResetError:
                    assert await manager.session(WORK).path_length() == 1
                monkeypatch.undo()
                if not await manager.session(WORK).path_length():
                    break
        await manager.session(WORK).delete_messages(["m2"])
        assert SECRET not in await stored_text()
        assert (await manager.session(ANA).context_block("memory")).content == "- likes tea and cake"


def interrupt(monkeypatch: pytest.MonkeyPatch, store: Store, method: str, calls: int) -> None:
    """Let the given call of a method fail before it does anything, as if the process had ended there."""
    original, left = getattr(store, method), [calls]

    async def failing(*args: object, **options: object) -> object:
        left[0] -= 1
        if left[0] == 0:
            raise ConnectionResetError("interrupted")
        return await original(*args, **options)

    monkeypatch.setattr(store, method, failing)


class TestMemory(OnMemory, ForgottenFacts):
    pass


class TestSQLite(OnSQLite, ForgottenFacts):
    pass


class TestPostgres(OnPostgres, ForgottenFacts):
    pass


class Interrupted(MemoryStore):
    """A store in which something happens after the memory block was written."""

    then: Callable[[], Awaitable[object]] | None = None

    async def put_document(self, namespace: str, owner: Owner, document: DocumentRow, **options: Any) -> bool:
        done = await super().put_document(namespace, owner, document, **options)
        then, self.then = (self.then, None) if document.label == "memory" else (None, self.then)
        if then is not None:
            await then()
        return done


async def test_a_consolidation_that_is_written_when_a_fact_is_removed_leaves_nothing_of_it() -> None:
    def answer(prompt: str) -> str:
        if "<facts>" in prompt:
            return f"- tea; PIN {SECRET}"
        return f"- the PIN of her safe is {SECRET}" if "m2" in prompt else "- likes tea and cake"

    store = Interrupted()
    manager = SessionManager(store).with_token_counter(len)
    manager.with_context("memory", scope="guest", max_tokens=45).with_memory_refresh(answer, enabled=False)
    async with manager:
        for key, word in ((WORK, "m2"), (ANA, "m1")):
            await manager.append(key, {"id": word, "role": "user", "content": word})
        await manager.session(WORK).refresh_memory()
        store.then = lambda: manager.delete_messages(WORK, ["m2"])
        await manager.session(ANA).refresh_memory()
        assert (await manager.session(ANA).context_block("memory")).content == "- likes tea and cake"
        contents = [version.content for version in await manager.session(ANA).block_history("memory")]
        assert not any(SECRET in content for content in contents)


class ReadFirst(MemoryStore):
    """A store in which something happens after the versions of a document were read."""

    then: Callable[[], Awaitable[object]] | None = None

    async def document_versions(self, *args: Any) -> list[DocumentRow]:
        versions = await super().document_versions(*args)
        then, self.then = self.then, None
        if then is not None:
            await then()
        return versions


async def test_a_version_that_is_restored_while_a_fact_is_removed_comes_back_without_it() -> None:
    store = ReadFirst()
    async with await learned(store, 1000) as manager:
        session = manager.session(WORK)
        await session.replace_context_block("memory", "by hand")
        told = next(each.version for each in await session.block_history("memory") if SECRET in each.content)
        store.then = lambda: manager.delete_messages(WORK, ["m2"])
        assert (await session.restore_context_block("memory", told)).content == "- likes tea and cake"
        assert not [each for each in await session.block_history("memory") if SECRET in each.content]


class Shuffling:
    """A store whose calls on documents and plans let others go first, at random, before they run and after."""

    chance = random.Random(0)

    async def pause(self) -> None:
        for _ in range(self.chance.randrange(6)):
            await asyncio.sleep(0)

    async def shuffled(self, call: Awaitable[T]) -> T:
        await self.pause()
        result = await call
        await self.pause()
        return result

    async def get_documents(self, *args: Any) -> list[DocumentRow | None]:
        return await self.shuffled(super().get_documents(*args))  # type: ignore[misc]

    async def document_versions(self, *args: Any) -> list[DocumentRow]:
        return await self.shuffled(super().document_versions(*args))  # type: ignore[misc]

    async def put_document(self, *args: Any, **options: Any) -> bool:
        return await self.shuffled(super().put_document(*args, **options))  # type: ignore[misc]

    async def rewrite_document(self, *args: Any, **options: Any) -> bool:
        return await self.shuffled(super().rewrite_document(*args, **options))  # type: ignore[misc]

    async def apply(self, plan: Plan) -> bool:
        return await self.shuffled(super().apply(plan))  # type: ignore[misc]


class ShuffledMemory(Shuffling, MemoryStore):
    pass


class ShuffledSQLite(Shuffling, SQLiteStore):
    pass


class ShuffledPostgres(Shuffling, PostgresStore):
    pass


class RemovedFacts:
    """Facts that are removed while others are consolidated, in one of many orders for each seed."""

    few: ClassVar[range]
    many: ClassVar[range]

    async def test_facts_that_are_removed_while_others_are_consolidated_go_and_the_others_stay(
        self, store: Any
    ) -> None:
        for seed in self.few:
            await check_removal(store, seed)

    @pytest.mark.long
    async def test_they_do_so_in_hundreds_of_orders(self, store: Any) -> None:
        for seed in self.many:
            await check_removal(store, seed)


class TestRemovedFactsInMemory(RemovedFacts):
    few, many = range(120), range(120, 400)

    @pytest.fixture
    def store(self) -> Store:
        return ShuffledMemory()


class TestRemovedFactsInSQLite(RemovedFacts):
    few, many = range(12), range(12, 400)

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = ShuffledSQLite(tmp_path / "agents.db")
        yield store
        await store.close()


class TestRemovedFactsInPostgres(RemovedFacts):
    few, many = range(12), range(12, 400)

    @pytest.fixture
    async def store(self, postgres_schema: PostgresSchema) -> AsyncIterator[Store]:
        store = ShuffledPostgres.from_url(f"{postgres_schema.database}?schema={postgres_schema.name}")
        yield store
        await store.close()


async def check_removal(store: Any, seed: int) -> None:
    store.chance = chance = random.Random(seed)
    max_tokens = (55, 60, 70)[seed % 3]

    async def answer(prompt: str) -> str:
        await store.pause()
        words = [word for word in WORDS if word in prompt]
        return f"- {' '.join(words)}" if "<facts>" in prompt else "\n".join(f"- she saw a {word}" for word in words)

    manager = SessionManager(store, namespace=f"seed-{seed}").with_token_counter(len)
    manager.with_context("memory", scope="guest", max_tokens=max_tokens).with_memory_refresh(answer, enabled=False)
    threads = [SessionKey("bot", "web", "ana", str(n)) for n in range(3)]
    gone = chance.sample(WORDS, 3)
    deletions: list[asyncio.Task[int]] = []

    async def talk(key: SessionKey, words: Sequence[str]) -> None:
        session = manager.session(key)
        for word in words:
            await session.append({"id": word, "role": "user", "content": word})
            await session.refresh_memory()
            if word in gone:
                deletions.append(asyncio.create_task(session.delete_messages([word])))
                if chance.random() < 0.5:
                    await deletions[-1]

    async with manager:
        await asyncio.gather(*(talk(key, WORDS[n::3]) for n, key in enumerate(threads)))
        await asyncio.gather(*deletions)
        for key in threads:
            await manager.session(key).refresh_memory()
        session = manager.session(threads[0])
        contents = [version.content for version in await session.block_history("memory")]
        assert not [word for word in gone for content in contents if word in content], seed
        content = (await session.context_block("memory")).content
        assert [word for word in WORDS if word not in content] == [word for word in WORDS if word in gone], seed
