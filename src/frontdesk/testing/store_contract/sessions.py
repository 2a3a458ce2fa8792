"""Sessions as rows: creating, finding and paging; opening and closing a store."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from frontdesk.errors import StoreClosedError
from frontdesk.store import (
    SEGMENT_SIZE,
    DocumentRow,
    DueQuery,
    Owner,
    Plan,
    RowCounts,
    SessionQuery,
    SessionRow,
    Span,
    StatsQuery,
    Store,
    UsageQuery,
    UsageRow,
)
from frontdesk.testing.inputs import HOSTILE_IDS
from frontdesk.testing.store_contract.steps import NAMESPACE, NOW, add, message, new, path, row
from frontdesk.tree import plans
from frontdesk.tree.sessions import metadata_digest

KEY = {"agent": "support", "channel": "web", "peer": "ann"}


async def pages(store: Store, limit: int, **filters: Any) -> list[list[str]]:
    """The ids on every page until one is not full."""
    found: list[list[str]] = []
    after: tuple[int, int] | None = None
    while True:
        query = SessionQuery(namespace=NAMESPACE, limit=limit, after=after, **filters)
        rows = await store.page(query)
        found.append([row.id for row in rows])
        if len(rows) < limit:
            return found
        after = (rows[-1].last_active_at, rows[-1].number)


async def all_pages(store: Store, limit: int, **filters: Any) -> list[str]:
    return [id for page in await pages(store, limit, **filters) for id in page]


class SessionContract:
    async def test_a_new_session_has_its_given_values_and_nothing_else(self, store: Store) -> None:
        given = new(
            "s",
            **KEY,
            thread="t",
            name="Ann's",
            parent_session_id="p",
            model="m",
            source="api",
            tags='["a","b"]',
            metadata='{"n": 1.0}',
            summary="short",
            max_tokens=2**40,
        )
        made, is_new = await store.create(given)
        assert is_new
        assert made == SessionRow(
            number=made.number,
            tree=made.tree,
            family=made.family,
            namespace=NAMESPACE,
            id="s",
            agent="support",
            channel="web",
            peer="ann",
            thread="t",
            key_current=True,
            name="Ann's",
            parent_session_id="p",
            model="m",
            source="api",
            tags='["a","b"]',
            metadata='{"n": 1.0}',
            summary="short",
            max_tokens=2**40,
            created_at=NOW,
            updated_at=NOW,
            last_active_at=NOW,
        )
        assert await store.get(NAMESPACE, "s") == made

    async def test_creating_an_existing_id_returns_the_existing_session(self, store: Store) -> None:
        first, _ = await store.create(new("s", name="first"))
        assert await store.create(new("s", name="second", now=NOW + 1)) == (first, False)
        assert await store.get(NAMESPACE, "s") == first

    async def test_creating_under_a_taken_key_returns_the_current_session(self, store: Store) -> None:
        first, _ = await store.create(new("s", **KEY))
        assert await store.create(new("other", **KEY)) == (first, False)
        assert await store.get(NAMESPACE, "other") is None

    async def test_keys_that_differ_in_any_part_are_different(self, store: Store) -> None:
        keys = [
            ("a", "b", "c", None),
            ("a", "b", "c", "d"),
            ("a", "b", "c:d", None),
            ("a:b", "c", "d", None),
            ("A", "b", "c", None),
        ]
        for number, (agent, channel, peer, thread) in enumerate(keys):
            created = await store.create(new(str(number), agent=agent, channel=channel, peer=peer, thread=thread))
            assert created[1]
        found = [await store.get_current(NAMESPACE, key) for key in keys]
        assert [row.id for row in found if row] == [str(number) for number in range(len(keys))]

    async def test_an_unknown_id_or_key_finds_nothing(self, store: Store) -> None:
        assert await store.get(NAMESPACE, "missing") is None
        assert await store.get_current(NAMESPACE, ("a", "b", "c", None)) is None

    async def test_a_session_without_a_key_is_not_current_under_any_key(self, store: Store) -> None:
        made, _ = await store.create(new("s"))
        assert not made.key_current
        assert await store.get_current(NAMESPACE, ("", "", "", None)) is None

    async def test_a_session_that_gives_up_its_key_makes_room_for_another(self, store: Store) -> None:
        old, _ = await store.create(new("old", **KEY))
        assert await store.apply(plans.change_row(old, NOW, key_current=False, status="archived"))
        assert await store.get_current(NAMESPACE, ("support", "web", "ann", None)) is None
        fresh, is_new = await store.create(new("new", **KEY))
        assert is_new
        assert await store.get_current(NAMESPACE, ("support", "web", "ann", None)) == fresh
        assert (await row(store, "old")).agent == "support"

    async def test_namespaces_are_isolated(self, store: Store) -> None:
        await store.create(new("s", **KEY, name="here"))
        _, is_new = await store.create(new("s", **KEY, namespace="there", name="there"))
        assert is_new
        await add(store, "s", "m", namespace="there")
        here = await row(store, "s")
        assert (here.name, here.message_count, here.head) == ("here", 0, None)
        there = await store.get_current("there", ("support", "web", "ann", None))
        assert there is not None
        assert there.name == "there"
        assert await pages(store, 10) == [["s"]]
        assert await store.trees("elsewhere", ["s"]) == []

    async def test_hostile_session_ids_are_kept_apart(self, store: Store) -> None:
        for number, id in enumerate(HOSTILE_IDS):
            _, is_new = await store.create(new(id, name=str(number)))
            assert is_new, id
            await add(store, id, f"only in {number}")
        for number, id in enumerate(HOSTILE_IDS):
            found = await row(store, id)
            assert (found.id, found.name, found.message_count) == (id, str(number), 1)
            assert await path(store, id) == [f"only in {number}"]
        assert sorted(await all_pages(store, 7)) == sorted(HOSTILE_IDS)

    async def test_hostile_message_ids_are_kept_apart(self, store: Store) -> None:
        await add(store, "s", *(message(id, f"text {number}") for number, id in enumerate(HOSTILE_IDS)))
        assert await path(store, "s") == list(HOSTILE_IDS)
        again = await add(store, "s", *HOSTILE_IDS)
        assert not any(appended.inserted for appended in again.rows)

    async def test_hostile_namespaces_are_kept_apart(self, store: Store) -> None:
        names = [id[:200] for id in HOSTILE_IDS if id != "x" * 511]
        for name in names:
            assert (await store.create(new("s", namespace=name, name=name)))[1]
        found = [await store.get(name, "s") for name in names]
        assert [row.name for row in found if row] == names

    # pages

    async def test_pages_return_the_newest_activity_first(self, store: Store) -> None:
        for number in range(5):
            await store.create(new(f"s{number}", now=NOW + number))
        await add(store, "s1", "m", now=NOW + 10)
        assert await pages(store, 2) == [["s1", "s4"], ["s3", "s2"], ["s0"]]

    async def test_pages_of_equal_times_have_no_gaps_and_no_repeats(self, store: Store) -> None:
        for number in range(10):
            await store.create(new(f"s{number}"))
        assert await pages(store, 3) == [["s9", "s8", "s7"], ["s6", "s5", "s4"], ["s3", "s2", "s1"], ["s0"]]

    async def test_a_change_between_two_pages_moves_no_other_session(self, store: Store) -> None:
        for number in range(9):
            await store.create(new(f"s{number}", now=NOW + number))
        first = await store.page(SessionQuery(namespace=NAMESPACE, limit=3))
        await add(store, "s7", "m", now=NOW + 20)
        await add(store, "new", "m", now=NOW + 21)
        after = (first[-1].last_active_at, first[-1].number)
        rest = await store.page(SessionQuery(namespace=NAMESPACE, limit=100, after=after))
        assert [row.id for row in [*first, *rest]] == [f"s{number}" for number in range(8, -1, -1)]

    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            ({"agent": "a"}, ["s3", "s1"]),
            ({"channel": "c"}, ["s2", "s1"]),
            ({"peer": "p"}, ["s3", "s1"]),
            ({"thread": "t"}, ["s3"]),
            ({"status": "archived"}, ["s2"]),
            ({"status": "active"}, ["s4", "s3", "s1"]),
            ({"tag": "x"}, ["s4", "s2"]),
            ({"tag": 'x"y'}, ["s3"]),
            ({"tag": "%"}, []),
            ({"created_after": NOW + 2}, ["s4", "s3"]),
            ({"created_before": NOW + 2}, ["s1"]),
            ({"created_after": NOW + 1, "created_before": NOW + 4, "agent": "a"}, ["s3"]),
            ({"agent": "a", "tag": "x"}, []),
            ({"agent": "A"}, []),
            ({"id_prefix": "s"}, ["s4", "s3", "s2", "s1"]),
            ({"id_prefix": "s3"}, ["s3"]),
            ({"id_prefix": "S"}, []),
            ({"metadata": (metadata_digest("n", 1),)}, ["s4", "s2"]),
            ({"metadata": (metadata_digest("n", 1), metadata_digest("t", "x"))}, ["s4"]),
            ({"metadata": (metadata_digest("n", True),)}, []),
        ],
    )
    async def test_a_filter_leaves_out_what_does_not_match(
        self, store: Store, wanted: dict[str, Any], expected: list[str]
    ) -> None:
        await store.create(new("s1", now=NOW + 1, agent="a", channel="c", peer="p", tags='["xx"]'))
        described = {"tags": '["x"]', "metadata": '{"n": 1}'}
        second, _ = await store.create(new("s2", now=NOW + 2, agent="b", channel="c", peer="q", **described))
        await store.create(new("s3", now=NOW + 3, agent="a", channel="d", peer="p", thread="t", tags='["x\\"y", "z"]'))
        await store.create(new("s4", now=NOW + 4, tags='["w", "x"]', metadata='{"n": 1.0, "t": "x"}'))
        await store.apply(plans.change_row(second, NOW + 2, status="archived"))
        assert await all_pages(store, 1, **wanted) == expected
        assert await all_pages(store, 10, **wanted) == expected
        assert await all_pages(store, 1, order="created", **wanted) == expected

    async def test_pages_in_the_order_of_creation_ignore_activity(self, store: Store) -> None:
        for number in range(7):
            await store.create(new(f"s{number}", now=NOW - number))
        query = SessionQuery(namespace=NAMESPACE, limit=3, order="created")
        first = await store.page(query)
        for number in range(7):
            await add(store, f"s{number}", "m", now=NOW + number)
        await store.create(new("later"))
        rest = await store.page(msgspec.structs.replace(query, limit=9, after=(0, first[-1].number)))
        assert [row.id for row in (*first, *rest)] == [f"s{number}" for number in range(6, -1, -1)]

    async def test_metadata_is_found_as_soon_as_and_only_while_it_is_set(self, store: Store) -> None:
        made, _ = await store.create(new("s", metadata='{"n": 1}'))
        assert await store.apply(plans.change_row(made, NOW, metadata='{"n": 2}'))
        assert await pages(store, 5, metadata=(metadata_digest("n", 2),)) == [["s"]]
        assert await pages(store, 5, metadata=(metadata_digest("n", 1),)) == [[]]

    async def test_a_tag_is_found_as_soon_as_and_only_while_it_is_set(self, store: Store) -> None:
        made, _ = await store.create(new("s", tags='["old"]'))
        assert await store.apply(plans.change_row(made, NOW, tags='["new"]'))
        assert await pages(store, 5, tag="new") == [["s"]]
        assert await pages(store, 5, tag="old") == [[]]

    async def test_sessions_are_found_by_their_parent_session(self, store: Store) -> None:
        for number in range(3):
            await store.create(new(f"child-{number}", parent_session_id="p" * 512, now=NOW + number))
        await store.create(new("other", parent_session_id="q"))
        query = SessionQuery(namespace=NAMESPACE, limit=2, parent="p" * 512)
        first = await store.page(query)
        rest = await store.page(msgspec.structs.replace(query, after=(first[-1].last_active_at, first[-1].number)))
        assert [row.id for row in (*first, *rest)] == ["child-2", "child-1", "child-0"]

    async def test_the_rows_stored_for_a_session_can_be_counted(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await add(store, "t", "m1")
        await store.put_document(
            NAMESPACE, Owner("session", "s"), DocumentRow(label="l", version=1, content="x", created_at=NOW)
        )
        await store.put_document(
            NAMESPACE, Owner("session", "s"), DocumentRow(label="l", version=2, content="y", created_at=NOW)
        )
        session = await row(store, "s")
        assert session.head is not None
        spans = [Span(session.head.segment, 1, SEGMENT_SIZE - 1, None)]
        assert await store.count_rows(session.number, spans) == RowCounts(2, 2, 0, 0)
        assert await store.count_rows(session.number, ()) == RowCounts(0, 2, 0, 0)

    async def test_closing_twice_is_fine_and_every_later_call_raises_store_closed(self, store: Store) -> None:
        made, _ = await store.create(new("s"))
        await store.close()
        await store.close()
        calls = (
            lambda: store.create(new("t")),
            lambda: store.get(NAMESPACE, "s"),
            lambda: store.get_current(NAMESPACE, ("a", "b", "c", None)),
            lambda: store.page(SessionQuery(namespace=NAMESPACE, limit=1)),
            lambda: store.due(DueQuery(namespace=NAMESPACE, what="archive", now=NOW, limit=1, threshold=1)),
            lambda: store.held_leases(NAMESPACE),
            lambda: add(store, "s", "m"),
            lambda: store.view(NAMESPACE, "s"),
            lambda: store.trees(NAMESPACE, ["s"]),
            lambda: store.read([]),
            lambda: store.sums([]),
            lambda: store.tally([]),
            lambda: store.recent_usage(NAMESPACE, "s", 1),
            lambda: store.lease_queue(NAMESPACE, "s", "turn"),
            lambda: store.queued_messages(NAMESPACE, "s", "turn"),
            lambda: store.apply(Plan(guards=((made.number, made.revision),), now=NOW)),
            lambda: store.add_usage(NAMESPACE, "s", UsageRow(id="u", day="2026-01-01")),
            lambda: store.usage(UsageQuery(namespace=NAMESPACE)),
            lambda: store.stats(StatsQuery(namespace=NAMESPACE)),
        )
        for call in calls:
            with pytest.raises(StoreClosedError):
                await call()

    async def test_a_closed_store_can_be_opened_again(self, store: Store) -> None:
        for number in range(3):
            await store.open()
            await add(store, "s", f"m{number}")
            await store.close()
            with pytest.raises(StoreClosedError):
                await store.get(NAMESPACE, "s")
        await asyncio.gather(store.close(), store.close())
        await store.open()
        session = await store.get(NAMESPACE, "s")
        assert session is not None
        assert session.message_count == 3

    async def test_opening_twice_changes_nothing(self, store: Store) -> None:
        await store.open()
        await store.create(new("s"))
        await store.open()
        assert await store.get(NAMESPACE, "s") is not None

    async def test_the_store_implements_the_protocol(self, store: Store) -> None:
        assert isinstance(store, Store)
