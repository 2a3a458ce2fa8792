"""Compaction overlays as readers see them: an overlay replaces a range in the view, and the range stays stored."""

from __future__ import annotations

import asyncio

import pytest

from frontdesk import (
    CompactionNotFoundError,
    InvalidMessageError,
    InvalidRangeError,
    Message,
    MessageNotFoundError,
    Session,
    SessionManager,
)
from tests.public_api.steps import ids, path, say, system, user, view


async def expanded(session: Session, compaction_id: str) -> list[str]:
    return [message.id async for message in session.expand(compaction_id)]


class OverlayTests:
    @pytest.fixture
    async def six(self, session: Session) -> Session:
        """m1 to m6."""
        await say(session, "m1", "m2", "m3", "m4", "m5", "m6")
        return session

    async def summary_of(self, session: Session) -> Message:
        history: list[Message] = await session.history()
        return next(message for message in history if message.is_summary)

    async def test_an_overlay_replaces_its_range_in_the_view_and_the_range_stays(self, six: Session) -> None:
        compaction = await six.add_compaction("sum", "m2", "m4")
        assert (compaction.kind, compaction.summary, compaction.stale) == ("summary", "sum", False)
        assert (compaction.from_id, compaction.to_id) == ("m2", "m4")
        assert await view(six) == ["m1", "sum", "m5", "m6"]
        assert await path(six) == ["m1", "m2", "m3", "m4", "m5", "m6"]
        assert await expanded(six, compaction.id) == ["m2", "m3", "m4"]
        assert await six.compactions() == [compaction]

    async def test_an_overlay_may_cover_everything_or_one_message(self, six: Session) -> None:
        await six.add_compaction("one", "m1", "m1")
        assert await view(six) == ["one", "m2", "m3", "m4", "m5", "m6"]
        await six.add_compaction("all", "m1", "m6")
        assert await view(six) == ["all"]
        await say(six, "m7")
        assert await view(six) == ["all", "m7"]

    async def test_counters_follow_the_view(self, six: Session) -> None:
        await six.add_compaction("sum", "m1", "m5")
        info = await six.info()
        assert info.token_count == sum(message.tokens for message in await six.history())
        assert (info.message_count, info.compaction_count) == (6, 1)
        assert info.compacted_at is not None
        await say(six, "m7")
        assert (await six.info()).token_count == sum(message.tokens for message in await six.history())

    async def test_a_summary_is_a_system_message_with_the_message_before_it_as_its_parent(self, six: Session) -> None:
        compaction = await six.add_compaction("sum", "m2", "m4")
        summary = await self.summary_of(six)
        assert compaction.id in summary.id
        assert (summary.role, summary.parent_id) == ("system", "m1")
        assert (await six.history())[2].parent_id == "m4"

    async def test_a_newer_overlay_wins_over_one_it_crosses(self, six: Session) -> None:
        await six.add_compaction("old", "m1", "m3")
        await six.add_compaction("new", "m3", "m5")
        assert await view(six) == ["m1", "m2", "new", "m6"]

    async def test_overlays_that_do_not_overlap_both_apply(self, six: Session) -> None:
        await six.add_compaction("later", "m4", "m5")
        await six.add_compaction("earlier", "m1", "m2")
        assert await view(six) == ["earlier", "m3", "later", "m6"]

    async def test_the_newer_of_two_over_the_same_range_wins(self, six: Session) -> None:
        await six.add_compaction("first", "m1", "m3")
        await six.add_compaction("second", "m1", "m3")
        assert await view(six) == ["second", "m4", "m5", "m6"]
        assert [each.summary for each in await six.compactions()] == ["first", "second"]

    async def test_a_nested_overlay_can_be_expanded_and_restored_by_undo(self, six: Session) -> None:
        inner = await six.add_compaction("inner", "m2", "m3")
        outer = await six.add_compaction("outer", "m1", "m5")
        assert await view(six) == ["outer", "m6"]
        assert await expanded(six, inner.id) == ["m2", "m3"]
        assert await expanded(six, outer.id) == ["m1", "m2", "m3", "m4", "m5"]
        await six.undo_compaction(outer.id)
        assert await view(six) == ["m1", "inner", "m4", "m5", "m6"]
        await six.undo_compaction(inner.id)
        assert await view(six) == ["m1", "m2", "m3", "m4", "m5", "m6"]
        assert (await six.info()).compaction_count == 0

    async def test_sibling_branches_do_not_share_overlays(self, six: Session) -> None:
        await six.append(user("b4"), parent="m3")
        await say(six, "b5")
        await six.add_compaction("of b", "m2", "b4")
        assert await view(six) == ["m1", "of b", "b5"]
        assert await view(six, leaf="m6") == ["m1", "m2", "m3", "m4", "m5", "m6"]
        await six.add_compaction("common", "m1", "m2")
        assert await view(six, leaf="m6") == ["common", "m3", "m4", "m5", "m6"]
        assert await view(six) == ["common", "m3", "b4", "b5"]

    async def test_the_id_of_a_summary_as_an_end_means_the_range_it_covers(self, six: Session) -> None:
        await six.add_compaction("old", "m2", "m3")
        summary = await self.summary_of(six)
        wider = await six.add_compaction("wider", summary.id, "m5")
        assert (wider.from_id, wider.to_id) == ("m2", "m5")
        assert await view(six) == ["m1", "wider", "m6"]
        again = await six.add_compaction("again", "m1", (await self.summary_of(six)).id)
        assert (again.from_id, again.to_id) == ("m1", "m5")

    async def test_a_summary_can_never_be_written_back_as_a_message(self, six: Session) -> None:
        await six.add_compaction("sum", "m2", "m4")
        summary = await self.summary_of(six)
        before = await six.info()
        for work in (
            six.append(summary),
            six.append(summary.raw),
            six.append_all([user("m7"), summary.raw]),
            six.upsert(summary.raw),
            six.update_message({**summary.raw, "content": "other"}),
            six.delete_messages([summary.id]),
        ):
            with pytest.raises(InvalidMessageError):
                await work
        assert await six.info() == before
        assert await view(six) == ["m1", "sum", "m5", "m6"]

    async def test_a_summary_cannot_be_appended_or_switched_to(self, six: Session) -> None:
        await six.add_compaction("sum", "m2", "m4")
        summary = await self.summary_of(six)
        for work in (
            six.append(user("m7"), parent=summary.id),
            six.switch(summary.id),
            six.history(leaf=summary.id),
            six.get_message(summary.id),
        ):
            with pytest.raises(MessageNotFoundError):
                await work

    async def test_leading_system_messages_stay_visible(self, session: Session) -> None:
        await session.append_all([system("s1"), system("s2"), user("m1"), user("m2"), system("s3"), user("m3")])
        compaction = await session.add_compaction("sum", "s1", "s3")
        assert compaction.from_id == "m1"
        assert await view(session) == ["rule s1", "rule s2", "sum", "m3"]
        with pytest.raises(InvalidRangeError):
            await session.add_compaction("sum", "s1", "s2")

    async def test_ends_that_are_not_a_range_are_refused(self, six: Session) -> None:
        await six.append(user("b2"), parent="m1")
        for first, last in (("m4", "m2"), ("b2", "m4"), ("m4", "b2")):
            with pytest.raises(InvalidRangeError):
                await six.add_compaction("sum", first, last)
        for first, last in (("m1", "m9"), ("m9", "m1"), ("frontdesk-summary:none", "m2")):
            with pytest.raises(MessageNotFoundError):
                await six.add_compaction("sum", first, last)
        assert await six.compactions() == []

    async def test_an_unknown_compaction_cannot_be_expanded_or_undone(self, six: Session) -> None:
        with pytest.raises(CompactionNotFoundError):
            await six.undo_compaction("none")
        with pytest.raises(CompactionNotFoundError):
            await expanded(six, "none")

    async def test_a_compaction_that_another_caller_undoes_at_once_is_returned(self, six: Session) -> None:
        finished = False

        async def add() -> None:
            nonlocal finished
            for number in range(10):
                made = await six.add_compaction(f"sum {number}", "m2", "m4")
                assert (made.summary, made.from_id, made.to_id) == (f"sum {number}", "m2", "m4")
            finished = True

        async def undo() -> None:
            while not finished or await six.compactions():
                for compaction in await six.compactions():
                    await six.undo_compaction(compaction.id)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(add())
            tasks.create_task(undo())
        assert await view(six) == ["m1", "m2", "m3", "m4", "m5", "m6"]

    @pytest.mark.parametrize("gone", ["m2", "m3", "m4"])
    async def test_deleting_under_a_summary_hides_it_and_does_not_undo_it(self, six: Session, gone: str) -> None:
        await six.add_compaction("sum", "m2", "m4")
        await six.delete_messages([gone])
        left = [each for each in ("m2", "m3", "m4") if each != gone]
        [compaction] = await six.compactions()
        assert (compaction.from_id, compaction.to_id, compaction.stale) == (left[0], left[-1], True)
        assert (compaction.kind, compaction.summary, compaction.tokens) == ("truncate", None, 0)
        assert await view(six) == ["m1", "m5", "m6"]
        assert await expanded(six, compaction.id) == left
        assert (await six.info()).token_count == sum(message.tokens for message in await six.history())
        await six.undo_compaction(compaction.id)
        assert ids(await six.history()) == [each for each in ("m1", "m2", "m3", "m4", "m5", "m6") if each != gone]

    async def test_deleting_the_head_under_a_summary_does_not_undo_it(self, six: Session) -> None:
        await six.add_compaction("sum", "m2", "m6")
        await six.pop()
        assert await view(six) == ["m1"]
        await say(six, "m7")
        assert await view(six) == ["m1", "m7"]

    async def test_deleting_hides_every_summary_that_was_made_from_the_message(self, six: Session) -> None:
        await six.add_compaction("inner", "m2", "m3")
        await six.add_compaction("other", "m5", "m5")
        await six.add_compaction("outer", "m1", "m5")
        await six.delete_messages(["m3"])
        assert {made.summary for made in await six.compactions()} == {None, "other"}
        assert await view(six) == ["m6"]

    async def test_what_was_deleted_is_in_no_summary_that_search_or_a_tool_shows(self, six: Session) -> None:
        await six.add_compaction("the pin is 4711", "m1", "m5")
        assert [hit.kind for hit in await six.search("4711")] == ["summary"]
        await six.delete_messages(["m3"])
        assert list(await six.search("4711")) == []
        assert all(made.summary is None for made in await six.compactions())
        await say(six, "4711 was said")
        assert [hit.message_id for hit in await six.search("4711")] == ["4711 was said"]

    @pytest.mark.parametrize("indexed", [True, False])
    async def test_a_fork_that_did_not_delete_still_sees_its_summary(
        self, manager: SessionManager, six: Session, indexed: bool
    ) -> None:
        await six.add_compaction("the pin is 4711", "m1", "m5")
        fork = await manager.fork(six.id, new_id="fork")
        if indexed:
            assert len(await manager.search("4711")) == 1
        await six.delete_messages(["m3"])
        assert await view(six) == ["m6"]
        assert await view(fork) == ["the pin is 4711", "m6"]
        assert [made.summary for made in await six.compactions()] == [None]
        assert [made.summary for made in await fork.compactions()] == ["the pin is 4711"]
        assert list(await six.search("4711")) == []
        assert [hit.session_id for hit in await fork.search("4711")] == ["fork"]
        assert [hit.session_id for hit in await manager.search("4711")] == ["fork"]
        late = await manager.fork(six.id, new_id="late")
        assert await view(late) == ["m6"]
        await fork.delete_messages(["m2"])
        assert await view(fork) == ["m6"]
        assert list(await manager.search("4711")) == []

    async def test_the_tool_expand_summary_is_there_as_soon_as_there_is_an_overlay(
        self, manager: SessionManager, six: Session
    ) -> None:
        assert "expand_summary" not in await six.tools()
        assert "expand_summary" not in await manager.session("nobody").tools()
        await six.add_compaction("sum", "m2", "m4")
        tool = (await six.tools())["expand_summary"]
        summary = await self.summary_of(six)
        assert "m3" in await tool(summary_id=summary.id)
        fork = await manager.fork(six.id)
        assert "m3" in await (await fork.tools())["expand_summary"](summary_id=summary.id)

    async def test_changes_of_other_workers_at_the_same_moment_raise_typed_errors_only(self, six: Session) -> None:
        async def add(n: int) -> None:
            try:
                made = await six.add_compaction(f"sum {n}", "m2", "m4")
                assert made.summary == f"sum {n}"
            except (MessageNotFoundError, InvalidRangeError):
                pass

        async def undo_all() -> None:
            for made in await six.compactions():
                try:
                    await six.undo_compaction(made.id)
                except CompactionNotFoundError:
                    pass

        async def extend() -> None:
            for message in await six.history():
                if message.is_summary:
                    try:
                        await six.add_compaction("wider", "m1", message.id)
                    except MessageNotFoundError:
                        pass

        for n in range(20):
            await asyncio.gather(*(work for k in range(3) for work in (add(3 * n + k), undo_all(), extend())))
        await asyncio.gather(add(0), six.delete_messages(["m2", "m3"]), undo_all(), six.delete_messages(["m4"]))
        await undo_all()
        assert ids(await six.history()) == ["m1", "m5", "m6"]

    async def test_a_hidden_range_can_be_summarised_again_by_hand(self, six: Session) -> None:
        await six.add_compaction("the pin is 4711", "m1", "m5")
        await six.delete_messages(["m1"])
        await six.add_compaction("no pin", "m2", "m5")
        assert [made.summary for made in await six.compactions()] == ["no pin"]
        assert (await six.info()).compaction_count == 1
        assert await view(six) == ["no pin", "m6"]

    async def test_an_overlay_is_removed_when_all_its_messages_are_deleted(self, six: Session) -> None:
        await six.add_compaction("sum", "m2", "m3")
        await six.delete_messages(["m2"])
        await six.delete_messages(["m3"])
        assert await six.compactions() == []
        assert await view(six) == ["m1", "m4", "m5", "m6"]
        assert (await six.info()).compaction_count == 0

    async def test_updating_under_an_overlay_marks_it_stale(self, six: Session) -> None:
        await six.add_compaction("sum", "m2", "m4")
        await six.update_message(user("m5", "outside"))
        assert not (await six.compactions())[0].stale
        await six.update_message(user("m3", "inside"))
        assert (await six.compactions())[0].stale
        assert await view(six) == ["m1", "sum", "outside", "m6"]

    async def test_search_still_finds_messages_under_an_overlay(self, six: Session) -> None:
        await six.add_compaction("sum", "m1", "m5")
        assert [hit.message_id for hit in await six.search("m3")] == ["m3"]

    async def test_an_overlay_applies_across_batches(self, session: Session) -> None:
        names = [f"m{n}" for n in range(1100)]
        await say(session, *names)
        compaction = await session.add_compaction("sum", "m1", "m1090")
        assert await view(session) == ["m0", "sum", *names[1091:]]
        assert await expanded(session, compaction.id) == names[1:1091]
        assert ids(await session.history(last=9)) == names[1091:]
