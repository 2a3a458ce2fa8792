"""The tree in the public API: branches, leaves, the head, and the transcript of a path of any length."""

from __future__ import annotations

import pytest

from frontdesk import MessageNotFoundError, Session, SessionManager
from frontdesk.store import Plan, Store
from tests.public_api.steps import ids, path, say, user, view


class BranchTests:
    @pytest.fixture
    async def tree(self, session: Session) -> Session:
        """Two branches, m1 - m2 - m3 and m1 - b2 - b3; the head is b3."""
        await say(session, "m1", "m2", "m3")
        await session.append(user("b2"), parent="m1")
        await say(session, "b3")
        return session

    async def test_branches_are_the_children_of_a_message(self, tree: Session) -> None:
        assert ids(await tree.branches("m1")) == ["m2", "b2"]
        assert ids(await tree.branches("m2")) == ["m3"]
        assert await tree.branches("m3") == []
        assert ids(await tree.branches(None)) == ["m1"]

    async def test_leaves_are_the_ends_of_all_branches(self, tree: Session) -> None:
        assert sorted(ids(await tree.leaves())) == ["b3", "m3"]
        await tree.append(user("r1"), parent=None)
        assert sorted(ids(await tree.leaves())) == ["b3", "m3", "r1"]

    async def test_the_head_follows_the_last_append(self, tree: Session) -> None:
        head = await tree.head()
        assert head is not None
        assert (head.id, head.parent_id) == ("b3", "b2")

    async def test_switch_moves_the_head_and_the_next_append_follows_it(self, tree: Session) -> None:
        assert (await tree.switch("m3")).id == "m3"
        assert await view(tree) == ["m1", "m2", "m3"]
        await say(tree, "m4")
        assert await view(tree) == ["m1", "m2", "m3", "m4"]
        assert await view(tree, leaf="b3") == ["m1", "b2", "b3"]

    async def test_after_a_switch_to_an_inner_message_the_next_append_branches_there(self, tree: Session) -> None:
        await tree.switch("m2")
        assert await view(tree) == ["m1", "m2"]
        await say(tree, "c3")
        assert ids(await tree.branches("m2")) == ["m3", "c3"]

    async def test_a_switch_to_the_current_head_writes_nothing(self, tree: Session) -> None:
        before = await tree.info()
        await tree.switch("b3")
        assert await tree.info() == before

    async def test_path_length_counts_the_path_and_ignores_overlays(self, tree: Session) -> None:
        await tree.add_compaction("sum", "m1", "b2")
        assert await tree.path_length() == 3
        assert await tree.path_length("m2") == 2
        assert len(await tree.history()) == 2

    async def test_a_reader_does_not_compete_with_writers_to_store_the_view(
        self, tree: Session, manager: SessionManager, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        apply, other, attempts = store.apply, manager.session(tree.id), 0
        tokens = (await tree.get_message("m1")).tokens

        async def overtaken(plan: Plan) -> bool:
            nonlocal attempts
            attempts += 1
            await other.append(user(f"x{attempts}"), parent="m1")
            return await apply(plan)

        monkeypatch.setattr(store, "apply", overtaken)
        await other.append(user("x0"), parent="m1")
        info = await tree.info()
        assert attempts == 1
        assert (info.token_count, info.message_count) == (2 * tokens, 7)
        assert await view(tree) == ["m1", "x2"]

    async def test_counters_include_all_branches_and_the_view_only_its_own(self, tree: Session) -> None:
        info = await tree.info()
        assert info.message_count == 5
        assert info.token_count == sum(message.tokens for message in await tree.history())
        await tree.switch("m1")
        assert (await tree.info()).token_count == (await tree.get_message("m1")).tokens

    async def test_switch_to_none_moves_the_head_before_the_first_message(
        self, manager: SessionManager, tree: Session
    ) -> None:
        await tree.switch(None)
        assert await tree.head() is None
        assert await tree.history() == []
        assert await path(tree) == []
        assert await tree.path_length() == 0
        info = await tree.info()
        assert (info.message_count, info.token_count) == (5, 0)
        assert sorted(ids(await tree.leaves())) == ["b3", "m3"]
        assert [hit.message_id for hit in await tree.search("m3")] == ["m3"]
        assert await tree.pop() is None
        assert await view(await manager.fork("chat")) == []
        # Another worker, or the same one after a restart, sees the same.
        again = manager.session("chat")
        await again.append(user("r1"))
        assert [(m.id, m.parent_id) for m in await again.history()] == [("r1", None)]
        await again.append(user("r2"))
        assert await view(tree) == ["r1", "r2"]
        assert sorted(ids(await tree.branches(None))) == ["m1", "r1"]
        await tree.switch("m3")
        assert await view(tree) == ["m1", "m2", "m3"]

    async def test_switch_to_none_leaves_overlays_for_those_who_come_back(self, tree: Session) -> None:
        await tree.add_compaction("sum", "m1", "b2")
        await tree.switch(None)
        assert await tree.history() == []
        assert await tree.compact() is None
        await tree.append(user("r1"))
        assert await view(tree) == ["r1"]
        await tree.switch("b3")
        assert await view(tree) == ["sum", "b3"]

    async def test_switch_to_none_in_a_fork_leaves_the_source(self, manager: SessionManager, tree: Session) -> None:
        fork = await manager.fork("chat")
        await fork.switch(None)
        await fork.append(user("r1"))
        assert await view(fork) == ["r1"]
        assert await view(tree) == ["m1", "b2", "b3"]
        assert await view(fork, leaf="b3") == ["m1", "b2", "b3"]
        assert await view(await manager.fork(fork.id)) == ["r1"]

    async def test_switch_to_none_without_a_session_does_nothing(
        self, manager: SessionManager, session: Session
    ) -> None:
        await session.switch(None)
        await session.switch(None, expected_head=None)
        assert await manager.get("chat") is None

    async def test_switch_to_none_is_reported_as_an_event(self, manager: SessionManager, tree: Session) -> None:
        await tree.switch(None)
        kinds = [(event.kind, event.message_id) async for event in manager.events(after="start", follow=False)]
        assert kinds[-1] == ("head.moved", None)

    async def test_every_call_with_an_unknown_message_raises(self, tree: Session) -> None:
        for work in (
            tree.history(leaf="m9"),
            tree.path_length("m9"),
            tree.branches("m9"),
            tree.switch("m9"),
            tree.get_message("m9"),
            path(tree, leaf="m9"),
            path(tree, after="m9"),
        ):
            with pytest.raises(MessageNotFoundError):
                await work

    async def test_a_message_of_another_session_is_unknown(self, manager: SessionManager, tree: Session) -> None:
        other = manager.session("other")
        await say(other, "o1")
        for work in (
            tree.history(leaf="o1"),
            tree.switch("o1"),
            tree.append(user("x"), parent="o1"),
            tree.add_compaction("sum", "m1", "o1"),
            manager.fork("chat", "o1"),
        ):
            with pytest.raises(MessageNotFoundError):
                await work
        assert (await tree.info()).message_count == 5

    async def test_a_message_on_another_branch_is_not_on_this_path(self, tree: Session) -> None:
        with pytest.raises(MessageNotFoundError):
            await path(tree, after="m2")

    async def test_a_transcript_returns_the_path_as_it_was_written(self, tree: Session) -> None:
        await tree.add_compaction("sum", "m1", "b2")
        assert [(m.id, m.parent_id) async for m in tree.transcript()] == [("m1", None), ("b2", "m1"), ("b3", "b2")]
        assert await path(tree, leaf="m3") == ["m1", "m2", "m3"]

    async def test_a_transcript_can_start_after_a_message_stop_early_and_run_backwards(self, session: Session) -> None:
        await say(session, *(f"m{n}" for n in range(10)))
        assert await path(session, after="m6") == ["m7", "m8", "m9"]
        assert await path(session, after="m9") == []
        assert await path(session, limit=2) == ["m0", "m1"]
        assert await path(session, after="m3", limit=2) == ["m4", "m5"]
        assert await path(session, reverse=True, limit=3) == ["m9", "m8", "m7"]
        assert await path(session, reverse=True, after="m2") == ["m1", "m0"]
        assert await path(session, reverse=True, after="m8", limit=2) == ["m7", "m6"]
        assert await path(session, leaf="m4", reverse=True, limit=2) == ["m4", "m3"]

    @pytest.mark.parametrize("length", [512, 513, 1023, 1024, 1025, 1500])
    async def test_a_path_that_is_read_in_several_batches_is_complete_and_in_order(
        self, session: Session, length: int
    ) -> None:
        wanted = [f"m{n}" for n in range(length)]
        await say(session, *wanted)
        assert await path(session) == wanted
        assert await path(session, reverse=True) == wanted[::-1]
        assert ids(await session.history()) == wanted
        assert await path(session, after=wanted[509]) == wanted[510:]

    async def test_a_path_through_many_branches_is_complete_and_in_order(self, session: Session) -> None:
        wanted: list[str] = []
        for branch in range(40):
            names = [f"m{branch}-{n}" for n in range(20)]
            await say(session, *names)
            wanted += names[:-1]
            await session.switch(names[-2])
        assert await path(session) == wanted
        assert await path(session, reverse=True) == wanted[::-1]
        assert await session.path_length() == 760
        parents = [message.parent_id for message in await session.history()]
        assert parents == [None, *wanted[:-1]]

    @pytest.mark.long
    async def test_a_path_of_a_million_messages_streams(self, session: Session) -> None:
        for thousand in range(1000):
            await say(session, *(f"m{thousand * 1000 + n}" for n in range(1000)))
        expected = 0
        async for message in session.transcript():
            assert message.id == f"m{expected}"
            expected += 1
        assert expected == await session.path_length() == 1_000_000
        assert ids(await session.history(last=2)) == ["m999998", "m999999"]
        assert await path(session, after="m999997") == ["m999998", "m999999"]
