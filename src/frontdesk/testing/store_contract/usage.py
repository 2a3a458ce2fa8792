"""Usage and totals: every entry counts once and exactly."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from frontdesk.errors import SessionNotFoundError
from frontdesk.store import StatsQuery, Store, UsageQuery, UsageRow
from frontdesk.testing.store_contract.steps import NAMESPACE, NOW, add, delete_session, new, row
from frontdesk.tree import plans

MONDAY, TUESDAY, FRIDAY = "2026-03-02", "2026-03-03", "2026-03-06"


def entry(id: str, **values: Any) -> UsageRow:
    return UsageRow(**{"id": id, "at": NOW, "day": MONDAY, **values})


class UsageContract:
    async def test_an_entry_is_added_to_the_totals_of_its_session(self, store: Store) -> None:
        await store.create(new("s"))
        given = entry("u1", input_tokens=2**40, output_tokens=5, cost="0.25", at=NOW + 7)
        assert await store.add_usage(NAMESPACE, "s", given)
        session = await row(store, "s")
        assert (session.input_tokens, session.output_tokens, Decimal(session.cost)) == (2**40, 5, Decimal("0.25"))
        assert (session.updated_at, session.last_active_at, session.revision) == (NOW + 7, NOW, 0)

    async def test_the_same_entry_counts_once(self, store: Store) -> None:
        await store.create(new("s"))
        assert await store.add_usage(NAMESPACE, "s", entry("u1", input_tokens=3, cost="1"))
        before = await row(store, "s")
        assert not await store.add_usage(NAMESPACE, "s", entry("u1", input_tokens=9, cost="7", day=FRIDAY))
        assert await row(store, "s") == before
        [total] = await store.usage(UsageQuery(namespace=NAMESPACE, by=("day",)))
        assert (total.day, total.input_tokens) == (MONDAY, 3)

    async def test_entries_are_read_newest_first(self, store: Store) -> None:
        await store.create(new("s"))
        await store.create(new("t"))
        given = [entry(f"u{n}", at=NOW + n // 2, input_tokens=n, cost="0.5", model="m") for n in range(5)]
        for each in given:
            await store.add_usage(NAMESPACE, "s", each)
        await store.add_usage(NAMESPACE, "t", entry("other"))
        found = await store.recent_usage(NAMESPACE, "s", 10)
        assert [(each.id, each.at, each.input_tokens, each.model) for each in found] == [
            (each.id, each.at, each.input_tokens, each.model) for each in reversed(given)
        ]
        assert {Decimal(each.cost) for each in found} == {Decimal("0.5")}
        page = await store.recent_usage(NAMESPACE, "s", 2)
        assert page == found[:2]
        assert await store.recent_usage(NAMESPACE, "s", 9, (page[-1].at, page[-1].id)) == found[2:]
        assert await store.recent_usage(NAMESPACE, "missing", 9) == []

    async def test_the_same_id_in_another_session_is_another_entry(self, store: Store) -> None:
        for name in ("s", "t"):
            await store.create(new(name))
            assert await store.add_usage(NAMESPACE, name, entry("u1", input_tokens=1))
        [total] = await store.usage(UsageQuery(namespace=NAMESPACE))
        assert total.input_tokens == 2

    @pytest.mark.parametrize(
        ("costs", "expected"),
        [
            (["0.1", "0.2"], "0.3"),
            (["1e-12"] * 3, "0.000000000003"),
            (["123456789012345678.5", "0.000000000001"], "123456789012345678.500000000001"),
            (["100", "-99.99"], "0.01"),
            (["0"], "0"),
        ],
    )
    async def test_costs_add_up_exactly(self, store: Store, costs: list[str], expected: str) -> None:
        await store.create(new("s"))
        for number, cost in enumerate(costs):
            await store.add_usage(NAMESPACE, "s", entry(str(number), cost=cost))
        [by_session] = await store.usage(UsageQuery(namespace=NAMESPACE, session_id="s"))
        [by_day] = await store.usage(UsageQuery(namespace=NAMESPACE))
        totals = [
            (await row(store, "s")).cost,
            by_session.cost,
            by_day.cost,
            (await store.stats(StatsQuery(namespace=NAMESPACE))).cost,
        ]
        assert [Decimal(total) for total in totals] == [Decimal(expected)] * 4

    async def test_totals_are_kept_per_day_and_model(self, store: Store) -> None:
        await store.create(new("s"))
        await store.create(new("t"))
        figures = {
            "input_tokens": 1,
            "output_tokens": 2,
            "cache_read_tokens": 4,
            "cache_write_tokens": 8,
            "reasoning_tokens": 16,
            "cost": "0.5",
        }
        for name, id, model, day in (
            ("s", "1", "large", MONDAY),
            ("s", "2", "large", MONDAY),
            ("t", "3", "large", MONDAY),
            ("s", "4", "small", MONDAY),
            ("s", "5", None, MONDAY),
            ("s", "6", "large", TUESDAY),
        ):
            await store.add_usage(NAMESPACE, name, entry(id, model=model, day=day, **figures))
        everywhere = await store.usage(UsageQuery(namespace=NAMESPACE, by=("day", "model")))
        in_one = await store.usage(UsageQuery(namespace=NAMESPACE, by=("day", "model"), session_id="s"))

        def table(rows: list[UsageRow]) -> list[tuple[str, str | None, int]]:
            return [(row.day, row.model, row.input_tokens) for row in rows]

        rest = [(MONDAY, "small", 1), (TUESDAY, "large", 1)]
        assert table(everywhere) == [(MONDAY, None, 1), (MONDAY, "large", 3), *rest]
        assert table(in_one) == [(MONDAY, None, 1), (MONDAY, "large", 2), *rest]
        large = everywhere[1]
        assert (large.output_tokens, large.cache_read_tokens, large.cache_write_tokens) == (6, 12, 24)
        assert (large.reasoning_tokens, Decimal(large.cost), large.id) == (48, Decimal("1.5"), "")

    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            ({"first_day": TUESDAY}, [TUESDAY, FRIDAY]),
            ({"last_day": TUESDAY}, [MONDAY, TUESDAY]),
            ({"first_day": TUESDAY, "last_day": TUESDAY}, [TUESDAY]),
            ({"first_day": "2026-03-04", "last_day": "2026-03-05"}, []),
        ],
    )
    async def test_a_range_of_days_includes_both_ends(
        self, store: Store, wanted: dict[str, Any], expected: list[str]
    ) -> None:
        await store.create(new("s"))
        for day in (FRIDAY, MONDAY, TUESDAY):
            await store.add_usage(NAMESPACE, "s", entry(day, day=day, input_tokens=1))
        for session_id in (None, "s"):
            query = UsageQuery(namespace=NAMESPACE, by=("day",), session_id=session_id, **wanted)
            assert [total.day for total in await store.usage(query)] == expected

    async def test_usage_of_an_unknown_session_is_an_error(self, store: Store) -> None:
        with pytest.raises(SessionNotFoundError):
            await store.add_usage(NAMESPACE, "missing", entry("u1"))
        with pytest.raises(SessionNotFoundError):
            await store.usage(UsageQuery(namespace=NAMESPACE, session_id="missing"))
        assert await store.usage(UsageQuery(namespace=NAMESPACE)) == []

    async def test_the_totals_of_the_namespace_keep_the_usage_of_deleted_sessions(self, store: Store) -> None:
        await store.create(new("s"))
        await store.add_usage(NAMESPACE, "s", entry("u1", input_tokens=3))
        await delete_session(store, "s")
        [total] = await store.usage(UsageQuery(namespace=NAMESPACE))
        assert total.input_tokens == 3
        await store.create(new("s"))
        assert await store.usage(UsageQuery(namespace=NAMESPACE, session_id="s")) == []
        assert await store.add_usage(NAMESPACE, "s", entry("u1", input_tokens=3))

    async def test_totals_keep_agent_and_channel_of_deleted_sessions_but_not_the_peer(self, store: Store) -> None:
        for name, peer in (("s", "ana"), ("t", "ben")):
            await store.create(new(name, agent="a", channel="c", peer=peer))
            await store.add_usage(NAMESPACE, name, entry("u1", input_tokens=3, cost="0.1", model="m"))
        await delete_session(store, "t")
        by = ("agent", "channel", "peer", "session_id", "model", "day")
        rows = await store.usage(UsageQuery(namespace=NAMESPACE, by=by))
        assert [(row.agent, row.channel, row.peer, row.session_id) for row in rows] == [
            ("a", "c", None, None),
            ("a", "c", "ana", "s"),
        ]
        assert {(row.model, row.day, row.input_tokens, row.cost) for row in rows} == {("m", MONDAY, 3, "0.1")}
        assert await store.usage(UsageQuery(namespace=NAMESPACE, by=by, peer="ben")) == []
        [whole] = await store.usage(UsageQuery(namespace=NAMESPACE, agent="a", channel="c", model="m"))
        assert whole.input_tokens == 6

    async def test_usage_does_not_invalidate_plans(self, store: Store) -> None:
        made, _ = await store.create(new("s"))
        await store.add_usage(NAMESPACE, "s", entry("u1", input_tokens=3))
        assert await store.apply(plans.change_row(made, NOW, name="named"))
        session = await row(store, "s")
        assert (session.name, session.input_tokens) == ("named", 3)

    async def test_stats_are_totals_over_one_namespace(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await add(store, "t", "m1")
        await add(store, "elsewhere", "m1", namespace="there")
        await store.apply(plans.change_row(await row(store, "t"), NOW, status="archived"))
        await store.add_usage(NAMESPACE, "s", entry("u1", input_tokens=3, output_tokens=4, cost="0.1"))
        await store.add_usage(NAMESPACE, "t", entry("u1", input_tokens=3, output_tokens=4, cost="0.2"))
        stats = await store.stats(StatsQuery(namespace=NAMESPACE))
        assert (stats.sessions, stats.messages) == ({"active": 1, "archived": 1}, 3)
        assert (stats.input_tokens, stats.output_tokens, Decimal(stats.cost)) == (6, 8, Decimal("0.3"))
        assert (stats.context_tokens, stats.stale) == (
            (await row(store, "s")).view_tokens + (await row(store, "t")).view_tokens,
            (),
        )
        assert stats.store_bytes >= 0

    async def test_stats_of_an_empty_namespace_are_zero(self, store: Store) -> None:
        stats = await store.stats(StatsQuery(namespace="empty"))
        assert (stats.sessions, stats.messages, stats.input_tokens, Decimal(stats.cost)) == ({}, 0, 0, Decimal(0))
