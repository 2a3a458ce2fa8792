"""Usage: totals by any grouping, of living and of deleted sessions."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import combinations
from typing import Any, get_args

import pytest

from frontdesk import InvalidInputError, SessionKey, SessionManager, SessionNotFoundError, Usage, UsageField

ANA, BEN = SessionKey("concierge", "web", "ana"), SessionKey("concierge", "web", "ben")
ANA_AT_CLERK = SessionKey("clerk", "sms", "ana")


def day(number: int) -> datetime:
    return datetime(2026, 1, number, 12, tzinfo=UTC)


async def record(manager: SessionManager) -> None:
    """Seven calls of three guests' sessions and of one without a key."""
    await manager.create(id="plain")
    for key, at, model, tokens in (
        (ANA, 1, "large", 1),
        (ANA, 1, "small", 2),
        (ANA, 2, "large", 4),
        (BEN, 2, "large", 8),
        (ANA_AT_CLERK, 3, "large", 16),
        ("plain", 3, None, 32),
        ("plain", 1, "large", 64),
    ):
        await manager.get_or_create(key)
        await manager.add_usage(key, input_tokens=tokens, cost=Decimal(tokens) / 10, model=model, at=day(at))


def table(usage: Usage, *fields: str) -> dict[Any, int]:
    rows = [tuple(getattr(row, field) for field in fields) for row in usage.rows]
    assert len(set(rows)) == len(rows)
    return {key if len(fields) > 1 else key[0]: row.input_tokens for key, row in zip(rows, usage.rows, strict=True)}


class UsageTests:
    async def test_usage_is_grouped_by_day_unless_asked_otherwise(self, manager: SessionManager) -> None:
        await record(manager)
        usage = await manager.usage()
        assert table(usage, "day") == {date(2026, 1, 1): 67, date(2026, 1, 2): 12, date(2026, 1, 3): 48}
        assert (usage.total.input_tokens, usage.total.cost, usage.total.day) == (127, Decimal("12.7"), None)
        assert {(row.agent, row.peer, row.session_id, row.model) for row in usage.rows} == {(None,) * 4}

    async def test_usage_can_be_grouped_by_anything(self, manager: SessionManager) -> None:
        await record(manager)
        assert table(await manager.usage(by=["peer"]), "peer") == {None: 96, "ana": 23, "ben": 8}
        assert table(await manager.usage(by=["agent"]), "agent") == {None: 96, "clerk": 16, "concierge": 15}
        assert table(await manager.usage(by=["model"]), "model") == {None: 32, "large": 93, "small": 2}
        by_both = await manager.usage(by=("agent", "peer"))
        assert table(by_both, "agent", "peer") == {
            (None, None): 96,
            ("clerk", "ana"): 16,
            ("concierge", "ana"): 7,
            ("concierge", "ben"): 8,
        }
        sessions = table(await manager.usage(by=["session"]), "session_id")
        assert sessions.pop("plain") == 96
        assert sorted(sessions.values()) == [7, 8, 16]
        [whole] = (await manager.usage(by=())).rows
        assert whole.input_tokens == 127

    async def test_usage_can_be_selected(self, manager: SessionManager) -> None:
        await record(manager)

        async def total(**options: Any) -> int:
            return (await manager.usage(**options)).total.input_tokens

        assert await total(peer="ana") == 23
        assert await total(agent="concierge", channel="web", peer="ana") == 7
        assert await total(channel="sms") == 16
        assert await total(model="large", agent="concierge") == 13
        assert await total(session="plain") == 96
        assert await total(session=ANA) == 7
        assert await total(session=ANA, model="small") == 2
        assert await total(peer="nobody") == 0
        assert await total(since=date(2026, 1, 2)) == 60
        assert await total(until=date(2026, 1, 1), peer="ana") == 3
        assert await total(since=date(2026, 1, 2), until=date(2026, 1, 2)) == 12
        west = timezone(timedelta(hours=-5))
        assert await total(since=datetime(2026, 1, 2, 20, tzinfo=west)) == 48  # already the 3rd in UTC

    async def test_deleted_and_erased_sessions_keep_their_totals_without_session_and_peer(
        self, manager: SessionManager
    ) -> None:
        await record(manager)
        await manager.delete("plain")
        await manager.erase(key=BEN)
        assert table(await manager.usage(), "day") == {date(2026, 1, 1): 67, date(2026, 1, 2): 12, date(2026, 1, 3): 48}
        assert table(await manager.usage(by=["agent"]), "agent") == {None: 96, "clerk": 16, "concierge": 15}
        assert table(await manager.usage(by=["peer"]), "peer") == {None: 104, "ana": 23}
        by_both = await manager.usage(by=["agent", "peer"])
        assert table(by_both, "agent", "peer")["concierge", None] == 8
        assert (await manager.usage(peer="ben")).rows == ()
        with pytest.raises(SessionNotFoundError):
            await manager.usage(session="plain")
        assert "ben" not in repr([await manager.usage(by=get_args(UsageField))])

    async def test_the_total_is_the_same_however_it_is_grouped(self, manager: SessionManager) -> None:
        await record(manager)
        rng = random.Random(7)
        for number in range(20):
            key = SessionKey(rng.choice("ab"), rng.choice("cd"), rng.choice("efgh"))
            await manager.get_or_create(key)
            await manager.add_usage(
                key, input_tokens=rng.randrange(9), cost=f"0.{rng.randrange(99)}", at=day(rng.randrange(1, 9))
            )
            if number % 4 == 3:
                await manager.delete(key)
        fields: tuple[UsageField, ...] = get_args(UsageField)
        whole = (await manager.usage(by=())).total
        for size in range(len(fields) + 1):
            for by in combinations(fields, size):
                usage = await manager.usage(by=by)
                assert usage.total == whole
                assert sum(row.input_tokens for row in usage.rows) == whole.input_tokens
                assert min(row.input_tokens for row in usage.rows) >= 0

    async def test_wrong_groups_and_filters_are_refused(self, manager: SessionManager) -> None:
        for options in ({"by": "day"}, {"by": ["week"]}, {"peer": 3}, {"model": "a\0"}, {"since": "monday"}):
            with pytest.raises(InvalidInputError):
                await manager.usage(**options)
        assert (await manager.usage()).rows == ()
        assert (await manager.usage()).total.cost == 0
