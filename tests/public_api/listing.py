"""Lists of sessions: filters, orders, cursors, and walks that miss nothing while others write."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from frontdesk import InvalidCursorError, InvalidInputError, SessionInfo, SessionKey, SessionManager
from frontdesk.stores.sql import directory
from tests.public_api.steps import user

HOSTILE_IDS = ["%", "%a", "_", "_a", "\\", "\\%", "a%b", "a", "ab", "A", "é", "🙂", "🙂🙃", "\U0010ffff",
               "\U0010ffff\U0010ffff", "\ud7ff", "\ue000", "'", '"', " ", "a b", "[a]", "*"]  # fmt: skip


async def listed(manager: SessionManager, **filters: Any) -> list[str]:
    return [info.id for info in await manager.list(**filters)]


async def paged(manager: SessionManager, **filters: Any) -> AsyncIterator[SessionInfo]:
    """The sessions of all pages, by their cursors."""
    cursor = None
    while True:
        page = await manager.list(**filters, cursor=cursor)
        for info in page:
            yield info
        cursor = page.next_cursor
        if cursor is None:
            return


class ListingTests:
    async def test_an_id_prefix_is_compared_exactly(self, manager: SessionManager) -> None:
        for session_id in HOSTILE_IDS:
            await manager.create(id=session_id)
        for prefix in [*HOSTILE_IDS, "b", "🙂🙃🙂", ""]:
            wanted = [each for each in reversed(HOSTILE_IDS) if each.startswith(prefix)]
            assert await listed(manager, id_prefix=prefix) == wanted, prefix
            assert await listed(manager, id_prefix=prefix, order="created") == wanted, prefix

    async def test_metadata_filters_compare_top_level_values(self, manager: SessionManager) -> None:
        values: dict[str, dict[str, Any]] = {
            "text": {"a": "1"},
            "whole": {"a": 1},
            "true": {"a": True},
            "broken": {"a": 1.5, "b": "x"},
            "large": {"a": 2**70, "b": "x", "c": False},
            "nested": {"a": {"a": 1}, "d": ["x"]},
            "long": {"e": "é" * 100_000},
        }
        for session_id, metadata in values.items():
            await manager.create(id=session_id, metadata=metadata)
        for wanted, metadata in (
            (["text"], {"a": "1"}),
            (["whole"], {"a": 1}),
            (["whole"], {"a": 1.0}),
            (["true"], {"a": True}),
            (["broken"], {"a": 1.5}),
            (["large"], {"a": 2**70}),
            (["large", "broken"], {"b": "x"}),
            (["large"], {"b": "x", "c": False}),
            ([], {"b": "x", "c": True}),
            ([], {"d": "x"}),
            (["long"], {"e": "é" * 100_000}),
            (list(reversed(values)), {}),
        ):
            assert await listed(manager, metadata=metadata) == wanted, metadata
            assert await listed(manager, metadata=metadata, order="created") == wanted, metadata
            assert await listed(manager, metadata=metadata, status="active", id_prefix="") == wanted, metadata

    async def test_metadata_filters_follow_changes_forks_and_deletions(self, manager: SessionManager) -> None:
        session = await manager.create(id="s", metadata={"a": 1, "b": 2})
        await session.append(user("m"))
        fork = await manager.fork("s", new_id="f")
        await session.set_metadata(a=3, b=None)
        assert await listed(manager, metadata={"a": 1}) == [fork.id]
        assert await listed(manager, metadata={"a": 3}) == ["s"]
        assert await listed(manager, metadata={"b": 2}) == [fork.id]
        await manager.delete("f")
        assert await listed(manager, metadata={"b": 2}) == []

    async def test_filters_select_the_same_sessions_in_both_orders(self, manager: SessionManager) -> None:
        await manager.create(id="1", key=SessionKey("bot", "web", "ada"), tags=["x"], metadata={"n": 1})
        await manager.create(id="2", key=SessionKey("bot", "mail", "ada", "t1"), tags=["x", "y"], metadata={"n": 1})
        await manager.create(id="3", key=SessionKey("cat", "web", "bob"), parent="1")
        await manager.create(id="4", metadata={"n": 1})
        await manager.suspend("4")
        await manager.archive("1")
        moment = datetime.now(UTC)
        await manager.append("2", user("m1"))
        for filters, wanted in (
            ({}, "4321"),
            ({"agent": "bot"}, "21"),
            ({"channel": "web"}, "31"),
            ({"peer": "ada", "channel": "mail"}, "2"),
            ({"thread": "t1"}, "2"),
            ({"tag": "x"}, "21"),
            ({"tag": "x", "metadata": {"n": 1}, "id_prefix": "2"}, "2"),
            ({"status": "active"}, "32"),
            ({"status": "idle"}, ""),
            ({"status": "suspended", "metadata": {"n": 1}}, "4"),
            ({"status": "archived", "agent": "bot"}, "1"),
            ({"created_before": moment, "agent": "cat"}, "3"),
            ({"created_after": moment}, ""),
        ):
            by_creation = await listed(manager, order="created", **filters)
            assert "".join(by_creation) == wanted, filters
            assert set(await listed(manager, **filters)) == set(wanted), filters
        assert await listed(manager) == ["2", "4", "3", "1"]

    async def test_the_order_of_creation_shows_the_newest_session_first_and_ignores_activity(
        self, manager: SessionManager
    ) -> None:
        for number in range(23):
            await manager.create(id=f"s{number}")
        seen = []
        async for info in paged(manager, order="created", limit=5):
            seen.append(info.id)
            await manager.append("s3", user(f"m{len(seen)}"))
            await manager.append(info.id, user("again"))
            await manager.create()
        assert seen == [f"s{number}" for number in range(22, -1, -1)]

    async def test_a_cursor_belongs_to_its_order(self, manager: SessionManager) -> None:
        for _ in range(3):
            await manager.create()
        cursor = (await manager.list(limit=1, order="created")).next_cursor
        with pytest.raises(InvalidCursorError):
            await manager.list(limit=1, cursor=cursor)
        with pytest.raises(InvalidCursorError):
            await manager.list(limit=1, order="created", metadata={"a": 1}, cursor=cursor)

    async def test_wrong_arguments_of_a_list_are_refused(self, manager: SessionManager) -> None:
        for wrong in (
            {"limit": None},
            {"limit": 0},
            {"limit": True},
            {"limit": "5"},
            {"limit": 1001},
            {"order": "newest"},
            {"order": None},
            {"order": ["created"]},
            {"metadata": "a"},
            {"metadata": {1: 2}},
            {"metadata": {"a": None}},
            {"metadata": {"a": [1]}},
            {"metadata": {"a": float("nan")}},
            {"metadata": {"a": "\ud800"}},
            {"id_prefix": 5},
            {"id_prefix": "\0"},
            {"status": "bogus"},
            {"status": ["active"]},
            {"tag": 5},
            {"agent": b"bot"},
            {"created_after": "2026-01-01"},
            {"created_before": 5},
            {"cursor": 5},
        ):
            expected = InvalidCursorError if "cursor" in wrong else InvalidInputError
            with pytest.raises(expected):
                await manager.list(**wrong)
            if not {"cursor", "order"} & wrong.keys():
                with pytest.raises(InvalidInputError):
                    _ = [info async for info in manager.iterate(**wrong)]

    async def test_iterating_returns_every_session_that_was_there_once_whatever_is_written(
        self, manager: SessionManager
    ) -> None:
        for number in range(30):
            await manager.create(id=f"s{number}", tags=["x"] if number % 2 else [])
        seen: list[str] = []
        async for info in manager.iterate(limit=3):
            seen.append(info.id)
            await manager.create()
            await manager.append(f"s{len(seen) % 30}", user(f"m{len(seen)}"))
            await manager.append("s0", user(f"m{len(seen)}"))
        assert sorted(seen) == sorted(f"s{number}" for number in range(30))

    async def test_iterating_skips_what_is_deleted_or_no_longer_matches(self, manager: SessionManager) -> None:
        for number in range(10):
            await manager.create(id=f"s{number}", tags=["x"])
        seen: list[str] = []
        async for info in manager.iterate(tag="x", limit=2):
            seen.append(info.id)
            if len(seen) == 2:
                await manager.delete("s1")
                await manager.session("s2").remove_tags("x")
                await manager.create(id="s1", tags=["x"])
        assert seen == [f"s{number}" for number in (9, 8, 7, 6, 5, 4, 3, 0)]

    async def test_walks_stay_in_their_namespace(self, store: Any, manager: SessionManager) -> None:
        async with SessionManager(store, namespace=f"{manager.namespace}-2") as other:
            for number in range(12):
                await manager.create(id=f"here-{number}", metadata={"n": 1}, tags=["x"])
                await other.create(id=f"there-{number}", metadata={"n": 1}, tags=["x"])
            for filters in ({}, {"metadata": {"n": 1}}, {"tag": "x"}, {"id_prefix": ""}, {"status": "active"}):
                found = [info.id async for info in manager.iterate(limit=5, **filters)]
                assert found == [f"here-{number}" for number in range(11, -1, -1)]
            assert await listed(other, id_prefix="here") == []

    async def test_a_filter_that_selects_many_sessions_returns_them_in_order_too(
        self, manager: SessionManager, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Few sessions are sorted; of many, a page is found by a walk in the order of the list."""
        monkeypatch.setattr(directory, "FEW", 5)
        for number in range(23):
            key = SessionKey("bot", "web", "ada", str(number))
            await manager.create(id=f"s{number}", key=key, tags=["x"], metadata={"n": 1, "m": number % 2})
        names = [f"s{number}" for number in range(22, -1, -1)]
        for filters in (
            {"tag": "x"},
            {"metadata": {"n": 1}},
            {"id_prefix": "s"},
            {"peer": "ada"},
            {"agent": "bot"},
            {"status": "active"},
            {"tag": "x", "agent": "bot", "peer": "ada", "id_prefix": "s", "metadata": {"n": 1}, "status": "active"},
        ):
            assert [info.id async for info in paged(manager, limit=7, **filters)] == names, filters
            assert [info.id async for info in paged(manager, limit=7, order="created", **filters)] == names, filters
        odd = [info.id async for info in paged(manager, limit=7, order="created", metadata={"n": 1, "m": 1})]
        assert odd == names[1::2]
