"""The sessions of a namespace: create, find, list, rename and delete them, and their usage."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from frontdesk import (
    ConfigurationError,
    InvalidCursorError,
    Page,
    Session,
    SessionExistsError,
    SessionInfo,
    SessionKey,
    SessionManager,
    SessionNotFoundError,
    Store,
    StoreClosedError,
    estimate_tokens,
)
from tests.public_api.steps import path, say, user, view

ADA = SessionKey("bot", "web", "ada")


async def everything(manager: SessionManager, **filters: Any) -> list[SessionInfo]:
    return [info async for info in manager.iterate(**filters)]


async def _rename(session: Session) -> None:
    await session.rename("again")


async def _set_prompt(session: Session) -> None:
    await session.set_system_prompt("again")


async def _take_turn(session: Session) -> None:
    async with session.turn():
        pass


class DirectoryTests:
    async def test_create_stores_the_attributes_of_a_session(self, manager: SessionManager) -> None:
        session = await manager.create(
            "Trip", model="large", source="web", max_tokens=100, tags=["b", "a", "b"], metadata={"n": {"x": [1, None]}}
        )
        info = await session.info()
        assert (info.id, info.namespace, info.name) == (session.id, manager.namespace, "Trip")
        assert (info.model, info.source, info.max_tokens) == ("large", "web", 100)
        assert (info.tags, info.metadata) == (("b", "a"), {"n": {"x": [1, None]}})
        assert (info.status, info.end_reason, info.parent_session_id, info.key) == ("active", None, None, None)
        assert (info.message_count, info.token_count, info.compaction_count) == (0, 0, 0)
        assert info.created_at == info.updated_at == info.last_active_at
        assert abs(datetime.now(UTC) - info.created_at) < timedelta(minutes=1)

    async def test_a_taken_id_or_key_is_refused(self, manager: SessionManager) -> None:
        await manager.create("first", id="s", key=ADA)
        with pytest.raises(SessionExistsError):
            await manager.create("second", id="s")
        with pytest.raises(SessionExistsError):
            await manager.create("third", key=ADA)
        assert [info.name for info in await manager.list()] == ["first"]

    async def test_only_one_of_many_creates_wins(self, manager: SessionManager) -> None:
        outcome = await asyncio.gather(*(manager.create(id="s") for _ in range(32)), return_exceptions=True)
        assert sum(isinstance(each, SessionExistsError) for each in outcome) == 31
        assert (await manager.stats()).sessions == 1

    @pytest.mark.parametrize("ref", ["s", ADA], ids=["id", "key"])
    async def test_get_or_create_is_atomic_under_concurrency(
        self, manager: SessionManager, ref: str | SessionKey
    ) -> None:
        made = await asyncio.gather(*(manager.get_or_create(ref, name=f"n{n}") for n in range(32)))
        assert len({session.id for session in made}) == 1
        assert (await manager.stats()).sessions == 1
        again = await manager.get_or_create(ref, name="later")
        assert (await again.info()).name != "later"

    async def test_get_finds_by_id_and_by_key(self, manager: SessionManager) -> None:
        session = await manager.create(id="s", key=ADA)
        by_id, by_key = await manager.get("s"), await manager.get(ADA)
        assert by_id == by_key == await session.info()
        assert by_id is not None
        assert by_id.key == ADA
        assert await manager.get("t") is None
        assert await manager.get(SessionKey("bot", "web", "ada", "thread")) is None
        assert await manager.get("bot:web:ada") is None

    async def test_a_handle_knows_its_key_without_a_call_or_after_it_has_read_it(self, manager: SessionManager) -> None:
        by_key = manager.session(ADA)
        assert by_key.key == ADA
        assert await manager.list() == Page([], None)
        made = [await manager.get_or_create(ADA), await manager.new(ADA)]
        assert [session.key for session in made] == [ADA, ADA]
        assert (await manager.fork(made[0].id)).key is None
        by_id = manager.session(made[1].id)
        known = [by_id.key]
        await by_id.info()
        assert [*known, by_id.key] == [None, ADA]
        async with manager.session(ADA).turn() as turn:
            assert turn.key == ADA
            assert (await turn.new()).key == ADA
        without = await manager.create()
        await without.info()
        assert without.key is None
        folded = SessionManager("memory://").with_isolation("agent", "peer").session(ADA)
        await say(folded, "m1")
        assert folded.key == (await folded.info()).key != ADA

    async def test_a_handle_made_from_a_key_is_resolved_by_its_first_call_and_stays_so(
        self, manager: SessionManager
    ) -> None:
        handle = manager.session(ADA)
        with pytest.raises(ConfigurationError):
            _ = handle.id
        assert await handle.history() == []
        with pytest.raises(SessionNotFoundError):
            await handle.info()
        await say(handle, "m1")
        pinned = handle.id
        assert (await handle.info()).key == ADA
        assert (await manager.session(ADA).info()).id == pinned
        await manager.delete(ADA)
        replacement = await manager.create(key=ADA)
        assert handle.id == pinned
        assert await handle.history() == []
        assert (await manager.session(ADA).info()).id == replacement.id

    async def test_a_session_that_is_made_again_for_a_key_is_found_by_the_key(self, manager: SessionManager) -> None:
        for write in (_rename, _set_prompt, _take_turn):
            session = manager.session(ADA)
            await say(session, "before")
            assert await manager.delete(ADA)
            await write(session)
            await say(session, "after")
            assert [(info.key, info.message_count) for info in await everything(manager)] == [(ADA, 1)]
            assert await path(manager.session(ADA)) == ["after"]
            assert (await manager.erase(key=ADA)).sessions == 1

    async def test_many_concurrent_first_writes_under_a_key_go_to_one_session(self, manager: SessionManager) -> None:
        await asyncio.gather(*(manager.append(ADA, user(f"m{n}")) for n in range(16)))
        [info] = await manager.list()
        assert (info.key, info.message_count) == (ADA, 16)

    async def test_rename_delete_and_fork_need_an_existing_session(self, manager: SessionManager) -> None:
        with pytest.raises(SessionNotFoundError):
            await manager.rename("s", "name")
        with pytest.raises(SessionNotFoundError):
            await manager.fork("s")
        with pytest.raises(SessionNotFoundError):
            await manager.add_usage("s", input_tokens=1)
        assert not await manager.delete("s")
        assert (await manager.stats()).sessions == 0

    async def test_delete_removes_a_whole_session_and_nothing_else(self, manager: SessionManager) -> None:
        for name in ("s", "t"):
            session = await manager.create(id=name, tags=["x"])
            await say(session, "m1", "m2", "m3")
            await session.add_compaction("sum", "m1", "m2")
        assert await manager.delete("s")
        assert not await manager.delete("s")
        assert await manager.get("s") is None
        assert await manager.history("s") == []
        assert {hit.session_id for hit in await manager.search("m1")} == {"t"}
        assert [info.id for info in await manager.list(tag="x")] == ["t"]
        assert await view(manager.session("t")) == ["sum", "m3"]
        fresh = manager.session("s")
        await say(fresh, "m1")
        assert await path(fresh) == ["m1"]
        assert (await fresh.info()).tags == ()

    async def test_the_methods_of_the_manager_do_the_same_as_those_of_the_session(
        self, manager: SessionManager
    ) -> None:
        await manager.append("s", user("m1"))
        await manager.append_all("s", [user("m2"), user("m3")])
        await manager.upsert("s", user("m2", "two"))
        await manager.add_compaction("s", "sum", "m1", "m1")
        assert [message.text for message in await manager.history("s")] == ["sum", "two", "m3"]
        assert await manager.delete_messages("s", ["m3"]) == 1
        await manager.append("s", user("b1"), parent=None)
        assert [message["content"] for message in await manager.history("s", format="openai")] == ["b1"]
        await manager.clear_messages("s")
        assert await manager.history("s") == []

    # attributes

    async def test_names_tags_metadata_and_summary_can_be_changed(self, session: Session) -> None:
        await session.rename("Trip")
        assert await session.add_tags("b", "a", "b") == ("b", "a")
        assert await session.add_tags("c") == ("b", "a", "c")
        assert await session.remove_tags("a", "z") == ("b", "c")
        assert await session.set_metadata(x=1, y={"z": [2**70]}) == {"x": 1, "y": {"z": [2**70]}}
        assert await session.set_metadata(x=None, w="") == {"y": {"z": [2**70]}, "w": ""}
        assert (await session.set_metadata(self=1, values=2))["self"] == 1
        await session.set_metadata(self=None, values=None)
        await session.set_summary("short")
        info = await session.info()
        assert (info.name, info.tags, info.summary) == ("Trip", ("b", "c"), "short")
        assert info.metadata == {"y": {"z": [2**70]}, "w": ""}
        await session.set_summary(None)
        assert (await session.info()).summary is None

    async def test_concurrent_changes_of_attributes_lose_nothing(self, session: Session) -> None:
        work = [session.add_tags(f"t{n}") for n in range(16)]
        values = [session.set_metadata(**{f"k{n}": n}) for n in range(16)]
        await asyncio.gather(*work, *values, *(session.append(user(f"m{n}")) for n in range(16)))
        info = await session.info()
        assert set(info.tags) == {f"t{n}" for n in range(16)}
        assert info.metadata == {f"k{n}": n for n in range(16)}
        assert info.message_count == 16

    async def test_messages_count_as_activity_and_attributes_do_not(self, session: Session) -> None:
        await say(session, "m1")
        first = await session.info()
        await session.rename("Trip")
        second = await session.info()
        assert second.last_active_at == first.last_active_at
        assert second.updated_at > first.updated_at
        await say(session, "m2")
        assert (await session.info()).last_active_at > first.last_active_at

    # lists

    async def test_a_list_shows_the_newest_activity_first(self, manager: SessionManager) -> None:
        for name in ("a", "b", "c"):
            await manager.create(id=name)
        await manager.append("a", user("m1"))
        assert [info.id for info in await manager.list()] == ["a", "c", "b"]
        listed = next(info for info in await manager.list() if info.id == "a")
        assert listed == await manager.get("a")

    async def test_a_list_contains_current_figures_of_changed_views(self, manager: SessionManager) -> None:
        session = manager.session("s")
        await say(session, "m1", "m2", "m3")
        await session.add_compaction("sum", "m1", "m2")
        [info] = await manager.list()
        assert info.token_count == sum(message.tokens for message in await session.history())

    async def test_filters_narrow_a_list_alone_and_combined(self, manager: SessionManager) -> None:
        await manager.create(id="1", key=SessionKey("bot", "web", "ada"), tags=["x"])
        await manager.create(id="2", key=SessionKey("bot", "mail", "ada", "t1"), tags=["x", "y"])
        await manager.create(id="3", key=SessionKey("cat", "web", "bob"))
        await manager.create(id="4")
        for filters, wanted in (
            ({}, "4321"),
            ({"agent": "bot"}, "21"),
            ({"channel": "web"}, "31"),
            ({"peer": "ada", "channel": "mail"}, "2"),
            ({"thread": "t1"}, "2"),
            ({"tag": "x"}, "21"),
            ({"tag": "y", "agent": "bot"}, "2"),
            ({"tag": "x", "agent": "cat"}, ""),
            ({"status": "active"}, "4321"),
            ({"status": "archived"}, ""),
        ):
            page = await manager.list(**filters)  # type: ignore[arg-type]
            assert "".join(info.id for info in page) == wanted, filters

    async def test_a_list_can_be_filtered_by_creation_time(self, manager: SessionManager) -> None:
        for name in ("a", "b", "c"):
            await manager.create(id=name)
        middle = await manager.get("b")
        assert middle is not None
        assert [info.id for info in await manager.list(created_after=middle.created_at)] == ["c"]
        assert [info.id for info in await manager.list(created_before=middle.created_at)] == ["a"]
        naive = middle.created_at.replace(tzinfo=None)
        assert [info.id for info in await manager.list(created_after=naive)] == ["c"]

    async def test_pages_have_no_gaps_and_no_repeats(self, manager: SessionManager) -> None:
        for n in range(23):
            await manager.create(id=f"s{n}")
        seen: list[str] = []
        cursor = None
        while True:
            page = await manager.list(limit=5, cursor=cursor)
            assert len(page) <= 5
            seen += [info.id for info in page]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert seen == [f"s{n}" for n in range(22, -1, -1)]
        assert [info.id for info in await everything(manager, limit=7)] == seen

    async def test_a_page_with_all_remaining_sessions_is_the_last(self, manager: SessionManager) -> None:
        for n in range(4):
            await manager.create(id=f"s{n}")
        page = await manager.list(limit=4)
        assert (len(page), page.next_cursor) == (4, None)

    async def test_iterating_while_sessions_change_returns_each_unchanged_one_once(
        self, manager: SessionManager
    ) -> None:
        for n in range(20):
            await manager.create(id=f"s{n}")
        seen: list[str] = []
        async for info in manager.iterate(limit=3):
            seen.append(info.id)
            if len(seen) % 3 == 1:
                await manager.create()
                await manager.append(info.id, user("m1"))
                await manager.delete("s0")
        assert len(seen) == len(set(seen))
        assert set(seen) == {f"s{n}" for n in range(1, 20)}

    async def test_a_cursor_is_valid_only_for_the_call_that_returned_it(
        self, store: Store, manager: SessionManager
    ) -> None:
        for n in range(3):
            await manager.create(id=f"s{n}", tags=["x"])
        cursor = (await manager.list(limit=1)).next_cursor
        assert cursor is not None
        with pytest.raises(InvalidCursorError):
            await manager.list(limit=1, tag="x", cursor=cursor)
        with pytest.raises(InvalidCursorError):
            await SessionManager(store, namespace=f"{manager.namespace}-other").list(cursor=cursor)

    # namespaces

    async def test_nothing_crosses_a_namespace(self, store: Store, manager: SessionManager) -> None:
        other = SessionManager(store, namespace=f"{manager.namespace}-other")
        for each, text in ((manager, "here"), (other, "there")):
            session = await each.create(id="s", key=ADA, tags=["x"])
            await session.append(user("m1", f"word {text}"))
            await each.add_usage("s", input_tokens=5, cost=1, usage_id="u")
        await say(other.session("only-there"), "m2")
        for each, text in ((manager, "here"), (other, "there")):
            assert [message.text for message in await each.history("s")] == [f"word {text}"]
            assert [hit.snippet for hit in await each.search("word")] == [f"**word** {text}"]
            assert (await each.usage()).total.input_tokens == 5
        assert await manager.get("only-there") is None
        assert [info.id for info in await manager.list()] == ["s"]
        assert (await manager.stats()).sessions == 1
        assert (await other.stats()).sessions == 2
        with pytest.raises(SessionNotFoundError):
            await manager.fork("only-there")
        assert await manager.delete("s")
        assert [message.text for message in await other.history("s")] == ["word there"]
        current = await other.get(ADA)
        assert current is not None
        assert current.id == "s"

    # usage and totals

    async def test_usage_has_exact_totals(self, manager: SessionManager) -> None:
        await manager.create(id="s")
        for _ in range(10):
            assert await manager.add_usage("s", input_tokens=3, output_tokens=2, cost="0.1", model="large")
        await manager.add_usage("s", cache_read_tokens=5, cache_write_tokens=6, reasoning_tokens=7, cost=0.2)
        usages = await manager.usage(session="s", by=("model",))
        usage = usages.total
        assert (usage.input_tokens, usage.output_tokens) == (30, 20)
        assert (usage.cache_read_tokens, usage.cache_write_tokens, usage.reasoning_tokens) == (5, 6, 7)
        assert usage.cost == Decimal("1.2")
        assert {row.model: row.cost for row in usages.rows} == {"large": Decimal("1.0"), None: Decimal("0.2")}
        info = await manager.get("s")
        assert info is not None
        assert (info.input_tokens, info.output_tokens, info.cost) == (30, 20, Decimal("1.2"))

    async def test_the_same_usage_id_counts_once_even_under_concurrency(self, manager: SessionManager) -> None:
        await manager.create(id="s")
        await manager.create(id="t")
        entered = await asyncio.gather(*(manager.add_usage("s", input_tokens=1, usage_id="u") for _ in range(16)))
        assert sum(entered) == 1
        assert await manager.add_usage("t", input_tokens=1, usage_id="u")
        assert (await manager.usage(session="s")).total.input_tokens == 1
        assert (await manager.usage()).total.input_tokens == 2

    async def test_concurrent_usage_entries_lose_nothing(self, manager: SessionManager) -> None:
        session = await manager.create(id="s")
        await asyncio.gather(
            *(manager.add_usage("s", output_tokens=1, cost="0.01") for _ in range(32)),
            *(session.append(user(f"m{n}")) for n in range(32)),
        )
        info = await session.info()
        assert (info.output_tokens, info.cost, info.message_count) == (32, Decimal("0.32"), 32)

    async def test_stats_contain_the_totals_of_the_namespace(self, manager: SessionManager) -> None:
        empty = await manager.stats()
        assert (empty.sessions, empty.messages, empty.input_tokens, empty.cost) == (0, 0, 0, Decimal(0))
        await say(manager.session("s"), "m1", "m2")
        await say(manager.session("t"), "m1")
        await manager.add_usage("s", input_tokens=4, output_tokens=5, cost="1.5")
        stats = await manager.stats()
        assert (stats.sessions, stats.by_status, stats.messages) == (2, {"active": 2}, 3)
        assert (stats.input_tokens, stats.output_tokens, stats.cost) == (4, 5, Decimal("1.5"))
        await manager.append("t", user("m2"), parent=None)  # a new branch: its view has to be computed
        stats = await manager.stats()
        assert stats.context_tokens == sum(info.token_count for info in await manager.list()) > 0
        await manager.delete("s")
        assert (await manager.stats()).messages == 2

    async def test_figures_of_many_changed_views_are_current(self, manager: SessionManager) -> None:
        for n in range(70):
            session = manager.session(f"s{n}")
            await say(session, "m1", "m2", "m3")
            await session.delete_messages(["m1", "m2"][: n % 3])
        listed = (await manager.list(limit=100)).items
        counted = [sum(each.tokens for each in await manager.session(info.id).history()) for info in listed[:5]]
        assert [info.token_count for info in listed[:5]] == counted
        assert len({info.token_count for info in listed}) == 3
        assert (await manager.stats()).context_tokens == sum(info.token_count for info in listed)
        assert [info.token_count for info in (await manager.list(limit=100)).items] == [i.token_count for i in listed]

    async def test_search_finds_words_in_every_session_with_their_location(self, manager: SessionManager) -> None:
        await manager.append("s", user("m1", "the amber lamp"))
        await manager.append("t", {"id": "m1", "role": "assistant", "content": "a Birch table, an amber chair"})
        hits = await manager.search("amber birch")
        assert [(hit.session_id, hit.message_id, hit.role) for hit in hits] == [
            ("t", "m1", "assistant"),
            ("s", "m1", "user"),
        ]
        assert hits.total == 2
        assert "amber" in hits[1].snippet
        assert len(await manager.search("amber", limit=1)) == 1
        assert [hit.session_id for hit in await manager.session("s").search("amber")] == ["s"]
        assert len(await manager.search("nothing")) == 0

    # settings and closing

    async def test_one_conversation_needs_no_manager(self, store: Store, manager: SessionManager) -> None:
        created = Session.create(store, namespace=manager.namespace).for_session("solo").with_token_counter(len)
        async with created as session:
            assert session.id == "solo"
            await say(session, "x" * 500)
            assert (await session.info()).token_count >= 500
        assert [message.text for message in await manager.history("solo")] == ["x" * 500]
        keyed = Session.create(store, namespace=manager.namespace).for_session(ADA)
        await say(keyed, "m1")
        assert (await keyed.info()).key == ADA
        assert Session.create(store, namespace=manager.namespace).id == "default"

    async def test_settings_are_final_after_first_use(self, store: Store, namespace: str) -> None:
        manager = SessionManager(store, namespace=namespace).with_token_counter(estimate_tokens)
        await manager.history("s")
        with pytest.raises(ConfigurationError):
            manager.with_token_counter(len)
        session = Session.create(store, namespace=namespace)
        await session.history()
        with pytest.raises(ConfigurationError):
            session.for_session("other")

    async def test_a_handle_of_a_manager_has_no_configuration_methods(self, manager: SessionManager) -> None:
        assert not [name for name in dir(manager.session("s")) if name.startswith("with_")]

    async def test_a_closed_manager_refuses_calls_and_leaves_a_given_store_open(
        self, store: Store, namespace: str
    ) -> None:
        manager = SessionManager(store, namespace=namespace)
        await say(manager.session("s"), "m1")
        session = manager.session("s")
        await manager.close()
        await manager.close()
        for work in (session.history(), session.append(user("m2")), manager.list()):
            with pytest.raises(StoreClosedError):
                await work
        again = SessionManager(store, namespace=namespace)
        assert await view(again.session("s")) == ["m1"]
