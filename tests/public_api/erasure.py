"""Erasure: all data of a person, an agent or a channel is deleted, and all other data stays."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from frontdesk import (
    DailyNotes,
    ErasureReport,
    InvalidInputError,
    InvalidKeyError,
    Session,
    SessionKey,
    SessionManager,
    Store,
)
from tests.public_api.steps import path, say, user

ADA = SessionKey("bot", "web", "ada")
BOB = SessionKey("bot", "web", "bob")


@dataclass
class Mood:
    text: str = "fine"


async def everything(manager: SessionManager, key: SessionKey, word: str) -> Session:
    """A session with data of every kind."""
    session = await manager.create(key=key, name=f"about {word}", tags=[f"tag-{word}"], metadata={"of": word})
    await session.append_all([user(f"{word}-{number}", f"{word} said {number}") for number in range(6)])
    await session.update_message(user(f"{word}-4", f"{word} changed"))
    await session.delete_messages([f"{word}-3"])
    await session.add_compaction(f"{word} in short", f"{word}-0", f"{word}-1")
    await session.set_summary(f"{word} in all")
    await session.set_system_prompt(f"help {word}")
    await session.set_system_prompt(f"help {word} well")
    await session.freeze_system_prompt()
    await manager.add_usage(session.id, input_tokens=5, model="m")
    await manager.states(Mood).create(session.id)
    return session


async def erased_events(manager: SessionManager) -> list[str | None]:
    return [
        event.session_id
        async for event in manager.events(after="start", follow=False)
        if event.kind == "session.deleted"
    ]


class Listener:
    """A hook that records ends, and can cancel the task in progress."""

    def __init__(self) -> None:
        self.ends: list[tuple[str, str]] = []
        self.breaks: asyncio.Task[Any] | None = None

    async def on_session_end(self, session: Session, reason: str) -> None:
        self.ends.append((session.id, reason))
        if self.breaks is not None and len(self.ends) == 3:
            self.breaks.cancel()


class ErasureTests:
    keeps_answers = False
    """whether a server keeps answers, which an erasure counts as states of the guest"""

    async def test_all_data_of_a_peer_is_erased_and_all_other_data_stays(self, manager: SessionManager) -> None:
        first = await everything(manager, ADA, "quagga")
        second = await manager.new(ADA)
        await say(second, "again")
        other = await everything(manager, BOB, "okapi")
        await manager.reindex()
        report = await manager.erase(peer="ada")
        assert replace(report, states=1) == ErasureReport(
            sessions=2, messages=6, summaries=1, block_versions=3, states=1, usage_entries=1, queued_messages=0
        )
        assert report.states == 1 or (self.keeps_answers and report.states > 1)
        assert [await manager.get(id) for id in (first.id, second.id)] == [None, None]
        assert (await manager.search("quagga again")).total == 0
        assert [info.id for info in await manager.list()] == [other.id]
        assert len(await path(other)) == 5
        assert {hit.session_id for hit in await manager.search("okapi")} == {other.id}
        assert [await manager.states(Mood).get(id) for id in (first.id, other.id)] == [None, Mood()]
        assert (await manager.usage()).total.input_tokens == 10
        assert await manager.erase(peer="ada") == ErasureReport()

    async def test_each_filter_erases_its_matches_and_several_filters_their_intersection(
        self, manager: SessionManager
    ) -> None:
        keys = [SessionKey(agent, channel, "ada", thread) for agent, channel, thread in
                (("a", "x", None), ("a", "x", "t"), ("a", "y", None), ("b", "x", None), ("b", "y", None))]  # fmt: skip
        for key in keys:
            await manager.create(key=key)

        async def left() -> set[str]:
            return {str(info.key) for info in await manager.list()}

        assert (await manager.erase(key=keys[1])).sessions == 1
        assert str(keys[0]) in await left()
        assert (await manager.erase(agent="a", channel="x")).sessions == 1
        assert (await manager.erase(channel="x")).sessions == 1
        assert (await manager.erase(agent="b")).sessions == 1
        assert await left() == {str(keys[2])}

    async def test_a_key_without_a_thread_means_the_whole_guest(self, manager: SessionManager) -> None:
        for thread in (None, "1", "2"):
            await manager.create(key=SessionKey("bot", "web", "ada", thread))
        for key in (BOB, SessionKey("cat", "web", "ada"), SessionKey("bot", "mail", "ada", "1")):
            await manager.create(key=key)
        assert (await manager.erase(key=SessionKey("bot", "web", "ada", "1"))).sessions == 1
        assert await manager.get(ADA) is not None
        assert (await manager.erase(key=ADA)).sessions == 2
        assert (await manager.stats()).sessions == 3

    async def test_the_messages_of_an_author_are_removed_and_those_of_others_stay(
        self, manager: SessionManager
    ) -> None:
        club, team = SessionKey("bot", "group", "club"), SessionKey("bot", "group", "team")
        for key in (club, team):
            group = await manager.create(key=key)
            for number, author in enumerate(("ana", "ben", "ana", None, "Ana")):
                message = user(f"m{number}", f"{author} likes {('walrus', 'gecko', 'tapir', 'lemur', 'okapi')[number]}")
                await group.append(message if author is None else {**message, "author": author})
            await group.append({"id": "n", "role": "user", "content": "by name", "name": "ana"})
            await group.append({**user("b", "on a branch"), "author": "ana"}, parent="m0")
        session = manager.session(club)
        fork = await manager.fork(club, "m4")
        await session.switch("n")
        await session.add_compaction("ana and ben talked", "m0", "m1")
        assert await manager.erase(key=club, author="ana") == ErasureReport(messages=4)
        assert await path(session) == ["m1", "m3", "m4"]
        assert await path(fork) == ["m1", "m3", "m4"]
        assert "ana" not in " ".join(message.text for message in await session.history())
        assert {hit.session_id for hit in await manager.search("walrus")} == {(await manager.session(team).info()).id}
        assert len(await path(manager.session(team))) == 2  # the branch is the head there
        assert await manager.erase(author="ana", agent="bot") == ErasureReport(messages=4)
        assert await path(manager.session(team)) == []
        assert await manager.erase(author="nobody") == ErasureReport()
        assert await manager.erase(author="Ana") == ErasureReport(messages=2)
        assert (await manager.stats()).sessions == 3

    async def test_messages_of_an_author_that_are_queued_for_a_turn_are_removed(self, manager: SessionManager) -> None:
        club = manager.session(SessionKey("bot", "group", "club"))
        async with club.turn() as turn:
            for id, author in (("a1", "ana"), ("b1", "ben"), ("a2", "ana")):
                message = {**user(id, f"{author} is in the queue"), "author": author}
                async with club.turn(on_busy="queue", message=message) as other:
                    assert other is None
            assert await manager.erase(author="ana") == ErasureReport(queued_messages=2)
            queued = await turn.take_queued()
            assert queued is not None
            assert queued.id == "b1"
            assert await turn.take_queued() is None

    async def test_messages_of_an_author_are_found_in_long_sessions(self, manager: SessionManager) -> None:
        session = manager.session("long")
        said = [{**user(f"m{number}"), "author": "ana" if number % 601 == 600 else "ben"} for number in range(1_300)]
        await session.append_all(said)
        assert (await manager.erase(author="ana")).messages == 2
        left = await path(session)
        assert (len(left), "m600" in left, "m1201" in left) == (1_298, False, False)
        with pytest.raises(InvalidInputError):
            await manager.erase(author=5)  # type: ignore[arg-type]

    async def test_sessions_of_every_status_are_erased(self, manager: SessionManager) -> None:
        for thread, change in (("1", manager.archive), ("2", manager.suspend)):
            key = SessionKey("bot", "web", "ada", thread)
            await manager.append(key, user("m"))
            await change(key)
        await manager.append(ADA, user("m"))
        assert (await manager.erase(peer="ada")).sessions == 3
        assert (await manager.stats()).sessions == 0

    async def test_forks_are_erased_even_through_deleted_or_cleared_sessions(self, manager: SessionManager) -> None:
        source = await manager.create(key=ADA)
        await say(source, "m1", "m2")
        fork = await manager.fork(source.id)
        await say(fork, "m3")
        of_fork = await manager.fork(fork.id, "m1")
        await say(of_fork, "m4")
        assert await manager.delete(fork.id)
        emptied = await manager.fork(source.id)
        await emptied.clear_messages()
        below = await manager.create(parent=emptied.id)
        split = await manager.compact_and_split(source.id, "in short")
        report = await manager.erase(peer="ada")
        assert (report.sessions, report.messages) == (5, 3)
        for session in (source, of_fork, emptied, below, split):
            assert await manager.get(session.id) is None
        assert (await manager.stats()).sessions == 0

    async def test_the_parent_of_an_erased_session_stays_and_its_children_lose_their_parent_id(
        self, manager: SessionManager
    ) -> None:
        above = await manager.create(id="above")
        ada = await manager.create(key=ADA, parent=above.id)
        bob = await manager.create(key=BOB, parent=ada.id)
        assert (await manager.erase(peer="ada")).sessions == 1
        assert {info.id for info in await manager.list()} == {above.id, bob.id}
        assert (await bob.info()).parent_session_id is None
        created = [event async for event in manager.events(after="start", session=bob.id, follow=False)]
        assert ada.id not in repr(created)

    async def test_sessions_that_are_each_others_parents_are_erased(self, manager: SessionManager) -> None:
        await manager.create(id="one", key=ADA, parent="two")
        await say(manager.session("one"), "m")
        await manager.fork("one", new_id="two")
        assert (await manager.erase(peer="ada")).sessions == 2

    async def test_an_erasure_needs_a_filter(self, manager: SessionManager) -> None:
        with pytest.raises(InvalidInputError):
            await manager.erase()
        with pytest.raises(InvalidInputError):
            await manager.erase(key=ADA, peer="ada")
        with pytest.raises(InvalidInputError):
            await manager.erase(peer=5)  # type: ignore[arg-type]
        with pytest.raises(InvalidKeyError):
            await manager.erase(key="bot:web:ada")  # type: ignore[arg-type]

    async def test_filters_match_keys_as_isolation_stores_them(self, store: Store, namespace: str) -> None:
        async with SessionManager(store, namespace=namespace).with_isolation("agent", "peer") as manager:
            await manager.append(ADA, user("m"))
            with pytest.raises(InvalidInputError, match="channel"):
                await manager.erase(channel="web")
            elsewhere = SessionKey("bot", "phone", "ada", "t")
            assert (await manager.erase(key=elsewhere)).sessions == 1

    async def test_other_namespaces_are_not_affected(
        self, store: Store, manager: SessionManager, namespace: str
    ) -> None:
        async with SessionManager(store, namespace=f"{namespace}-2") as other:
            await everything(other, ADA, "okapi")
            await manager.append(ADA, user("m"))
            assert (await manager.erase(peer="ada")).sessions == 1
            assert (await other.stats()).messages == 5

    async def test_events_of_an_erasure_do_not_identify_the_person(self, manager: SessionManager) -> None:
        session = await everything(manager, ADA, "quagga")
        await manager.delete((await manager.create(id="by hand")).id)
        await manager.erase(peer="ada")
        assert await erased_events(manager) == ["by hand", None]
        events = [event async for event in manager.events(after="start", follow=False)]
        assert session.id not in repr(events)

    async def test_hooks_are_called_and_notes_are_not_written(self, manager: SessionManager, tmp_path: Path) -> None:
        listener = Listener()
        manager.register_hook(listener)
        manager.register_hook(DailyNotes(tmp_path))
        session = await everything(manager, ADA, "quagga")
        await manager.erase(peer="ada")
        assert listener.ends == [(session.id, "erase")]
        assert await asyncio.to_thread(lambda: list(tmp_path.rglob("*.md"))) == []

    async def test_states_in_other_stores_are_erased(self, manager: SessionManager) -> None:
        moods = manager.states(Mood, store="memory://")
        session = await manager.create(key=ADA)
        await moods.create(session.id)
        assert (await manager.erase(peer="ada")).states == 1
        assert await moods.get(session.id) is None

    async def test_an_interrupted_erasure_is_finished_by_calling_it_again(self, manager: SessionManager) -> None:
        for number in range(100):
            session = await manager.create(key=SessionKey("bot", "web", "ada", str(number)))
            await say(session, "m1")
            if number % 10 == 0:
                await say(await manager.fork(session.id), "m2")
        listener = Listener()
        manager.register_hook(listener)
        listener.breaks = asyncio.ensure_future(manager.erase(peer="ada"))
        with pytest.raises(asyncio.CancelledError):
            await listener.breaks
        left = (await manager.stats()).sessions
        assert 0 < left <= 110
        # What was on its way to the store when the call was cancelled may still arrive there.
        assert 0 < (await manager.erase(peer="ada")).sessions <= left
        assert (await manager.stats()).sessions == 0

    async def test_sessions_that_become_active_during_an_erasure_are_erased(self, manager: SessionManager) -> None:
        made = [await manager.create(key=SessionKey("bot", "web", f"guest-{number}")) for number in range(80)]

        class Busy:
            ends = 0

            async def on_session_end(self, session: Session, reason: str) -> None:
                self.ends += 1
                if self.ends < 40:  # these sessions are older: their turn has not come yet
                    await asyncio.gather(*(other.append(user(f"busy {self.ends}")) for other in made[:10]))

        manager.register_hook(Busy())
        report = await manager.erase(agent="bot")
        assert (report.remaining, [await manager.get(session.id) for session in made]) == (0, [None] * 80)

    async def test_sessions_begun_without_end_during_an_erasure_are_counted(self, manager: SessionManager) -> None:
        class Busy:
            async def on_session_end(self, session: Session, reason: str) -> None:
                await manager.create(key=SessionKey("bot", "web", "ada", session.id))

        await manager.create(key=ADA)
        busy = Busy()
        manager.register_hook(busy)
        report = await manager.erase(peer="ada")
        assert report.sessions > 1
        assert report.remaining == (await manager.stats()).sessions == 1
        manager.unregister_hook(busy)
        assert await manager.erase(peer="ada") == ErasureReport(sessions=1)

    async def test_an_erasure_during_concurrent_writes_leaves_no_earlier_data(self, manager: SessionManager) -> None:
        done = asyncio.Event()

        async def write(number: int) -> None:
            key = SessionKey("bot", "web", "ada", str(number % 3))
            index = 0
            while not done.is_set():
                await manager.append(key, user(f"{number}-{index}"))
                index += 1
                await asyncio.sleep(0)

        for number in range(40):
            await manager.append(SessionKey("bot", "web", "ada", f"old {number}"), user("before"))
        writers = [asyncio.ensure_future(write(number)) for number in range(4)]
        await manager.erase(peer="ada")
        done.set()
        await asyncio.gather(*writers)
        assert (await manager.search("before")).total == 0
        assert {info.key.thread for info in await manager.list() if info.key} <= {"0", "1", "2"}
        await manager.erase(peer="ada")
        assert (await manager.stats()).sessions == 0
