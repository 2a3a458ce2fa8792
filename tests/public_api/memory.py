"""Facts that outlive a compaction, and views that are fitted into a limit and then stay the same."""

from __future__ import annotations

from typing import Any

import pytest

from frontdesk import (
    BlockNotFoundError,
    BlockTooLargeError,
    ConfigurationError,
    ContextOverflowError,
    Message,
    Session,
    SessionKey,
    SessionManager,
    Store,
)
from frontdesk.models import Completion, ModelUsage
from tests.public_api.scripted_models import Scripted, said
from tests.public_api.steps import call, ids, result, user
from tests.waiting import eventually


def remembering(store: Store, namespace: str, extract: Any, sink: Any = None, **options: Any) -> SessionManager:
    """A manager that extracts facts at 600 of 1,000 tokens of one character each."""
    manager = SessionManager(store, namespace=namespace).with_token_counter(len).with_context("memory", max_tokens=200)
    return manager.with_compaction(
        Scripted(), max_tokens=1000, protect_head=1, tail_tokens=200, auto=False
    ).with_memory_refresh(extract, sink, **options)


async def fill(session: Session, first: int, last: int) -> None:
    for number in range(first, last + 1):
        await session.append(said(number))


async def block(session: Session) -> str:
    return (await session.context_block("memory")).content


class MemoryTests:
    # facts

    @pytest.mark.parametrize("way", ["new", "reset", "archive"])
    async def test_facts_are_extracted_when_a_conversation_ends(self, store: Store, namespace: str, way: str) -> None:
        facts: list[tuple[str, list[str]]] = []
        model = Scripted("- likes tea")
        key = SessionKey("bot", "web", "ada")
        async with remembering(store, namespace, model, lambda *given: facts.append(given)) as manager:
            session = manager.session(key)
            await fill(session, 1, 3)
            await getattr(manager, way)(key)
        assert facts == [(session.id, ["likes tea"])]

    async def test_facts_are_extracted_once_each_time_the_soft_ratio_is_crossed_upwards(
        self, store: Store, namespace: str
    ) -> None:
        model = Scripted("- likes tea", "- lives in Bonn")
        async with remembering(store, namespace, model) as manager:
            session = manager.session("chat")
            await fill(session, 1, 5)
            assert not await session.needs_memory_refresh()
            await fill(session, 6, 6)
            await model.asked()
            await fill(session, 7, 8)

            async def is_stored() -> bool:
                return await block(session) == "- likes tea"

            await eventually(is_stored)
            assert model.shown[0][:6] == [f"m{n}" for n in range(1, 7)]
            await session.add_compaction("short", "m1", "m6")
            await session.history()
            await fill(session, 9, 10)
            assert len(model.prompts) == 1
            await fill(session, 11, 12)
            await model.asked(2)
        assert len(model.prompts) == 2
        assert "m12" in model.shown[1]
        assert not set(model.shown[0]) & set(model.shown[1])

    async def test_a_crossing_by_an_append_to_a_changed_view_counts(self, store: Store, namespace: str) -> None:
        model = Scripted("- likes tea")
        async with remembering(store, namespace, model) as manager:
            session = manager.session("chat")
            await fill(session, 1, 5)
            await session.update_message(user("m1", "m1"))
            await session.append(user("m6", "m6 ".ljust(400, "x")))
            await model.asked()

    async def test_the_frozen_prompt_counts_towards_the_soft_ratio(self, store: Store, namespace: str) -> None:
        async with remembering(store, namespace, Scripted()).with_cached_prompt() as manager:
            session = manager.session("chat")
            await fill(session, 1, 5)
            await session.set_system_prompt("x" * 100)
            assert not await session.needs_memory_refresh()
            await session.freeze_system_prompt()
            assert await session.needs_memory_refresh()

    async def test_memory_can_be_refreshed_before_it_is_needed(self, store: Store, namespace: str) -> None:
        async with remembering(store, namespace, Scripted("- likes tea"), enabled=True) as manager:
            session = manager.session("chat")
            assert not await session.needs_memory_refresh()
            await session.append_all([said(n) for n in range(1, 4)])
            assert not await session.needs_memory_refresh()
            assert await session.refresh_memory() == ["likes tea"]
            assert await session.refresh_memory() == []

    async def test_only_new_messages_are_examined_and_only_new_facts_are_stored(
        self, store: Store, namespace: str
    ) -> None:
        model = Scripted("- Likes tea.\n- likes TEA", "* likes tea\n- project: Mars", "NO_MEMORY_NEEDED")
        async with remembering(store, namespace, model) as manager:
            session = manager.session("chat")
            await fill(session, 1, 3)
            assert await session.refresh_memory() == ["Likes tea."]
            await fill(session, 4, 5)
            assert await session.refresh_memory() == ["project: Mars"]
            assert model.shown == [["m1", "m2", "m3"], ["m4", "m5"]]
            assert await session.refresh_memory() == []
            assert len(model.prompts) == 2
            await fill(session, 6, 6)
            assert await session.refresh_memory() == []
            assert await block(session) == "- Likes tea.\n- project: Mars"

    async def test_a_fact_counts_as_known_only_after_the_sink_accepted_it(self, store: Store, namespace: str) -> None:
        taken: list[tuple[str, list[str]]] = []
        failures = [OSError("full")]

        async def sink(session_id: str, facts: list[str]) -> None:
            if failures:
                raise failures.pop()
            taken.append((session_id, facts))

        async with remembering(store, namespace, Scripted(*["- likes tea"] * 3), sink) as manager:
            session = manager.session("chat")
            await fill(session, 1, 3)
            with pytest.raises(OSError, match="full"):
                await session.refresh_memory()
            assert await session.refresh_memory() == ["likes tea"]
            assert taken == [("chat", ["likes tea"])]

    async def test_facts_that_do_not_fit_into_a_block_are_reported_and_not_lost(
        self, store: Store, namespace: str
    ) -> None:
        facts = "- prefers tea\n- " + "x" * 190
        async with remembering(store, namespace, Scripted(facts, facts)) as manager:
            session = manager.session("chat")
            await fill(session, 1, 3)
            with pytest.raises(BlockTooLargeError):
                await session.refresh_memory()
            assert await block(session) == "- prefers tea"
            await session.replace_context_block("memory", "")
            assert await session.refresh_memory() == ["x" * 190]

    async def test_without_an_extractor_or_its_block_no_model_is_called(
        self, store: Store, namespace: str, session: Session
    ) -> None:
        with pytest.raises(ConfigurationError):
            await session.refresh_memory()
        assert not await session.needs_memory_refresh()
        model = Scripted()
        async with remembering(store, namespace, model, label="facts") as manager:
            await fill(manager.session("other"), 1, 3)
            with pytest.raises(BlockNotFoundError):
                await manager.session("other").refresh_memory()
        assert model.prompts == []

    async def test_a_failing_extractor_blocks_nothing(self, store: Store, namespace: str) -> None:
        reported: list[str] = []

        def on_error(session_id: str, error: Exception) -> None:
            reported.append(session_id)
            raise RuntimeError("even this")

        async with remembering(store, namespace, Scripted(*[OSError()] * 9), on_error=on_error) as manager:
            session = manager.session("chat")
            await fill(session, 1, 10)
            await eventually(lambda: reported == ["chat"])
            assert await session.compact() is not None
            await eventually(lambda: reported == ["chat"] * 2)
            child = await manager.compact_and_split("chat", "by hand")
            await eventually(lambda: reported == ["chat", "chat", child.id])

    async def test_a_compaction_does_not_wait_for_the_extractor_that_it_starts(
        self, store: Store, namespace: str
    ) -> None:
        model = Scripted("- likes tea")
        model.hold()
        async with remembering(store, namespace, model) as manager:
            session = manager.session("chat")
            await session.append_all([said(n) for n in range(1, 11)])
            assert await session.compact() is not None
            await model.asked()
            model.release()

            async def is_stored() -> bool:
                return await block(session) == "- likes tea"

            await eventually(is_stored)
        assert set(model.shown[0]) == {f"m{n}" for n in range(1, 11)}

    async def test_a_split_passes_its_facts_to_the_child(self, store: Store, namespace: str) -> None:
        async with remembering(store, namespace, Scripted("- likes tea")) as manager:
            await fill(manager.session("chat"), 1, 3)
            child = await manager.compact_and_split("chat", "by hand")

            async def is_stored() -> bool:
                return await block(child) == "- likes tea"

            await eventually(is_stored)

    async def test_if_disabled_nothing_is_extracted_automatically(self, store: Store, namespace: str) -> None:
        model = Scripted()
        async with remembering(store, namespace, model, enabled=False) as manager:
            session = manager.session("chat")
            await fill(session, 1, 9)
            assert not await session.needs_memory_refresh()
        assert model.prompts == []

    async def test_the_usage_of_an_extraction_is_recorded(self, store: Store, namespace: str) -> None:
        answer = Completion("- likes tea", model="small", usage=ModelUsage(input_tokens=300, output_tokens=7))
        async with remembering(store, namespace, Scripted(answer), prompt="What matters?") as manager:
            session = manager.session("chat")
            await fill(session, 1, 3)
            await session.refresh_memory()
            assert (await manager.usage(session="chat")).total.input_tokens == 300

    # views that fit

    @pytest.fixture
    async def long_outputs(self, session: Session) -> Session:
        """Five turns, each with a tool output of about 3,000 characters."""
        for n in range(5):
            await self.add_turn(session, n)
        return session

    async def add_turn(self, session: Session, n: int) -> None:
        output = {**result(f"r{n}", f"x{n}"), "content": f"output {n} " + "word " * 600}
        answer = {"id": f"a{n}", "role": "assistant", "content": f"answer {n}"}
        await session.append_all([user(f"q{n}", f"question {n}"), call(f"c{n}", f"x{n}"), output, answer])

    async def test_a_view_with_a_limit_always_fits(self, long_outputs: Session) -> None:
        whole: list[Message] = await long_outputs.history()
        total = sum(message.tokens for message in whole)
        last_turn = sum(message.tokens for message in whole[-4:])
        for budget in range(last_turn, total + 200, 150):
            fitted = await long_outputs.history(max_tokens=budget)
            assert sum(message.tokens for message in fitted) <= budget
            assert ids(fitted) == ids(whole)[-len(fitted) :]
            assert fitted[-2].raw == whole[-2].raw

    async def test_tool_results_of_older_turns_are_shortened_before_messages_are_left_out(
        self, long_outputs: Session
    ) -> None:
        whole: list[Message] = await long_outputs.history()
        budget = sum(message.tokens for message in whole) * 3 // 4
        fitted = await long_outputs.history(max_tokens=budget)
        assert ids(fitted) == ids(whole)
        assert len(fitted[2].text) <= 500 < len(whole[2].text)
        raw = await long_outputs.history(max_tokens=budget, format="raw")
        assert all(message in [each.raw for each in whole] for message in raw)
        assert ids(await long_outputs.history()) == ids(whole)
        assert [message.raw for message in await long_outputs.history()] == [message.raw for message in whole]

    async def test_whatever_the_limit_is_everything_goes_in_one_order(self, long_outputs: Session) -> None:
        """A window leaves out as much as the end of its step needs. That may be a whole turn where this call would need
        less. But older outputs are short before newer ones are, and an output of the current turn is shortened only
        once there are no earlier turns."""
        whole: list[Message] = await long_outputs.history()
        total = sum(message.tokens for message in whole)
        seen = set()
        for budget in range(total, 100, -40):
            try:
                fitted = await long_outputs.history(max_tokens=budget)
            except ContextOverflowError:
                break
            outputs = [len(message.text) > 500 for message in fitted if message.role == "tool"]
            earlier, current = outputs[:-1], outputs[-1]
            assert ids(fitted) == ids(whole)[-len(fitted) :]
            assert outputs == sorted(outputs)  # short ones first
            assert current or not earlier
            seen.add((len(outputs), current))
        assert {(5, True), (1, True), (1, False)} < seen

    async def test_reading_another_branch_shortens_nothing_at_the_head(self, long_outputs: Session) -> None:
        whole: list[Message] = await long_outputs.history()
        total = sum(message.tokens for message in whole)
        looked = await long_outputs.history(leaf="a3", max_tokens=total // 2)
        assert len(looked[2].text) <= 500
        assert [message.raw for message in await long_outputs.history(max_tokens=total)] == [
            message.raw for message in whole
        ]
