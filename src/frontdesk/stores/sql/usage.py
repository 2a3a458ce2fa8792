"""Usage entries, their totals by day and model, and the statistics of a namespace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from frontdesk.errors import SessionNotFoundError
from frontdesk.moments import DAY, to_day
from frontdesk.store import NewChange, StatsQuery, StatsRow, UsageQuery, UsageRow
from frontdesk.stores.sql import leases
from frontdesk.stores.sql.database import Database, Row
from frontdesk.stores.sql.digests import group_digest
from frontdesk.tree.usage import group_usage, reads_entries, reads_totals, sum_costs

_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_ENTRY = ("id", "at", "day", "model", *_COUNTS, "cost")
_TOTALS = ("day", "digest", "model", "agent", "channel", *_COUNTS, "cost")
_SESSION = (
    "SELECT ns, number, agent, channel, cost, updated_at FROM {schema}.sessions"
    " WHERE ns = {here} AND id = :session_id AND id <> ''"
)
_ADD_ENTRY = (
    f"INSERT INTO {{schema}}.usage_entries ({{ns,}} session, {', '.join(_ENTRY)})"
    f" VALUES ({{:ns,}} :session, {', '.join(f':{name}' for name in _ENTRY)}) {{keep}}"
)
_ADD_TO_SESSION = (
    "UPDATE {schema}.sessions SET input_tokens = input_tokens + :input_tokens,"
    " output_tokens = output_tokens + :output_tokens, cost = :cost, updated_at = :updated_at"
    " WHERE {ns} number = :session"
)
_NEW_DAY = (
    f"INSERT INTO {{schema}}.usage_days (ns, {', '.join(_TOTALS)})"
    f" VALUES (:ns, :day, :digest, :model, :agent, :channel, {', '.join('0' for _ in _COUNTS)}, '0') {{keep}}"
)
_OF_DAY = "ns = :ns AND day = :day AND digest = :digest"
_ADD_TO_DAY = (
    f"UPDATE {{schema}}.usage_days SET {', '.join(f'{name} = {name} + :{name}' for name in _COUNTS)}, cost = :cost"
    f" WHERE {_OF_DAY}"
)
_SUMS = ", ".join(f"CAST(sum(u.{name}) AS bigint)" for name in _COUNTS)
_DAYS = "{schema}.usage_days u WHERE u.ns = {here}"
_DAY_COLUMNS = {name: f"u.{name}" for name in ("day", "model", "agent", "channel")}
_ENTRIES = "{schema}.sessions s JOIN {schema}.usage_entries u ON {same u s} u.session = s.number WHERE s.ns = {here}"
_OF_SESSION = {"session_id": "s.id", "agent": "s.agent", "channel": "s.channel", "peer": "s.peer"}
_ENTRY_COLUMNS = {"day": "u.day", "model": "u.model", **_OF_SESSION}


async def add(db: Database, namespace: str, session_id: str, entry: UsageRow) -> bool:
    """False if the session has a usage entry with this id. Raises `SessionNotFoundError`. Needs a transaction."""
    session = await db.fetch_row(f"{_SESSION} {{lock}}", namespace=namespace, session_id=session_id)
    if session is None:
        raise SessionNotFoundError(session_id, namespace)
    ns, number, agent, channel, cost, updated_at = session
    values = {"ns": ns, "session": number, **{name: getattr(entry, name) for name in _ENTRY}}
    if not await db.execute(_ADD_ENTRY, **values):
        return False
    updated_at = max(updated_at, entry.at)
    changed = values | {"cost": sum_costs(cost, entry.cost), "updated_at": updated_at}
    await db.execute(_ADD_TO_SESSION, **changed)
    day = values | {"digest": group_digest(entry.model, agent, channel), "agent": agent, "channel": channel}
    find = f"SELECT cost FROM {{schema}}.usage_days WHERE {_OF_DAY} {{lock}}"
    while (total := await db.fetch_value(find, **day)) is None:
        await db.execute(_NEW_DAY, **day)
    await db.execute(_ADD_TO_DAY, **day | {"cost": sum_costs(total, entry.cost)})
    await db.log(ns, number, updated_at, [NewChange(kind="usage.added")])
    return True


async def totals(db: Database, query: UsageQuery) -> list[UsageRow]:
    """Raises `SessionNotFoundError`."""
    days, entries = [], []
    if reads_totals(query):
        days = await _groups(db, query, _DAYS, _DAY_COLUMNS)
    if reads_entries(query):
        entries = await _groups(db, query, _ENTRIES, _ENTRY_COLUMNS)
    if query.session_id is not None and not entries:
        of = {"namespace": query.namespace, "session_id": query.session_id}
        if await db.fetch_row(_SESSION, **of) is None:
            raise SessionNotFoundError(query.session_id, query.namespace)
    return group_usage(query, days, entries)


async def recent(
    db: Database, namespace: str, session_id: str, limit: int, before: tuple[int, str] | None = None
) -> list[UsageRow]:
    at, id = before or (None, None)
    older = "" if before is None else " AND (u.at, u.id) < (:at, :id)"
    shown = ", ".join(f"u.{name}" for name in _ENTRY)
    rows = await db.fetch(
        f"SELECT {shown} FROM {_ENTRIES} AND s.id = :session_id AND s.id <> ''{older}"
        " ORDER BY u.at DESC, u.id DESC LIMIT :limit",
        namespace=namespace,
        session_id=session_id,
        limit=limit,
        at=at,
        id=id,
    )
    return [UsageRow(**dict(zip(_ENTRY, row, strict=True))) for row in rows]


async def _groups(db: Database, query: UsageQuery, source: str, columns: Mapping[str, str]) -> list[UsageRow]:
    """The rows of a source that a query selects, added up by as many of its groups as the source has columns for."""
    wanted = [(name, "=", getattr(query, name)) for name in columns if name != "day"]
    bounds = [("first_day", ">=", query.first_day), ("last_day", "<=", query.last_day)]
    values: dict[str, Any] = {"namespace": query.namespace}
    for name, comparison, value in (*wanted, *bounds):
        if value is not None:
            values[name] = value
            source += f" AND {columns.get(name, 'u.day')} {comparison} :{name}"
            if name == "session_id":
                source += " AND s.id <> ''"  # the condition of an index
    by = [name for name in query.by if name in columns]
    shown = "".join(f"{columns[name]}, " for name in by)
    grouped = f" GROUP BY {', '.join(columns[name] for name in by)}" if by else " HAVING count(*) > 0"
    rows = await db.fetch(f"SELECT {shown}{_SUMS}, {{sum_of_costs}} FROM {source}{grouped}", **values)
    names = (*by, *_COUNTS)
    return [UsageRow(**dict(zip(names, counts, strict=True)), cost=sum_costs(*cost.split())) for *counts, cost in rows]


# statistics

_SESSIONS = (
    "SELECT CASE WHEN s.status <> 'active' THEN s.status"
    f" WHEN s.number IN ({leases.LEASED}) THEN 'compacting'"
    " WHEN s.last_active_at + coalesce(s.idle_after, :idle_after) <= :at THEN 'idle' ELSE s.status END AS seen,"
    f" CASE WHEN s.created_at >= :since THEN s.created_at / {DAY} END AS day,"
    " count(*), CAST(sum(s.message_count) AS bigint),"
    " CAST(sum(CASE WHEN s.view <> 'stale' THEN s.view_tokens ELSE 0 END) AS bigint)"
    " FROM {schema}.sessions s WHERE s.ns = {here} GROUP BY seen, day"
)
_STALE = "SELECT id FROM {schema}.sessions WHERE ns = {here} AND view = 'stale'"
_USED = (
    "SELECT coalesce(CAST(sum(u.input_tokens) AS bigint), 0), coalesce(CAST(sum(u.output_tokens) AS bigint), 0),"
    " coalesce({sum_of_costs}, '') FROM {schema}.usage_days u WHERE u.ns = {here}"
)


async def stats(db: Database, query: StatsQuery) -> StatsRow:
    here = {"namespace": query.namespace}
    found = {"leased": query.leased, "idle_after": query.idle_after, "at": query.now, "since": query.since}
    rows = await db.fetch(_SESSIONS, **here, **found)
    used = await db.fetch_row(_USED, **here)
    assert used is not None
    input_tokens, output_tokens, costs = used
    return StatsRow(
        sessions=_by_status(rows),
        days=_by_day(rows),
        messages=sum(row[3] for row in rows),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost=sum_costs(*costs.split()),
        context_tokens=sum(row[4] for row in rows),
        stale=tuple(id for (id,) in await db.fetch(_STALE, **here)),
        store_bytes=await db.size(),
    )


def _by_status(rows: Sequence[Row]) -> dict[str, int]:
    statuses = sorted({row[0] for row in rows})
    return {status: sum(row[2] for row in rows if row[0] == status) for status in statuses}


def _by_day(rows: Sequence[Row]) -> dict[str, tuple[int, int]]:
    days: dict[str, tuple[int, int]] = {}
    for _, day, started, messages, *_ in rows:
        if day is not None:
            date = to_day(day * DAY)
            before = days.get(date, (0, 0))
            days[date] = (before[0] + started, before[1] + messages)
    return dict(sorted(days.items()))
