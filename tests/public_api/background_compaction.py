"""Compaction in the background: when it starts, that nothing waits for it, and what happens when it fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from frontdesk import CompactionError, Session, SessionManager, Store
from frontdesk.compaction.planner import Range, plan
from frontdesk.messages import Message
from frontdesk.store import LeaseRow
from tests.public_api.scripted_models import LENGTH, Scripted, compacting, said
from tests.public_api.steps import call, ids, path, result, say, user, view
from tests.waiting import eventually


async def fill(session: Session, first: int, last: int) -> None:
    """Append the messages with these numbers, one after the other."""
    for number in range(first, last + 1):
        await session.append(said(number))


async def summaries(session: Session) -> list[str]:
    return [message.text for message in await session.history() if message.is_summary]


async def compacted(session: Session) -> None:
    """Wait for the first summary in the view."""

    async def is_compacted() -> bool:
        return bool(await summaries(session))

    await eventually(is_compacted)


async def breathe() -> None:
    """Let every started task run until it waits for something."""
    for _ in range(100):
        await asyncio.sleep(0)


class LeaseWatch:
    """The store, with a record of the tasks that did not get a lease: they are waiting for it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.refused: set[asyncio.Task[Any] | None] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def acquire_lease(
        self, namespace: str, session_id: str | None, name: str, holder: str, ttl: int
    ) -> LeaseRow | None:
        lease = await self._store.acquire_lease(namespace, session_id, name, holder, ttl)
        if lease is None:
            self.refused.add(asyncio.current_task())
        return lease


class BackgroundCompactionTests:
    # policy

    async def test_usage_counts_view_prompt_and_tools(self, store: Store, namespace: str) -> None:
        manager = SessionManager(store, namespace=namespace).with_token_counter(len).with_cached_prompt()
        async with manager.with_context("soul", default_content="be kind").with_compaction(max_tokens=1000) as manager:
            session = manager.session("chat")
            assert (await session.context_usage()).used == 0
            await session.append(said(1))
            assert (await session.context_usage()).used == LENGTH
            prompt = await session.freeze_system_prompt()
            usage = await session.context_usage()
            assert (usage.used, usage.max) == (LENGTH + len(prompt), 1000)
            assert usage.ratio == usage.used / 1000
            assert (await session.context_usage(tools=[{"name": "look"}])).used == usage.used + len('{"name":"look"}')

    async def test_needs_compaction_works_without_a_summariser_and_after_overlays(
        self, store: Store, namespace: str
    ) -> None:
        async with compacting(store, namespace) as manager:
            session = manager.session("chat")
            assert not await session.needs_compaction()
            await fill(session, 1, 7)
            assert not await session.needs_compaction()
            await fill(session, 8, 8)
            assert await manager.needs_compaction("chat")
            await session.add_compaction("short", "m1", "m4")
            assert not await session.needs_compaction()

    async def test_needs_compaction_also_counts_messages(self, store: Store, namespace: str) -> None:
        async with compacting(store, namespace, max_messages=4, max_tokens=None) as manager:
            session = manager.session("chat")
            await say(session, "a", "b", "c", "d")
            assert not await session.needs_compaction()
            await say(session, "e")
            assert await session.needs_compaction()
            await session.add_compaction("short", "a", "b")
            assert not await session.needs_compaction()

    @pytest.mark.parametrize("limit", [8_000, 1_000, 3_000_000])
    async def test_an_explicit_limit_is_always_respected(self, store: Store, namespace: str, limit: int) -> None:
        async with compacting(store, namespace, max_tokens=limit) as manager:
            await manager.create(id="chat", model="claude-opus-4")
            assert (await manager.session("chat").context_usage()).max == limit
            await manager.create(id="own", max_tokens=500)
            assert (await manager.session("own").context_usage()).max == 500

    async def test_the_window_of_a_known_model_is_used(self, manager: SessionManager) -> None:
        await manager.create(id="chat", model="gpt-4o")
        await manager.create(id="other", model="unheard-of")
        assert (await manager.session("chat").context_usage()).max == 128_000
        assert (await manager.session("other").context_usage()).max == 200_000

    async def test_the_model_is_not_called_if_compaction_would_save_too_little(
        self, store: Store, namespace: str
    ) -> None:
        model = Scripted()
        async with compacting(store, namespace, model) as manager:
            session = manager.session("chat")
            assert await session.compact() is None
            await fill(session, 1, 3)
            assert await manager.compact("chat") is None
        assert model.prompts == []

    async def test_a_custom_planner_chooses_the_range(self, store: Store, namespace: str) -> None:
        def second_and_third(messages: list[Message], **_: Any) -> Range:
            return Range(1, 2)

        async with compacting(store, namespace, Scripted(), planner=second_and_third) as manager:
            session = manager.session("chat")
            await fill(session, 1, 5)
            await session.compact()
            assert [text[:9] for text in await view(session)] == [
                said(1)["content"][:9],
                "summary 1",
                said(4)["content"][:9],
                said(5)["content"][:9],
            ]

    async def test_a_planner_with_an_invalid_answer_raises_and_changes_nothing(
        self, store: Store, namespace: str
    ) -> None:
        model = Scripted()
        async with compacting(store, namespace, model, planner=lambda messages, **_: Range(3, 9)) as manager:
            session = manager.session("chat")
            await fill(session, 1, 5)
            with pytest.raises(CompactionError):
                await session.compact()
            assert await summaries(session) == model.prompts == []

    # in the background

    async def test_an_append_never_waits_for_a_compaction_and_stays_in_the_view(
        self, store: Store, namespace: str
    ) -> None:
        model = Scripted()
        model.hold()
        async with compacting(store, namespace, model) as manager:
            session = manager.session("chat")
            await fill(session, 1, 8)
            await model.asked()
            await fill(session, 9, 10)
            assert ids(await session.history()) == [f"m{n}" for n in range(1, 11)]
            model.release()
            await compacted(session)
            assert await summaries(session) == ["summary 1"]
            assert ids(await session.history())[0] == "m1"
            assert ids(await session.history())[2:] == ["m7", "m8", "m9", "m10"]
            assert await path(session) == [f"m{n}" for n in range(1, 11)]
            assert model.shown == [["m2", "m3", "m4", "m5", "m6"]]
            assert not await session.needs_compaction()

    async def test_an_append_counts_a_prompt_that_another_handle_froze(self, store: Store, namespace: str) -> None:
        manager = SessionManager(store, namespace=namespace).with_token_counter(len).with_cached_prompt()
        manager.with_context("soul", default_content="x" * 3 * LENGTH)
        manager.with_compaction(Scripted(), max_tokens=10 * LENGTH, protect_head=1, tail_tokens=LENGTH)
        async with manager:
            await manager.append("chat", said(1))
            await manager.session("chat").freeze_system_prompt()
            for number in range(2, 7):
                await manager.append("chat", said(number))
            await compacted(manager.session("chat"))

    async def test_without_auto_no_compaction_starts_in_the_background(self, store: Store, namespace: str) -> None:
        model = Scripted()
        async with compacting(store, namespace, model, auto=False) as manager:
            await fill(manager.session("chat"), 1, 20)
        assert model.prompts == []

    async def test_a_stale_view_is_compacted_too(self, store: Store, namespace: str) -> None:
        model = Scripted()
        async with compacting(store, namespace, model) as manager:
            session = manager.session("chat")
            await fill(session, 1, 7)
            await session.update_message(user("m1", "m1"))
            await session.append(user("m8", "m8 ".ljust(400, "x")))
            await compacted(session)

    async def test_a_view_that_is_still_too_long_is_compacted_again(self, store: Store, namespace: str) -> None:
        model = Scripted()
        model.hold()
        async with compacting(store, namespace, model) as manager:
            session = manager.session("chat")
            await fill(session, 1, 8)
            await model.asked()
            await fill(session, 9, 30)
            model.release()
            await model.asked(2)

            async def fits() -> bool:
                return not await session.needs_compaction()

            await eventually(fits)
            assert await summaries(session) == ["summary 2"]

    async def test_an_append_counts_even_if_compaction_would_have_saved_too_little_before_it(
        self, store: Store, namespace: str
    ) -> None:
        appending: list[asyncio.Task[Any]] = []

        def too_early(messages: list[Message], **options: Any) -> Range | None:
            if appending:
                return plan(messages, **options)
            appending.append(asyncio.get_running_loop().create_task(session.append(said(9))))
            return None

        async with compacting(store, namespace, Scripted(), planner=too_early) as manager:
            session = manager.session("chat")
            await fill(session, 1, 8)
            await compacted(session)
            await asyncio.gather(*appending)

    async def test_one_compaction_runs_at_a_time_across_handles_and_managers(
        self, store: Store, namespace: str
    ) -> None:
        model = Scripted()
        model.hold()
        watched: Any = LeaseWatch(store)
        async with (
            compacting(watched, namespace, model) as manager,
            compacting(watched, namespace, model) as other,
        ):
            await fill(manager.session("chat"), 1, 8)
            await model.asked()
            await fill(other.session("chat"), 9, 10)
            joined = [asyncio.create_task(each.compact("chat")) for each in (manager, other, other)]
            await fill(other.session("chat"), 11, 11)
            await eventually(lambda: watched.refused.issuperset(joined))
            model.release()
            results = await asyncio.gather(*joined)
            assert len(model.prompts) == 1
            assert {made.id for made in results if made is not None} == {
                made.id for made in await manager.session("chat").compactions()
            }

    async def test_sessions_do_not_wait_for_each_other(self, store: Store, namespace: str) -> None:
        model = Scripted()
        model.hold()
        async with compacting(store, namespace, model) as manager:
            await fill(manager.session("one"), 1, 8)
            await fill(manager.session("two"), 1, 8)
            await model.asked(2)
            model.release()

    async def test_compact_returns_what_it_did(self, store: Store, namespace: str) -> None:
        async with compacting(store, namespace, Scripted(), auto=False) as manager:
            session = manager.session("chat")
            await fill(session, 1, 10)
            made = await session.compact()
            assert made is not None
            assert (made.summary, made.from_id, made.to_id) == ("summary 1", "m2", "m8")
            assert (made.messages_covered, made.messages_kept, made.attempts) == (7, 3, 1)
            after = 3 * LENGTH + len("summary 1") + 4
            assert (made.tokens_before, made.tokens_after, made.tokens_saved) == (1000, after, 1000 - after)
            assert (await session.info()).token_count == after
            assert made.duration > 0

    # the range

    @pytest.mark.parametrize("change", ["update", "delete", "delete an end"])
    async def test_a_summary_of_messages_that_changed_meanwhile_is_never_stored(
        self, store: Store, namespace: str, change: str
    ) -> None:
        model = Scripted("made from the old text")
        model.hold()
        async with compacting(store, namespace, model, auto=False) as manager:
            session = manager.session("chat")
            await fill(session, 1, 10)
            work = asyncio.create_task(session.compact())
            await model.asked()
            if change == "update":
                await session.update_message(user("m4", "changed ".ljust(200, "x")))
            else:
                await session.delete_messages(["m4" if change == "delete" else "m8"])
            model.release()
            made = await work
            assert made is not None
            assert (made.summary, made.messages_covered) == ("summary 2", 7 if change == "update" else 6)
            assert [each.summary for each in await session.compactions()] == ["summary 2"]
            assert ("changed" in model.prompts[1]) == (change == "update")
            assert not (await session.compactions())[0].stale

    async def test_a_change_outside_the_range_does_not_disturb_a_compaction(self, store: Store, namespace: str) -> None:
        model = Scripted()
        model.hold()
        async with compacting(store, namespace, model, auto=False) as manager:
            session = manager.session("chat")
            await fill(session, 1, 10)
            work = asyncio.create_task(session.compact())
            await model.asked()
            await session.update_message(user("m1", "another beginning"))
            await session.delete_messages(["m10"])
            await session.append(said(11), parent="m3")
            model.release()
            made = await work
            assert made is not None
            assert (made.summary, len(model.prompts)) == ("summary 1", 1)
            assert ids(await session.history()) == ["m1", "m2", "m3", "m11"]
            assert len(await view(session, leaf="m9")) == 3

    async def test_compaction_gives_up_on_a_range_that_keeps_changing(self, store: Store, namespace: str) -> None:
        texts = iter(range(1000))

        async def meddle(_: str) -> str:
            await session.update_message(user("m4", f"version {next(texts)} ".ljust(96, "x")))
            return "too late"

        async with compacting(store, namespace, meddle, auto=False) as manager:
            session = manager.session("chat")
            await fill(session, 1, 10)
            with pytest.raises(CompactionError):
                await session.compact()
            assert await session.compactions() == []

    async def test_a_session_deleted_during_a_compaction_causes_no_error(self, store: Store, namespace: str) -> None:
        model = Scripted()
        model.hold()
        errors: list[Exception] = []
        async with compacting(store, namespace, model, on_error=lambda _, error: errors.append(error)) as manager:
            await fill(manager.session("chat"), 1, 8)
            await model.asked()
            await manager.delete("chat")
            model.release()
        assert errors == []

    # failures

    @pytest.mark.parametrize(
        "answer", [ConnectionError("down"), " \n ", "long " * 400, 17], ids=["raises", "blank", "too long", "no text"]
    )
    async def test_a_failing_summariser_is_retried_then_reported_and_then_paused(
        self, store: Store, namespace: str, answer: Any
    ) -> None:
        model = Scripted(*[answer] * 20)
        reported: list[tuple[str, Exception]] = []
        async with compacting(
            store, namespace, model, on_error=lambda id, error: reported.append((id, error)), attempts=2
        ) as manager:
            session = manager.session("chat")
            await fill(session, 1, 8)
            await eventually(lambda: bool(reported))
            await fill(session, 9, 20)
            await breathe()
            assert len(model.prompts) == 2
            assert [id for id, _ in reported] == ["chat"]
            assert isinstance(reported[0][1], type(answer) if isinstance(answer, Exception) else CompactionError)
            assert ids(await session.history()) == [f"m{n}" for n in range(1, 21)]
            with pytest.raises(type(reported[0][1])):
                await session.compact()
            assert len(model.prompts) == 4
            model.script.clear()
            assert await session.compact() is not None
            assert len(await session.compactions()) == 1

    async def test_a_summariser_that_hangs_times_out(self, store: Store, namespace: str) -> None:
        model = Scripted()
        model.hold()
        reported: list[Exception] = []
        async with compacting(
            store, namespace, model, on_error=lambda _, error: reported.append(error), attempts=2, timeout=0.05
        ) as manager:
            session = manager.session("chat")
            await fill(session, 1, 8)
            await eventually(lambda: bool(reported))
            assert isinstance(reported[0], CompactionError)
            assert len(model.prompts) == 2
            assert await session.compactions() == []

    async def test_the_number_of_attempts_is_reported(self, store: Store, namespace: str) -> None:
        model = Scripted("", ValueError("odd"))
        async with compacting(store, namespace, model, auto=False) as manager:
            session = manager.session("chat")
            await fill(session, 1, 10)
            made = await session.compact()
            assert made is not None
            assert (made.attempts, made.summary) == (3, "summary 3")
            assert "refused" in model.prompts[1]

    async def test_an_on_error_callback_that_raises_does_no_harm(self, store: Store, namespace: str) -> None:
        reported: list[str] = []

        def fail(session_id: str, error: Exception) -> None:
            reported.append(session_id)
            raise RuntimeError("even this")

        async with compacting(store, namespace, Scripted(*[OSError()] * 3), on_error=fail) as manager:
            await fill(manager.session("chat"), 1, 8)
            await eventually(lambda: reported == ["chat"])
            await fill(manager.session("chat"), 9, 9)

    async def test_a_sync_summariser_does_not_block_the_event_loop(self, store: Store, namespace: str) -> None:
        async with compacting(store, namespace, lambda prompt: "made in a thread") as manager:
            session = manager.session("chat")
            await fill(session, 1, 8)
            await compacted(session)
            assert await summaries(session) == ["made in a thread"]

    async def test_a_view_that_can_never_fit_is_not_compacted_again_at_every_append(
        self, store: Store, namespace: str
    ) -> None:
        model = Scripted()
        async with compacting(store, namespace, model) as manager:
            session = manager.session("chat")
            await session.append({"id": "rules", "role": "system", "content": "rule ".ljust(2000, "x")})
            await fill(session, 2, 5)
            await compacted(session)
            for number in range(6, 31):
                await fill(session, number, number)
                await breathe()
        assert len(model.prompts) <= 2

    async def test_a_compaction_by_hand_does_not_wait_for_the_pause_after_failures(
        self, store: Store, namespace: str
    ) -> None:
        model = Scripted(*[OSError("down")] * 3, answer="up again")
        failed = asyncio.Event()
        async with compacting(store, namespace, model, on_error=lambda *_: failed.set()) as manager:
            session = manager.session("chat")
            await fill(session, 1, 8)
            await failed.wait()
            await fill(session, 9, 10)
            await breathe()
            assert len(model.prompts) == 3
            assert await session.compact() is not None
            assert await summaries(session) == ["up again"]

    # deletions

    async def test_a_hidden_summary_is_made_again_in_the_background(self, store: Store, namespace: str) -> None:
        model = Scripted("the pin is 4711", "no pin")
        async with compacting(store, namespace, model) as manager:
            session = manager.session("chat")
            await fill(session, 1, 8)
            await compacted(session)
            model.hold()
            await session.delete_messages(["m3"])
            assert await summaries(session) == []
            await model.asked(2)
            assert await summaries(session) == []
            model.release()
            await compacted(session)
            assert await summaries(session) == ["no pin"]
            assert model.shown[1] == ["m2", "m4", "m5", "m6"]

    async def test_a_hidden_summary_is_made_again_after_a_failure(self, store: Store, namespace: str) -> None:
        model = Scripted("the pin is 4711", *[OSError("down")] * 3)
        failed = asyncio.Event()
        async with compacting(store, namespace, model, on_error=lambda *_: failed.set()) as manager:
            session = manager.session("chat")
            await fill(session, 1, 8)
            await compacted(session)
            await session.delete_messages(["m3"])
            await failed.wait()
            assert await summaries(session) == []
            assert await session.compact() is not None
            assert await summaries(session) == ["summary 5"]

    # strategies

    async def test_truncate_hides_messages_without_a_model(self, store: Store, namespace: str) -> None:
        async with compacting(store, namespace, strategy="truncate") as manager:
            session = manager.session("chat")
            await fill(session, 1, 8)

            async def is_hidden() -> bool:
                return ids(await session.history()) == ["m1", "m7", "m8"]

            await eventually(is_hidden)
            [made] = await session.compactions()
            assert (made.kind, made.summary) == ("truncate", None)
            assert [message.id async for message in session.expand(made.id)] == [f"m{n}" for n in range(2, 7)]
            await session.undo_compaction(made.id)
            assert len(await session.history()) == 8

    async def test_hybrid_hides_tool_traffic_while_the_summariser_is_down(self, store: Store, namespace: str) -> None:
        model = Scripted(*[ConnectionError("down")] * 3)
        reported: list[Exception] = []
        async with compacting(
            store, namespace, model, strategy="hybrid", on_error=lambda _, error: reported.append(error)
        ) as manager:
            session = manager.session("chat")
            await fill(session, 1, 2)
            for n in (1, 2):
                await session.append_all([call(f"call{n}", f"x{n}"), result(f"result{n}", f"x{n}"), said(2 + n)])
            await fill(session, 5, 8)
            await eventually(lambda: bool(reported))
            await eventually(lambda: len(model.prompts) == 3)

            async def is_hidden() -> bool:
                return ids(await session.history()) == [f"m{n}" for n in range(1, 9)]

            await eventually(is_hidden)
            assert {made.kind for made in await session.compactions()} == {"truncate"}
            await fill(session, 9, 12)
            await breathe()
            assert len(model.prompts) == 3
            made = await session.compact()
            assert made is not None
            assert "seen by x1" in model.prompts[-1]
            assert made.from_id == "m2"
