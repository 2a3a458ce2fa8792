"""Documents in versions, and frozen prompts."""

from __future__ import annotations

import asyncio

import pytest

from frontdesk.errors import SessionNotFoundError
from frontdesk.store import DocumentRow, NewSession, PromptRow, Store


def text(version: int, content: str = "text", label: str = "label", key: str = "") -> DocumentRow:
    return DocumentRow(label=label, key=key, version=version, content=content, created_at=1)


def prompt(words: str) -> PromptRow:
    return PromptRow(number=0, text=words, tokens=len(words), fingerprint="f", blocks="{}", created_at=1)


class DocumentContract:
    @pytest.fixture
    async def room(self, store: Store) -> str:
        """A session in the namespace `ns`."""
        await store.create(NewSession(namespace="ns", id="room", now=1))
        return "room"

    async def test_only_the_next_version_of_a_document_is_accepted(self, store: Store, room: str) -> None:
        assert not await store.put_document("ns", room, text(2))
        assert await store.put_document("ns", room, text(1, "one"))
        assert not await store.put_document("ns", room, text(1, "again"))
        assert await store.put_document("ns", room, text(2, "two"))
        assert [row.content for row in await store.document_versions("ns", room, "label", "")] == ["two", "one"]
        assert [row.content for row in await store.get_documents("ns", room, [("label", ""), ("none", "")])] == ["two"]

    async def test_of_concurrent_writers_of_one_version_one_wins(self, store: Store, room: str) -> None:
        results = await asyncio.gather(*(store.put_document("ns", room, text(1, str(n))) for n in range(16)))
        assert sum(results) == 1
        results = await asyncio.gather(*(store.put_document("ns", None, text(1, str(n))) for n in range(16)))
        assert sum(results) == 1

    async def test_documents_are_distinguished_by_owner_label_and_key(self, store: Store, room: str) -> None:
        await store.create(NewSession(namespace="other", id="room", now=1))
        places = [("ns", room), ("ns", None), ("other", room), ("other", None)]
        names = [("a", "b"), ("ab", ""), ("", "ab"), ("a", ""), ("名" * 512, "前" * 512)]
        for namespace, owner in places:
            for label, key in names:
                content = f"{namespace}/{owner}/{label}/{key}"
                assert await store.put_document(namespace, owner, text(1, content, label, key))
        for namespace, owner in places:
            found = await store.get_documents(namespace, owner, names)
            assert sorted(row.content for row in found) == sorted(f"{namespace}/{owner}/{la}/{k}" for la, k in names)
            assert [row.key for row in await store.list_documents(namespace, owner, "a")] == ["", "b"]

    async def test_a_missing_session_has_no_documents_and_cannot_get_any(self, store: Store) -> None:
        assert await store.get_documents("ns", "missing", [("label", "")]) == []
        assert await store.list_documents("ns", "missing", "label") == []
        assert await store.get_prompt("ns", "missing") is None
        with pytest.raises(SessionNotFoundError):
            await store.put_document("ns", "missing", text(1))
        with pytest.raises(SessionNotFoundError):
            await store.put_prompt("ns", "missing", prompt("x"), None)

    async def test_a_prompt_replaces_only_the_version_it_was_based_on(self, store: Store, room: str) -> None:
        first = await store.put_prompt("ns", room, prompt("first"), None)
        late = await store.put_prompt("ns", room, prompt("late"), None)
        assert first.text == late.text == "first"
        second = await store.put_prompt("ns", room, prompt("second"), first.number)
        assert (await store.put_prompt("ns", room, prompt("third"), first.number)).text == "second"
        assert await store.get_prompt("ns", room) == second

    async def test_a_dropped_prompt_cannot_be_replaced_by_one_rendered_earlier(self, store: Store, room: str) -> None:
        assert await store.put_document("ns", room, text(1), drop_prompt=True)
        late = await store.put_prompt("ns", room, prompt("rendered before"), None)
        assert (late.text, late.fingerprint) == ("", "")
        fresh = await store.put_prompt("ns", room, prompt("fresh"), late.number)
        assert await store.put_document("ns", room, text(2), drop_prompt=True)
        assert (await store.put_prompt("ns", room, prompt("rendered before"), fresh.number)).fingerprint == ""

    async def test_the_row_of_a_session_contains_the_size_of_its_prompt(self, store: Store, room: str) -> None:
        async def tokens(session_id: str) -> int | None:
            row = await store.get("ns", session_id)
            return None if row is None else row.prompt_tokens

        await store.put_prompt("ns", room, prompt("four"), None)
        assert await tokens(room) == 4
        assert await store.put_document("ns", room, text(1), drop_prompt=True)
        assert await tokens(room) == 0

    async def test_a_document_without_history_keeps_only_its_newest_version(self, store: Store, room: str) -> None:
        for version in (1, 2, 3):
            assert await store.put_document("ns", room, text(version, f"v{version}"), keep_history=False)
        assert [row.version for row in await store.document_versions("ns", room, "label", "")] == [3]
        assert not await store.put_document("ns", room, text(1), keep_history=False)
