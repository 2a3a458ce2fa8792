"""Totals: the usage of model calls, and the statistics of a namespace."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from typing import get_args

from frontdesk import cursors
from frontdesk.checks import check_list, check_text
from frontdesk.config.runtime import Runtime
from frontdesk.errors import InvalidInputError, SessionNotFoundError
from frontdesk.history import trees
from frontdesk.lifecycle.transitions import COMPACTION_LEASE
from frontdesk.manager.directory import check_limit
from frontdesk.moments import DAY
from frontdesk.records import GrowthDay, Page, Stats, Usage, UsageEntry, UsageField, UsageGroup
from frontdesk.store import StatsQuery, UsageQuery, UsageRow
from frontdesk.tree.usage import add_entry

_GROWTH_DAYS = 30
_SECOND = 1_000_000
_LONG_LAG = 5 * _SECOND
_log = logging.getLogger("frontdesk.events")


async def read_usage(
    runtime: Runtime,
    filters: Mapping[str, str | None],
    since: date | None,
    until: date | None,
    by: Sequence[UsageField],
) -> Usage:
    """See `SessionManager.usage`. `filters` are values of the columns of a `UsageQuery`."""
    query = UsageQuery(
        namespace=runtime.namespace,
        by=_columns(by),
        first_day=None if since is None else day_text(since),
        last_day=None if until is None else day_text(until),
        **{name: None if value is None else check_text(value, name) for name, value in filters.items()},
    )
    rows = await runtime.store.usage(query)
    total = reduce(add_entry, rows, UsageRow())
    return Usage(tuple(map(UsageGroup.from_row, rows)), UsageGroup.from_row(total))


async def read_entries(runtime: Runtime, session_id: str, limit: int, cursor: str | None) -> Page[UsageEntry]:
    """See `SessionManager.usage_entries`."""
    check_limit(limit)
    call = ["usage entries", runtime.namespace, session_id]
    before = None if cursor is None else tuple(cursors.unseal(cursor, call))
    rows = await runtime.store.recent_usage(runtime.namespace, session_id, limit + 1, before)
    if not rows and await runtime.store.get(runtime.namespace, session_id) is None:
        raise SessionNotFoundError(session_id, runtime.namespace)
    shown = rows[:limit]
    following = cursors.seal([shown[-1].at, shown[-1].id], call) if len(rows) > limit else None
    return Page([UsageEntry.from_row(row) for row in shown], following)


def _columns(by: Sequence[UsageField]) -> tuple[str, ...]:
    fields = check_list(by, "by")
    for name in fields:
        if name not in get_args(UsageField):
            raise InvalidInputError(
                f"usage cannot be grouped by {name!r}: choose from {', '.join(get_args(UsageField))}"
            )
    return tuple(dict.fromkeys("session_id" if name == "session" else name for name in fields))


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
    if row.log_lag > _LONG_LAG:
        _log.warning(
            "events and the search index of namespace %r are %.0f s late: they wait for %s",
            runtime.namespace,
            row.log_lag / _SECOND,
            row.log_holder,
        )
    return Stats(
        sessions=sum(row.sessions.values()),
        by_status=row.sessions,
        messages=row.messages,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        cost=Decimal(row.cost),
        context_tokens=row.context_tokens + await trees.store_views(runtime, row.stale),
        store_bytes=row.store_bytes,
        growth=tuple(GrowthDay(date.fromisoformat(day), *counts) for day, counts in row.days.items()),
        hook_failures=runtime.hooks.failures,
        event_lag=row.log_lag / _SECOND,
        event_lag_cause=row.log_holder,
    )


def day_text(day: date) -> str:
    """A day as it is stored; of a datetime, its day in UTC. Raises `InvalidInputError`."""
    if not isinstance(day, date):
        raise InvalidInputError(f"a day must be a date, not {type(day).__name__}")
    moment = day.astimezone(UTC).date() if isinstance(day, datetime) and day.tzinfo else day
    return moment.strftime("%Y-%m-%d")
