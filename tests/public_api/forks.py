"""Forks: copy on write in both directions, whatever happens to source and fork."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest

from frontdesk import (
    MessageNotFoundError,
    Session,
    SessionExistsError,
    SessionKey,
    SessionManager,
    SessionNotFoundError,
)
from tests.public_api.steps import ids, path, say, user, view


class ForkTests:
    @pytest.fixture
    async def source(self, session: Session) -> Session:
        """m1 to m4."""
        await say(session, "m1", "m2", "m3", "m4")
        return session

    async def test_a_fork_starts_with_the_whole_history(self, manager: SessionManager, source: Session) -> None:
        fork = await manager.fork("chat")
        assert fork.id != "chat"
        assert await fork.history() == await source.history()
        original, copy = await source.info(), await fork.info()
        assert copy.parent_session_id == "chat"
        assert (copy.message_count, copy.token_count) == (4, original.token_count)

    async def test_a_fork_at_a_message_starts_with_the_path_to_it(
        self, manager: SessionManager, source: Session
    ) -> None:
        await source.append(user("b2"), parent="m1")
        fork = await manager.fork("chat", "m3")
        assert await view(fork) == ["m1", "m2", "m3"]
        assert (await fork.info()).message_count == 3
        assert ids(await fork.leaves()) == ["m3"]
        with pytest.raises(MessageNotFoundError):
            await fork.get_message("b2")
        with pytest.raises(MessageNotFoundError):
            await fork.get_message("m4")

    async def test_source_and_fork_continue_independently(self, manager: SessionManager, source: Session) -> None:
        fork = await manager.fork("chat")
        await say(fork, "f5")
        await say(source, "m5", "m6")
        assert await view(fork) == ["m1", "m2", "m3", "m4", "f5"]
        assert await view(source) == ["m1", "m2", "m3", "m4", "m5", "m6"]
        assert (await fork.append(user("m5"))).inserted
        assert not (await fork.append(user("m2"))).inserted

    async def test_changes_in_the_fork_stay_in_the_fork(self, manager: SessionManager, source: Session) -> None:
        before = [message.raw for message in await source.history()]
        fork = await manager.fork("chat")
        await fork.update_message(user("m2", "changed here"))
        await fork.delete_messages(["m3"])
        await fork.append(user("b2"), parent="m1")
        await fork.switch("m4")
        assert await view(fork) == ["m1", "changed here", "m4"]
        assert [message.raw for message in await source.history()] == before
        assert (await source.info()).message_count == 4
        assert (await fork.info()).message_count == 4
        assert len(await source.search("changed")) == 0
        await fork.clear_messages()
        assert [message.raw for message in await source.history()] == before

    async def test_changes_in_the_source_stay_in_the_source(self, manager: SessionManager, source: Session) -> None:
        fork = await manager.fork("chat")
        before = await fork.history()
        await source.update_message(user("m2", "changed there"))
        await source.delete_messages(["m3", "m4"])
        assert await view(source) == ["m1", "changed there"]
        await source.clear_messages()
        assert await source.history() == []
        assert await fork.history() == before
        assert (await fork.info()).token_count == sum(message.tokens for message in before)

    async def test_tokens_agree_after_both_sides_changed_a_shared_message(
        self, manager: SessionManager, source: Session
    ) -> None:
        fork = await manager.fork("chat")
        await source.update_message(user("m2", "a longer text on this side " * 3))
        await fork.update_message(user("m2", "another on that side " * 5))
        await fork.update_message(user("m2", "and once more"))
        for session in (source, fork):
            info = await session.info()
            assert info.token_count == sum(message.tokens for message in await session.history())
        assert (await view(fork))[1] == "and once more"

    async def test_overlays_made_before_the_fork_apply_in_it(self, manager: SessionManager, source: Session) -> None:
        await source.add_compaction("sum", "m1", "m2")
        fork = await manager.fork("chat")
        assert await view(fork) == ["sum", "m3", "m4"]
        assert [each.summary for each in await fork.compactions()] == ["sum"]
        assert (await fork.info()).compaction_count == 1

    async def test_overlays_made_after_the_fork_apply_only_in_their_own_session(
        self, manager: SessionManager, source: Session
    ) -> None:
        fork = await manager.fork("chat")
        await source.add_compaction("there", "m1", "m2")
        await fork.add_compaction("here", "m2", "m3")
        assert await view(source) == ["there", "m3", "m4"]
        assert await view(fork) == ["m1", "here", "m4"]

    async def test_an_inherited_overlay_is_undone_only_in_its_own_session(
        self, manager: SessionManager, source: Session
    ) -> None:
        compaction = await source.add_compaction("sum", "m1", "m2")
        fork, second = await manager.fork("chat"), await manager.fork("chat")
        await fork.undo_compaction(compaction.id)
        assert await view(fork) == ["m1", "m2", "m3", "m4"]
        assert await view(source) == await view(second) == ["sum", "m3", "m4"]
        await source.undo_compaction(compaction.id)
        assert await view(second) == ["sum", "m3", "m4"]

    async def test_a_fork_before_the_end_of_an_overlay_does_not_see_the_overlay(
        self, manager: SessionManager, source: Session
    ) -> None:
        await source.add_compaction("sum", "m2", "m4")
        fork = await manager.fork("chat", "m3")
        assert await view(fork) == ["m1", "m2", "m3"]
        assert (await fork.info()).compaction_count == 0

    async def test_a_fork_inherits_overlays_whose_end_was_deleted(
        self, manager: SessionManager, source: Session
    ) -> None:
        await source.add_compaction("sum", "m2", "m4")
        await source.delete_messages(["m4"])
        fork = await manager.fork("chat")
        assert await view(fork) == await view(source) == ["m1"]
        [inherited] = await fork.compactions()
        assert (inherited.to_id, inherited.kind, inherited.stale) == ("m3", "truncate", True)

    async def test_a_fork_of_a_fork_sees_what_its_parent_saw(self, manager: SessionManager, source: Session) -> None:
        first = await manager.fork("chat", "m3", new_id="first")
        await first.update_message(user("m1", "edited"))
        await first.delete_messages(["m2"])
        await say(first, "f4")
        second = await manager.fork("first", new_id="second")
        await first.update_message(user("m1", "edited again"))
        await say(second, "s5")
        assert await view(second) == ["edited", "m3", "f4", "s5"]
        assert await view(first) == ["edited again", "m3", "f4"]
        assert await view(source) == ["m1", "m2", "m3", "m4"]
        assert (await second.info()).parent_session_id == "first"

    @pytest.mark.parametrize("gone", [1, 2, 3])
    async def test_a_fork_of_forks_survives_the_deletion_of_any_fork_between(
        self, manager: SessionManager, source: Session, gone: int
    ) -> None:
        await source.update_message(user("m1", "changed at first"))
        sessions = [source]
        for depth in range(1, 5):
            fork = await manager.fork(sessions[-1].id)
            await fork.delete_messages([f"m{depth}"] if depth > 1 else [])
            await say(fork, f"f{depth}")
            sessions.append(fork)
        expected = [(await view(session), await session.info()) for session in sessions]
        await sessions[0].update_message(user("m1", "changed too late"))
        await manager.delete(sessions[gone].id)
        for session, (seen, info) in zip(sessions[1:], expected[1:], strict=True):
            if session is not sessions[gone]:
                assert await view(session) == seen
                assert (await session.get_message("m1")).text == "changed at first"
                after = await session.info()
                assert (after.message_count, after.token_count) == (info.message_count, info.token_count)
        assert await view(sessions[4]) == ["changed at first", "f1", "f2", "f3", "f4"]

    async def test_a_fork_survives_the_deletion_of_its_parent(self, manager: SessionManager, source: Session) -> None:
        await source.add_compaction("sum", "m1", "m2")
        fork = await manager.fork("chat")
        assert await manager.delete("chat")
        assert await view(fork) == ["sum", "m3", "m4"]
        assert await path(fork) == ["m1", "m2", "m3", "m4"]
        assert (await fork.info()).parent_session_id == "chat"
        await fork.delete_messages(["m3"])
        await say(fork, "f5")
        assert await view(fork) == ["sum", "m4", "f5"]
        await say(manager.session("chat"), "new")
        assert await view(manager.session("chat")) == ["new"]

    async def test_a_fork_copies_name_tags_and_metadata_but_no_usage(self, manager: SessionManager) -> None:
        source = await manager.create(
            "Trip", id="src", model="large", source="web", max_tokens=500, tags=["a", "b"], metadata={"n": [1]}
        )
        await source.set_summary("about trips")
        await say(source, "m1")
        await manager.add_usage("src", input_tokens=10, cost="0.5")
        info = await (await manager.fork("src", name="Other", new_id="dst")).info()
        assert (info.id, info.name, info.model, info.source, info.max_tokens) == ("dst", "Other", "large", "web", 500)
        assert (info.tags, info.metadata, info.summary) == (("a", "b"), {"n": [1]}, "about trips")
        assert (info.input_tokens, info.cost) == (0, Decimal(0))
        assert (await (await manager.fork("src")).info()).name == "Trip"
        assert [each.id for each in await manager.list(tag="a")][:1] != ["src"]
        assert len(await manager.list(tag="a")) == 3

    async def test_a_fork_of_a_session_with_a_key_leaves_the_key_to_its_source(self, manager: SessionManager) -> None:
        key = SessionKey("bot", "web", "ada")
        original = await manager.get_or_create(key)
        await say(original, "m1")
        fork = await manager.fork(key)
        assert await view(fork) == ["m1"]
        current = await manager.get(key)
        assert current is not None
        assert current.id == original.id

    async def test_an_empty_session_can_be_forked(self, manager: SessionManager) -> None:
        await manager.create(id="empty")
        fork = await manager.fork("empty")
        assert await fork.history() == []
        await say(fork, "m1")
        assert await view(fork) == ["m1"]
        assert await manager.history("empty") == []

    async def test_an_impossible_fork_is_refused(self, manager: SessionManager, source: Session) -> None:
        with pytest.raises(SessionNotFoundError):
            await manager.fork("nowhere")
        with pytest.raises(MessageNotFoundError):
            await manager.fork("chat", "m9")
        with pytest.raises(SessionExistsError):
            await manager.fork("chat", new_id="chat")
        assert (await manager.stats()).sessions == 1

    async def test_of_concurrent_forks_with_the_same_id_one_succeeds(
        self, manager: SessionManager, source: Session
    ) -> None:
        work = [manager.fork("chat", new_id="copy") for _ in range(8)]
        outcome = await asyncio.gather(*work, return_exceptions=True)
        assert sum(isinstance(each, SessionExistsError) for each in outcome) == 7
        assert await view(manager.session("copy")) == ["m1", "m2", "m3", "m4"]

    async def test_a_fork_during_appends_has_a_complete_path(self, manager: SessionManager, source: Session) -> None:
        async def append() -> None:
            for n in range(30):
                await say(source, f"x{n}")

        async def fork() -> list[Session]:
            return [await manager.fork("chat") for _ in range(10)]

        _, forks = await asyncio.gather(append(), fork())
        whole = await path(source)
        for each in forks:
            seen = await path(each)
            assert seen == whole[: len(seen)]
            assert (await each.info()).message_count == len(seen)

    async def test_a_shared_message_that_is_updated_repeatedly_is_never_missing(
        self, manager: SessionManager, source: Session
    ) -> None:
        fork = await manager.fork("chat")

        async def write() -> None:
            for n in range(40):
                await fork.update_message(user("m2", f"version {n}" * n))

        async def read() -> None:
            for _ in range(40):
                assert ids(await fork.history()) == ids(await fork.history(leaf="m4")) == ["m1", "m2", "m3", "m4"]
                assert ids(await fork.history(max_tokens=10_000)) == ["m1", "m2", "m3", "m4"]
                assert (await fork.get_message("m2")).id == "m2"
                assert (await fork.info()).token_count > 0

        await asyncio.gather(write(), read(), read())
        assert (await fork.info()).token_count == sum(message.tokens for message in await fork.history())

    async def test_deleting_one_message_of_a_session_with_a_thousand_forks_touches_no_fork(
        self, manager: SessionManager, source: Session
    ) -> None:
        forks = [await manager.fork("chat", new_id=f"fork-{n}") for n in range(1000)]
        before = await forks[0].info()
        await source.delete_messages(["m2"])
        await forks[500].delete_messages(["m3"])
        assert await view(source) == ["m1", "m3", "m4"]
        assert await view(forks[500]) == ["m1", "m2", "m4"]
        assert await forks[0].info() == before
        for each in forks[::250][:2] + forks[-1:]:
            assert await view(each) == ["m1", "m2", "m3", "m4"]

    async def test_a_stream_leaves_out_nothing_that_is_changed_while_it_is_read(
        self, manager: SessionManager, session: Session
    ) -> None:
        names = [f"m{number}" for number in range(2_500)]
        await say(session, *names)
        fork = await manager.fork("chat", new_id="fork")
        await fork.update_message(user("m2400", "first change"))
        stream = fork.transcript()
        read = [await anext(stream)]
        await fork.update_message(user("m2400", "second change"))
        read += [message async for message in stream]
        assert ids(read) == names
        assert next(message.text for message in read if message.id == "m2400") == "second change"

    async def test_a_stream_of_a_session_that_is_deleted_meanwhile_raises(
        self, manager: SessionManager, session: Session
    ) -> None:
        await say(session, *(f"m{number}" for number in range(2_500)))
        stream = session.transcript()
        await anext(stream)
        await manager.delete("chat")
        with pytest.raises(SessionNotFoundError):
            async for _ in stream:
                pass

    async def test_a_stream_does_not_continue_in_another_session_that_gets_the_id(
        self, manager: SessionManager, session: Session
    ) -> None:
        await say(session, *(f"m{number}" for number in range(2_500)))
        stream = session.transcript()
        await anext(stream)
        await manager.delete("chat")
        await say(session, "m1", "m2")
        with pytest.raises(SessionNotFoundError):
            async for _ in stream:
                pass

    async def test_a_stream_ends_when_the_messages_are_cleared_meanwhile(self, session: Session) -> None:
        for reverse in (False, True):
            await say(session, *(f"m{number}" for number in range(2_500)))
            stream = session.transcript(reverse=reverse)
            read = [await anext(stream)]
            await session.clear_messages()
            await say(session, "m1", "m2")
            read += [message async for message in stream]
            assert len(read) < 2_500

    async def test_busy_relatives_do_not_delay_a_deletion(self, manager: SessionManager, session: Session) -> None:
        await say(session, "m1", "m2")
        forks = [await manager.fork("chat", new_id=f"fork-{number}") for number in range(8)]
        done = asyncio.Event()

        async def be_busy(fork: Session) -> None:
            while not done.is_set():
                await fork.rename("again")

        # The session that is to be deleted never pauses either.
        busy = [asyncio.create_task(be_busy(fork)) for fork in forks]
        try:
            assert await session.delete_messages(["m1"]) == 1
            assert await manager.delete("fork-0")
        finally:
            done.set()
            await asyncio.gather(*busy, return_exceptions=True)
        assert await path(session) == ["m2"]
        assert await path(forks[1]) == ["m1", "m2"]
