"""Documents in versions, their owners, and frozen prompts."""

from __future__ import annotations

import asyncio

import pytest

from frontdesk.errors import SessionNotFoundError, TurnLostError
from frontdesk.store import (
    TURN,
    DocumentName,
    DocumentRow,
    Fence,
    NewSession,
    Owner,
    OwnerQuery,
    PromptRow,
    Store,
)

ROOM = Owner("session", "room")
ANA = Owner("guest", None, "bot", "web", "ana")
NAMESPACE = Owner("namespace")
LABEL = DocumentName(ROOM, "label")


def text(version: int, content: str = "text", label: str = "label", key: str = "") -> DocumentRow:
    return DocumentRow(label=label, key=key, version=version, content=content, created_at=1)


def prompt(words: str, blocks: str = "{}") -> PromptRow:
    return PromptRow(number=0, text=words, tokens=len(words), fingerprint="f", blocks=blocks, created_at=1)


async def contents(store: Store, *names: DocumentName, namespace: str = "ns") -> list[str | None]:
    return [None if row is None else row.content for row in await store.get_documents(namespace, names)]


class DocumentContract:
    @pytest.fixture
    async def room(self, store: Store) -> str:
        """A session in the namespace `ns`."""
        await store.create(NewSession(namespace="ns", id="room", now=1))
        return "room"

    @pytest.fixture
    async def fence(self, store: Store, room: str) -> Fence:
        """The turn of that session, held."""
        lease = await store.acquire_lease("ns", room, TURN, "ana", 60_000_000)
        assert lease is not None
        return Fence(room, lease.number)

    @pytest.mark.parametrize("owner", [ROOM, ANA, NAMESPACE], ids=["session", "guest", "namespace"])
    async def test_only_the_next_version_of_a_document_is_accepted(self, store: Store, room: str, owner: Owner) -> None:
        name = DocumentName(owner, "label")
        assert not await store.put_document("ns", owner, text(2))
        assert await store.put_document("ns", owner, text(1, "one"))
        assert not await store.put_document("ns", owner, text(1, "again"))
        assert await store.put_document("ns", owner, text(2, "two"))
        assert [row.content for row in await store.document_versions("ns", name)] == ["two", "one"]
        assert await contents(store, DocumentName(owner, "none"), name) == [None, "two"]

    @pytest.mark.parametrize("owner", [ROOM, ANA, NAMESPACE], ids=["session", "guest", "namespace"])
    async def test_of_concurrent_writers_of_one_version_one_wins(self, store: Store, room: str, owner: Owner) -> None:
        results = await asyncio.gather(*(store.put_document("ns", owner, text(1, str(n))) for n in range(16)))
        assert sum(results) == 1

    async def test_documents_are_distinguished_by_owner_label_and_key(self, store: Store, room: str) -> None:
        await store.create(NewSession(namespace="other", id="room", now=1))
        owners = [
            ROOM,
            NAMESPACE,
            Owner("agent", None, "bot"),
            ANA,
            Owner("guest", None, "bot", "web", "ben"),
            Owner("guest", None, "bot", "ana", "web"),
            Owner("key", None, "bot", "web", "ana"),
            Owner("key", None, "bot", "web", "ana", "t"),
            Owner("key", None, "bot", "web", "ana", "="),
            Owner("key", None, "名" * 512, "前" * 512, "名" * 512, "前" * 512),
        ]
        names = [("a", "b"), ("ab", ""), ("", "ab"), ("a", ""), ("名" * 512, "前" * 512)]
        places = [(namespace, owner) for namespace in ("ns", "other") for owner in owners]
        for namespace, owner in places:
            for label, key in names:
                assert await store.put_document(namespace, owner, text(1, f"{namespace}/{owner}/{label}", label, key))
        for namespace, owner in places:
            found = await contents(store, *(DocumentName(owner, *name) for name in names), namespace=namespace)
            assert found == [f"{namespace}/{owner}/{label}" for label, _ in names]
            assert [row.key for row in await store.list_documents(namespace, owner, "a")] == ["", "b"]

    async def test_a_missing_session_has_no_documents_and_cannot_get_any(self, store: Store) -> None:
        missing = Owner("session", "missing")
        assert await contents(store, DocumentName(missing, "label")) == [None]
        assert await store.list_documents("ns", missing, "label") == []
        assert await store.get_prompt("ns", "missing") is None
        with pytest.raises(SessionNotFoundError):
            await store.put_document("ns", missing, text(1))
        with pytest.raises(SessionNotFoundError):
            await store.put_prompt("ns", "missing", prompt("x"), None)

    async def test_a_document_without_history_keeps_only_its_newest_version(self, store: Store, room: str) -> None:
        for version in (1, 2, 3):
            assert await store.put_document("ns", ROOM, text(version, f"v{version}"), keep_history=False)
        assert [row.version for row in await store.document_versions("ns", LABEL)] == [3]
        assert not await store.put_document("ns", ROOM, text(1), keep_history=False)

    # fences

    @pytest.mark.parametrize("owner", [ROOM, ANA, NAMESPACE], ids=["session", "guest", "namespace"])
    async def test_a_document_is_written_only_while_the_turn_is_held(
        self, store: Store, fence: Fence, owner: Owner
    ) -> None:
        name = DocumentName(owner, "label")
        assert await store.put_document("ns", owner, text(1, "held"), fence=fence)
        assert await store.renew_lease("ns", fence.session_id, TURN, fence.number, 0)
        for lost in (fence, Fence("missing", fence.number)):
            with pytest.raises(TurnLostError):
                await store.put_document("ns", owner, text(2, "late"), fence=lost)
            with pytest.raises(TurnLostError):
                await store.rewrite_document("ns", name, [], 1, fence=lost)
        assert await contents(store, name) == ["held"]

    async def test_a_prompt_is_written_only_while_the_turn_is_held(self, store: Store, fence: Fence) -> None:
        room, number = fence
        held = await store.put_prompt("ns", room, prompt("held"), None, fence=number)
        assert await store.renew_lease("ns", room, TURN, number, 0)
        with pytest.raises(TurnLostError):
            await store.put_prompt("ns", room, prompt("late"), held.number, fence=number)
        with pytest.raises(TurnLostError):
            await store.put_prompt("ns", "missing", prompt("late"), None, fence=number)
        assert await store.get_prompt("ns", room) == held

    # rewriting

    @pytest.mark.parametrize("owner", [ROOM, ANA, NAMESPACE], ids=["session", "guest", "namespace"])
    async def test_all_versions_of_a_document_are_replaced_unless_it_has_changed(
        self, store: Store, room: str, owner: Owner
    ) -> None:
        name = DocumentName(owner, "label")
        for version, content in ((1, "secret"), (2, "secret and more"), (3, "more")):
            assert await store.put_document("ns", owner, text(version, content))
        assert not await store.rewrite_document("ns", name, [], 2)
        assert len(await store.document_versions("ns", name)) == 3
        assert await store.rewrite_document("ns", name, [text(2, "more"), text(4, "less")], 3)
        assert [(row.version, row.content) for row in await store.document_versions("ns", name)] == [
            (4, "less"),
            (2, "more"),
        ]
        assert await store.put_document("ns", owner, text(5, "next"))
        assert await store.rewrite_document("ns", name, [], 5)
        assert await store.document_versions("ns", name) == []
        assert await store.rewrite_document("ns", name, [], 0)
        assert await store.rewrite_document("ns", name, [text(1, "again")], 0)
        assert await contents(store, name) == ["again"]

    @pytest.mark.parametrize("owner", [ROOM, ANA, NAMESPACE], ids=["session", "guest", "namespace"])
    async def test_a_document_and_its_note_are_written_together_or_not_at_all(
        self, store: Store, room: str, owner: Owner
    ) -> None:
        name, noted = DocumentName(owner, "label"), DocumentName(owner, "note")
        assert not await store.put_document("ns", owner, text(1, "one"), note=text(2, "late", "note"))
        assert not await store.put_document("ns", owner, text(2, "late"), note=text(1, "n1", "note"))
        assert await contents(store, name, noted) == [None, None]
        assert await store.put_document("ns", owner, text(1, "one"), note=text(1, "n1", "note"))
        assert await store.put_document("ns", owner, text(2, "two"), note=text(2, "n2", "note"))
        assert not await store.rewrite_document("ns", name, [text(3, "three")], 2, note=text(2, "again", "note"))
        assert not await store.rewrite_document("ns", name, [text(3, "three")], 1, note=text(3, "n3", "note"))
        assert await contents(store, name, noted) == ["two", "n2"]
        assert len(await store.document_versions("ns", name)) == 2
        assert len(await store.document_versions("ns", noted)) == 1
        assert await store.rewrite_document("ns", name, [text(3, "three")], 2, note=text(3, "n3", "note"))
        assert await contents(store, name, noted) == ["three", "n3"]

    async def test_of_concurrent_writers_of_a_document_with_a_note_one_is_first(self, store: Store, room: str) -> None:
        """Writers of different documents share a note: it belongs to the document that it was written with."""
        notes = [text(1, str(n), "note") for n in range(8)]
        puts = [store.put_document("ns", ROOM, text(1, str(n), f"d{n}"), note=notes[n]) for n in range(8)]
        results = await asyncio.gather(*puts)
        assert results.count(True) == 1
        written = [row for n in range(8) for row in await store.document_versions("ns", DocumentName(ROOM, f"d{n}"))]
        assert [row.content for row in written] == await contents(store, DocumentName(ROOM, "note"))

    async def test_prompts_that_show_a_hidden_version_are_dropped_and_no_others(self, store: Store) -> None:
        keys = {"ana": "ana", "ana 2": "ana", "ben": "ben"}
        for id, peer in keys.items():
            thread = id if id != peer else None
            new = NewSession(namespace="ns", id=id, now=1, agent="bot", channel="web", peer=peer, thread=thread)
            await store.create(new)
            await store.put_prompt("ns", id, prompt(id, '{"label": [1, "x"]}'), None)
        await store.create(
            NewSession(namespace="ns", id="later", now=1, agent="bot", channel="web", peer="ana", thread="l")
        )
        await store.put_prompt("ns", "later", prompt("later", '{"label": [2, "x"], "other": [1, "x"]}'), None)

        async def shown() -> list[str]:
            found = [await store.get_prompt("ns", id) for id in (*keys, "later")]
            return [row.text for row in found if row is not None]

        for version, owner, left in (
            (3, ANA, ["ana", "ana 2", "ben", "later"]),
            (1, Owner("session", "ana"), ["", "ana 2", "ben", "later"]),
            (1, Owner("key", None, "bot", "web", "ana"), ["", "ana 2", "ben", "later"]),
            (1, ANA, ["", "", "ben", "later"]),
            (1, Owner("agent", None, "other"), ["", "", "ben", "later"]),
            (1, NAMESPACE, ["", "", "", "later"]),
        ):
            assert await store.rewrite_document("ns", DocumentName(owner, "label"), [], 0, hide=[version])
            assert await shown() == left
        row = await store.get("ns", "ana")
        assert row is not None
        assert row.prompt_tokens == 0

    # owners

    async def test_documents_are_deleted_by_the_parts_of_their_owners(self, store: Store, room: str) -> None:
        agent, other = Owner("agent", None, "bot"), Owner("guest", None, "bot", "web", "ben")
        thread = Owner("key", None, "bot", "web", "ana", "t")
        named = {owner: DocumentName(owner, "label") for owner in (ROOM, NAMESPACE, agent, ANA, other, thread)}
        for owner in named:
            assert await store.put_document("ns", owner, text(1))
            assert await store.put_document("ns", owner, text(2))

        async def left() -> list[Owner]:
            found = await store.get_documents("ns", list(named.values()))
            return [owner for owner, row in zip(named, found, strict=True) if row is not None]

        query = {"agent": "bot", "channel": "web", "peer": "ana"}
        assert await store.delete_documents(OwnerQuery(namespace="other", **query)) == 0
        assert await store.delete_documents(OwnerQuery(namespace="ns", **query, thread="none")) == 0
        assert await store.delete_documents(OwnerQuery(namespace="ns", **query, thread="t")) == 2
        assert await left() == [ROOM, NAMESPACE, agent, ANA, other]
        assert await store.delete_documents(OwnerQuery(namespace="ns", peer="ana")) == 2
        assert await left() == [ROOM, NAMESPACE, agent, other]
        assert await store.delete_documents(OwnerQuery(namespace="ns", agent="bot")) == 4
        assert await left() == [ROOM, NAMESPACE]
        assert await store.put_document("ns", ANA, text(1))

    # prompts

    async def test_a_prompt_replaces_only_the_version_it_was_based_on(self, store: Store, room: str) -> None:
        first = await store.put_prompt("ns", room, prompt("first"), None)
        late = await store.put_prompt("ns", room, prompt("late"), None)
        assert first.text == late.text == "first"
        second = await store.put_prompt("ns", room, prompt("second"), first.number)
        assert (await store.put_prompt("ns", room, prompt("third"), first.number)).text == "second"
        assert await store.get_prompt("ns", room) == second

    async def test_a_dropped_prompt_cannot_be_replaced_by_one_rendered_earlier(self, store: Store, room: str) -> None:
        assert await store.put_document("ns", ROOM, text(1), drop_prompt=True)
        late = await store.put_prompt("ns", room, prompt("rendered before"), None)
        assert (late.text, late.fingerprint) == ("", "")
        fresh = await store.put_prompt("ns", room, prompt("fresh"), late.number)
        assert await store.put_document("ns", ROOM, text(2), drop_prompt=True)
        assert (await store.put_prompt("ns", room, prompt("rendered before"), fresh.number)).fingerprint == ""

    async def test_the_row_of_a_session_contains_the_size_of_its_prompt(self, store: Store, room: str) -> None:
        async def tokens(session_id: str) -> int | None:
            row = await store.get("ns", session_id)
            return None if row is None else row.prompt_tokens

        await store.put_prompt("ns", room, prompt("four"), None)
        assert await tokens(room) == 4
        assert await store.put_document("ns", ROOM, text(1), drop_prompt=True)
        assert await tokens(room) == 0
