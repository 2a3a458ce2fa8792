"""Windows of the view: the last messages, the messages that fit a budget, and the formats of providers."""

from __future__ import annotations

import pytest

from frontdesk import ContextOverflowError, MessageFormat, Session, SessionManager
from tests.public_api.steps import call, ids, result, say, system, user


def letters(text: str) -> int:
    return len(text)


class WindowTests:
    async def test_last_keeps_the_last_messages(self, session: Session) -> None:
        await say(session, *(f"m{n}" for n in range(5)))
        assert ids(await session.history(last=2)) == ["m3", "m4"]
        assert ids(await session.history(last=9)) == ["m0", "m1", "m2", "m3", "m4"]
        assert [m.parent_id for m in await session.history(last=2)] == ["m2", "m3"]
        assert ids(await session.history(leaf="m2", last=2)) == ["m1", "m2"]

    async def test_last_counts_a_summary_as_one_message(self, session: Session) -> None:
        await say(session, *(f"m{n}" for n in range(5)))
        await session.add_compaction("sum", "m0", "m2")
        assert [m.text for m in await session.history(last=3)] == ["sum", "m3", "m4"]
        assert [m.text for m in await session.history(last=2)] == ["m3", "m4"]

    async def test_max_tokens_keeps_as_many_of_the_last_messages_as_fit(self, session: Session) -> None:
        await say(session, *(f"message number {n}" for n in range(8)))
        tokens = [message.tokens for message in await session.history()]
        assert ids(await session.history(max_tokens=sum(tokens))) == [f"message number {n}" for n in range(8)]
        assert len(await session.history(max_tokens=sum(tokens) - 1)) == 7
        assert len(await session.history(max_tokens=sum(tokens[-3:]))) == 3
        assert len(await session.history(max_tokens=sum(tokens[-3:]) + tokens[-4] - 1)) == 3

    async def test_max_tokens_keeps_the_leading_system_messages(self, session: Session) -> None:
        await session.append_all([system("s1"), system("s2"), *(user(f"m{n}") for n in range(6))])
        history = await session.history()
        budget = sum(message.tokens for message in [*history[:2], *history[-2:]])
        assert ids(await session.history(max_tokens=budget)) == ["s1", "s2", "m4", "m5"]

    async def test_a_last_turn_that_does_not_fit_raises_with_the_smallest_sufficient_limit(
        self, session: Session
    ) -> None:
        await session.append_all([system("s1"), user("m1"), user("m2"), {"role": "assistant", "content": "long " * 50}])
        await self.check_needed(session, first="m2", lead=["s1"])

    async def test_the_smallest_limit_is_correct_for_a_turn_longer_than_one_batch(self, session: Session) -> None:
        await session.append_all([user("m1"), *({"role": "assistant", "content": f"step {n}"} for n in range(600))])
        await self.check_needed(session, first="m1")

    async def test_the_smallest_limit_is_correct_if_there_are_only_tool_messages(self, session: Session) -> None:
        await session.append_all([call("c1", "x"), result("r1", "x")])
        await self.check_needed(session, first="c1")

    async def test_the_smallest_limit_is_correct_if_a_result_comes_after_the_next_user_message(
        self, session: Session
    ) -> None:
        await session.append_all([user("m1"), call("c1", "x"), user("m2"), result("r1", "x")])
        await self.check_needed(session, first="c1")

    async def check_needed(self, session: Session, *, first: str, lead: list[str] | None = None) -> None:
        with pytest.raises(ContextOverflowError) as caught:
            await session.history(max_tokens=1)
        needed = caught.value.needed
        kept = ids(await session.history(max_tokens=needed))
        assert kept[: len(lead or [])] == (lead or [])
        assert kept[len(lead or [])] == first
        with pytest.raises(ContextOverflowError):
            await session.history(max_tokens=needed - 1)

    async def test_no_budget_ever_splits_a_tool_call_from_its_results(self, session: Session) -> None:
        await session.append_all(
            [
                user("m1"),
                call("c1", "a", "b"),
                result("r1", "a"),
                result("r2", "b"),
                user("m2"),
                call("c2", "d"),
                user("m3"),
                result("r3", "d"),
                user("m4"),
            ]
        )
        whole = sum(message.tokens for message in await session.history())
        sizes = set()
        for budget in range((await session.get_message("m4")).tokens, whole + 1):
            window = await session.history(max_tokens=budget)
            called = {each for message in window for each in message.tool_call_ids}
            answered = {each for message in window for each in message.tool_result_ids}
            assert answered == called
            assert sum(message.tokens for message in window) <= budget
            sizes.add(len(window))
        assert sizes == {1, 4, 5, 8, 9}

    async def test_leading_system_messages_that_do_not_fit_also_raise(self, session: Session) -> None:
        await session.append_all([system("s1"), system("s2")])
        whole = sum(message.tokens for message in await session.history())
        with pytest.raises(ContextOverflowError) as caught:
            await session.history(max_tokens=whole - 1)
        assert caught.value.needed == whole
        assert ids(await session.history(max_tokens=whole)) == ["s1", "s2"]

    async def test_results_without_a_call_do_not_end_the_window(self, session: Session) -> None:
        await session.append_all([user("m1"), result("r1", "lost"), user("m2"), result("r2", "lost too")])
        await self.check_needed(session, first="m2")

    @pytest.mark.parametrize("format", ["openai", "openai-responses", "anthropic", "ui"])
    async def test_a_formatted_window_is_valid_for_its_provider(self, session: Session, format: MessageFormat) -> None:
        await session.append_all([user("m1"), call("c1", "x"), result("r1", "x"), user("m2")])
        for last in (1, 2, 3, 4):
            window = await session.history(last=last, format=format)
            assert all(isinstance(each, dict) for each in window)
            assert ("seen by x" in str(window)) == (last >= 3)

    async def test_openai_gets_a_summary_as_a_system_message(self, session: Session) -> None:
        await say(session, "m1", "m2", "m3")
        await session.add_compaction("what was said", "m1", "m2")
        summary, rest = await session.history(format="openai")
        assert summary["role"] == "system"
        assert "what was said" in summary["content"]
        assert rest == {"role": "user", "content": "m3"}

    async def test_the_token_counter_of_the_manager_is_used(self, manager: SessionManager) -> None:
        counted = SessionManager(manager._runtime.store, namespace=manager.namespace).with_token_counter(letters)
        session = counted.session("letters")
        await say(session, "x" * 100, "y" * 200)
        first, second = await session.history()
        assert second.tokens - first.tokens == 100
        assert (await session.info()).token_count == first.tokens + second.tokens
        assert await session.history(max_tokens=second.tokens) == [second]
        plain = await manager.session("plain").append(user("x" * 100))
        assert plain.message.tokens != first.tokens
