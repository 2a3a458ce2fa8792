"""States in the store of the sessions: they are deleted with the session they belong to."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from frontdesk import SessionKey, SessionManager, StateStoreMissingError, StateVersionError, Store
from tests.public_api.steps import say


@dataclass(frozen=True)
class Note:
    text: str = ""
    count: int = 0


class StatesTests:
    async def test_deleting_a_session_deletes_its_states_of_every_name(self, manager: SessionManager) -> None:
        notes, marks = manager.states(Note), manager.states(Note, name="marks")
        for id in ("chat", "other"):
            await manager.create(id=id)
            await notes.create(id)
            await marks.create(id)
        assert await manager.delete("chat")
        assert [await notes.get("chat"), await marks.get("chat")] == [None, None]
        assert [await notes.get("other"), await marks.get("other")] == [Note(), Note()]

    async def test_deleting_by_key_deletes_the_states_of_the_session_under_it(self, manager: SessionManager) -> None:
        key = SessionKey("agent", "web", "ann")
        session = await manager.create(key=key)
        notes = manager.states(Note)
        await notes.create(session.id)
        assert await manager.delete(key)
        assert await notes.get(session.id) is None

    async def test_a_state_is_deleted_only_in_the_version_that_the_caller_saw(self, manager: SessionManager) -> None:
        notes = manager.states(Note)
        await notes.create("chat")
        seen = await notes.info("chat")
        await notes.set("chat", Note("new"))
        with pytest.raises(StateVersionError) as caught:
            await notes.delete("chat", if_version=seen.version)
        assert (caught.value.expected, caught.value.version) == (1, 2)
        assert await notes.get("chat") == Note("new")
        assert await notes.delete("chat", if_version=2, if_created_at=seen.created_at)
        with pytest.raises(StateVersionError):
            await notes.delete("chat", if_version=2)
        assert not await notes.delete("chat", if_version=0)

    async def test_states_of_an_id_without_a_session_are_deleted_with_the_id(self, manager: SessionManager) -> None:
        notes = manager.states(Note)
        await notes.create("chat")
        assert not await manager.delete("chat")
        assert await notes.get("chat") is None

    async def test_deleting_in_one_namespace_keeps_the_states_of_another(
        self, manager: SessionManager, store: Store, namespace: str
    ) -> None:
        async with SessionManager(store, namespace=f"{namespace}-2") as other:
            await manager.create(id="chat")
            await manager.states(Note).create("chat")
            await other.states(Note).create("chat")
            await manager.delete("chat")
            assert await other.states(Note).get("chat") == Note()

    async def test_a_fork_has_no_states_and_deleting_it_keeps_those_of_its_source(
        self, manager: SessionManager
    ) -> None:
        await say(manager.session("chat"), "m1")
        notes = manager.states(Note)
        await notes.create("chat")
        fork = await manager.fork("chat")
        assert await notes.get(fork.id) is None
        await manager.delete(fork.id)
        assert await notes.get("chat") == Note()

    async def test_changes_concurrent_with_the_deletion_of_the_session_leave_nothing(
        self, manager: SessionManager
    ) -> None:
        notes = manager.states(Note)

        def count(note: Note) -> Note:
            return replace(note, count=note.count + 1)

        for number in range(5):
            id = f"chat{number}"
            await manager.create(id=id)
            await notes.create(id)
            changes = [notes.update(id, count) for _ in range(5)]
            await asyncio.gather(*changes, manager.delete(id), notes.get(id), return_exceptions=True)
            assert await notes.get(id) is None

    async def test_an_erasure_removes_the_states_that_a_guest_owns(self, manager: SessionManager) -> None:
        ada, ben = SessionKey("bot", "web", "ada"), SessionKey("bot", "web", "ben")
        notes = manager.states(Note, name="users", ttl=None)
        await notes.create("mail:ada@example.org", owner=ada)
        await notes.create("thread", owner=replace(ada, thread="t"))
        await notes.create("other agent", owner=replace(ada, agent="other"))
        await notes.create("ben", owner=ben)
        await notes.create("nobody")
        assert (await manager.erase(key=replace(ada, thread="t"))).states == 1
        assert (await manager.erase(key=ada)).states == 1
        assert [info.id for info in await notes.list()] == ["ben", "nobody", "other agent"]
        assert (await manager.erase(peer="ada")).states == 1
        assert (await manager.erase(agent="bot")).states == 1
        assert [info.id for info in await notes.list()] == ["nobody"]

    async def test_owners_are_compared_as_isolation_stores_them(self, store: Store, namespace: str) -> None:
        async with SessionManager(store, namespace=namespace).with_isolation("agent", "peer") as manager:
            notes = manager.states(Note)
            await notes.create("a", owner=SessionKey("bot", "web", "ada", "t"))
            assert (await manager.erase(key=SessionKey("bot", "phone", "ada"))).states == 1

    async def test_a_manager_that_never_named_a_store_of_states_deletes_and_erases_what_is_there(
        self, store: Store, namespace: str, tmp_path: Path
    ) -> None:
        url = f"sqlite:///{tmp_path}/it's%20states.db?readers=2"
        ada = SessionKey("bot", "web", "ada")
        async with SessionManager(store, namespace=namespace) as manager:
            notes = manager.states(Note, store=url)
            for id in ("deleted", "erased"):
                await manager.create(id=id, key=replace(ada, thread=id))
                await notes.create(id)
            await notes.create("no session")
            await notes.create("mail:ada", owner=ada)
            await notes.create("kept")
        async with SessionManager(store, namespace=namespace) as other:
            assert await other.delete("deleted")
            assert not await other.delete("no session")
            assert (await other.erase(peer="ada")).states == 2
        async with SessionManager(store, namespace=namespace) as manager:
            assert [info.id for info in await manager.states(Note, store=url).list()] == ["kept"]

    async def test_a_store_of_states_that_cannot_be_opened_is_named_before_anything_is_deleted(
        self, store: Store, namespace: str, tmp_path: Path
    ) -> None:
        path = tmp_path / "states.db"
        ada = SessionKey("bot", "web", "ada")
        async with SessionManager(store, namespace=namespace) as manager:
            await manager.states(Note, store=f"sqlite:///{path}").create("chat")
            await manager.create(id="chat", key=ada)
        moved = path.rename(tmp_path / "moved.db")
        async with SessionManager(store, namespace=namespace) as manager:
            for call in (manager.erase(peer="ada"), manager.delete("chat"), manager.delete("unknown")):
                with pytest.raises(StateStoreMissingError) as raised:
                    await call
                assert (raised.value.url, raised.value.namespace) == (f"sqlite:///{path}", namespace)
            assert await manager.get("chat")
            assert not path.exists(), "no empty store is created in its place"
            moved.rename(path)
            assert (await manager.erase(peer="ada")).states == 1
            path.unlink()
        async with SessionManager(store, namespace=namespace) as manager:
            await manager.create(id="chat")
            with pytest.raises(StateStoreMissingError) as missing:
                await manager.delete("chat")
            assert await manager.forget_state_store(missing.value.url)
            assert not await manager.forget_state_store(missing.value.url)
            assert await manager.delete("chat")
