"""Totals: the usage of model calls, and the statistics of a namespace."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

from frontdesk.config.runtime import Runtime
from frontdesk.errors import InvalidInputError
from frontdesk.lifecycle.transitions import COMPACTION_LEASE
from frontdesk.moments import DAY
from frontdesk.records import GrowthDay, Stats, Usage, UsageDay
from frontdesk.store import StatsQuery, UsageQuery

_GROWTH_DAYS = 30


async def read_usage(runtime: Runtime, session_id: str | None, first_day: date | None, last_day: date | None) -> Usage:
    """See `SessionManager.usage`."""
    query = UsageQuery(
        namespace=runtime.namespace,
        session_id=session_id,
        first_day=None if first_day is None else _day(first_day),
        last_day=None if last_day is None else _day(last_day),
    )
    return Usage.from_days(tuple(UsageDay.from_row(row) for row in await runtime.store.usage(query)))


async def read_stats(runtime: Runtime) -> Stats:
    """See `SessionManager.stats`."""
    now = runtime.now()
    row = await runtime.store.stats(
        StatsQuery(
            namespace=runtime.namespace,
            now=now,
            idle_after=runtime.settings.lifecycle.idle_after,
            leased=COMPACTION_LEASE,
            since=(now // DAY - _GROWTH_DAYS + 1) * DAY,
        )
    )
    return Stats(
        sessions=sum(row.sessions.values()),
        by_status=row.sessions,
        messages=row.messages,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        cost=Decimal(row.cost),
        store_bytes=row.store_bytes,
        growth=tuple(GrowthDay(date.fromisoformat(day), *counts) for day, counts in row.days.items()),
        hook_failures=runtime.hooks.failures,
    )


def _day(day: date) -> str:
    if not isinstance(day, date):
        raise InvalidInputError(f"a day is a date, not {type(day).__name__}")
    moment = day.astimezone(UTC).date() if isinstance(day, datetime) and day.tzinfo else day
    return moment.strftime("%Y-%m-%d")
