"""`replace_messages`: a list becomes all that a session has, in one transaction."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from frontdesk import (
    HeadMovedError,
    InvalidMessageError,
    NewMessage,
    Session,
    SessionEndedError,
    SessionKey,
    SessionManager,
    TurnLostError,
)
from tests.public_api.steps import ids, path, say, user, view


def users(*names: str) -> list[dict[str, Any]]:
    return [user(name) for name in names]


class ReplacedMessageTests:
    async def test_the_list_is_all_that_is_left(self, manager: SessionManager, session: Session) -> None:
        await say(session, "m1", "m2", "m3")
        await session.append(user("b2"), parent="m1")
        messages = await session.replace_messages([user("m1"), user("m3", "another text"), user("n1")])
        assert [(message.id, message.text, message.parent_id) for message in messages] == [
            ("m1", "m1", None),
            ("m3", "another text", "m1"),
            ("n1", "n1", "m3"),
        ]
        assert await session.history() == messages
        assert ids(await session.leaves()) == ["n1"]
        info = await session.info()
        assert (info.message_count, info.token_count) == (3, sum(message.tokens for message in messages))
        for word in ("m2", "b2"):
            assert len(await manager.search(word)) == 0
        assert [hit.message_id for hit in await session.search("another")] == ["m3"]
        await say(session, "n2")
        assert await path(session) == ["m1", "m3", "n1", "n2"]

    @pytest.mark.parametrize(
        "wanted",
        [
            [],
            ["x"],
            ["m1"],
            ["m1", "m2", "m3"],
            ["m1", "m2", "m3", "x", "y"],
            ["m2", "m3"],
            ["m3", "m2", "m1"],
            ["m1", "x", "m2"],
            ["x", "m1", "m2", "m3"],
        ],
        ids="-".join,
    )
    async def test_any_list_can_follow_any_other(self, session: Session, wanted: list[str]) -> None:
        await say(session, "m1", "m2", "m3")
        assert ids(await session.replace_messages(users(*wanted))) == wanted
        assert await path(session) == await view(session) == wanted
        assert sorted(ids([m for name in wanted for m in [await session.get_message(name)]])) == sorted(wanted)
        assert ids(await session.replace_messages(users("m1", "m2", "m3"))) == ["m1", "m2", "m3"]
        assert await path(session) == ["m1", "m2", "m3"]
        assert (await session.info()).message_count == 3

    async def test_a_session_is_made_and_the_same_list_changes_nothing(
        self, manager: SessionManager, session: Session
    ) -> None:
        assert await session.replace_messages([]) == []
        assert await manager.get("chat") is None
        await session.replace_messages(users("m1", "m2"))
        row = await manager._runtime.store.get(manager.namespace, "chat")
        await session.replace_messages(users("m1", "m2"))
        assert await manager._runtime.store.get(manager.namespace, "chat") == row
        keyed = manager.session(SessionKey("agent", "web", "ana"))
        assert ids(await keyed.replace_messages(users("k1"))) == ["k1"]

    async def test_messages_without_ids_keep_those_that_they_got(self, session: Session) -> None:
        said = [{"role": "user", "content": text} for text in ("one", "two", "two")]
        first = await session.replace_messages(said)
        again = await session.replace_messages([*said, {"role": "user", "content": "three"}])
        assert ids(again[:3]) == ids(first)
        assert [message.created_at for message in again[:3]] == [message.created_at for message in first]
        # The id of the first is given to another message: then the first gets a new one.
        other = await session.replace_messages([said[0], user(first[0].id, "other")])
        assert [message.text for message in await session.history()] == ["one", "other"]
        assert other[0].id != first[0].id
        assert other[1].id == first[0].id

    async def test_only_what_is_new_is_written(self, manager: SessionManager, session: Session) -> None:
        await say(session, "m1", "m2")
        start = [event.position async for event in manager.events(after="start", follow=False)][-1]
        await session.replace_messages(users("m1", "m2", "m3"))
        events = [event async for event in manager.events(after=start, follow=False)]
        assert [(event.kind, event.message_id) for event in events] == [("message.appended", "m3")]
        await session.replace_messages(users("m1", "m4"))
        events = [event async for event in manager.events(after=events[-1].position, follow=False)]
        assert [(event.kind, event.message_id) for event in events] == [
            ("message.deleted", "m2"),
            ("message.deleted", "m3"),
            ("message.appended", "m4"),
        ]

    async def test_compactions_over_what_stays_are_kept_and_others_go(self, session: Session) -> None:
        await say(session, "m1", "m2", "m3", "m4")
        await session.add_compaction("early", "m1", "m2")
        await session.add_compaction("late", "m3", "m4")
        await session.replace_messages(users("m1", "m2", "m3", "x"))
        assert await view(session) == ["early", "m3", "x"]
        assert [compaction.summary for compaction in await session.compactions()] == ["early"]
        await session.replace_messages(users("m1", "x"))
        assert await view(session) == ["m1", "x"]
        assert await session.compactions() == []
        assert (await session.info()).compaction_count == 0
        assert len(await session.search("early")) == 0

    async def test_an_edited_message_is_compared_as_it_is_seen(self, manager: SessionManager, session: Session) -> None:
        await say(session, "m1", "m2")
        fork = await manager.fork("chat")
        await fork.update_message(user("m1", "edited"))
        await fork.replace_messages([user("m1", "edited"), user("x")])
        assert await view(fork) == ["edited", "x"]
        await fork.replace_messages(users("m1", "m2"))
        assert await view(fork) == ["m1", "m2"]
        assert await view(session) == ["m1", "m2"]

    async def test_forks_and_their_source_keep_what_they_see(self, manager: SessionManager, session: Session) -> None:
        await say(session, "m1", "m2", "m3")
        fork = await manager.fork("chat")
        await session.replace_messages(users("m1", "x"))
        assert await view(fork) == ["m1", "m2", "m3"]
        await fork.replace_messages(users("y"))
        assert await view(session) == ["m1", "x"]
        assert await view(fork) == ["y"]
        assert len(await manager.search("m2")) == 0

    async def test_after_switch_to_none_everything_is_replaced(self, session: Session) -> None:
        await say(session, "m1", "m2")
        await session.switch(None)
        await session.replace_messages(users("m2", "m3"), expected_head=None)
        assert await path(session) == ["m2", "m3"]
        assert (await session.info()).message_count == 2

    async def test_it_is_refused_if_the_head_is_not_the_expected_one(
        self, manager: SessionManager, session: Session
    ) -> None:
        with pytest.raises(HeadMovedError):
            await session.replace_messages(users("m1"), expected_head="m0")
        assert await manager.get("chat") is None
        await session.replace_messages(users("m1", "m2"), expected_head=None)
        for expected in ("m1", None):
            with pytest.raises(HeadMovedError):
                await session.replace_messages(users("x"), expected_head=expected)
        assert await view(session) == ["m1", "m2"]
        await session.replace_messages(users("x"), expected_head="m2")
        assert await view(session) == ["x"]

    async def test_what_cannot_be_stored_changes_nothing(self, session: Session) -> None:
        await say(session, "m1")
        bad: list[list[Any]] = [[user("x"), {"content": "no role"}], users("x", "y", "x"), users("frontdesk-summary:1")]
        for messages in bad:
            with pytest.raises(InvalidMessageError):
                await session.replace_messages(messages)
        assert await view(session) == ["m1"]

    async def test_an_ended_session_is_not_written_to(self, manager: SessionManager, session: Session) -> None:
        await say(session, "m1")
        await manager.archive("chat")
        with pytest.raises(SessionEndedError):
            await session.replace_messages(users("x"))
        assert await view(session) == ["m1"]

    async def test_it_is_fenced_in_a_turn(self, session: Session) -> None:
        async with session.turn() as turn:
            await turn.replace_messages(users("m1"))
        with pytest.raises(TurnLostError):
            await turn.replace_messages(users("x"))
        assert await view(session) == ["m1"]

    async def test_items_of_a_framework_can_be_replaced(self, session: Session) -> None:
        items = [NewMessage({"n": n}, role="user", text=f"number {n}") for n in range(3)]
        first = await session.replace_messages(items)
        again = await session.replace_messages([*items, NewMessage({"n": 3}, role="user")])
        assert ids(again[:3]) == ids(first)
        changed = await session.replace_messages([NewMessage({"n": 0}, role="user", text="another"), *items[1:]])
        assert [message.text for message in changed] == ["another", "number 1", "number 2"]

    async def test_a_long_list_grows_by_what_is_new(self, session: Session) -> None:
        names = [f"m{n}" for n in range(1100)]
        await session.replace_messages(users(*names))
        await session.replace_messages(users(*names, "last"))
        assert await path(session) == [*names, "last"]
        await session.replace_messages(users(*names[:1050], "other"))
        assert await path(session) == [*names[:1050], "other"]

    async def test_readers_see_the_old_list_or_the_new_one(self, session: Session) -> None:
        lists = [users("a", "b1", "c1"), users("a", "b2"), users("x", "y", "z")]
        wanted = [[message["id"] for message in messages] for messages in lists]
        await session.replace_messages(lists[0])

        async def write() -> None:
            for n in range(30):
                await session.replace_messages(lists[n % 3])

        async def read(writing: asyncio.Task[None]) -> None:
            while not writing.done():
                assert ids(await session.history()) in wanted
                await asyncio.sleep(0)

        writing = asyncio.create_task(write())
        await asyncio.gather(writing, *(read(writing) for _ in range(3)))

    async def test_of_many_guarded_replacements_one_wins(self, session: Session) -> None:
        await say(session, "m0")
        work = [session.replace_messages(users("m0", f"x{n}"), expected_head="m0") for n in range(8)]
        outcome = await asyncio.gather(*work, return_exceptions=True)
        assert sum(isinstance(each, HeadMovedError) for each in outcome) == 7
        assert await session.path_length() == 2

    async def test_replacements_at_once_leave_one_of_the_lists(self, session: Session) -> None:
        lists = [users("a", f"x{n}", f"y{n}") for n in range(6)]
        await asyncio.gather(*(session.replace_messages(messages) for messages in lists))
        assert await path(session) in [[message["id"] for message in messages] for messages in lists]
        assert (await session.info()).message_count == 3
