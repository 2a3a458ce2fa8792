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
from frontdesk.stores.sqlite.rows import SESSION, json_text, session_row
from frontdesk.tree.sessions import prefix_end
from frontdesk.tree.usage import sum_costs

FEW = 2_000
"""up to this many sessions of a filter are sorted; with more, an index in the order of the list is used"""

_STATUSES = {name: f"status = '{name}'" for name in ("active", "suspended", "archived")}
_DUE = {
    "archive": ("status = 'active'", "last_active_at", "archive_after", "sessions_by_activity"),
    "delete": ("status = 'archived'", "ended_at", "delete_after", "sessions_by_end"),
}
_TAGGED = "EXISTS (SELECT 1 FROM session_tags WHERE session = number AND tag = ?)"
_WITH_METADATA = "EXISTS (SELECT 1 FROM session_metadata WHERE session = number AND digest = ?)"

_Part = tuple[str, list[str], list[Any]]
"""which index to use, conditions, and their values"""


def page(connection: Connection, query: SessionQuery) -> list[SessionRow]:
    where, values = _filters(query)
    found = [
        _ordered(connection, query, (way, [*conditions, *where], [*own, *values]))
        for way, conditions, own in _parts(query, _narrowed(connection, query))
    ]
    newest = heapq.merge(*found, key=lambda row: _order(query, row), reverse=True)
    return list(islice(newest, query.limit))


def _order(query: SessionQuery, row: SessionRow) -> tuple[int, int]:
    return (0 if query.order == "created" else row.last_active_at), row.number


def _ordered(connection: Connection, query: SessionQuery, part: _Part) -> Iterator[SessionRow]:
    way, where, values = part
    order = "number DESC" if query.order == "created" else "last_active_at DESC, number DESC"
    found = connection.execute(
        f"SELECT {SESSION} FROM sessions {way} WHERE {' AND '.join(where)} ORDER BY {order} LIMIT ?",
        (*values, query.limit),
    )
    return map(session_row, found)


def _filters(query: SessionQuery) -> tuple[list[str], list[Any]]:
    """The conditions that are the same for every index."""
    wanted: list[tuple[str, Any]] = [
        *((f"{name} = ?", getattr(query, name)) for name in ("agent", "channel", "peer", "thread")),
        ("parent_session_id = ?", query.parent),
        ("created_at > ?", query.created_after),
        ("created_at < ?", query.created_before),
        (_TAGGED, query.tag),
        *((_WITH_METADATA, digest) for digest in query.metadata),
    ]
    where = [condition for condition, value in wanted if value is not None]
    values = [value for _, value in wanted if value is not None]
    if query.id_prefix:
        conditions, bounds = _prefix(query.id_prefix)
        where.append(conditions)
        values += bounds
    for condition, lease in (("IN", query.leased), ("NOT IN", query.unleased)):
        if lease is not None:
            living, more = leases.living(lease)
            where.append(f"number {condition} ({living})")
            values += [query.namespace, *more]
    if query.after is not None:
        by_creation = query.order == "created"
        where.append("number < ?" if by_creation else "(last_active_at, number) < (?, ?)")
        values += query.after[1:] if by_creation else query.after
    return where, values


def _prefix(prefix: str) -> tuple[str, list[str]]:
    """The condition on ids that begin with a prefix, which an index of ids can answer."""
    end = prefix_end(prefix)
    return ("id >= ?", [prefix]) if end is None else ("id >= ? AND id < ?", [prefix, end])


def _narrowed(connection: Connection, query: SessionQuery) -> list[int] | None:
    """The numbers of all sessions that one of the filters selects, if they are few. Then they are sorted. A walk in the
    order of the list could pass by all sessions of the namespace to find them."""
    for statement, values in _narrow_queries(query):
        rows = connection.execute(f"{statement} LIMIT {FEW}", (query.namespace, *values)).fetchall()
        if len(rows) < FEW:
            return [number for (number,) in rows]
    return None


def _narrow_queries(query: SessionQuery) -> Iterator[tuple[str, Sequence[Any]]]:
    """Queries for the numbers that a filter selects, by an index for that filter."""
    if query.leased is not None:
        yield leases.living(query.leased)
    for digest in query.metadata:
        yield "SELECT session FROM session_metadata WHERE namespace = ? AND digest = ?", (digest,)
    if query.tag is not None:
        yield "SELECT session FROM session_tags WHERE namespace = ? AND tag = ?", (query.tag,)

    def indexed(index: str, condition: str) -> str:
        return f"SELECT number FROM sessions INDEXED BY {index} WHERE namespace = ? AND {condition}"

    if query.parent is not None:
        yield indexed("sessions_by_parent", "parent_session_id = ?"), (query.parent,)
    if query.id_prefix:
        conditions, bounds = _prefix(query.id_prefix)
        yield f"SELECT number FROM sessions WHERE namespace = ? AND {conditions}", bounds
    if query.peer is not None:
        yield indexed("sessions_by_peer", "peer = ?"), (query.peer,)
    if query.order == "recent":
        return  # the other filters have indexes in this order
    if query.agent is not None:
        yield indexed("sessions_by_agent", "agent = ?"), (query.agent,)
    active = _STATUSES["active"]
    if query.status == "active" and query.idle is not None:
        (common, bound), (own, now) = _idle(query)
        of_common = indexed("sessions_by_activity", f"{active} AND {common}")
        of_own = indexed("sessions_by_own_idle", f"{active} AND {own}")
        yield f"{of_common} UNION ALL {of_own}", (bound, query.namespace, now)
    elif query.status == "active":
        yield indexed("sessions_by_activity", active), ()
    elif query.status is not None:
        yield indexed("sessions_by_status", f"{_STATUSES[query.status]} AND status <> 'active'"), ()


def _parts(query: SessionQuery, numbers: list[int] | None) -> list[_Part]:
    """The queries that together find all sessions of a page: those with the given numbers, or all by an index in the
    order of the list.

    Without statistics, SQLite's planner would sometimes sort a hundred thousand sessions."""
    where: list[str] = ["namespace = ?"]
    values: list[Any] = [query.namespace]
    if numbers is not None:
        only = "number IN (SELECT value FROM json_each(?))"
        return _one_way("NOT INDEXED", [*where, only], [*values, json_text(numbers)], query)
    if query.order == "created":
        return _one_way("INDEXED BY sessions_by_number", where, values, query)
    if query.agent is not None:
        return _one_way("INDEXED BY sessions_by_agent", where, values, query)
    parts: list[_Part] = []
    for status in [_STATUSES[query.status]] if query.status else _STATUSES.values():
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


def _one_way(way: str, where: list[str], values: list[Any], query: SessionQuery) -> list[_Part]:
    if query.status:
        where = [*where, _STATUSES[query.status]]
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
        f" CASE WHEN created_at >= ? THEN created_at / {DAY} END AS day, count(*), sum(message_count),"
        " sum(CASE WHEN view <> 'stale' THEN view_tokens ELSE 0 END)"
        " FROM sessions WHERE namespace = ? GROUP BY seen, day ORDER BY seen, day",
        (query.namespace, *more, query.idle_after, query.now, query.since, query.namespace),
    ).fetchall()
    sessions: dict[str, int] = {}
    days: dict[str, tuple[int, int]] = {}
    for status, day, number, messages, _ in counted:
        sessions[status] = sessions.get(status, 0) + number
        if day is not None:
            date = to_day(day * DAY)
            before = days.get(date, (0, 0))
            days[date] = (before[0] + number, before[1] + messages)
    used = connection.execute(
        "SELECT input_tokens, output_tokens, cost FROM usage_days WHERE namespace = ?", (query.namespace,)
    ).fetchall()
    stale = connection.execute(
        "SELECT id FROM sessions WHERE namespace = ? AND view = 'stale'", (query.namespace,)
    ).fetchall()
    size = connection.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").fetchall()
    return StatsRow(
        sessions=sessions,
        days=dict(sorted(days.items())),
        messages=sum(row[3] for row in counted),
        input_tokens=sum(day[0] for day in used),
        output_tokens=sum(day[1] for day in used),
        cost=sum_costs(*(day[2] for day in used)),
        context_tokens=sum(row[4] for row in counted),
        stale=tuple(row[0] for row in stale),
        store_bytes=size[0][0],
    )
