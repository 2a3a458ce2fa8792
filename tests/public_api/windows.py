"""Windows of the view: the last messages, the messages that fit a budget, and the formats of providers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from frontdesk import ContextOverflowError, Message, MessageFormat, Session, SessionManager
from tests.public_api.steps import answer, call, ids, result, say, system, user


def letters(text: str) -> int:
    return len(text)


async def talk(session: Session, turns: int) -> None:
    """Append turns of a question and its answer."""
    for n in range(turns):
        await session.append_all([user(f"q{n}", f"question {n}"), answer(f"a{n}", f"answer {n}")])


def output(n: int, characters: int) -> dict[str, Any]:
    """The result of call `x<n>`."""
    return {**result(f"r{n}", f"x{n}"), "content": (f"output {n} " + "word " * characters)[:characters]}


def coding_agent(chance: random.Random) -> Iterator[dict[str, Any]]:
    """The messages of an agent: tasks with 5 to 40 steps, each a call and an output of 200 to 8,000 characters."""
    step = 0
    for task in range(1_000):
        yield user(f"task{task}", f"Task {task}: " + "make it so " * 10)
        for _ in range(chance.randint(5, 40)):
            yield call(f"c{step}", f"x{step}")
            yield output(step, chance.choice([200, 400, 800, 1_600, 3_200, 8_000]))
            step += 1
        yield answer(f"done{task}")


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

    # windows of a number of tokens

    async def test_max_tokens_keeps_whole_turns_at_the_end(self, session: Session) -> None:
        await talk(session, 8)
        whole = await session.history()
        total = sum(message.tokens for message in whole)
        assert await session.history(max_tokens=total) == whole
        for budget in range(total - 1, sum(message.tokens for message in whole[-2:]) - 1, -1):
            window = await session.history(max_tokens=budget)
            assert sum(message.tokens for message in window) <= budget
            assert window == whole[-len(window) :]
            assert window[0].role == "user"

    async def test_max_tokens_keeps_the_leading_system_messages(self, session: Session) -> None:
        await session.append_all([system("s1"), system("s2")])
        await talk(session, 6)
        history = await session.history()
        budget = sum(message.tokens for message in [*history[:2], *history[-2:]])
        assert ids(await session.history(max_tokens=budget)) == ["s1", "s2", "q5", "a5"]

    async def test_max_tokens_keeps_the_summary(self, session: Session) -> None:
        await talk(session, 12)
        await session.add_compaction("what was said", "q1", "a3")
        history = await session.history()
        budget = sum(message.tokens for message in [history[2], *history[-4:]])
        window = await session.history(max_tokens=budget)
        assert window[0].text == "what was said"
        assert ids(window[1:]) in (["q11", "a11"], ["q10", "a10", "q11", "a11"])

    async def test_max_tokens_keeps_a_summary_that_is_far_from_the_end(self, session: Session) -> None:
        await talk(session, 700)
        await session.add_compaction("what was said", "q1", "a3")
        window = await session.history(max_tokens=200)
        assert window[0].text == "what was said"
        assert ids(window)[-1] == "a699"

    async def test_max_tokens_keeps_everything_that_users_said_since_the_last_finished_answer(
        self, session: Session
    ) -> None:
        await talk(session, 4)
        await session.append_all(
            [user("task"), call("c1", "x"), result("r1", "x"), user("besides"), call("c2", "y"), result("r2", "y")]
        )
        needed = await self.check_needed(session, first="task")
        assert ids(await session.history(max_tokens=needed)) == ["task", "c1", "r1", "besides", "c2", "r2"]

    async def test_max_tokens_keeps_the_first_request_after_a_conversation_that_began_with_a_tool_call(
        self, session: Session
    ) -> None:
        await session.append_all([call("c0", "x0"), output(0, 400), user("q0", "the task"), user("q1", "and this")])
        for n in range(1, 12):
            await session.append_all([call(f"c{n}", f"x{n}"), output(n, 400)])
        for wanted in ({"q0", "q1", "c11", "r11"}, {"q2", "q3", "d1", "s1"}):
            with pytest.raises(ContextOverflowError) as refused:
                await session.history(max_tokens=10)
            window = await session.history(max_tokens=refused.value.needed)
            assert wanted <= set(ids(window)) < set(ids(await session.history()))
            late = [call("d0", "y0"), user("q2", "wait"), result("s0", "y0")]
            extra = [call("e0", "z0"), {**output(0, 400), "id": "t0", "tool_call_id": "z0"}]
            await session.replace_messages([*extra, *late, user("q3"), call("d1", "y1"), result("s1", "y1")])

    async def test_words_next_to_a_tool_call_are_no_finished_answer(self, session: Session) -> None:
        await session.append_all(
            [
                user("task"),
                {"id": "t1", "type": "message", "role": "assistant", "content": "Let me look."},
                {"id": "c1", "type": "function_call", "call_id": "x", "name": "look", "arguments": "{}"},
                {"id": "r1", "type": "function_call_output", "call_id": "x", "output": "seen"},
                user("besides"),
                {**call("c2", "y"), "content": "And again."},
                result("r2", "y"),
            ]
        )
        await self.check_needed(session, first="task")

    async def test_an_answer_in_the_same_message_as_its_calls_is_finished(self, session: Session) -> None:
        done = {"type": "tool-look", "toolCallId": "x", "state": "output-available", "input": {}, "output": "seen"}
        said = {"type": "text", "text": "It is there."}
        await session.append_all([user("m1"), {"id": "a1", "role": "assistant", "parts": [done, said]}, user("m2")])
        await self.check_needed(session, first="m2")
        await session.append_all([{"id": "a2", "role": "assistant", "parts": [said, done]}, user("m3")])
        await self.check_needed(session, first="m2")

    async def test_the_oldest_outputs_of_the_current_turn_are_shortened_before_anything_raises(
        self, session: Session
    ) -> None:
        await talk(session, 3)
        await session.append(user("task", "TASK " + "please " * 300))
        for n in range(8):
            await session.append_all([call(f"c{n}", f"x{n}"), output(n, 2_000)])
        whole = await session.history()
        total = sum(message.tokens for message in whole)
        for budget in range(total - 100, total * 2 // 3, -100):
            window = await session.history(max_tokens=budget)
            assert sum(message.tokens for message in window) <= budget
            by_id = {message.id: message for message in window}
            assert ids(whole)[6:] == ids(window)[-17:]
            assert by_id["task"] in whole
            assert [by_id[f"r{n}"] for n in (5, 6, 7)] == [whole[-5], whole[-3], whole[-1]]
            shortened = [by_id[f"r{n}"] not in whole for n in range(8)]
            assert shortened == sorted(shortened, reverse=True)
        needed = await self.check_needed(session, first="task")
        assert needed < total // 2

    async def test_the_start_of_a_window_changes_at_most_at_every_twentieth_append(self, session: Session) -> None:
        chance = random.Random(11)
        before: list[Message] = []
        changes = appends = 0
        for message in coding_agent(chance):
            await session.append(message)
            appends += 1
            window = await session.history(max_tokens=12_000)
            assert sum(message.tokens for message in window) <= 12_000
            changes += window[: len(before)] != before
            before = window
            if appends == 500:
                break
        assert (await session.info()).token_count > 100_000
        assert 2 <= changes <= appends // 20, changes

    async def test_the_start_of_a_chat_changes_rarely_too(self, session: Session) -> None:
        before: list[Message] = []
        changes = 0
        for n in range(250):
            await session.append_all([user(f"q{n}", f"question {n} " * 9), answer(f"a{n}", f"answer {n} " * 9)])
            window = await session.history(max_tokens=3_000)
            changes += window[: len(before)] != before
            before = window
        assert 2 <= changes <= 12

    async def test_a_window_does_not_depend_on_what_was_read_before(self, session: Session) -> None:
        messages = coding_agent(random.Random(12))
        await session.append_all([next(messages) for _ in range(150)])
        first = await session.history(max_tokens=12_000)
        [last] = await session.history(last=1)
        for leaf in [message.id async for message in session.transcript()][::10]:
            await session.history(leaf=leaf, max_tokens=12_000)
        assert await session.history(max_tokens=12_000) == first
        assert await session.history(leaf=last.id, max_tokens=12_000) == first

    async def test_a_last_turn_that_does_not_fit_raises_with_the_smallest_sufficient_limit(
        self, session: Session
    ) -> None:
        await session.append_all([system("s1"), user("m1"), answer("a1"), user("m2"), answer("a2", "long " * 50)])
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
        await session.append_all(
            [user("m1"), answer("a1"), user("m2"), call("c1", "x"), answer("a2"), user("m3"), result("r1", "x")]
        )
        await self.check_needed(session, first="m2")

    async def check_needed(self, session: Session, *, first: str, lead: list[str] | None = None) -> int:
        with pytest.raises(ContextOverflowError) as caught:
            await session.history(max_tokens=1)
        needed = caught.value.needed
        kept = ids(await session.history(max_tokens=needed))
        assert kept[: len(lead or [])] == (lead or [])
        assert kept[len(lead or [])] == first
        with pytest.raises(ContextOverflowError):
            await session.history(max_tokens=needed - 1)
        return needed

    async def test_no_budget_ever_splits_a_tool_call_from_its_results(self, session: Session) -> None:
        await session.append_all(
            [
                user("m1"),
                call("c1", "a", "b"),
                result("r1", "a"),
                result("r2", "b"),
                answer("a1"),
                user("m2"),
                call("c2", "d"),
                answer("a2"),
                user("m3"),
                result("r3", "d"),
                answer("a3"),
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
        assert sizes == {1, 7, 12}

    async def test_leading_system_messages_that_do_not_fit_also_raise(self, session: Session) -> None:
        await session.append_all([system("s1"), system("s2")])
        whole = sum(message.tokens for message in await session.history())
        with pytest.raises(ContextOverflowError) as caught:
            await session.history(max_tokens=whole - 1)
        assert caught.value.needed == whole
        assert ids(await session.history(max_tokens=whole)) == ["s1", "s2"]

    async def test_results_without_a_call_do_not_end_the_window(self, session: Session) -> None:
        await session.append_all([user("m1"), result("r1", "lost"), answer("a1"), user("m2"), result("r2", "lost too")])
        await self.check_needed(session, first="m2")

    @pytest.mark.parametrize("format", ["openai", "openai-responses", "anthropic", "ui"])
    async def test_a_formatted_window_is_valid_for_its_provider(self, session: Session, format: MessageFormat) -> None:
        await session.append_all([user("m1"), call("c1", "x"), result("r1", "x"), user("m2")])
        for last in (1, 2, 3, 4):
            window = await session.history(last=last, format=format)
            assert all(isinstance(each, dict) for each in window)
            assert ("seen by x" in str(window)) == (last >= 2)

    async def test_openai_gets_a_summary_as_a_note_of_the_user(self, session: Session) -> None:
        await say(session, "m1", "m2", "m3")
        await session.add_compaction("what was said", "m1", "m2")
        summary, rest = await session.history(format="openai")
        assert summary["role"] == "user"
        assert "what was said" in summary["content"]
        assert rest == {"role": "user", "content": "m3"}

    async def test_the_token_counter_of_the_manager_is_used(self, manager: SessionManager) -> None:
        counted = SessionManager(manager._runtime.store, namespace=manager.namespace).with_token_counter(letters)
        session = counted.session("letters")
        await session.append_all([answer("first", "x" * 100), user("second", "y" * 200)])
        first, second = await session.history()
        assert second.tokens - first.tokens == 100
        assert (await session.info()).token_count == first.tokens + second.tokens
        assert await session.history(max_tokens=second.tokens) == [second]
        plain = await manager.session("plain").append(user("x" * 100))
        assert plain.message.tokens != first.tokens
