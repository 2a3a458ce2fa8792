"""Many sessions at once: pages of them, and those that are due. Separate from single sessions, because each of these
queries needs an index that fits it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontdesk.store import DueQuery, SessionQuery, SessionRow
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.rows import HERE, NOW, SESSION, digest, session_row

# Written out, not passed: a plan must see that they imply the condition of an index.
_STATUSES = {
    "active": "s.status = 'active'",
    "suspended": "s.status = 'suspended' AND s.status <> 'active'",
    "archived": "s.status = 'archived' AND s.status <> 'active'",
}
_DUE = {"archive": ("s.status = 'active'", "s.last_active_at"), "delete": ("s.status = 'archived'", "s.ended_at")}


class _Values:
    """The values of a statement's parameters."""

    def __init__(self, *values: Any) -> None:
        self.all = list(values)

    def mark(self, value: Any) -> str:
        """Add a value, and return the parameter for it."""
        self.all.append(value)
        return f"${len(self.all)}"


async def page(connection: Connection, query: SessionQuery) -> list[SessionRow]:
    values = _Values(query.namespace)
    common = _filters(query, values)
    parts = [" AND ".join([f"s.ns = {HERE}", *part, *common]) for part in _parts(query, values)]
    order = f"ORDER BY s.last_active_at DESC, s.number DESC LIMIT {values.mark(query.limit)}"
    # Each part is put in order by its own index, and ends there: only what they return is sorted.
    every = " UNION ALL ".join(f"(SELECT s.* FROM {{schema}}.sessions s WHERE {part} {order})" for part in parts)
    rows = await connection.fetch(f"SELECT {SESSION} FROM ({every}) s {order}", *values.all)
    return [session_row(query.namespace, row) for row in rows]


async def due(connection: Connection, query: DueQuery) -> list[SessionRow]:
    values = _Values(query.namespace)
    status, moment = _DUE[query.what]
    bound = query.now
    own = f"s.{query.what}_after IS NULL"
    if query.threshold is None:
        moment, own = f"({moment} + s.{query.what}_after)", f"s.{query.what}_after IS NOT NULL"
    else:
        bound = query.now - query.threshold
    where = [f"s.ns = {HERE}", status, own, f"{moment} <= {values.mark(bound)}"]
    if query.after is not None:
        where.append(f"({moment}, s.number) > ({', '.join(map(values.mark, query.after))})")
    rows = await connection.fetch(
        f"SELECT {SESSION} FROM {{schema}}.sessions s WHERE {' AND '.join(where)}"
        f" ORDER BY {moment}, s.number LIMIT {values.mark(query.limit)}",
        *values.all,
    )
    return [session_row(query.namespace, row) for row in rows]


def _filters(query: SessionQuery, values: _Values) -> list[str]:
    mark = values.mark
    where = [
        f"s.{name} = {mark(wanted)}"
        for name in ("agent", "channel", "peer", "thread")
        if (wanted := getattr(query, name)) is not None
    ]
    if query.parent is not None:
        where.append(f"s.parent_session_id = {mark(query.parent)}")
    if query.tag is not None:
        tagged = "SELECT t.session FROM {schema}.session_tags t WHERE t.ns = s.ns AND t.digest = "
        where.append(f"s.number IN ({tagged}{mark(digest(query.tag))})")
    if query.created_after is not None:
        where.append(f"s.created_at > {mark(query.created_after)}")
    if query.created_before is not None:
        where.append(f"s.created_at < {mark(query.created_before)}")
    for condition, name in (("IN", query.leased), ("NOT IN", query.unleased)):
        if name is not None:
            where.append(
                f"s.number {condition} (SELECT l.session FROM {{schema}}.leases l WHERE l.ns = {HERE}"
                f" AND l.name = {mark(name)} AND l.expires_at > {NOW} AND l.holder <> '')"
            )
    if query.after is not None:
        active, number = query.after
        where.append(f"(s.last_active_at, s.number) < ({mark(active)}, {mark(number)})")
    return where


def _parts(query: SessionQuery, values: _Values) -> list[list[str]]:
    """Conditions that together select all that is wanted; each suits one index, in the order of activity."""
    statuses: Sequence[str | None] = [query.status] if query.status else list(_STATUSES)
    if query.status is None and (query.agent or query.peer or query.parent) is not None:
        statuses = [None]
    parts = [[] if status is None else [_STATUSES[status]] for status in statuses]
    if query.idle is None:
        return parts
    sign = "<=" if query.idle else ">"
    common = f"s.idle_after IS NULL AND s.last_active_at {sign} {values.mark(query.now - query.idle_after)}"
    own = f"s.idle_after IS NOT NULL AND s.last_active_at + s.idle_after {sign} {values.mark(query.now)}"
    return [[*part, one] for part in parts for one in (common, own)]
