"""Usage entries, their totals by day and model, and the statistics of a namespace."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from frontdesk.errors import SessionNotFoundError
from frontdesk.moments import DAY, to_day
from frontdesk.store import StatsQuery, StatsRow, UsageQuery, UsageRow
from frontdesk.stores.postgres import sessions
from frontdesk.stores.postgres.connection import Connection, Row
from frontdesk.stores.postgres.rows import HERE, NOW, digest

_SIZES = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_AMOUNTS = (*_SIZES, "cost")
_ADD_USAGE = (
    f"WITH s AS (SELECT ns, number FROM {{schema}}.sessions WHERE ns = {HERE} AND id = $2 AND id <> '' FOR UPDATE),"
    " entry AS (INSERT INTO {schema}.usage_entries SELECT s.ns, s.number, $3, $4, $5, $6, $7, $8, $9, $10,"
    " $11, $12 FROM s ON CONFLICT DO NOTHING RETURNING *),"
    " total AS (UPDATE {schema}.sessions x SET input_tokens = x.input_tokens + entry.input_tokens,"
    " output_tokens = x.output_tokens + entry.output_tokens, cost = x.cost + entry.cost,"
    " updated_at = greatest(x.updated_at, entry.at), changed_in = greatest(x.changed_in, {schema}.this_xid())"
    " FROM entry WHERE x.ns = entry.ns AND x.number = entry.session RETURNING x.*),"
    " logged AS (INSERT INTO {schema}.changes (ns, xid, position, at, session, kind) SELECT ns, changed_in,"
    " nextval('{schema}.change_positions'), updated_at, number, 'usage.added' FROM total),"
    f" day AS (INSERT INTO {{schema}}.usage_days AS d SELECT ns, day, $13, model, {', '.join(_AMOUNTS)} FROM entry"
    " ON CONFLICT (ns, day, digest) DO UPDATE SET "
    + ", ".join(f"{name} = d.{name} + excluded.{name}" for name in _AMOUNTS)
    + ") SELECT (SELECT count(*) FROM s), (SELECT count(*) FROM entry)"
)
_SUMS = ", ".join(f"sum(u.{name})::bigint" for name in _SIZES)
_SESSION = f"(SELECT s.number FROM {{schema}}.sessions s WHERE s.ns = {HERE} AND s.id = $2 AND s.id <> '')"
_SESSIONS = (
    "SELECT CASE WHEN s.status <> 'active' THEN s.status"
    f" WHEN s.number IN (SELECT l.session FROM {{schema}}.leases l WHERE l.ns = {HERE}"
    f" AND l.name = $2 AND l.expires_at > {NOW} AND l.holder <> '') THEN 'compacting'"
    " WHEN s.last_active_at + coalesce(s.idle_after, $3::bigint) <= $4::bigint THEN 'idle'"
    " ELSE s.status END AS seen,"
    f" CASE WHEN s.created_at >= $5::bigint THEN s.created_at / {DAY} END AS day,"
    " count(*), sum(s.message_count)::bigint"
    f" FROM {{schema}}.sessions s WHERE s.ns = {HERE} GROUP BY seen, day"
)
_USED = (
    "SELECT coalesce(sum(input_tokens), 0)::bigint, coalesce(sum(output_tokens), 0)::bigint,"
    f" coalesce(sum(cost), 0)::text FROM {{schema}}.usage_days WHERE ns = {HERE}"
)
_BYTES = (
    "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c"
    " WHERE c.relnamespace = $1::text::regnamespace AND c.relkind = 'r'"
)


async def add(connection: Connection, namespace: str, session_id: str, entry: UsageRow) -> bool:
    """False if the session has a usage entry with this id. Raises `SessionNotFoundError`."""
    found, added = await connection.fetch_one(
        _ADD_USAGE,
        namespace,
        session_id,
        entry.id,
        entry.day,
        entry.model,
        entry.at,
        *(Decimal(entry.cost) if name == "cost" else getattr(entry, name) for name in _AMOUNTS),
        b"" if entry.model is None else digest(entry.model),
    )
    if not found:
        raise SessionNotFoundError(session_id, namespace)
    return bool(added)


async def usage(connection: Connection, query: UsageQuery) -> list[UsageRow]:
    """Raises `SessionNotFoundError`."""
    values: list[Any] = [query.namespace]
    source = f"{{schema}}.usage_days u WHERE u.ns = {HERE}"
    if query.session_id is not None:
        if await sessions.get(connection, query.namespace, query.session_id) is None:
            raise SessionNotFoundError(query.session_id, query.namespace)
        values.append(query.session_id)
        source = f"{{schema}}.usage_entries u WHERE u.ns = {HERE} AND u.session = {_SESSION}"
    for comparison, day in ((">=", query.first_day), ("<=", query.last_day)):
        if day is not None:
            values.append(day)
            source += f" AND u.day {comparison} ${len(values)}"
    rows = await connection.fetch(
        f"SELECT u.day, u.model, sum(u.cost)::text, {_SUMS} FROM {source}"
        " GROUP BY u.day, u.model ORDER BY u.day, coalesce(u.model, '')",
        *values,
    )
    return [
        UsageRow(day=day, model=model, cost=cost, **dict(zip(_SIZES, sizes, strict=True)))
        for day, model, cost, *sizes in rows
    ]


async def stats(connection: Connection, query: StatsQuery) -> StatsRow:
    rows = await connection.fetch(_SESSIONS, query.namespace, query.leased, query.idle_after, query.now, query.since)
    input_tokens, output_tokens, cost = await connection.fetch_one(_USED, query.namespace)
    return StatsRow(
        sessions=_by_status(rows),
        days=_by_day(rows),
        messages=sum(messages for _, _, _, messages in rows),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost=cost,
        store_bytes=await connection.fetch_value(_BYTES, connection.schema),
    )


def _by_status(rows: Sequence[Row]) -> dict[str, int]:
    statuses = sorted({row[0] for row in rows})
    return {status: sum(row[2] for row in rows if row[0] == status) for status in statuses}


def _by_day(rows: Sequence[Row]) -> dict[str, tuple[int, int]]:
    days: dict[str, tuple[int, int]] = {}
    for _, day, started, messages in sorted(row for row in map(tuple, rows) if row[1] is not None):
        date = to_day(day * DAY)
        before = days.get(date, (0, 0))
        days[date] = (before[0] + started, before[1] + messages)
    return dict(sorted(days.items()))
