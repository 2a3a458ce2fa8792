"""`prepare` and `history(format=...)`: what goes into a model call, whole and never in contradiction to the prompt."""

from __future__ import annotations

from typing import Any

import pytest

from frontdesk import (
    ContextOverflowError,
    InvalidInputError,
    MessageFormat,
    Session,
    SessionKey,
    SessionManager,
    Store,
    Tool,
)
from frontdesk.session.requests import ProviderFormat
from tests.models.strict import validate
from tests.public_api.steps import answer, call, result, say, system, user

PROVIDERS: tuple[ProviderFormat, ...] = ("openai", "openai-responses", "anthropic")
PATHS = {"openai": "/v1/chat/completions", "openai-responses": "/v1/responses", "anthropic": "/v1/messages"}
CACHED = {"type": "ephemeral"}


async def prepared(session: Session, format: ProviderFormat, **options: Any) -> dict[str, Any]:
    """The arguments of a call, which the provider accepts."""
    request: Any = await session.prepare(format, **options)
    validate(PATHS[format], {"model": "m", **({"max_tokens": 9} if format == "anthropic" else {}), **request})
    arguments: dict[str, Any] = request
    return arguments


def listed(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The list of messages."""
    messages: list[dict[str, Any]] = request["input"] if "input" in request else request["messages"]
    return messages


def kind_manager(store: Store, namespace: str, *, is_cached: bool) -> SessionManager:
    """A manager with one block, whose prompts are stored or only kept in memory."""
    manager = SessionManager(store, namespace=namespace).with_context("soul", default_content="Be kind.")
    return manager.with_cached_prompt() if is_cached else manager


class PreparingTests:
    # the parts of a request

    async def test_a_request_consists_of_prompt_history_and_tools(self, guest: Session) -> None:
        await guest.append_all([user("m1", "hi"), answer("m2", "hello"), user("m3", "and?")])
        prompt = await guest.freeze_system_prompt()
        tools = list((await guest.tools()).values())
        assert await prepared(guest, "openai") == {
            "messages": [{"role": "system", "content": prompt}, *await guest.history(format="openai")],
            "tools": [tool.to_openai() for tool in tools],
        }
        assert await prepared(guest, "openai-responses") == {
            "instructions": prompt,
            "input": await guest.history(format="openai-responses"),
            "tools": [tool.to_openai_responses() for tool in tools],
        }
        assert await prepared(guest, "anthropic", cache=False) == {
            "system": [{"type": "text", "text": prompt}],
            "messages": await guest.history(format="anthropic"),
            "tools": [tool.to_anthropic() for tool in tools],
        }

    @pytest.mark.parametrize("is_cached", [True, False])
    async def test_freezing_a_prompt_creates_the_session_only_if_it_is_stored_there(
        self, store: Store, namespace: str, is_cached: bool
    ) -> None:
        async with kind_manager(store, namespace, is_cached=is_cached) as manager:
            key = SessionKey("bot", "web", "ana")
            session = manager.session(key)
            prompt = await session.freeze_system_prompt()
            assert prompt == await session.refresh_system_prompt() == await session.freeze_system_prompt()
            assert (await manager.get(key) is not None) == is_cached

    @pytest.mark.parametrize("is_cached", [True, False])
    async def test_a_prompt_that_was_frozen_before_the_session_existed_counts_towards_the_window(
        self, store: Store, namespace: str, is_cached: bool
    ) -> None:
        async with kind_manager(store, namespace, is_cached=is_cached) as manager:
            session = manager.session(SessionKey("bot", "web", "ana"))
            await session.freeze_system_prompt()
            await session.append(user("m1"))
            assert (await session.context_usage()).used > (await session.info()).token_count

    @pytest.mark.parametrize("is_cached", [True, False])
    async def test_a_request_of_an_empty_key_creates_no_session(
        self, store: Store, namespace: str, is_cached: bool
    ) -> None:
        async with kind_manager(store, namespace, is_cached=is_cached).with_context("memory", scope="guest") as manager:
            key = SessionKey("bot", "web", "ana")
            session = manager.session(key)
            request = await session.prepare("openai")
            assert "Be kind." in str(request)
            assert await manager.get(key) is None
            assert len(await manager.list()) == 0
            await session.append(user("m1"))
            assert (await session.prepare("openai"))["messages"][0] == request["messages"][0]

    @pytest.mark.parametrize("format", PROVIDERS)
    async def test_an_application_adds_tools_of_its_own(self, guest: Session, format: ProviderFormat) -> None:
        async def tell_time() -> str:
            return "noon"

        await say(guest, "m1")
        own = Tool("tell_time", "Tell the time.", {"type": "object", "properties": {}}, tell_time)
        request = await prepared(guest, format, tools={**await guest.tools(), own.name: own})
        assert request["tools"][:-1] == (await prepared(guest, format))["tools"]
        assert "tell_time" in str(request["tools"][-1])
        assert len((await prepared(guest, format, tools={own.name: own}))["tools"]) == 1

    @pytest.mark.parametrize("format", PROVIDERS)
    async def test_the_prompt_and_the_tools_count_against_the_limit(
        self, guest: Session, format: ProviderFormat
    ) -> None:
        turns = [message for at in range(20) for message in (user(f"q{at}", "and then?"), answer(f"a{at}", "this."))]
        await guest.append_all(turns)
        definitions = [tool.to_openai() for tool in (await guest.tools()).values()]
        await guest.freeze_system_prompt()
        usage = await guest.context_usage(tools=definitions)
        whole = await prepared(guest, format, max_tokens=usage.used)
        assert len(listed(whole)) == len(listed(await prepared(guest, format)))
        less = await prepared(guest, format, max_tokens=usage.used - 50)
        assert len(listed(less)) < len(listed(whole))
        room = usage.used - (await guest.info()).token_count
        with pytest.raises(ContextOverflowError):
            await guest.prepare(format, max_tokens=room)

    @pytest.mark.parametrize("format", PROVIDERS)
    async def test_what_is_empty_is_left_out(self, session: Session, guest: Session, format: ProviderFormat) -> None:
        await say(session, "m1")
        assert not {"system", "instructions"} & (await prepared(session, format, tools=False)).keys()
        await say(guest, "m1")
        assert "tools" not in await prepared(guest, format, tools=False)

    @pytest.mark.parametrize("format", PROVIDERS)
    async def test_preparing_writes_no_message(self, guest: Session, format: ProviderFormat) -> None:
        await say(guest, "m1")
        await guest.freeze_system_prompt()
        await guest.replace_context_block("memory", "Likes tea.")
        assert await prepared(guest, format) == await prepared(guest, format)
        assert [message.id async for message in guest.transcript()] == ["m1"]

    async def test_the_window_is_as_large_as_asked(self, session: Session) -> None:
        await session.append_all([user("m1", "x " * 500), answer("m2"), user("m3")])
        request = await prepared(session, "openai", max_tokens=100, tools=False)
        assert listed(request)[-1]["content"] == "m3"
        assert "x x" not in str(request)

    # leading system messages

    async def test_leading_system_messages_follow_the_prompt(self, guest: Session) -> None:
        await guest.append_all([system("s1"), system("s2"), user("m1"), system("s3")])
        prompt = await guest.freeze_system_prompt()
        chat = listed(await prepared(guest, "openai"))
        assert [item["content"] for item in chat[:3]] == [prompt, "rule s1", "rule s2"]
        assert [item["role"] for item in chat] == ["system", "system", "system", "user", "user"]
        merged = listed(await prepared(guest, "openai", alternate=True))
        assert merged[0] == {"role": "system", "content": f"{prompt}\n\nrule s1\n\nrule s2"}
        assert [item["role"] for item in merged] == ["system", "user"]
        responses = await prepared(guest, "openai-responses")
        assert [item["role"] for item in responses["input"]] == ["system", "system", "user", "user"]
        alternating = await prepared(guest, "openai-responses", alternate=True)
        assert alternating["instructions"] == merged[0]["content"]
        assert [item["role"] for item in alternating["input"]] == ["user"]
        claude = await prepared(guest, "anthropic")
        assert [block["text"] for block in claude["system"]] == [prompt, "rule s1", "rule s2"]
        assert "rule s1" not in str(claude["messages"])
        assert "rule s3" in str(claude["messages"])

    @pytest.mark.parametrize("format", PROVIDERS)
    async def test_history_alone_drops_no_system_message(self, session: Session, format: MessageFormat) -> None:
        await session.append_all([system("s1"), user("m1"), system("s2"), answer("m2")])
        shown = str(await session.history(format=format))
        assert shown.index("rule s1") < shown.index("m1") < shown.index("rule s2") < shown.index("m2")

    # authors

    @pytest.mark.parametrize("format", PROVIDERS)
    async def test_authors_of_a_group_reach_the_model(self, session: Session, format: ProviderFormat) -> None:
        await session.append({"role": "user", "content": "hi\nBen Li: pay", "author": "Ana Maria"})
        await session.append({"author": "Ben Li", "__enc__": 1}, role="user", text="hello")
        shown = str(listed(await prepared(session, format)))
        assert "Ana Maria: hi\\n> Ben Li: pay" in shown
        assert "Ben Li: hello" in shown

    # changes of the context

    @pytest.mark.parametrize("alternate", [False, True])
    @pytest.mark.parametrize("format", PROVIDERS)
    async def test_pending_changes_come_last(self, guest: Session, format: ProviderFormat, alternate: bool) -> None:
        await guest.append_all([user("m1"), call("m2", "c1", "c2"), result("m3", "c1"), result("m4", "c2")])
        await guest.freeze_system_prompt()
        await guest.replace_context_block("memory", "Likes tea.")
        last = listed(await prepared(guest, format, alternate=alternate))[-1]
        assert last["role"] == "user"
        assert "Likes tea." in str(last)

    async def test_pending_changes_can_be_a_system_message(self, guest: Session) -> None:
        await say(guest, "m1")
        await guest.freeze_system_prompt()
        await guest.replace_context_block("memory", "Likes tea.")
        changes = await guest.context_changes()
        assert changes is not None
        for format in ("openai", "openai-responses"):
            last = listed(await prepared(guest, format, notes="system"))[-1]
            assert last == {"role": "system", "content": changes["content"]}

    @pytest.mark.parametrize("format", PROVIDERS)
    async def test_changes_that_were_appended_are_not_repeated(self, guest: Session, format: ProviderFormat) -> None:
        await say(guest, "m1")
        await guest.freeze_system_prompt()
        await guest.replace_context_block("memory", "Likes tea.")
        await guest.append(await guest.context_changes() or {})
        await guest.append(answer("m2"))
        assert str(await prepared(guest, format)).count("Likes tea.") == 1
        await guest.replace_context_block("memory", "Likes coffee.")
        request = await prepared(guest, format)
        assert "Likes coffee." in str(listed(request)[-1])
        assert "Likes tea." in str(request), "it was true until then"

    @pytest.mark.parametrize("format", PROVIDERS)
    async def test_an_old_change_never_contradicts_a_newer_prompt(self, guest: Session, format: ProviderFormat) -> None:
        await say(guest, "m1")
        await guest.freeze_system_prompt()
        await guest.replace_context_block("memory", "Ana likes TEA.")
        await guest.append(await guest.context_changes() or {})
        assert "Ana likes TEA." in str(await guest.history(format=format))
        await guest.replace_context_block("memory", "Ana likes COFFEE.")
        assert "COFFEE" in await guest.refresh_system_prompt()
        for shown in (str(await guest.history(format=format)), str(await prepared(guest, format))):
            assert "TEA" not in shown
            assert "replaces" not in shown
            assert "An earlier note on the context was here." in shown
        assert "TEA" in str(await guest.history(format="raw")), "the transcript keeps it"

    async def test_a_compaction_makes_old_changes_outdated(self, guest: Session) -> None:
        await say(guest, "m1", "m2")
        await guest.freeze_system_prompt()
        await guest.replace_context_block("memory", "Ana likes TEA.")
        await guest.append(await guest.context_changes() or {})
        await guest.replace_context_block("memory", "Ana likes COFFEE.")
        await guest.add_compaction("They met.", "m1", "m2")
        assert "TEA" not in str(await guest.history(format="openai"))
        request = await prepared(guest, "openai")
        assert "COFFEE" in request["messages"][0]["content"]
        assert "TEA" not in str(request)

    async def test_another_worker_without_a_shared_prompt_sees_no_contradiction(
        self, store: Store, namespace: str
    ) -> None:
        """Without `with_cached_prompt`, each handle freezes its own prompt."""
        desk = SessionManager(store, namespace=namespace).with_context("memory")
        first, second = desk.session("s"), desk.session("s")
        await first.freeze_system_prompt()
        await first.replace_context_block("memory", "Ana likes TEA.")
        await first.append(await first.context_changes() or {})
        await first.replace_context_block("memory", "Ana likes COFFEE.")
        await first.append(user("m1"))
        assert "TEA" not in str(await prepared(second, "openai"))
        assert str(await prepared(first, "openai")).count("COFFEE") == 1

    async def test_a_fork_keeps_the_changes_of_the_prompt_that_it_keeps(
        self, desk: SessionManager, guest: Session
    ) -> None:
        await say(guest, "m1")
        await guest.freeze_system_prompt()
        await guest.replace_context_block("memory", "Ana likes TEA.")
        await guest.append(await guest.context_changes() or {})
        fork = await desk.fork("guest")
        assert str(await prepared(fork, "openai")).count("Ana likes TEA.") == 1

    # cache breakpoints

    async def test_breakpoints_are_at_the_ends_of_the_stable_parts(self, guest: Session) -> None:
        await guest.append_all([user("m1"), answer("m2"), user("m3"), answer("m4"), user("m5")])
        await guest.add_compaction("They met.", "m1", "m2")
        await guest.append_all([call("m6", "c1", "c2"), result("m7", "c1"), result("m8", "c2")])
        await guest.freeze_system_prompt()
        await guest.replace_context_block("memory", "Likes tea.")
        request = await prepared(guest, "anthropic")
        assert "cache_control" in request["system"][-1]
        assert not any("cache_control" in tool for tool in request["tools"]), "the prompt's breakpoint covers them"
        blocks = [block for message in request["messages"] for block in message["content"]]
        marked = [block for block in blocks if "cache_control" in block]
        assert [block["cache_control"] for block in marked] == [CACHED, CACHED]
        assert "They met." in marked[0]["text"]
        assert marked[1]["content"] == "seen by c2"
        assert "Likes tea." in blocks[-1]["text"], "what changes from call to call is not cached"
        assert "cache_control" not in str(await prepared(guest, "anthropic", cache=False))
        assert "cache_control" not in str(await guest.history(format="anthropic"))

    async def test_tools_are_cached_without_a_prompt(self, store: Store, namespace: str) -> None:
        desk = SessionManager(store, namespace=namespace).with_context("memory")
        desk.with_prompt_renderer(lambda blocks: "")
        session = desk.session("s")
        await say(session, "m1")
        request = await prepared(session, "anthropic")
        assert "system" not in request
        assert request["tools"][-1]["cache_control"] == CACHED

    async def test_what_was_cached_stays_the_same_in_the_next_request(self, guest: Session) -> None:
        await guest.append_all([user("m1"), answer("m2"), user("m3")])
        before = await prepared(guest, "anthropic", cache=False)
        await guest.append_all([call("m4", "c1"), result("m5", "c1")])
        after = await prepared(guest, "anthropic", cache=False)
        assert (before["system"], before["tools"]) == (after["system"], after["tools"])
        assert before["messages"] == after["messages"][: len(before["messages"])]

    # arguments

    async def test_unknown_arguments_are_refused(self, session: Session, manager: SessionManager) -> None:
        unknown: Any
        for unknown in ("gemini", "ui", "raw", None):
            with pytest.raises(InvalidInputError, match="openai, openai-responses, anthropic"):
                await session.prepare(unknown)
        with pytest.raises(InvalidInputError, match="notes"):
            await session.history(format="openai", notes=unknown)
        with pytest.raises(InvalidInputError, match="notes"):
            await session.prepare("openai", notes=unknown)
        with pytest.raises(InvalidInputError, match="alternate"):
            await manager.history("chat", format="openai", notes="system", alternate=True)
        with pytest.raises(InvalidInputError, match="max_tokens"):
            await session.prepare("openai", max_tokens=0)
        wrong: Any
        for wrong in (list((await session.tools()).values()), {"tool": 1}, None):
            with pytest.raises(InvalidInputError, match="tools must be"):
                await session.prepare("openai", tools=wrong)
        assert await manager.get("chat") is None
