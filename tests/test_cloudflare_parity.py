"""Behaviours and known bugs of Cloudflare's Session and SessionManager, each with its counterpart here.

Those that `tests.public_api` tests on every store are only listed (without the `test_` of their names):

| there | here |
|---|---|
| starts with empty history | a_session_without_writes_is_empty_and_unknown |
| append and retrieve messages; tree structure - parentId links messages | each_append_follows_the_head |
| getMessage by ID | get_message_finds_a_message_on_any_branch_or_raises |
| branching - multiple children of same parent | branches_are_the_children_of_a_message |
| updateMessage; does not re-parent on upsert | update_replaces_the_content_and_keeps_position_and_time |
| clearMessages; returns null after clear | clear_removes_messages_and_overlays_and_keeps_the_rest |
| idempotent append - same ID is no-op | appending_an_existing_id_changes_nothing_and_reports_the_duplicate |
| explicit null parentId creates a root message | parent_none_starts_a_new_root |
| omitted parentId auto-attaches to the latest leaf | each_append_follows_the_head |
| throws on an unknown explicit parentId | an_unknown_parent_is_refused_and_nothing_is_written |
| chains an array linearly; is a no-op for empty input | append_all_chains_..., append_all_writes_all_or_nothing |
| appendAll started a new root, hiding all history | append_all_chains_and_continues_after_the_head |
| interior delete orphaned its children | deleting_from_the_middle_leaves_the_rest_connected |
| recomputes the tip after the leaf is deleted | deleting_the_head_moves_it_to_the_message_before |
| unknown leaf gave an empty history | every_call_with_an_unknown_message_raises |
| falls back to root when parent belongs to another session | a_message_of_another_session_is_unknown |
| getLatestLeaf; getPathLength counts messages | the_head_follows_the_last_append, path_length_counts_... |
| exactly one chunk (50), one over (51), several chunks | a_path_that_is_read_... |
| compaction overlay applies across chunk boundaries | an_overlay_applies_across_batches |
| most recent suffix when over budget | max_tokens_keeps_whole_turns_at_the_end |
| always includes the leaf even over budget | a_last_turn_that_does_not_fit_raises_with_the_smallest_sufficient_limit |
| a call with two separate results was split | no_budget_ever_splits_a_tool_call_from_its_results |
| addCompaction replaces range in getHistory | an_overlay_replaces_its_range_in_the_view_and_the_range_stays |
| new overlay supersedes old one; insertion order on ties | the_newer_of_two_over_the_same_range_wins |
| keeps sibling branch compaction overlays isolated | sibling_branches_do_not_share_overlays |
| deleting an overlay endpoint brought the range back | deleting_under_a_summary_hides_it_and_does_not_undo_it |
| fromMessageId and range order not validated | ends_that_are_not_a_range_are_refused |
| echoed compaction_ message stored as a row (#1984) | a_summary_can_never_be_written_back_as_a_message |
| iterative compaction filters synthetic compaction_ IDs | the_id_of_a_summary_as_an_end_means_the_range_it_covers |
| fork at unknown id gave an empty session | an_impossible_fork_is_refused |
| fork made ordinary messages of overlays | overlays_made_before_the_fork_apply_in_it |
| fork lineage | a_fork_starts_with_the_whole_history |
| upsert was append, so updates were lost (#1167) | upsert_appends_new_messages_and_replaces_existing_ones_in_place |
| update of an unknown id left a ghost in search | an_update_of_an_unknown_id_is_refused_and_stores_nothing |
| create and get; rename; delete session and its messages | create_stores_..., delete_removes_a_whole_session_... |
| list sessions (unpaged) | pages_have_no_gaps_and_no_repeats |
| messages in different sessions are isolated | nothing_crosses_a_namespace, delete_removes_a_whole_session_... |
| builder calls after first use were ignored | settings_are_final_after_first_use |
| appends raced into sibling branches | stress: 64_tasks_append_and_nothing_is_lost_or_duplicated |
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from frontdesk import Session, SessionManager
from frontdesk.store import Store
from frontdesk.stores import open_url
from tests.public_api import PublicApiTests

LONG = 10_050


@pytest.fixture(params=["sqlite", "postgres"])
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store that can be closed and opened again."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/parity.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store of every kind."""
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/parity.db"}
    store = open_url(urls.get(request.param) or request.getfixturevalue("postgres_url"))
    yield store
    await store.close()


@pytest.fixture
def manager(store: Store) -> SessionManager:
    return SessionManager(store)


def user(id: str, text: str) -> dict[str, Any]:
    return {"id": id, "role": "user", "content": text}


async def ids(session: Session, **options: Any) -> list[str]:
    return [message.id for message in await session.history(**options)]


async def found(manager: SessionManager, query: str) -> list[tuple[str, str]]:
    return sorted((hit.session_id, hit.message_id) for hit in await manager.search(query))


def test_every_test_that_the_table_above_names_is_part_of_the_contract() -> None:
    rows = [row.split("|")[2] for row in (__doc__ or "").splitlines() if row.startswith("| ")][1:]
    wanted = [name.strip().rstrip(".") for row in rows if "stress:" not in row for name in row.split(",")]
    assert len(wanted) > 30
    for name in wanted:
        assert any(test.startswith(f"test_{name}") for test in dir(PublicApiTests)), name


# reloading


async def test_the_clients_own_message_id_survives_a_reload(durable: str) -> None:
    """persistence across agent lookups; the example's client and server ids differed (#1166)"""
    given = {"id": "client-made", "role": "user", "parts": [{"type": "text", "text": "hi"}], "createdAt": "2026-01-01"}
    async with SessionManager(durable) as manager:
        await manager.append("chat", given)
        before = await manager.get("chat")
    async with SessionManager(durable) as manager:
        [message] = await manager.history("chat")
        assert (message.id, message.raw) == ("client-made", given)
        assert await manager.get("chat") == before
        assert not (await manager.append("chat", given)).inserted


async def test_the_active_leaf_is_the_same_after_a_reload(durable: str) -> None:
    """rebuilds and rewarms the active-leaf cache from SQLite; keeps named Session histories isolated after eviction"""
    async with SessionManager(durable) as manager:
        for name in ("a", "b"):
            await manager.append_all(name, [user("m1", name), user("m2", name)])
        await manager.append("a", user("b2", "branch"), parent="m1")
        await manager.session("b").switch("m1")
    async with SessionManager(durable) as manager:
        assert await ids(manager.session("a")) == ["m1", "b2"]
        assert await ids(manager.session("b")) == ["m1"]
        await manager.append("b", user("c2", "next"))
        assert await ids(manager.session("b")) == ["m1", "c2"]


async def test_overlays_and_forks_survive_a_reload(durable: str) -> None:
    """adds and retrieves compactions; normalizes compaction timestamps"""
    async with SessionManager(durable) as manager:
        await manager.append_all("chat", [user(f"m{n}", "x") for n in range(5)])
        made = await manager.add_compaction("chat", "sum", "m1", "m3")
        await manager.fork("chat", new_id="fork")
    async with SessionManager(durable) as manager:
        assert await manager.session("chat").compactions() == [made]
        assert await manager.session("fork").compactions() == [made]
        assert [message.text for message in await manager.history("fork")] == ["x", "sum", "x"]


async def test_another_writer_moves_the_tip(durable: str) -> None:
    """self-heals when another writer gives the cached tip a child; ... deletes the cached tip"""
    async with SessionManager(durable) as here, SessionManager(durable) as there:
        await here.append("chat", user("m1", "x"))
        await there.append("chat", user("m2", "x"))
        await here.append("chat", user("m3", "x"))
        assert await ids(there.session("chat")) == ["m1", "m2", "m3"]
        await there.delete_messages("chat", ["m3"])
        await here.append("chat", user("m4", "x"))
        assert await ids(there.session("chat")) == await ids(here.session("chat")) == ["m1", "m2", "m4"]


# the very first call


@pytest.mark.parametrize(
    "call", ["search", "search all", "delete messages", "delete", "clear", "compact", "fork", "list"]
)
async def test_any_call_may_be_the_first_on_an_empty_store(store: Store, call: str) -> None:
    """FTS table missing before first search; ensureTable in addCompaction (#1166, #1167)"""
    manager = SessionManager(store)
    session = manager.session("chat")
    if call == "search":
        assert len(await session.search("word")) == 0
    elif call == "search all":
        assert len(await manager.search("word")) == 0
    elif call == "delete messages":
        assert await manager.delete_messages("chat", ["m1"]) == 0
    elif call == "delete":
        assert not await manager.delete("chat")
    elif call == "clear":
        await session.clear_messages()
    elif call == "list":
        assert len(await manager.list()) == 0
    else:
        with pytest.raises(LookupError):
            await (manager.fork("chat") if call == "fork" else session.add_compaction("sum", "m1", "m1"))
    await session.append(user("m1", "word"))
    assert await found(manager, "word") == [("chat", "m1")]


async def test_delete_messages_works_in_a_manager_that_never_saw_the_session(store: Store) -> None:
    """deleteMessages targets a specific session; it looped over cached sessions and had no session scope (#1167)"""
    for name in ("a", "b"):
        await SessionManager(store).append_all(name, [user("m1", name), user("m2", name)])
    assert await SessionManager(store).delete_messages("a", ["m1"]) == 1
    assert await ids(SessionManager(store).session("a")) == ["m2"]
    assert await ids(SessionManager(store).session("b")) == ["m1", "m2"]


# search


async def test_the_same_id_appended_twice_leaves_one_search_hit(manager: SessionManager) -> None:
    """re-append duplicated FTS rows (#1166)"""
    for text in ("amber", "amber", "amber again"):
        await manager.append("chat", user("m1", text))
    assert await found(manager, "amber") == [("chat", "m1")]
    assert len(await manager.session("chat").search("amber")) == 1
    assert len(await manager.search("again")) == 0


async def test_search_follows_updates_deletes_and_clears(manager: SessionManager) -> None:
    """FTS search; FTS rows left after delete (#1166); role column never updated"""
    session = manager.session("chat")
    await session.append_all([user("m1", "amber"), user("m2", "amber"), user("m3", "amber")])
    await session.update_message({"id": "m1", "role": "assistant", "content": "birch"})
    assert await found(manager, "amber") == [("chat", "m2"), ("chat", "m3")]
    assert [hit.role for hit in await manager.search("birch")] == ["assistant"]
    await session.delete_messages(["m2"])
    assert await found(manager, "amber") == [("chat", "m3")]
    await session.clear_messages()
    assert await found(manager, "amber birch") == []
    await manager.append("other", user("m1", "amber"))
    await manager.delete("other")
    assert await found(manager, "amber") == []


async def test_cross_session_search_names_the_session_and_the_date(manager: SessionManager) -> None:
    """cross-session search; sessionId never filled; search omitted session id and date"""
    await manager.append("a", user("m1", "the amber lamp"))
    await manager.append("b", user("m1", "the birch table"))
    [hit] = await manager.search("amber")
    assert (hit.session_id, hit.message_id, hit.role) == ("a", "m1", "user")
    assert hit.created_at == (await manager.session("a").get_message("m1")).created_at


async def test_words_are_found_in_any_order_and_in_part(manager: SessionManager) -> None:
    """Session used an exact phrase, the manager wanted every word: a natural question found nothing"""
    await manager.append("chat", user("m1", "On Friday we start the deployment"))
    assert await found(manager, "deployment Friday") == [("chat", "m1")]
    assert await found(manager, "when is the deployment planned?") == [("chat", "m1")]


async def test_words_without_spaces_are_found(manager: SessionManager) -> None:
    """CJK substrings never match"""
    await manager.append("chat", user("m1", "我们明天去东京旅行"))
    assert await found(manager, "东京") == [("chat", "m1")]


# isolation and the manager


async def test_the_same_message_id_lives_in_two_sessions(manager: SessionManager) -> None:
    """allows the same message id in different sessions; message id was a global primary key"""
    await manager.append("a", user("m1", "in a"))
    assert (await manager.append("b", user("m1", "in b"))).inserted
    await manager.session("a").update_message(user("m1", "changed"))
    assert [message.text for message in await manager.history("b")] == ["in b"]
    assert await manager.delete_messages("a", ["m1"]) == 1
    assert await ids(manager.session("b")) == ["m1"]


async def test_compaction_and_clear_are_scoped_to_one_session(manager: SessionManager) -> None:
    """compaction overlays are scoped to session; clearMessages only clears target session"""
    for name in ("a", "b"):
        await manager.append_all(name, [user("m1", name), user("m2", name)])
    await manager.add_compaction("a", "sum", "m1", "m2")
    assert await ids(manager.session("b")) == ["m1", "m2"]
    await manager.clear_messages("a")
    assert await ids(manager.session("b")) == ["m1", "m2"]


async def test_a_fork_sorts_first_in_the_list(manager: SessionManager) -> None:
    """fork updates updated_at so forked session sorts first in list"""
    for name in ("a", "b"):
        await manager.append(name, user("m1", name))
    await manager.fork("a", new_id="fork")
    assert [info.id for info in await manager.list()] == ["fork", "b", "a"]


async def test_a_session_never_registered_can_be_used(manager: SessionManager) -> None:
    """getSession works for ids never registered, but then was in no list"""
    await manager.session("never made").append(user("m1", "x"))
    assert [info.id for info in await manager.list()] == ["never made"]


# long paths and large messages


async def test_a_path_beyond_ten_thousand_keeps_its_start(manager: SessionManager) -> None:
    """paths > 10,001 lose their start silently"""
    for start in range(0, LONG, 1675):
        await manager.append_all("chat", [user(f"m{n}", "x") for n in range(start, start + 1675)])
    session = manager.session("chat")
    assert await session.path_length() == LONG
    assert await ids(session) == [f"m{n}" for n in range(LONG)]
    assert [message.id async for message in session.transcript(limit=1)] == ["m0"]


async def test_a_chosen_branch_is_complete_across_batches(manager: SessionManager) -> None:
    """getHistory(leafId) follows the selected branch across chunks"""
    session = manager.session("chat")
    await session.append_all([user(f"m{n}", "x") for n in range(1300)])
    await session.append(user("b0", "x"), parent="m300")
    await session.append_all([user(f"b{n}", "x") for n in range(1, 1300)])
    trunk = [f"m{n}" for n in range(1300)]
    branch = [f"b{n}" for n in range(1300)]
    assert await ids(session, leaf="m1299") == trunk
    assert await ids(session, leaf="b1299") == trunk[:301] + branch


async def test_large_messages_come_back_intact(manager: SessionManager) -> None:
    """large message content round-trips intact; multi-megabyte paths round-trip across byte-bounded content chunks"""
    texts = [f"{n} " + "漢字 large " * 60_000 for n in range(6)]
    await manager.append_all("chat", [user(f"m{n}", text) for n, text in enumerate(texts)])
    assert [message.text for message in await manager.history("chat")] == texts
    assert [message.text for message in await manager.history("chat", last=2)] == texts[-2:]


async def test_tool_parts_come_back_as_they_were(manager: SessionManager) -> None:
    """preserves dynamic-tool part fields after store+retrieve; ... in getHistory chain"""
    part = {
        "type": "dynamic-tool",
        "toolName": "weather",
        "toolCallId": "c1",
        "state": "output-available",
        "input": {"city": "Paris"},
        "output": {"deep": [{"celsius": 21.5}]},
        "callProviderMetadata": {"x": {"y": None}},
    }
    given = {"id": "m1", "role": "assistant", "parts": [{"type": "step-start"}, part, {"type": "text", "text": "21"}]}
    await manager.append_all("chat", [user("m0", "weather?"), given])
    assert (await manager.history("chat"))[1].raw == given
    assert (await manager.history("chat", format="ui"))[1]["parts"] == given["parts"]
