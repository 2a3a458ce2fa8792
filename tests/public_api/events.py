"""Events: what `manager.events()` returns, where it starts, and when it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from frontdesk import (
    ChangesTrimmedError,
    Event,
    InvalidCursorError,
    InvalidInputError,
    Session,
    SessionKey,
    SessionManager,
    Store,
)
from frontdesk.messages import new_id
from tests.public_api.steps import path, say, user
from tests.waiting import PATIENCE, eventually


async def so_far(manager: SessionManager, after: str | None = "start", **options: Any) -> list[Event]:
    return [event async for event in manager.events(after=after, follow=False, **options)]


def brief(events: list[Event]) -> list[tuple[str, str | None, str | None]]:
    return [(event.kind, event.session_id, event.message_id) for event in events]


class Following:
    """A task that collects the events from now on."""

    def __init__(self, manager: SessionManager, after: str | None = None, **options: Any) -> None:
        self.events: list[Event] = []
        self._stream = manager.events(after=after, **options)
        self.task = asyncio.create_task(self._collect())

    async def _collect(self) -> None:
        async for event in self._stream:
            self.events.append(event)

    async def until(self, message_id: str) -> list[Event]:
        """The events up to the one about a message."""
        async with asyncio.timeout(PATIENCE):
            while all(event.message_id != message_id for event in self.events):
                assert not self.task.done()
                await asyncio.sleep(0.002)
        return self.events


class EventTests:
    async def test_each_message_is_a_separate_event(self, manager: SessionManager, session: Session) -> None:
        await say(session, "m1", "m2")
        await session.append({"id": "m3", "role": "assistant", "content": "secret"})
        events = await so_far(manager)
        assert brief(events) == [
            ("session.created", "chat", None),
            ("message.appended", "chat", "m1"),
            ("message.appended", "chat", "m2"),
            ("message.appended", "chat", "m3"),
        ]
        assert [event.data for event in events[1:]] == [{"role": "user"}, {"role": "user"}, {"role": "assistant"}]
        info = await session.info()
        assert info.created_at <= events[-1].at <= info.updated_at
        assert "secret" not in repr(events)

    async def test_every_change_is_an_event(self, manager: SessionManager, session: Session) -> None:
        await say(session, "m1", "m2", "m3")
        await session.update_message(user("m2", "changed"))
        compaction = await session.add_compaction("in short", "m1", "m2")
        await session.undo_compaction(compaction.id)
        await session.switch("m1")
        await session.delete_messages(["m3", "m2"])
        await session.rename("private name")
        session.add_context("memory")
        await session.replace_context_block("memory", "private text")
        await manager.add_usage("chat", input_tokens=1)
        await manager.fork("chat", new_id="fork")
        await session.clear_messages()
        await manager.delete("fork")
        events = [event for event in await so_far(manager) if event.kind != "message.appended"]
        assert [(event.kind, event.message_id, event.data) for event in events] == [
            ("session.created", None, {}),
            ("compaction.added", None, {"id": compaction.id, "kind": "summary"}),
            ("compaction.removed", None, {"id": compaction.id}),
            ("message.deleted", "m2", {}),
            ("message.deleted", "m3", {}),
            ("session.changed", None, {"changed": ["name"]}),
            ("block.changed", None, {"label": "memory", "scope": "session"}),
            ("usage.added", None, {}),
            ("messages.cleared", None, {}),
            ("session.deleted", None, {}),
        ]
        assert [event.session_id for event in events] == ["chat"] * 9 + ["fork"]

    async def test_events_of_changed_messages_contain_their_ids(
        self, manager: SessionManager, session: Session
    ) -> None:
        await say(session, "m1", "m2")
        fork = await manager.fork("chat", new_id="fork")
        await session.update_message(user("m2", "changed in place or not"))
        await fork.update_message(user("m1", "changed for the fork alone"))
        await session.switch("m1")
        assert brief(await so_far(manager))[3:] == [
            ("session.created", "fork", None),
            ("message.updated", "chat", "m2"),
            ("message.updated", "fork", "m1"),
            ("head.moved", "chat", "m1"),
        ]

    async def test_a_reader_can_continue_after_any_event(self, manager: SessionManager, session: Session) -> None:
        await say(session, *(f"m{number}" for number in range(300)))
        await session.delete_messages([f"m{number}" for number in range(5, 9)])
        await manager.create(id="other")
        whole = await so_far(manager)
        assert len({event.position for event in whole}) == len(whole) == 1 + 296 + 4 + 1
        for index in (0, 1, 3, 5, 6, 127, 200, 296, 297, 298, 300, 301):
            assert await so_far(manager, whole[index].position) == whole[index + 1 :]

    async def test_a_position_among_appended_messages_survives_their_deletion(
        self, manager: SessionManager, session: Session
    ) -> None:
        await say(session, *(f"m{number}" for number in range(10)))
        third = (await so_far(manager))[3]
        await session.delete_messages(["m0", "m1", "m4"])
        rest = [event.message_id for event in await so_far(manager, third.position) if event.kind == "message.appended"]
        assert rest == ["m3", "m5", "m6", "m7", "m8", "m9"]

    async def test_one_session_can_be_followed(self, manager: SessionManager, session: Session) -> None:
        await say(session, "m1")
        await manager.append("other", user("o1"))
        await say(session, "m2")
        await manager.delete("other")
        mine = await so_far(manager, session="chat")
        assert brief(mine)[1:] == [("message.appended", "chat", "m1"), ("message.appended", "chat", "m2")]
        assert await so_far(manager, mine[1].position, session="chat") == mine[2:]
        assert [event.kind for event in await so_far(manager, session="other")] == ["session.deleted"]

    async def test_a_guest_can_be_followed(self, manager: SessionManager) -> None:
        ana, thread = SessionKey("concierge", "web", "ana"), SessionKey("concierge", "web", "ana", "t1")
        others = (
            SessionKey("concierge", "web", "ben"),
            SessionKey("clerk", "web", "ana"),
            SessionKey("clerk", "sms", "a"),
        )
        for number, key in enumerate((ana, thread, *others)):
            await manager.append(key, user(f"m{number}"))
        await manager.append("keyless", user("m9"))

        async def said(**options: Any) -> list[str | None]:
            return [event.message_id for event in await so_far(manager, **options) if event.message_id]

        assert await said(agent="concierge", peer="ana") == ["m0", "m1"]
        assert await said(peer="ana") == ["m0", "m1", "m3"]
        assert await said(channel="sms") == ["m4"]
        assert await said(agent="clerk", channel="web", peer="ben") == []
        assert await said(session=ana) == ["m0"]
        assert await said(session=thread) == ["m1"]
        assert await said(session="keyless", peer="ana") == []
        assert await said() == ["m0", "m1", "m2", "m3", "m4", "m9"]

    async def test_a_guest_hears_of_deletions_and_of_no_erasure(self, manager: SessionManager) -> None:
        ana, ben = SessionKey("concierge", "web", "ana"), SessionKey("concierge", "web", "ben")
        for key in (ana, ben):
            await manager.append(key, user("m1"))
        deleted = (await manager.session(ana).info()).id
        await manager.delete(ana)
        filters: list[dict[str, Any]] = [
            {"session": ana},
            {"peer": "ana"},
            {"session": deleted},
            {"agent": "concierge", "peer": "ana"},
        ]
        for options in filters:
            assert brief(await so_far(manager, **options)) == [("session.deleted", deleted, None)]
        assert {event.kind for event in await so_far(manager, peer="ben")} == {"session.created", "message.appended"}
        await manager.erase(key=ben)
        assert await so_far(manager, peer="ben") == []
        assert [event.session_id for event in await so_far(manager)] == [deleted, None]

    async def test_a_key_is_followed_from_before_its_first_session_to_the_next_one(
        self, manager: SessionManager
    ) -> None:
        key = SessionKey("concierge", "web", "ana")
        following = Following(manager, "start", session=key)
        await manager.append(key, user("m1"))
        await manager.append(SessionKey("concierge", "web", "ben"), user("other"))
        await manager.new(key)
        await manager.append(key, user("m2"))
        events = await following.until("m2")
        assert [event.message_id for event in events if event.message_id] == ["m1", "m2"]
        assert len({event.session_id for event in events}) == 2
        following.task.cancel()

    async def test_arguments_are_checked_at_the_call(self, manager: SessionManager) -> None:
        for wrong in ("", "x", 3):
            with pytest.raises(InvalidCursorError):
                manager.events(after=wrong)  # type: ignore[arg-type]
        filters: list[dict[str, Any]] = [
            {"session": ""},
            {"session": 3},
            {"peer": 3},
            {"agent": "a\0"},
            {"channel": b""},
        ]
        for options in filters:
            with pytest.raises(InvalidInputError):
                manager.events(**options)
        with pytest.raises(InvalidInputError, match="key"):
            manager.events(session=SessionKey("a", "b", "c"), peer="c")

    async def test_a_position_of_now_misses_nothing(self, manager: SessionManager, session: Session) -> None:
        """A client that takes the position, loads and then follows knows every message, while others write."""
        start = await manager.position()
        await say(session, "first")
        stop = asyncio.Event()
        written = ["first"]

        async def write(name: str) -> None:
            number = 0
            while not stop.is_set():
                await manager.append(f"s-{name}", user(f"{name}-{number}"))
                written.append(f"{name}-{number}")
                number += 1
                await asyncio.sleep(0)

        writers = [asyncio.create_task(write(name)) for name in "abc"]
        clients: list[tuple[set[str], Following]] = []
        for least in range(3, 60, 10):
            await eventually(lambda least=least: len(written) >= least)  # type: ignore[misc]
            position = await manager.position()
            loaded = {message_id for name in "abc" for message_id in await path(manager.session(f"s-{name}"))}
            clients.append((loaded | {"first"}, Following(manager, position)))
        stop.set()
        await asyncio.gather(*writers)
        await say(session, "last")
        for loaded, following in clients:
            events = await following.until("last")
            assert loaded | {event.message_id for event in events} >= {*written, "last"}
            following.task.cancel()
        assert "first" in {event.message_id for event in await so_far(manager, start)}

    async def test_without_a_position_events_start_now(self, manager: SessionManager, session: Session) -> None:
        await say(session, "old")
        following = Following(manager)
        number = 0
        while not following.events:
            await say(session, f"new{number}")
            number += 1
            await asyncio.sleep(0.005)
        assert following.events[0].kind == "message.appended"
        assert following.events[0].message_id != "old"
        following.task.cancel()

    async def test_events_include_the_writes_of_other_managers(
        self, manager: SessionManager, store: Store, namespace: str
    ) -> None:
        following = Following(manager, "start")
        async with SessionManager(store, namespace=namespace) as other, SessionManager(store) as elsewhere:
            await elsewhere.session(new_id()).append(user("foreign"))
            await asyncio.gather(*(other.append(f"s{number % 3}", user(f"m{number}")) for number in range(40)))
            await other.append("s0", user("last"))
            events = await following.until("last")
            for name in ("s0", "s1", "s2"):
                reported = [event.message_id for event in events if event.session_id == name and event.message_id]
                assert reported == await path(other.session(name))
        assert "foreign" not in {event.message_id for event in events}
        following.task.cancel()

    async def test_events_end_when_the_manager_is_closed_or_the_task_is_cancelled(
        self, store: Store, namespace: str
    ) -> None:
        manager = SessionManager(store, namespace=namespace)
        following, cancelled = Following(manager, "start"), Following(manager, "start")
        await manager.append("chat", user("m1"))
        await following.until("m1")
        await cancelled.until("m1")
        cancelled.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled.task
        late = manager.events(after="start")
        await manager.close()
        async with asyncio.timeout(PATIENCE):
            await following.task
        assert [event async for event in late] == []

    async def test_streams_can_be_ended_while_the_manager_stays_open(self, manager: SessionManager) -> None:
        following, late = Following(manager, "start"), manager.events(after="start")
        await manager.append("chat", user("m1"))
        await following.until("m1")
        manager.end_events()
        async with asyncio.timeout(PATIENCE):
            await following.task
        assert [event async for event in late] == []
        await manager.append("chat", user("m2"))
        assert (await so_far(manager))[-1].message_id == "m2"

    async def test_positions_of_other_namespaces_and_altered_positions_are_refused(
        self, manager: SessionManager, store: Store, session: Session
    ) -> None:
        await say(session, "m1")
        position = (await so_far(manager))[-1].position
        async with SessionManager(store, namespace=new_id()) as elsewhere:
            with pytest.raises(InvalidCursorError, match="position"):
                await so_far(elsewhere, position)
        page = await manager.list(limit=1)
        for wrong in (position[:-1], "A" + position, "", "Start", "0", page.next_cursor or "x"):
            with pytest.raises(InvalidCursorError, match="position"):
                await so_far(manager, wrong)
        with pytest.raises(InvalidInputError):
            await so_far(manager, 3)  # type: ignore[arg-type]

    async def test_a_trimmed_position_raises_instead_of_leaving_a_gap(
        self, manager: SessionManager, store: Store, namespace: str, session: Session
    ) -> None:
        for number in range(4):
            await say(session, f"m{number}")
        whole = await so_far(manager)
        assert await store.trim_changes(namespace, 1 << 60, 3) == 3
        with pytest.raises(ChangesTrimmedError, match=r"events\(after=None\)"):
            await so_far(manager, whole[1].position)
        assert await so_far(manager, whole[2].position) == await so_far(manager) == whole[3:]
