"""States in the store of the sessions: they are deleted with the session they belong to."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from frontdesk import SessionKey, SessionManager, Store
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
