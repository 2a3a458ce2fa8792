"""Context blocks that belong to more than one session: to a key, a guest, an agent or the namespace."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from frontdesk import (
    BlockTooLargeError,
    BlockVersionError,
    ConfigurationError,
    Session,
    SessionKey,
    SessionManager,
    Store,
    TurnLostError,
)
from frontdesk.context import CallableProvider, StoreSearch
from tests.public_api.steps import user

ANA = SessionKey("concierge", "web", "ana")
ANA_PHONE = SessionKey("concierge", "phone", "ana")
ANA_WORK = SessionKey("concierge", "web", "ana", "work")
BEN = SessionKey("concierge", "web", "ben")
COOK = SessionKey("cook", "web", "ana")
SCOPES = ("session", "key", "guest", "agent", "namespace")


def furnished(store: Store, namespace: str) -> SessionManager:
    """A manager with a block of every scope, named after it."""
    manager = SessionManager(store, namespace=namespace).with_cached_prompt()
    for scope in SCOPES:
        manager.with_context(scope, scope=scope, max_tokens=100)  # type: ignore[arg-type]
    return manager


async def read(session: Session) -> dict[str, str]:
    return {block.label: block.content for block in await session.context_blocks()}


async def write_all(session: Session, text: str) -> None:
    for scope in SCOPES:
        await session.replace_context_block(scope, text)


class ScopeTests:
    @pytest.fixture
    def house(self, store: Store, namespace: str) -> SessionManager:
        return furnished(store, namespace)

    async def test_a_block_is_read_by_the_sessions_of_its_scope_and_no_others(self, house: SessionManager) -> None:
        await write_all(house.session(ANA), "ana's")

        async def seen(key: SessionKey) -> list[str]:
            return [scope for scope, text in (await read(house.session(key))).items() if text == "ana's"]

        assert await seen(ANA) == ["session", "key", "guest", "agent", "namespace"]
        assert await seen(ANA_WORK) == ["guest", "agent", "namespace"]
        assert await seen(ANA_PHONE) == ["agent", "namespace"]
        assert await seen(BEN) == ["agent", "namespace"]
        assert await seen(COOK) == ["namespace"]
        await house.new(ANA)
        assert await seen(ANA) == ["key", "guest", "agent", "namespace"]
        assert [block.scope for block in await house.session(ANA).context_blocks()] == list(SCOPES)

    async def test_a_session_without_a_key_has_its_own_block_instead_of_a_guests(self, house: SessionManager) -> None:
        await write_all(house.session("one"), "one's")
        other = await read(house.session("other"))
        assert [scope for scope in SCOPES if other[scope] == "one's"] == ["namespace"]
        assert set((await read(house.session("one"))).values()) == {"one's"}
        assert await house.delete("one")
        assert (await read(house.session("one")))["guest"] == ""

    async def test_a_session_is_the_same_by_its_id_and_by_its_key(self, house: SessionManager) -> None:
        by_key = await house.create(key=ANA, id="ana-1")
        await by_key.replace_context_block("guest", "likes tea")
        by_id = house.session("ana-1")
        assert (await by_id.context_block("guest")).content == "likes tea"
        await by_id.append_context_block("guest", "and cake")
        assert (await house.session(ANA_WORK).context_block("guest")).content == "likes tea\nand cake"
        async with by_id.turn() as turn:
            await turn.append_context_block("guest", "and scones")
        assert "scones" in (await house.session(ANA).context_block("guest")).content

    async def test_keys_are_folded_as_for_sessions(self, store: Store, namespace: str) -> None:
        manager = furnished(store, namespace).with_isolation("agent", "peer")
        await manager.session(ANA).replace_context_block("guest", "likes tea")
        assert (await manager.session(ANA_PHONE).context_block("guest")).content == "likes tea"
        assert (await manager.session(BEN).context_block("guest")).content == ""

    async def test_wide_blocks_have_versions_limits_and_no_lost_writes(self, house: SessionManager) -> None:
        first, second = house.session(ANA), house.session(ANA_WORK)
        block = await first.replace_context_block("guest", "tea", author="ana")
        assert (block.version, block.scope) == (1, "guest")
        with pytest.raises(BlockVersionError):
            await second.replace_context_block("guest", "coffee", if_version=0)
        with pytest.raises(BlockTooLargeError):
            await second.append_context_block("guest", "word " * 500)
        await second.replace_context_block("guest", "coffee")
        assert [version.content for version in await first.block_history("guest")] == ["coffee", "tea"]
        assert (await first.restore_context_block("guest", 1)).content == "tea"
        writers = [house.session(SessionKey("concierge", "web", "ana", f"t{n}")) for n in range(12)]
        await asyncio.gather(*(writer.append_context_block("guest", f"line {n}") for n, writer in enumerate(writers)))
        lines = (await second.context_block("guest")).content.splitlines()
        assert sorted(lines) == sorted(["tea", *(f"line {n}" for n in range(12))])

    async def test_hostile_keys_never_collide(self, house: SessionManager) -> None:
        parts = ["a", "a:b", "b", "%", "=", "*", "';--", "名前"]
        keys = [SessionKey(one, other, one, other) for one in parts for other in parts]
        keys += [SessionKey(one, other, one) for one in parts for other in parts]
        for key in keys:
            await house.session(key).replace_context_block("key", str(key))
        for key in keys:
            assert (await house.session(key).context_block("key")).content == str(key)

    async def test_a_write_of_a_wide_block_is_an_event_with_its_scope(self, house: SessionManager) -> None:
        await house.session(ANA).replace_context_block("guest", "likes tea")
        events = [event async for event in house.events(after="start", follow=False) if event.kind == "block.changed"]
        assert [(event.session_id, event.data) for event in events] == [(None, {"label": "guest", "scope": "guest"})]

    @pytest.mark.parametrize("scope", ["guests", "", None])
    async def test_an_unknown_scope_is_refused(self, house: SessionManager, scope: Any) -> None:
        with pytest.raises(ConfigurationError, match="guest"):
            house.with_context("x", scope=scope)
        with pytest.raises(ConfigurationError, match="guest"):
            StoreSearch(scope=scope)

    # what keeps the memory of a guest

    async def test_a_new_conversation_starts_with_the_memory_of_the_guest_in_its_prompt(
        self, house: SessionManager
    ) -> None:
        session = house.session(ANA)
        await session.append(user("m1"))
        frozen = await session.freeze_system_prompt()
        await session.replace_context_block("guest", "Ana likes tea.")
        assert "Ana likes tea." in await (await house.new(ANA)).freeze_system_prompt()
        assert await session.freeze_system_prompt() == frozen
        changes = await session.context_changes()
        assert changes is not None
        assert "Ana likes tea." in changes["content"]

    async def test_another_worker_and_a_restart_keep_the_memory_of_the_guest(
        self, store: Store, namespace: str, house: SessionManager
    ) -> None:
        frozen = await house.session(ANA).freeze_system_prompt()
        await house.session(ANA).replace_context_block("guest", "Ana likes tea.")
        await house.close()
        async with furnished(store, namespace) as other:
            assert await other.session(ANA).freeze_system_prompt() == frozen
            assert "Ana likes tea." in await (await other.new(ANA)).freeze_system_prompt()
            assert (await other.session(BEN).context_block("guest")).content == ""

    async def test_another_thread_of_the_guest_sees_the_memory_and_a_frozen_prompt_stays(
        self, house: SessionManager
    ) -> None:
        work = house.session(ANA_WORK)
        frozen = await work.freeze_system_prompt()
        await house.session(ANA).replace_context_block("guest", "Ana likes tea.")
        assert await work.freeze_system_prompt() == frozen
        changes = await work.context_changes()
        assert changes is not None
        assert "Ana likes tea." in changes["content"]
        other = house.session(SessionKey("concierge", "web", "ana", "holidays"))
        assert "Ana likes tea." in await other.freeze_system_prompt()
        assert "Ana likes tea." not in await house.session(BEN).freeze_system_prompt()

    # turns

    @pytest.mark.parametrize("scope", SCOPES)
    async def test_a_lost_turn_writes_no_block_and_no_prompt(self, house: SessionManager, scope: str) -> None:
        session = house.session(ANA)
        await session.append(user("m1"))
        async with session.turn() as lost:
            await lost.replace_context_block(scope, "written in the turn")
            frozen = await lost.freeze_system_prompt()
            async with house.session(ANA).turn(on_busy="interrupt"):
                for write in (
                    lost.replace_context_block(scope, "late"),
                    lost.append_context_block(scope, "late"),
                    lost.restore_context_block(scope, 1),
                    lost.set_system_prompt("late"),
                    lost.refresh_system_prompt(),
                ):
                    with pytest.raises(TurnLostError):
                        await write
                answer = await (await lost.tools())["update_context"](label=scope, content="late")
                assert answer.startswith("Error: ")
                assert (await lost.context_block(scope)).content == "written in the turn"
        assert await session.freeze_system_prompt() == frozen
        assert [version.content for version in await session.block_history(scope)] == ["written in the turn"]

    async def test_blocks_and_the_local_prompt_of_a_handle_are_those_of_its_turns(
        self, store: Store, namespace: str
    ) -> None:
        session = SessionManager(store, namespace=namespace).with_context("memory").session("s")
        session.add_context("late", default_content="I came later.")
        async with session.turn() as turn:
            frozen = await turn.freeze_system_prompt()
            assert "I came later." in frozen
            await turn.replace_context_block("memory", "new")
            turn.add_context("later", default_content="Me too.")
        assert (await session.context_block("later")).content == "Me too."
        assert session.remove_context("later")
        assert await session.freeze_system_prompt() == frozen

    # searchable entries

    async def test_entries_belong_to_the_scope_of_their_block_and_can_be_removed(
        self, store: Store, namespace: str
    ) -> None:
        manager = SessionManager(store, namespace=namespace)
        manager.with_context("facts", provider=StoreSearch(scope="guest"))

        async def search(key: SessionKey) -> str:
            return await (await manager.session(key).tools())["search_context"](label="facts", query="safe")

        tools = await manager.session(ANA).tools()
        for code in ("4711", "4712"):
            await tools["update_context"](label="facts", title="safe", content=f"The safe has code {code}.")
        assert "4712" in await search(ANA_WORK)
        assert "4712" not in await search(BEN)
        assert not await manager.session(BEN).remove_context_entry("facts", "safe")
        assert await manager.session(ANA_WORK).remove_context_entry("facts", "safe")
        assert not await manager.session(ANA).remove_context_entry("facts", "safe")
        assert await search(ANA) == "No results found."
        async with manager.session(ANA).turn() as lost, manager.session(ANA).turn(on_busy="interrupt"):
            answer = await (await lost.tools())["update_context"](label="facts", title="late", content="late")
            assert answer.startswith("Error: ")
        assert (await manager.session(ANA).context_block("facts")).content == ""

    async def test_earlier_versions_of_a_block_can_be_removed(self, house: SessionManager) -> None:
        session = house.session(ANA)
        for text in ("secret", "secret and more", "more"):
            await session.replace_context_block("guest", text)
        await session.forget_block_history("guest")
        assert [(version.version, version.content) for version in await session.block_history("guest")] == [(3, "more")]
        assert (await session.replace_context_block("guest", "next")).version == 4

    # providers

    async def test_a_factory_is_given_the_id_and_the_key_of_the_session(self, store: Store, namespace: str) -> None:
        made: list[tuple[str, SessionKey | None]] = []

        def factory(session_id: str, key: SessionKey | None) -> CallableProvider:
            made.append((session_id, key))
            return CallableProvider(lambda: f"of {key}")

        manager = SessionManager(store, namespace=namespace).with_context("notes", provider=factory)
        await manager.create(key=ANA, id="ana-1")
        assert (await manager.session(ANA).context_block("notes")).content == f"of {ANA}"
        assert (await manager.session("ana-1").context_block("notes")).content == f"of {ANA}"
        assert (await manager.session("chat").context_block("notes")).content == "of None"
        assert made == [("ana-1", ANA), ("chat", None)]

    async def test_reads_with_providers_create_no_session(self, store: Store, namespace: str) -> None:
        made: list[str] = []

        def factory(session_id: str, key: SessionKey | None) -> CallableProvider:
            made.append(session_id)
            return CallableProvider(lambda: "provided")

        manager = (
            SessionManager(store, namespace=namespace)
            .with_context("notes", provider=factory)
            .with_context("facts", provider=StoreSearch)
        )
        session = manager.session(ANA)
        assert [block.content for block in await session.context_blocks()] == ["provided", ""]
        tools = await session.tools()
        assert await tools["search_context"](label="facts", query="tea") == "No results found."
        assert await session.context_changes() is None
        assert await manager.get(ANA) is None
        assert (await manager.list()).items == []
        await tools["update_context"](label="facts", title="tea", content="Likes tea.")
        await session.append(user("m1"))
        info = await manager.get(ANA)
        assert info is not None
        assert made == [info.id]
        assert "Likes tea." in await tools["search_context"](label="facts", query="tea")
