"""What operators learn of compactions and of failures in the background: events with figures, and logs without text."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from frontdesk import CompactionError, Event, ModelError, Session, SessionManager, Store
from frontdesk.models import Completion
from tests.public_api.scripted_models import LENGTH, Scripted, compacting, said
from tests.waiting import PATIENCE, eventually

SECRET = "PIN 4929"


async def runs(manager: SessionManager) -> list[Event]:
    """The events that compactions made so far."""
    events = [event async for event in manager.events(after="start", follow=False)]
    return [
        event for event in events if event.kind in ("compaction.started", "compaction.finished", "compaction.failed")
    ]


async def kinds(manager: SessionManager) -> list[str]:
    """The last words of their kinds."""
    return [event.kind.removeprefix("compaction.") for event in await runs(manager)]


async def full(session: Session, messages: int = 9) -> None:
    await session.append_all([said(number) for number in range(1, messages + 1)])


class CompactionReportTests:
    async def test_a_compaction_reports_its_start_and_its_figures(
        self, store: Store, namespace: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        model = Scripted(Completion(f"in short: {SECRET}", model="small-1"))
        with caplog.at_level(logging.INFO, logger="frontdesk"):
            async with compacting(store, namespace, model, auto=False) as manager:
                session = manager.session("chat")
                await full(session)
                made = await session.compact()
                assert made is not None
                started, finished = await runs(manager)
        assert (started.kind, finished.kind) == ("compaction.started", "compaction.finished")
        assert started.session_id == finished.session_id == "chat"
        assert started.data == {"trigger": "manual", "tokens_before": 900, "messages_covered": made.messages_covered}
        assert finished.data.pop("seconds") >= 0
        assert finished.data == {
            "id": made.id,
            "kind": "summary",
            "trigger": "manual",
            "model": "small-1",
            "tokens_before": made.tokens_before,
            "tokens_after": made.tokens_after,
            "messages_covered": made.messages_covered,
            "attempts": 1,
        }
        [record] = [record for record in caplog.records if record.name == "frontdesk.compaction"]
        assert record.levelno == logging.INFO
        assert "'chat' (manual)" in record.getMessage()
        assert f"from {made.tokens_before} to {made.tokens_after} tokens" in record.getMessage()
        assert SECRET not in caplog.text + repr([started, finished])

    async def test_a_summary_of_a_summary_counts_the_messages_under_both(self, store: Store, namespace: str) -> None:
        async with compacting(store, namespace, Scripted(), auto=False) as manager:
            session = manager.session("chat")
            await full(session)
            assert await session.compact() is not None
            await session.append_all([said(number) for number in range(10, 16)])
            made = await session.compact()
            assert made is not None
            assert made.from_id == "m2"
            stands_for = len([message async for message in session.expand(made.id)])
            assert stands_for == int(made.to_id.removeprefix("m")) - 1
            assert made.messages_covered == stands_for
            assert (await session.compactions())[-1].details["messages_covered"] == stands_for
            assert [event.data["messages_covered"] for event in (await runs(manager))[-2:]] == [stands_for] * 2
            await manager.compact_and_split("chat")
            assert [event.data["messages_covered"] for event in (await runs(manager))[-2:]] == [15] * 2

    async def test_hidden_messages_are_counted_one_by_one(self, store: Store, namespace: str) -> None:
        async with compacting(store, namespace, strategy="truncate", auto=False) as manager:
            session = manager.session("chat")
            await full(session)
            await session.add_compaction("by hand", "m3", "m5")
            made = await session.compact()
            assert made is not None
            assert made.messages_covered == len([message async for message in session.expand(made.id)])

    @pytest.mark.parametrize("change", ["delete", "update"])
    async def test_a_summary_that_is_made_again_reports_the_messages_that_it_replaces(
        self, store: Store, namespace: str, change: str
    ) -> None:
        async with compacting(store, namespace, Scripted("short", "a longer one"), auto=False) as manager:
            session = manager.session("chat")
            await full(session, 8)
            first = await session.compact()
            assert first is not None
            if change == "delete":
                await session.delete_messages(["m3"])
            else:
                await session.update_message({**said(3), "content": "m3 again".ljust(LENGTH - 4, "x")})
            made = await session.compact()
            assert made is not None
            left = 7 if change == "delete" else 8
            assert (made.messages_covered, made.messages_kept) == (left - 3, 3)
            assert made.tokens_before == left * LENGTH
            assert made.tokens_after == (await session.info()).token_count
            assert made.tokens_saved == made.tokens_before - made.tokens_after > 0
            assert [event.data["tokens_before"] for event in (await runs(manager))[-2:]] == [left * LENGTH] * 2

    async def test_a_compaction_in_the_background_says_so(self, store: Store, namespace: str) -> None:
        async with compacting(store, namespace, Scripted()) as manager:
            await full(manager.session("chat"))

            async def is_finished() -> bool:
                return len(await runs(manager)) == 2

            await eventually(is_finished)
            assert [event.data["trigger"] for event in await runs(manager)] == ["automatic"] * 2

    async def test_an_overflow_says_so(self, store: Store, namespace: str) -> None:
        async with compacting(store, namespace, Scripted(), auto=False) as manager:
            session = manager.session("chat")
            await full(session)
            assert await session.on_overflow(RuntimeError("maximum context length exceeded"))
            assert [event.data["trigger"] for event in await runs(manager)] == ["overflow"] * 2

    async def test_a_compaction_with_nothing_to_do_reports_nothing(self, store: Store, namespace: str) -> None:
        async with compacting(store, namespace, Scripted(), auto=False) as manager:
            await manager.append("chat", said(1))
            assert await manager.compact("chat") is None
            assert await runs(manager) == []

    async def test_a_failed_compaction_is_an_event_with_the_name_of_the_error(
        self, store: Store, namespace: str
    ) -> None:
        failing = Scripted(*[KeyError(SECRET)] * 10)
        async with compacting(store, namespace, failing, auto=False, attempts=3) as manager:
            session = manager.session("chat")
            await full(session)
            revision = await session.info()
            with pytest.raises(KeyError):
                await session.compact()
            assert await session.info() == revision
            _, failed = await runs(manager)
        assert failed.kind == "compaction.failed"
        assert failed.data.pop("seconds") >= 0
        assert failed.data == {"error": "KeyError", "trigger": "manual", "attempts": 3}

    async def test_a_cancelled_compaction_is_reported_as_failed(self, store: Store, namespace: str) -> None:
        model = Scripted()
        model.hold()
        async with compacting(store, namespace, model, auto=False) as manager:
            session = manager.session("chat")
            await full(session)
            task = asyncio.create_task(session.compact())
            await model.asked()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert [event.data.get("error") for event in await runs(manager)] == [None, "CancelledError"]

    async def test_a_source_that_is_split_for_a_small_summariser_is_one_compaction(
        self, store: Store, namespace: str
    ) -> None:
        too_long = ValueError("maximum context length is 300 tokens")
        model = Scripted(too_long, too_long)
        async with compacting(store, namespace, model, auto=False) as manager:
            session = manager.session("chat")
            await full(session)
            assert await session.compact() is not None
            assert len(model.prompts) > 4
            assert await kinds(manager) == ["started", "finished"]

    async def test_a_source_that_no_split_makes_small_enough_is_one_failure(self, store: Store, namespace: str) -> None:
        model = Scripted(*[ValueError("maximum context length exceeded")] * 100)
        async with compacting(store, namespace, model, auto=False) as manager:
            session = manager.session("chat")
            await full(session)
            with pytest.raises(ValueError, match="maximum"):
                await session.compact()
            assert len(model.prompts) > 2
            assert await kinds(manager) == ["started", "failed"]

    @pytest.mark.parametrize("script", [(), (ValueError("maximum context length is 300 tokens"),)])
    async def test_the_summary_for_a_new_session_is_a_compaction(
        self, store: Store, namespace: str, script: tuple[Exception, ...]
    ) -> None:
        async with compacting(store, namespace, Scripted(*script), auto=False) as manager:
            await full(manager.session("chat"))
            await manager.compact_and_split("chat")
            started, finished = await runs(manager)
            assert (started.kind, finished.kind) == ("compaction.started", "compaction.finished")
            assert started.session_id == finished.session_id == "chat"
            assert started.data == {"trigger": "split", "tokens_before": 900, "messages_covered": 9}
            assert finished.data["tokens_before"] == 900
            assert finished.data["tokens_after"] < 100

    async def test_a_failed_summary_for_a_new_session_is_a_failed_compaction(
        self, store: Store, namespace: str
    ) -> None:
        async with compacting(store, namespace, Scripted(*[KeyError(SECRET)] * 9), auto=False) as manager:
            await full(manager.session("chat"))
            with pytest.raises(KeyError):
                await manager.compact_and_split("chat")
            assert await kinds(manager) == ["started", "failed"]
            await manager.compact_and_split("chat", summary="by hand")
            assert await kinds(manager) == ["started", "failed"]

    async def test_a_compaction_whose_messages_disappear_is_reported_as_failed(
        self, store: Store, namespace: str
    ) -> None:
        model = Scripted()
        model.hold()
        async with compacting(store, namespace, model, auto=False) as manager:
            session = manager.session("chat")
            await full(session)
            task = asyncio.create_task(session.compact())
            await model.asked()
            await session.clear_messages()
            model.release()
            assert await task is None
            assert await kinds(manager) == ["started", "failed"]

    async def test_a_bug_in_a_summariser_is_logged_with_its_traceback_and_without_text(
        self, store: Store, namespace: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        def look_up(text: str) -> str:
            return {}[text]  # type: ignore[index]

        def buggy_summariser(prompt: str) -> str:
            try:
                return look_up(SECRET)
            except KeyError as error:
                raise RuntimeError(f"cannot read {prompt}") from error

        seen: list[Any] = []
        async with compacting(
            store, namespace, buggy_summariser, attempts=1, on_error=lambda *given: seen.append(given)
        ) as manager:
            session = manager.session("chat")
            await session.append({"id": "m0", "role": "user", "content": SECRET})
            await full(session, 10)
            await eventually(lambda: bool(seen))
        assert seen[0][0] == "chat"
        [record] = [record for record in caplog.records if record.name == "frontdesk.compaction"]
        assert record.getMessage() == "compaction of session 'chat' failed: RuntimeError"
        assert "buggy_summariser" in caplog.text
        assert "look_up" in caplog.text  # the traceback of the cause
        assert "KeyError" in caplog.text
        assert SECRET not in caplog.text
        assert "m1 xxx" not in caplog.text

    async def test_texts_of_our_own_errors_are_logged(
        self, store: Store, namespace: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        model = Scripted(*[ModelError("the call to model 'small' failed (status 500): try again", model="small")] * 10)
        seen: list[Any] = []

        def fail_too(*given: Any) -> None:
            seen.append(given)
            raise ValueError(SECRET)

        async with compacting(store, namespace, model, attempts=1, on_error=fail_too) as manager:
            await full(manager.session("chat"))
            await eventually(lambda: "on_error failed" in caplog.text)
        assert "compaction of session 'chat' failed: ModelError: the call to model 'small' failed" in caplog.text
        assert "fail_too" in caplog.text
        assert SECRET not in caplog.text

    async def test_a_bug_in_an_extractor_is_logged_with_its_session(
        self, store: Store, namespace: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def buggy_extractor(prompt: str) -> str:
            raise LookupError(prompt)

        manager = SessionManager(store, namespace=namespace).with_token_counter(len).with_context("memory")
        manager.with_compaction(max_tokens=1000).with_memory_refresh(buggy_extractor)
        async with manager:
            await full(manager.session("chat"))
            await eventually(lambda: "frontdesk.memory" in {record.name for record in caplog.records})
        assert "memory refresh of session 'chat' failed: LookupError" in caplog.text
        assert "buggy_extractor" in caplog.text
        assert "m1 xxx" not in caplog.text

    async def test_a_failed_hook_is_logged_with_its_session_and_traceback(
        self, manager: SessionManager, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Failing:
            def on_message(self, session: Session, message: Any) -> None:
                raise CompactionError(message.id) from ValueError(message.text)

        manager.register_hook(Failing())
        await manager.append("chat", {"id": "m1", "role": "user", "content": SECRET})
        async with asyncio.timeout(PATIENCE):
            await eventually(lambda: "frontdesk.hooks" in {record.name for record in caplog.records})
        assert "on_message of hook Failing failed for session 'chat': CompactionError: m1" in caplog.text
        assert "in on_message" in caplog.text
        assert SECRET not in caplog.text
