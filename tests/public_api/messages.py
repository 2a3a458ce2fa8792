"""The messages of one session: append, upsert, update, delete and clear."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from frontdesk import (
    HeadMovedError,
    InvalidMessageError,
    InvalidRangeError,
    Message,
    MessageNotFoundError,
    Session,
    SessionKey,
    SessionManager,
    SessionNotFoundError,
)
from tests.public_api.steps import ids, path, say, user, view


class MessageTests:
    async def test_a_session_without_writes_is_empty_and_unknown(
        self, manager: SessionManager, session: Session
    ) -> None:
        assert await session.history() == []
        assert await path(session) == []
        assert await session.head() is None
        assert await session.leaves() == []
        assert await session.branches(None) == []
        assert await session.path_length() == 0
        assert await session.compactions() == []
        assert len(await session.search("anything")) == 0
        assert await session.delete_messages(["m"]) == 0
        await session.clear_messages()
        assert await manager.get("chat") is None
        with pytest.raises(SessionNotFoundError):
            await session.info()

    async def test_the_first_append_creates_the_session(self, manager: SessionManager, session: Session) -> None:
        appended = await session.append(user("m1", "hello"))
        assert appended.inserted
        assert appended.message.parent_id is None
        info = await manager.get("chat")
        assert info is not None
        assert (info.message_count, info.token_count) == (1, appended.message.tokens)
        assert info == await session.info()

    async def test_each_append_follows_the_head(self, session: Session) -> None:
        for message_id in ("m1", "m2", "m3"):
            await session.append(user(message_id))
        assert [(m.id, m.parent_id) for m in await session.history()] == [("m1", None), ("m2", "m1"), ("m3", "m2")]

    async def test_a_message_comes_back_exactly_as_it_was_appended(self, session: Session) -> None:
        given = {
            "role": "user",
            "x-unknown": [1, {"z": None, "a": 12345678901234567890123, "pi": 3.141592653589793, "e": 1e300}],
            "content": "NUL \0, new\nline, emoji 👩‍🚀, 中文, \u2028",
            "id": "m1",
            "nested": {"b": 1, "a": {"": ""}},
        }
        await session.append(given)
        [message] = await session.history()
        assert message.raw == given
        assert list(message.raw) == list(given)
        assert (await session.get_message("m1")).raw == given
        assert await session.history(format="raw") == [given]

    async def test_a_message_without_an_id_gets_one(self, session: Session) -> None:
        first = (await session.append({"role": "user", "content": "hi"})).message
        second = (await session.append({"role": "user", "content": "hi"})).message
        assert first.id != second.id
        assert ids(await session.history()) == [first.id, second.id]
        assert (await session.get_message(first.id)).text == "hi"

    async def test_a_message_object_can_be_appended(self, session: Session) -> None:
        moment = datetime(2020, 2, 3, 4, 5, 6, tzinfo=UTC)
        message = Message("m1", "user", "hello", created_at=moment, author="Ada", metadata={"mood": "fine"})
        stored = (await session.append(message)).message
        assert stored.raw == message.raw
        [read] = await session.history()
        assert (read.created_at, read.author, read.metadata) == (moment, "Ada", {"mood": "fine"})

    async def test_an_explicit_parent_opens_a_branch(self, session: Session) -> None:
        await say(session, "m1", "m2")
        appended = await session.append(user("b2"), parent="m1")
        assert appended.message.parent_id == "m1"
        assert await view(session) == ["m1", "b2"]
        assert await view(session, leaf="m2") == ["m1", "m2"]

    async def test_parent_none_starts_a_new_root(self, session: Session) -> None:
        await say(session, "m1", "m2")
        await session.append(user("r2"), parent=None)
        assert await view(session) == ["r2"]
        assert ids(await session.branches(None)) == ["m1", "r2"]

    async def test_an_unknown_parent_is_refused_and_nothing_is_written(self, session: Session) -> None:
        await say(session, "m1")
        with pytest.raises(MessageNotFoundError) as caught:
            await session.append(user("m2"), parent="nowhere")
        assert (caught.value.message_id, caught.value.session_id) == ("nowhere", "chat")
        assert await view(session) == ["m1"]
        assert (await session.info()).message_count == 1

    async def test_appending_an_existing_id_changes_nothing_and_reports_the_duplicate(self, session: Session) -> None:
        await session.append(user("m1", "first"))
        await say(session, "m2")
        before = await session.info()
        again = await session.append(user("m1", "second"))
        assert not again.inserted
        assert (again.message.text, again.message.parent_id) == ("first", None)
        assert await view(session) == ["first", "m2"]
        assert await session.info() == before

    async def test_a_repeated_id_with_another_parent_stays_where_it_was(self, session: Session) -> None:
        await say(session, "m1", "m2", "m3")
        assert not (await session.append(user("m3"), parent="m1")).inserted
        assert await view(session) == ["m1", "m2", "m3"]

    async def test_a_deleted_id_can_be_used_again(self, session: Session) -> None:
        await say(session, "m1", "m2")
        await session.delete_messages(["m1"])
        assert (await session.append(user("m1", "back"))).inserted
        assert await view(session) == ["m2", "back"]

    async def test_expected_head_guards_an_append(self, session: Session) -> None:
        await say(session, "m1", "m2")
        with pytest.raises(HeadMovedError) as caught:
            await session.append(user("m3"), expected_head="m1")
        assert (caught.value.expected, caught.value.head) == ("m1", "m2")
        assert await view(session) == ["m1", "m2"]
        assert (await session.append(user("m3"), expected_head="m2")).inserted

    async def test_expected_head_in_an_empty_session_reports_that_there_is_none(
        self, manager: SessionManager, session: Session
    ) -> None:
        with pytest.raises(HeadMovedError) as caught:
            await session.append(user("m1"), expected_head="m0")
        assert caught.value.head is None
        assert await manager.get("chat") is None

    async def test_expected_head_none_means_only_if_there_is_no_head(
        self, manager: SessionManager, session: Session
    ) -> None:
        assert (await session.append(user("m1"), expected_head=None)).inserted
        with pytest.raises(HeadMovedError) as caught:
            await manager.append("chat", user("m2"), expected_head=None)
        assert (caught.value.expected, caught.value.head) == (None, "m1")
        assert not (await session.append(user("m1"), expected_head=None)).inserted
        keyed = manager.session(SessionKey("agent", "web", "ana"))
        assert (await keyed.append_all([user("k1"), user("k2")], expected_head=None))[1].inserted

    async def test_of_many_first_appends_only_one_finds_no_head(self, session: Session) -> None:
        work = [session.append(user(f"m{n}"), expected_head=None) for n in range(16)]
        outcome = await asyncio.gather(*work, return_exceptions=True)
        assert sum(isinstance(each, HeadMovedError) for each in outcome) == 15
        assert await session.path_length() == 1

    async def test_a_retried_append_succeeds_although_the_head_has_moved(self, session: Session) -> None:
        await say(session, "m1")
        await session.append(user("m2"), expected_head="m1")
        assert not (await session.append(user("m2"), expected_head="m1")).inserted

    async def test_only_one_of_many_appends_with_the_same_expected_head_wins(self, session: Session) -> None:
        await say(session, "m0")
        work = [session.append(user(f"m{n}"), expected_head="m0") for n in range(1, 17)]
        outcome = await asyncio.gather(*work, return_exceptions=True)
        assert sum(isinstance(each, HeadMovedError) for each in outcome) == 15
        assert await session.path_length() == 2

    async def test_many_concurrent_appends_of_one_id_leave_one_message(self, session: Session) -> None:
        outcome = await asyncio.gather(*(session.append(user("m1")) for _ in range(32)))
        assert sum(each.inserted for each in outcome) == 1
        assert (await session.info()).message_count == 1

    async def test_append_all_chains_and_continues_after_the_head(self, session: Session) -> None:
        await say(session, "m1", "m2")
        appended = await session.append_all([user("m3"), user("m4")])
        assert [(each.inserted, each.message.parent_id) for each in appended] == [(True, "m2"), (True, "m3")]
        assert await view(session) == ["m1", "m2", "m3", "m4"]

    async def test_append_all_skips_existing_messages_and_continues_after_the_head(self, session: Session) -> None:
        await say(session, "m1", "m2", "m3")
        appended = await session.append_all([user("m4"), user("m1"), user("m5"), user("m5")])
        assert [each.inserted for each in appended] == [True, False, True, False]
        assert [each.message.parent_id for each in appended] == ["m3", None, "m4", "m4"]
        assert await view(session) == ["m1", "m2", "m3", "m4", "m5"]
        assert ids(await session.leaves()) == ["m5"]

    async def test_append_all_of_known_messages_leaves_the_head(self, session: Session) -> None:
        await say(session, "m1", "m2", "m3")
        await say(session, "m2", "m1")
        assert await view(session) == ["m1", "m2", "m3"]

    async def test_append_all_after_a_parent_is_a_path(self, session: Session) -> None:
        await say(session, "m1", "m2", "m3")
        branch = [user("m2"), user("b3")]
        assert [each.inserted for each in await session.append_all(branch, parent="m1")] == [False, True]
        assert await view(session) == ["m1", "m2", "b3"]
        assert [each.inserted for each in await session.append_all(branch, parent="m1")] == [False, False]
        assert not (await session.append(user("m3"), parent="m1")).inserted
        assert [each.inserted for each in await session.append_all([user("m3")], parent="m2")] == [False]
        assert await view(session) == ["m1", "m2", "b3"]
        others = (("x", "m3"), "m2"), (("m3", "x"), "m1"), (("m3", "x"), None), (("m1", "b3"), None), (("m3",), "m1")
        for names, parent in others:
            with pytest.raises(InvalidRangeError) as caught:
                await session.append_all([user(name) for name in names], parent=parent)
            assert caught.value.details["session_id"] == "chat"
        assert await view(session) == ["m1", "m2", "b3"]
        assert (await session.info()).message_count == 4

    async def test_append_all_writes_all_or_nothing(self, manager: SessionManager, session: Session) -> None:
        with pytest.raises(InvalidMessageError):
            await session.append_all([user("m1"), {"id": "m2", "role": 3, "content": "x"}])
        assert await manager.get("chat") is None
        assert await session.append_all([]) == []
        assert await manager.get("chat") is None

    async def test_upsert_appends_new_messages_and_replaces_existing_ones_in_place(self, session: Session) -> None:
        assert (await session.upsert(user("m1"))).inserted
        await say(session, "m2", "m3")
        replaced = await session.upsert(user("m2", "second thoughts"))
        assert (replaced.inserted, replaced.message.parent_id) == (False, "m1")
        assert await view(session) == ["m1", "second thoughts", "m3"]
        assert (await session.info()).message_count == 3

    async def test_upsert_is_atomic_under_concurrency(self, session: Session) -> None:
        outcome = await asyncio.gather(*(session.upsert(user("m1", f"version {n}")) for n in range(16)))
        assert sum(each.inserted for each in outcome) == 1
        [message] = await session.history()
        assert message.text in {f"version {n}" for n in range(16)}
        assert (await session.info()).token_count == message.tokens

    async def test_update_replaces_the_content_and_keeps_position_and_time(self, session: Session) -> None:
        first = (await session.append(user("m1", "short"))).message
        await say(session, "m2")
        updated = await session.update_message({"id": "m1", "role": "assistant", "content": "a much longer text " * 9})
        assert (updated.created_at, updated.parent_id) == (first.created_at, None)
        history = await session.history()
        assert [(m.id, m.role) for m in history] == [("m1", "assistant"), ("m2", "user")]
        assert (await session.info()).token_count == sum(message.tokens for message in history)

    async def test_an_unchanged_update_writes_nothing(self, manager: SessionManager, session: Session) -> None:
        await say(session, "m1", "m2")
        row = await manager._runtime.store.get(manager.namespace, "chat")
        await session.update_message(user("m1"))
        await session.upsert(user("m2"))
        assert await manager._runtime.store.get(manager.namespace, "chat") == row

    async def test_an_update_of_an_unknown_id_is_refused_and_stores_nothing(
        self, manager: SessionManager, session: Session
    ) -> None:
        await say(session, "m1")
        with pytest.raises(MessageNotFoundError):
            await session.update_message(user("ghost", "phantom"))
        assert len(await manager.search("phantom")) == 0
        assert (await session.info()).message_count == 1

    async def test_get_message_finds_a_message_on_any_branch_or_raises(self, session: Session) -> None:
        await say(session, "m1", "m2")
        await session.append(user("b2"), parent="m1")
        assert (await session.get_message("m2")).parent_id == "m1"
        with pytest.raises(MessageNotFoundError):
            await session.get_message("m9")

    async def test_deleting_from_the_middle_leaves_the_rest_connected(self, session: Session) -> None:
        await say(session, "m1", "m2", "m3", "m4")
        assert await session.delete_messages(["m2", "m3", "m2", "unknown"]) == 2
        assert [(m.id, m.parent_id) for m in await session.history()] == [("m1", None), ("m4", "m1")]
        info = await session.info()
        assert info.message_count == 2
        assert info.token_count == sum(message.tokens for message in await session.history())

    async def test_deleting_the_head_moves_it_to_the_message_before(self, session: Session) -> None:
        await say(session, "m1", "m2", "m3")
        await session.delete_messages(["m3", "m2"])
        head = await session.head()
        assert head is not None
        assert head.id == "m1"
        await say(session, "m4")
        assert [(m.id, m.parent_id) for m in await session.history()] == [("m1", None), ("m4", "m1")]

    async def test_after_deleting_everything_a_session_can_start_again(self, session: Session) -> None:
        await say(session, "m1", "m2")
        assert await session.delete_messages(["m1", "m2"]) == 2
        assert await session.head() is None
        assert await session.history() == []
        await say(session, "m3")
        assert await view(session) == ["m3"]

    async def test_deleting_a_branching_point_moves_its_branches_to_its_parent(self, session: Session) -> None:
        await say(session, "m1", "m2", "a3")
        await session.append(user("b3"), parent="m2")
        await session.delete_messages(["m2"])
        assert sorted(ids(await session.branches("m1"))) == ["a3", "b3"]
        assert await view(session, leaf="a3") == ["m1", "a3"]
        assert await view(session) == ["m1", "b3"]

    async def test_clear_removes_messages_and_overlays_and_keeps_the_rest(self, session: Session) -> None:
        await session.rename("Trip")
        await session.add_tags("work")
        await say(session, "m1", "m2", "m3")
        await session.add_compaction("sum", "m1", "m2")
        await session.clear_messages()
        assert await session.history() == []
        assert await session.compactions() == []
        info = await session.info()
        assert (info.name, info.tags) == ("Trip", ("work",))
        assert (info.message_count, info.token_count, info.compaction_count) == (0, 0, 0)
        assert len(await session.search("m1")) == 0
        await say(session, "m1")
        assert await view(session) == ["m1"]

    async def test_a_reader_never_fails_because_of_a_message_that_is_deleted_meanwhile(self, session: Session) -> None:
        await say(session, "m0")

        async def write() -> None:
            for n in range(40):
                await say(session, f"x{n}")
                await session.delete_messages([f"x{n}"])

        async def read(writing: asyncio.Task[None]) -> None:
            while not writing.done():
                head = await session.head()
                assert head is not None
                assert (await session.history())[0].id == "m0"
                assert ids(await session.branches(None)) == ["m0"]
                assert len(await session.leaves()) == 1
                await asyncio.sleep(0)

        writing = asyncio.create_task(write())
        await asyncio.gather(writing, *(read(writing) for _ in range(4)))
