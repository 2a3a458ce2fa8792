"""Usage entries, their totals by day and model, and the statistics of a namespace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from frontdesk.errors import SessionNotFoundError
from frontdesk.moments import DAY, to_day
from frontdesk.store import StatsQuery, StatsRow, UsageQuery, UsageRow
from frontdesk.stores.postgres import sessions
from frontdesk.stores.postgres.connection import Connection, Row
from frontdesk.stores.postgres.rows import HERE, NOW
from frontdesk.tree.usage import group_usage, reads_entries, reads_totals

_SIZES = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_AMOUNTS = (*_SIZES, "cost")
_ADD_USAGE = (
    "WITH s AS (SELECT ns, number, agent, channel FROM {schema}.sessions"
    f" WHERE ns = {HERE} AND id = $2 AND id <> '' FOR UPDATE),"
    " entry AS (INSERT INTO {schema}.usage_entries SELECT s.ns, s.number, $3, $4, $5, $6, $7, $8, $9, $10,"
    " $11, $12 FROM s ON CONFLICT DO NOTHING RETURNING *),"
    " total AS (UPDATE {schema}.sessions x SET input_tokens = x.input_tokens + entry.input_tokens,"
    " output_tokens = x.output_tokens + entry.output_tokens, cost = x.cost + entry.cost,"
    " updated_at = greatest(x.updated_at, entry.at), changed_in = greatest(x.changed_in, {schema}.this_xid())"
    " FROM entry WHERE x.ns = entry.ns AND x.number = entry.session RETURNING x.*),"
    " logged AS (INSERT INTO {schema}.changes (ns, xid, position, at, session, kind) SELECT ns, changed_in,"
    " nextval('{schema}.change_positions'), updated_at, number, 'usage.added' FROM total),"
    " day AS (INSERT INTO {schema}.usage_days AS d SELECT e.ns, e.day,"
    " sha256(convert_to(json_build_array(e.model, s.agent, s.channel)::text, 'UTF8')), e.model, s.agent, s.channel,"
    f" {', '.join(f'e.{name}' for name in _AMOUNTS)} FROM entry e, s"
    " ON CONFLICT (ns, day, digest) DO UPDATE SET "
    + ", ".join(f"{name} = d.{name} + excluded.{name}" for name in _AMOUNTS)
    + ") SELECT (SELECT count(*) FROM s), (SELECT count(*) FROM entry)"
)
_SUMS = ", ".join(f"sum(u.{name})::bigint" for name in _SIZES)
_GROUPS = ("day", "session_id", "agent", "channel", "peer", "model")
_DAYS = f"{{schema}}.usage_days u WHERE u.ns = {HERE}"
_DAY_COLUMNS = {"day": "u.day", "agent": "u.agent", "channel": "u.channel", "model": "u.model"}
_ENTRIES = (
    f"{{schema}}.sessions s JOIN {{schema}}.usage_entries u ON u.ns = s.ns AND u.session = s.number WHERE s.ns = {HERE}"
)
_ENTRY_COLUMNS = {
    "day": "u.day",
    "session_id": "s.id",
    "agent": "s.agent",
    "channel": "s.channel",
    "peer": "s.peer",
    "model": "u.model",
}
_SESSIONS = (
    "SELECT CASE WHEN s.status <> 'active' THEN s.status"
    f" WHEN s.number IN (SELECT l.session FROM {{schema}}.leases l WHERE l.ns = {HERE}"
    f" AND l.name = $2 AND l.expires_at > {NOW} AND l.holder <> '') THEN 'compacting'"
    " WHEN s.last_active_at + coalesce(s.idle_after, $3::bigint) <= $4::bigint THEN 'idle'"
    " ELSE s.status END AS seen,"
    f" CASE WHEN s.created_at >= $5::bigint THEN s.created_at / {DAY} END AS day,"
    " count(*), sum(s.message_count)::bigint,"
    " coalesce(sum(s.view_tokens) FILTER (WHERE s.view <> 'stale'), 0)::bigint,"
    " coalesce(array_agg(s.id) FILTER (WHERE s.view = 'stale'), ARRAY[]::text[])"
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
    )
    if not found:
        raise SessionNotFoundError(session_id, namespace)
    return bool(added)


async def usage(connection: Connection, query: UsageQuery) -> list[UsageRow]:
    """One statement. Raises `SessionNotFoundError`."""
    values: list[Any] = [query.namespace]
    parts = []
    if reads_totals(query):
        parts.append(_select(query, _DAYS, _DAY_COLUMNS, values, is_total=True))
    if reads_entries(query):
        parts.append(_select(query, _ENTRIES, _ENTRY_COLUMNS, values, is_total=False))
    rows = await connection.fetch(" UNION ALL ".join(parts), *values)
    session_id = None if rows else query.session_id
    if session_id is not None and await sessions.get(connection, query.namespace, session_id) is None:
        raise SessionNotFoundError(session_id, query.namespace)
    names = (*_GROUPS, *_SIZES, "cost")
    found = [(is_total, dict(zip(names, rest, strict=True))) for is_total, *rest in rows]
    made = [(is_total, UsageRow(**fields | {"day": fields["day"] or ""})) for is_total, fields in found]
    return group_usage(
        query, [row for is_total, row in made if is_total], [row for is_total, row in made if not is_total]
    )


def _select(query: UsageQuery, source: str, columns: Mapping[str, str], values: list[Any], *, is_total: bool) -> str:
    """A statement that adds up the rows of a source by as many groups as the source has columns for."""
    wanted = [(column, "=", getattr(query, name)) for name, column in columns.items() if name != "day"]
    for column, comparison, value in (*wanted, ("u.day", ">=", query.first_day), ("u.day", "<=", query.last_day)):
        if value is not None:
            values.append(value)
            source += f" AND {column} {comparison} ${len(values)}"
            if column == "s.id":
                source += " AND s.id <> ''"  # the condition of its index
    by = [name for name in _GROUPS if name in query.by and name in columns]
    shown = ", ".join(columns[name] if name in by else f"NULL::text AS {name}" for name in _GROUPS)
    grouped = f" GROUP BY {', '.join(columns[name] for name in by)}" if by else " HAVING count(*) > 0"
    return f"SELECT {is_total}, {shown}, {_SUMS}, sum(u.cost)::text FROM {source}{grouped}"


async def stats(connection: Connection, query: StatsQuery) -> StatsRow:
    rows = await connection.fetch(_SESSIONS, query.namespace, query.leased, query.idle_after, query.now, query.since)
    input_tokens, output_tokens, cost = await connection.fetch_one(_USED, query.namespace)
    return StatsRow(
        sessions=_by_status(rows),
        days=_by_day(rows),
        messages=sum(row[3] for row in rows),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost=cost,
        context_tokens=sum(row[4] for row in rows),
        stale=tuple(session_id for row in rows for session_id in row[5]),
        store_bytes=await connection.fetch_value(_BYTES, connection.schema),
    )


def _by_status(rows: Sequence[Row]) -> dict[str, int]:
    statuses = sorted({row[0] for row in rows})
    return {status: sum(row[2] for row in rows if row[0] == status) for status in statuses}


def _by_day(rows: Sequence[Row]) -> dict[str, tuple[int, int]]:
    days: dict[str, tuple[int, int]] = {}
    for _, day, started, messages, *_ in sorted(row for row in map(tuple, rows) if row[1] is not None):
        date = to_day(day * DAY)
        before = days.get(date, (0, 0))
        days[date] = (before[0] + started, before[1] + messages)
    return dict(sorted(days.items()))
