"""What is summed up: usage by day and model, and the figures of a namespace."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from frontdesk.store import StatsQuery, StatsRow, UsageQuery, UsageRow
from frontdesk.stores.postgres.engine import Connection

_DAY = 86_400_000_000
_SIZES = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


class Totals:
    """Sums through a connection, in one schema."""

    def __init__(self, schema: str) -> None:
        self._here = f"(SELECT number FROM {schema}.namespaces WHERE name = $1)"
        self._schema = schema

    async def usage(self, connection: Connection, query: UsageQuery) -> list[UsageRow]:
        arguments: list[Any] = [query.namespace]
        source = f"{self._schema}.usage_days u WHERE u.ns = {self._here}"
        if query.session_id is not None:
            arguments.append(query.session_id)
            session = (
                f"SELECT s.number FROM {self._schema}.sessions s WHERE s.ns = {self._here} AND s.id = $2 AND s.id <> ''"
            )
            source = f"{self._schema}.usage_lines u WHERE u.ns = {self._here} AND u.session = ({session})"
        for comparison, day in ((">=", query.first_day), ("<=", query.last_day)):
            if day is not None:
                arguments.append(day)
                source += f" AND u.day {comparison} ${len(arguments)}"
        sums = ", ".join(f"sum(u.{name})::bigint" for name in _SIZES)
        rows = await connection.fetch(
            f"SELECT u.day, u.model, sum(u.cost)::text, {sums} FROM {source}"
            " GROUP BY u.day, u.model ORDER BY u.day, coalesce(u.model, '')",
            *arguments,
        )
        return [
            UsageRow(day=day, model=model, cost=cost, **dict(zip(_SIZES, sizes, strict=True)))
            for day, model, cost, *sizes in rows
        ]

    async def stats(self, connection: Connection, query: StatsQuery) -> StatsRow:
        rows = await connection.fetch(
            "SELECT CASE WHEN s.status <> 'active' THEN s.status"
            f" WHEN s.number IN (SELECT l.session FROM {self._schema}.leases l WHERE l.ns = {self._here}"
            " AND l.name = $2 AND l.expires_at > now()) THEN 'compacting'"
            " WHEN s.last_active_at + coalesce(s.idle_after, $3::bigint) <= $4::bigint THEN 'idle'"
            " ELSE s.status END AS seen,"
            f" CASE WHEN s.created_at >= $5::bigint THEN s.created_at / {_DAY} END AS day,"
            " count(*), sum(s.message_count)::bigint"
            f" FROM {self._schema}.sessions s WHERE s.ns = {self._here} GROUP BY seen, day",
            query.namespace,
            query.leased,
            query.idle_after,
            query.now,
            query.since,
        )
        used = await connection.fetchrow(
            "SELECT coalesce(sum(input_tokens), 0)::bigint, coalesce(sum(output_tokens), 0)::bigint,"
            f" coalesce(sum(cost), 0)::text FROM {self._schema}.usage_days WHERE ns = {self._here}",
            query.namespace,
        )
        size = await connection.fetchval(
            "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c"
            " WHERE c.relnamespace = $1::text::regnamespace AND c.relkind = 'r'",
            self._schema,
        )
        return StatsRow(
            sessions=_by_status(rows),
            days=_by_day(rows),
            messages=sum(messages for _, _, _, messages in rows),
            input_tokens=used[0],
            output_tokens=used[1],
            cost=used[2],
            store_bytes=size,
        )


def _by_status(rows: Sequence[Sequence[Any]]) -> dict[str, int]:
    statuses = sorted({row[0] for row in rows})
    return {status: sum(row[2] for row in rows if row[0] == status) for status in statuses}


def _by_day(rows: Sequence[Sequence[Any]]) -> dict[str, tuple[int, int]]:
    days: dict[str, tuple[int, int]] = {}
    for _, day, sessions, messages in sorted(row for row in map(tuple, rows) if row[1] is not None):
        date = datetime.fromtimestamp(day * (_DAY // 1_000_000), UTC).date().isoformat()
        before = days.get(date, (0, 0))
        days[date] = (before[0] + sessions, before[1] + messages)
    return dict(sorted(days.items()))
