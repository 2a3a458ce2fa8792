"""Many sessions at once: pages of them, those that are due, and totals. Separate from single sessions, because each of
these queries needs an index that fits it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from frontdesk.moments import DAY, to_day
from frontdesk.store import DueQuery, SessionQuery, SessionRow, StatsQuery, StatsRow
from frontdesk.stores.sqlite import leases
from frontdesk.stores.sqlite.connections import Connection
from frontdesk.stores.sqlite.rows import SESSION, session_row
from frontdesk.tree.usage import sum_costs

FEW = 2_000
"""up to this many sessions of one tag or peer are sorted; with more, an index in the order of activity is used"""

_STATUSES = {name: f"status = '{name}'" for name in ("active", "suspended", "archived")}
_DUE = {
    "archive": ("status = 'active'", "last_active_at", "archive_after", "sessions_by_activity"),
    "delete": ("status = 'archived'", "ended_at", "delete_after", "sessions_by_end"),
}

_Part = tuple[str, list[str], list[Any]]
"""which index to use, conditions, and their values"""


def page(connection: Connection, query: SessionQuery) -> list[SessionRow]:
    where, values = _filters(connection, query)
    found = [
        _ordered(connection, (way, [*conditions, *where], [*own, *values]), query.limit)
        for way, conditions, own in _parts(connection, query)
    ]
    newest = heapq.merge(*found, key=lambda row: (row.last_active_at, row.number), reverse=True)
    return list(islice(newest, query.limit))


def _ordered(connection: Connection, part: _Part, limit: int) -> Iterator[SessionRow]:
    way, where, values = part
    found = connection.execute(
        f"SELECT {SESSION} FROM sessions {way} WHERE {' AND '.join(where)}"
        " ORDER BY last_active_at DESC, number DESC LIMIT ?",
        (*values, limit),
    )
    return map(session_row, found)


def _filters(connection: Connection, query: SessionQuery) -> tuple[list[str], list[Any]]:
    """The conditions that are the same for every index."""
    where: list[str] = []
    values: list[Any] = []
    named = {name: getattr(query, name) for name in ("agent", "channel", "peer", "thread")}
    for name, wanted in {**named, "parent_session_id": query.parent}.items():
        if wanted is not None:
            where.append(f"{name} = ?")
            values.append(wanted)
    for condition, wanted in (("created_at > ?", query.created_after), ("created_at < ?", query.created_before)):
        if wanted is not None:
            where.append(condition)
            values.append(wanted)
    for condition, lease in (("IN", query.leased), ("NOT IN", query.unleased)):
        if lease is not None:
            living, more = leases.living(lease)
            where.append(f"number {condition} ({living})")
            values += [query.namespace, *more]
    if query.after is not None:
        where.append("(last_active_at, number) < (?, ?)")
        values += query.after
    return where, values


def _parts(connection: Connection, query: SessionQuery) -> list[_Part]:
    """The queries that together find all sessions of a page, each by an index in the order of activity.

    Without statistics, SQLite's planner would sometimes sort a hundred thousand sessions."""
    where: list[str] = ["namespace = ?"]
    values: list[Any] = [query.namespace]
    statuses = [_STATUSES[status] for status in ([query.status] if query.status else _STATUSES)]
    if query.tag is not None and _few(connection, "session_tags", "tag", query.namespace, query.tag):
        where.append("number IN (SELECT session FROM session_tags WHERE namespace = ? AND tag = ?)")
        return _one_way("NOT INDEXED", where, [*values, query.namespace, query.tag], statuses, query)
    if query.tag is not None:
        where.append("EXISTS (SELECT 1 FROM session_tags WHERE session = number AND tag = ?)")
        values.append(query.tag)
    if query.leased is not None:  # by their numbers: few leases are held at a time
        return _one_way("NOT INDEXED", where, values, statuses, query)
    if query.parent is not None:
        return _one_way("INDEXED BY sessions_by_parent", where, values, statuses, query)
    by_peer = "sessions INDEXED BY sessions_by_peer"
    if query.peer is not None and _few(connection, by_peer, "peer", query.namespace, query.peer):
        return _one_way("INDEXED BY sessions_by_peer", where, values, statuses, query)
    if query.agent is not None:
        return _one_way("INDEXED BY sessions_by_agent", where, values, statuses, query)
    parts: list[_Part] = []
    for status in statuses:
        active = status == _STATUSES["active"]
        way = "INDEXED BY sessions_by_activity" if active else "INDEXED BY sessions_by_status"
        # repeated, because SQLite uses a partial index only if the query has the index's own condition
        conditions = [*where, status] if active else [*where, status, "status <> 'active'"]
        if query.idle is None:
            parts.append((way, conditions, values))
            continue
        (common, bound), (own, now) = _idle(query)
        parts.append((way, [*conditions, common], [*values, bound]))
        way = "INDEXED BY sessions_by_own_idle" if active else way
        parts.append((way, [*conditions, own], [*values, now]))
    return parts


def _one_way(
    way: str, where: list[str], values: list[Any], statuses: Sequence[str], query: SessionQuery
) -> list[_Part]:
    if query.status:
        where = [*where, *statuses]
    if query.idle is not None:
        (common, bound), (own, now) = _idle(query)
        where, values = [*where, f"(({common}) OR ({own}))"], [*values, bound, now]
    return [(way, where, values)]


def _idle(query: SessionQuery) -> tuple[tuple[str, int], tuple[str, int]]:
    """The condition on sessions without a threshold of their own, and on those with one, each with its value."""
    sign = "<=" if query.idle else ">"
    return (
        (f"idle_after IS NULL AND last_active_at {sign} ?", query.now - query.idle_after),
        (f"idle_after IS NOT NULL AND last_active_at + idle_after {sign} ?", query.now),
    )


def _few(connection: Connection, table: str, column: str, namespace: str, value: str) -> bool:
    counted = connection.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE namespace = ? AND {column} = ? LIMIT {FEW})",
        (namespace, value),
    ).fetchall()
    return bool(counted[0][0] < FEW)


def due(connection: Connection, query: DueQuery) -> list[SessionRow]:
    status, moment, own, index = _DUE[query.what]
    bound = query.now
    if query.threshold is None:
        moment, index = f"{moment} + {own}", f"sessions_by_own_{query.what}"
    else:
        bound = query.now - query.threshold
    after = "" if query.after is None else f" AND ({moment}, number) > (?, ?)"
    found = connection.execute(
        f"SELECT {SESSION} FROM sessions INDEXED BY {index} WHERE namespace = ? AND {status}"
        f" AND {own} IS {'NOT ' if query.threshold is None else ''}NULL AND {moment} <= ?{after}"
        f" ORDER BY {moment}, number LIMIT ?",
        (query.namespace, bound, *(query.after or ()), query.limit),
    )
    return [session_row(row) for row in found]


def stats(connection: Connection, query: StatsQuery) -> StatsRow:
    living, more = leases.living(query.leased)
    counted = connection.execute(
        "SELECT CASE WHEN status <> 'active' THEN status"
        f" WHEN number IN ({living}) THEN 'compacting'"
        " WHEN last_active_at + coalesce(idle_after, ?) <= ? THEN 'idle' ELSE status END AS seen,"
        f" CASE WHEN created_at >= ? THEN created_at / {DAY} END AS day, count(*), sum(message_count)"
        " FROM sessions WHERE namespace = ? GROUP BY seen, day ORDER BY seen, day",
        (query.namespace, *more, query.idle_after, query.now, query.since, query.namespace),
    ).fetchall()
    sessions: dict[str, int] = {}
    days: dict[str, tuple[int, int]] = {}
    for status, day, number, messages in counted:
        sessions[status] = sessions.get(status, 0) + number
        if day is not None:
            date = to_day(day * DAY)
            before = days.get(date, (0, 0))
            days[date] = (before[0] + number, before[1] + messages)
    used = connection.execute(
        "SELECT input_tokens, output_tokens, cost FROM usage_days WHERE namespace = ?", (query.namespace,)
    ).fetchall()
    size = connection.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").fetchall()
    return StatsRow(
        sessions=sessions,
        days=dict(sorted(days.items())),
        messages=sum(messages for _, _, _, messages in counted),
        input_tokens=sum(day[0] for day in used),
        output_tokens=sum(day[1] for day in used),
        cost=sum_costs(*(day[2] for day in used)),
        store_bytes=size[0][0],
    )
