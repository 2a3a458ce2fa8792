"""Context blocks and the frozen prompt."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from frontdesk import (
    BlockNotFoundError,
    BlockTooLargeError,
    BlockVersionError,
    ConfigurationError,
    ReadonlyBlockError,
    Session,
    SessionKey,
    SessionManager,
    SessionNotFoundError,
    Store,
)
from frontdesk.context import BlockKind, CallableProvider
from tests.public_api.steps import say

RULE = "═" * 46


def declared(store: Store, namespace: str, *, soul: str = "You are helpful.") -> SessionManager:
    """A manager with a readonly, a writable and a shared block."""
    return (
        SessionManager(store, namespace=namespace)
        .with_context("soul", default_content=soul, readonly=True)
        .with_context("memory", description="Learned facts", max_tokens=100)
        .with_context("house", scope="namespace")
        .with_cached_prompt()
    )


RENDERERS: dict[str, Any] = {
    "plain": lambda blocks: " ".join(block.content for block in blocks),
    "loud": lambda blocks: " ".join(block.content.upper() for block in blocks),
}
"""two versions of a renderer, with the same name"""


class ContextFixtures:
    @pytest.fixture
    def desk(self, store: Store, namespace: str) -> SessionManager:
        return declared(store, namespace)

    @pytest.fixture
    def guest(self, desk: SessionManager) -> Session:
        return desk.session("guest")


class ContextTests:
    # blocks

    async def test_a_block_starts_with_its_default_and_keeps_every_version(self, guest: Session) -> None:
        assert (await guest.context_block("memory")).content == ""
        await guest.replace_context_block("memory", "one", author="ana")
        block = await guest.append_context_block("memory", "two")
        assert (block.content, block.version, block.kind) == ("one\ntwo", 2, BlockKind.WRITABLE)
        history = await guest.block_history("memory")
        assert [(entry.version, entry.content, entry.author) for entry in history] == [
            (2, "one\ntwo", None),
            (1, "one", "ana"),
        ]
        restored = await guest.restore_context_block("memory", 1)
        assert (restored.content, restored.version) == ("one", 3)
        with pytest.raises(BlockNotFoundError):
            await guest.restore_context_block("memory", 9)

    async def test_a_writer_with_an_outdated_version_gets_an_error(self, guest: Session) -> None:
        await guest.replace_context_block("memory", "one", if_version=0)
        with pytest.raises(BlockVersionError) as refused:
            await guest.replace_context_block("memory", "other", if_version=0)
        assert refused.value.version == 1
        assert (await guest.context_block("memory")).content == "one"

    async def test_concurrent_appends_to_a_block_lose_nothing(self, desk: SessionManager) -> None:
        handles = [desk.session("guest") for _ in range(16)]
        await asyncio.gather(*(h.append_context_block("house", f"entry-{n}") for n, h in enumerate(handles)))
        entries = (await desk.session("guest").context_block("house")).content.splitlines()
        assert sorted(entries) == sorted(f"entry-{n}" for n in range(16))

    async def test_refused_writes_leave_the_block_unchanged(self, guest: Session) -> None:
        with pytest.raises(ReadonlyBlockError):
            await guest.replace_context_block("soul", "evil")
        with pytest.raises(BlockNotFoundError):
            await guest.replace_context_block("nothing", "x")
        with pytest.raises(BlockTooLargeError) as refused:
            await guest.replace_context_block("memory", "word " * 500)
        assert refused.value.max_tokens == 100
        assert (await guest.context_block("soul")).content == "You are helpful."
        assert await guest.block_history("memory") == []

    async def test_a_shared_block_belongs_to_the_namespace_and_a_local_one_to_its_session(
        self, desk: SessionManager
    ) -> None:
        await desk.session("a").replace_context_block("house", "breakfast at 8")
        await desk.session("a").replace_context_block("memory", "secret of a")
        assert (await desk.session("b").context_block("house")).content == "breakfast at 8"
        assert (await desk.session("b").context_block("memory")).content == ""

    async def test_namespaces_share_no_blocks(self, store: Store, namespace: str) -> None:
        one, other = declared(store, namespace), declared(store, namespace + "-other")
        await one.session("x").replace_context_block("house", "ours")
        assert (await other.session("x").context_block("house")).content == ""

    async def test_hostile_ids_and_labels_never_collide(self, store: Store, namespace: str) -> None:
        labels = ["a_b", "a", "b", "a%", "';--", "memory_a", "memory", "名前", "a:b"]
        manager = SessionManager(store, namespace=namespace)
        for label in labels:
            manager.with_context(label)
        sessions = ["c", "b_c", "_c", "a", "%", "';--", "a:b", "b"]
        for session_id in sessions:
            for label in labels:
                await manager.session(session_id).replace_context_block(label, f"<{label}|{session_id}>")
        for session_id in sessions:
            blocks = await manager.session(session_id).context_blocks()
            assert {block.label: block.content for block in blocks} == {
                label: f"<{label}|{session_id}>" for label in labels
            }

    async def test_deleting_a_session_deletes_its_blocks_and_its_prompt(self, desk: SessionManager) -> None:
        session = desk.session("guest")
        await session.replace_context_block("memory", "private")
        prompt = await session.refresh_system_prompt()
        assert "private" in prompt
        await desk.delete("guest")
        again = desk.session("guest")
        assert (await again.context_block("memory")).content == ""
        assert await again.block_history("memory") == []
        assert "private" not in await again.freeze_system_prompt()

    async def test_a_fork_copies_the_blocks_and_changes_its_own(self, desk: SessionManager) -> None:
        session = desk.session("guest")
        await say(session, "m1")
        await session.replace_context_block("memory", "before")
        prompt = await session.refresh_system_prompt()
        fork = await desk.fork("guest", new_id="fork")
        await session.replace_context_block("memory", "after")
        assert (await fork.context_block("memory")).content == "before"
        assert await fork.freeze_system_prompt() == prompt
        await fork.replace_context_block("memory", "fork's own")
        assert (await session.context_block("memory")).content == "after"
        await fork.replace_context_block("house", "shared")
        assert (await session.context_block("house")).content == "shared"

    # the prompt

    async def test_the_prompt_is_plain_text_in_order_of_declaration(self, guest: Session) -> None:
        await guest.replace_context_block("memory", "Likes tea.")
        tokens = (await guest.context_block("memory")).tokens
        assert await guest.freeze_system_prompt() == "\n".join(
            [
                RULE,
                "SOUL [readonly]",
                RULE,
                "You are helpful.",
                "",
                RULE,
                f"MEMORY (Learned facts) [{tokens}% — {tokens}/100 tokens] [writable]",
                RULE,
                "Likes tea.",
                "",
                RULE,
                "HOUSE [writable]",
                RULE,
            ]
        )

    async def test_the_frozen_prompt_does_not_change_until_it_is_refreshed(self, guest: Session) -> None:
        frozen = await guest.freeze_system_prompt()
        await guest.replace_context_block("memory", "Likes tea.")
        assert await guest.freeze_system_prompt() == frozen
        refreshed = await guest.refresh_system_prompt()
        assert "Likes tea." in refreshed
        assert await guest.freeze_system_prompt() == refreshed

    async def test_freezing_creates_the_session_and_holds_for_other_handles(
        self, desk: SessionManager, guest: Session
    ) -> None:
        frozen = await guest.freeze_system_prompt()
        assert await desk.get("guest") is not None
        await guest.replace_context_block("memory", "later")
        assert await desk.session("guest").freeze_system_prompt() == frozen

    async def test_without_a_cached_prompt_the_prompt_is_frozen_only_in_the_handle(
        self, store: Store, namespace: str
    ) -> None:
        manager = SessionManager(store, namespace=namespace).with_context("memory")
        first = manager.session("s")
        frozen = await first.freeze_system_prompt()
        await first.replace_context_block("memory", "news")
        assert await first.freeze_system_prompt() == frozen
        assert "news" in await manager.session("s").freeze_system_prompt()

    async def test_an_empty_prompt_can_be_frozen(self, store: Store, namespace: str) -> None:
        calls: list[int] = []

        def render(blocks: Any) -> str:
            calls.append(len(blocks))
            return ""

        manager = SessionManager(store, namespace=namespace).with_cached_prompt().with_prompt_renderer(render)
        assert await manager.session("s").freeze_system_prompt() == ""
        assert await manager.session("s").freeze_system_prompt() == ""
        assert calls == [0]

    async def test_clearing_and_compaction_render_the_prompt_again(self, guest: Session) -> None:
        await say(guest, "m1", "m2")
        await guest.freeze_system_prompt()
        await guest.replace_context_block("memory", "first news")
        await guest.add_compaction("sum", "m1", "m1")
        assert "first news" in await guest.freeze_system_prompt()
        await guest.replace_context_block("memory", "second news")
        await guest.clear_messages()
        assert "second news" in await guest.freeze_system_prompt()

    async def test_a_deploy_that_changes_the_persona_takes_effect(self, store: Store, namespace: str) -> None:
        before = declared(store, namespace).session("guest")
        await before.replace_context_block("memory", "kept")
        await before.freeze_system_prompt()
        after = declared(store, namespace, soul="You are a pirate.").session("guest")
        prompt = await after.freeze_system_prompt()
        assert "You are a pirate." in prompt
        assert "You are helpful." not in prompt
        assert "kept" in prompt

    async def test_a_deploy_that_changes_a_provider_or_the_renderer_takes_effect(
        self, store: Store, namespace: str
    ) -> None:
        def deployed(rules: str, style: str) -> SessionManager:
            manager = SessionManager(store, namespace=namespace).with_cached_prompt()
            manager.with_context("rules", provider=CallableProvider(lambda: rules))
            return manager.with_prompt_renderer(RENDERERS[style])

        assert await deployed("be kind", "plain").session("s").freeze_system_prompt() == "be kind"
        assert await deployed("be brief", "plain").session("s").freeze_system_prompt() == "be brief"
        assert await deployed("be brief", "loud").session("s").freeze_system_prompt() == "BE BRIEF"
        assert await deployed("be brief", "plain").session("s").freeze_system_prompt() == "be brief"

    async def test_workers_of_two_deploys_do_not_replace_each_others_prompt(self, store: Store, namespace: str) -> None:
        def deployed(persona: str) -> SessionManager:
            return declared(store, namespace, soul=persona)

        old, new = deployed("You are a butler."), deployed("You are a pirate.")
        assert "butler" in await old.session("s").freeze_system_prompt()
        frozen = await new.session("s").freeze_system_prompt()
        assert "pirate" in frozen
        for worker in (old, new, old):
            await worker.session("s").append_context_block("memory", "more")
            assert await worker.session("s").freeze_system_prompt() == frozen
        late = old.session("s")
        late.add_context("late", default_content="I came later.", readonly=True)
        assert "I came later." in await late.freeze_system_prompt()
        assert "butler" in await deployed("You are a butler.").session("s").freeze_system_prompt()

    async def test_a_provider_that_changes_while_a_worker_runs_leaves_the_prompt_frozen(
        self, store: Store, namespace: str
    ) -> None:
        hours = iter(range(100))
        manager = SessionManager(store, namespace=namespace).with_cached_prompt()
        manager.with_context("clock", provider=CallableProvider(lambda: f"{next(hours)} o'clock"))
        frozen = await manager.session("s").freeze_system_prompt()
        assert await manager.session("s").freeze_system_prompt() == frozen

    async def test_the_first_value_of_a_writable_block_does_not_render_the_prompt_again(
        self, store: Store, namespace: str
    ) -> None:
        def manager(first: str) -> SessionManager:
            return (
                SessionManager(store, namespace=namespace).with_context("m", default_content=first).with_cached_prompt()
            )

        frozen = await manager("one").session("s").freeze_system_prompt()
        assert await manager("two").session("s").freeze_system_prompt() == frozen

    async def test_concurrent_freezes_agree_on_one_text(self, desk: SessionManager) -> None:
        async def change_and_freeze(number: int) -> str:
            session = desk.session("busy")
            await session.append_context_block("house", f"line {number}")
            return await session.freeze_system_prompt()

        texts = await asyncio.gather(*(change_and_freeze(number) for number in range(12)))
        assert len(set(texts)) == 1
        assert await desk.session("busy").freeze_system_prompt() == texts[0]

    async def test_the_system_prompt_of_a_session_comes_first(self, guest: Session) -> None:
        await guest.freeze_system_prompt()
        await guest.set_system_prompt("Answer in rhymes.")
        prompt = await guest.freeze_system_prompt()
        assert prompt.index("Answer in rhymes.") < prompt.index("You are helpful.")
        assert (await guest.context_block("system")).content == "Answer in rhymes."
        assert [version.content for version in await guest.block_history("system")] == ["Answer in rhymes."]
        with pytest.raises(ReadonlyBlockError):
            await guest.replace_context_block("system", "x")

    async def test_a_prompt_rendered_before_a_change_is_never_frozen_after_it(
        self, store: Store, namespace: str
    ) -> None:
        rendering, changed = asyncio.Event(), asyncio.Event()
        asked: list[str] = []

        async def slow() -> str:
            asked.append("for the fingerprint, then for the prompt")
            if len(asked) == 2:
                rendering.set()
                await changed.wait()
            return "slow"

        manager = (
            SessionManager(store, namespace=namespace)
            .with_context("slow", provider=CallableProvider(slow))
            .with_cached_prompt()
        )
        session = await manager.create(id="s")
        await session.set_system_prompt("OLD")
        freezing = asyncio.create_task(session.freeze_system_prompt())
        await rendering.wait()
        await manager.session("s").set_system_prompt("NEW")
        changed.set()
        assert "NEW" in await freezing
        assert "NEW" in await manager.session("s").freeze_system_prompt()

    async def test_a_freeze_in_progress_does_not_restore_a_deleted_session(self, store: Store, namespace: str) -> None:
        rendering, deleted = asyncio.Event(), asyncio.Event()
        asked: list[str] = []

        async def slow() -> str:
            asked.append("for the fingerprint, then for the prompt")
            if len(asked) == 2:
                rendering.set()
                await deleted.wait()
            return "slow"

        manager = (
            SessionManager(store, namespace=namespace)
            .with_context("slow", provider=CallableProvider(slow))
            .with_cached_prompt()
        )
        freezing = asyncio.create_task(manager.session("s").freeze_system_prompt())
        await rendering.wait()
        assert await manager.delete("s")
        deleted.set()
        with pytest.raises(SessionNotFoundError):
            await freezing
        assert await manager.get("s") is None

    async def test_changes_since_the_freeze_can_be_appended_once(self, guest: Session) -> None:
        assert await guest.context_changes() is None
        frozen = await guest.freeze_system_prompt()
        assert await guest.context_changes() is None
        await guest.replace_context_block("memory", "Likes tea.")
        message = await guest.context_changes()
        assert message is not None
        assert "Likes tea." in message["content"]
        assert "You are helpful." not in message["content"]
        assert (await guest.append(message)).inserted
        assert not (await guest.append(await guest.context_changes() or {})).inserted
        assert await guest.freeze_system_prompt() == frozen
        for value in ("Likes coffee.", "Likes tea.", ""):
            await guest.replace_context_block("memory", value)
            changes = await guest.context_changes()
            assert changes is not None
            assert (await guest.append(changes)).inserted
            assert value in changes["content"]
        await guest.refresh_system_prompt()
        assert await guest.context_changes() is None

    async def test_a_custom_prompt_store_is_scoped_by_session(self, store: Store, namespace: str) -> None:
        class Kept:
            def __init__(self) -> None:
                self.texts: dict[tuple[str, str], str | None] = {}

            async def get(self, namespace: str, session_id: str) -> str | None:
                return self.texts.get((namespace, session_id))

            async def set(self, namespace: str, session_id: str, text: str | None) -> None:
                self.texts[namespace, session_id] = text

        kept = Kept()

        def desk(name: str) -> SessionManager:
            return SessionManager(store, namespace=name).with_context("memory").with_cached_prompt(kept)

        manager = desk(namespace)
        await manager.session("a").replace_context_block("memory", "secret of a")
        frozen = await manager.session("a").freeze_system_prompt()
        assert "secret of a" in frozen
        assert "secret of a" not in await manager.session("b").freeze_system_prompt()
        assert "secret of a" not in await desk(namespace + "-other").session("a").freeze_system_prompt()
        await manager.session("a").append_context_block("memory", "later")
        fork = await manager.fork("a", new_id="fork")
        assert await fork.freeze_system_prompt() == frozen
        await manager.delete("a")
        assert "secret of a" not in await manager.session("a").freeze_system_prompt()

    # declarations

    async def test_settings_are_final_after_first_use_but_a_handle_may_add_blocks(
        self, desk: SessionManager, guest: Session
    ) -> None:
        await guest.freeze_system_prompt()
        with pytest.raises(ConfigurationError):
            desk.with_context("late")
        with pytest.raises(ConfigurationError):
            guest.add_context("memory")
        guest.add_context("late", default_content="I came later.", readonly=True)
        assert "I came later." in await guest.freeze_system_prompt()
        assert guest.remove_context("late")
        assert not guest.remove_context("late")
        assert "I came later." not in await guest.freeze_system_prompt()

    async def test_reading_blocks_does_not_create_a_session(self, desk: SessionManager) -> None:
        await desk.session("ghost").context_blocks()
        with pytest.raises(SessionNotFoundError):
            await desk.session("ghost").info()
        by_key = desk.session(SessionKey("agent", "web", "nobody"))
        await by_key.context_blocks()
        await by_key.block_history("memory")
        assert await by_key.context_changes() is None
        assert (await desk.list()).items == []
