"""Many sessions at once: pages of them, and those whose time has come. Apart from single ones because each question
here needs an index that fits it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontdesk.store import DueQuery, SessionQuery, SessionRow
from frontdesk.stores.postgres.engine import Connection
from frontdesk.stores.postgres.rows import digest, session_columns, session_row

_SESSION = session_columns("s")
# Written out, not passed: a plan must see that they imply the condition of an index.
_STATUSES = {
    "active": "s.status = 'active'",
    "suspended": "s.status = 'suspended' AND s.status <> 'active'",
    "archived": "s.status = 'archived' AND s.status <> 'active'",
}
_DUE = {"archive": ("s.status = 'active'", "s.last_active_at"), "delete": ("s.status = 'archived'", "s.ended_at")}


class _Conditions:
    """Conditions of a statement, and the values of their marks."""

    def __init__(self, *values: Any) -> None:
        self.values = list(values)

    def mark(self, value: Any) -> str:
        self.values.append(value)
        return f"${len(self.values)}"


class Directory:
    """Reads through a connection, in one schema."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._here = f"(SELECT number FROM {schema}.namespaces WHERE name = $1)"

    async def page(self, connection: Connection, query: SessionQuery) -> list[SessionRow]:
        conditions = _Conditions(query.namespace)
        common = self._filters(query, conditions)
        parts = [" AND ".join([f"s.ns = {self._here}", *part, *common]) for part in _parts(query, conditions)]
        order = f"ORDER BY s.last_active_at DESC, s.number DESC LIMIT {conditions.mark(query.limit)}"
        # Each part is put in order by its own index, and ends there: only what they give is sorted.
        every = " UNION ALL ".join(
            f"(SELECT s.* FROM {self._schema}.sessions s WHERE {part} {order})" for part in parts
        )
        rows = await connection.fetch(f"SELECT {_SESSION} FROM ({every}) s {order}", *conditions.values)
        return [session_row(query.namespace, row) for row in rows]

    def _filters(self, query: SessionQuery, conditions: _Conditions) -> list[str]:
        mark = conditions.mark
        where = [
            f"s.{name} = {mark(wanted)}"
            for name in ("agent", "channel", "peer", "thread")
            if (wanted := getattr(query, name)) is not None
        ]
        if query.parent is not None:
            where.append(f"s.parent_session_id = {mark(query.parent)}")
        if query.tag is not None:
            where.append(
                f"s.number IN (SELECT t.session FROM {self._schema}.session_tags t WHERE t.ns = s.ns"
                f" AND t.digest = {mark(digest(query.tag))})"
            )
        if query.created_after is not None:
            where.append(f"s.created_at > {mark(query.created_after)}")
        if query.created_before is not None:
            where.append(f"s.created_at < {mark(query.created_before)}")
        for condition, name in (("IN", query.leased), ("NOT IN", query.unleased)):
            if name is not None:
                where.append(
                    f"s.number {condition} (SELECT l.session FROM {self._schema}.leases l WHERE l.ns = {self._here}"
                    f" AND l.name = {mark(name)} AND l.expires_at > now())"
                )
        if query.after is not None:
            active, number = query.after
            where.append(f"(s.last_active_at, s.number) < ({mark(active)}, {mark(number)})")
        return where

    async def due(self, connection: Connection, query: DueQuery) -> list[SessionRow]:
        conditions = _Conditions(query.namespace)
        status, moment = _DUE[query.what]
        bound = query.now
        own = f"s.{query.what}_after IS NULL"
        if query.threshold is None:
            moment, own = f"({moment} + s.{query.what}_after)", f"s.{query.what}_after IS NOT NULL"
        else:
            bound = query.now - query.threshold
        where = [f"s.ns = {self._here}", status, own, f"{moment} <= {conditions.mark(bound)}"]
        if query.after is not None:
            where.append(f"({moment}, s.number) > ({', '.join(map(conditions.mark, query.after))})")
        rows = await connection.fetch(
            f"SELECT {_SESSION} FROM {self._schema}.sessions s WHERE {' AND '.join(where)}"
            f" ORDER BY {moment}, s.number LIMIT {conditions.mark(query.limit)}",
            *conditions.values,
        )
        return [session_row(query.namespace, row) for row in rows]


def _parts(query: SessionQuery, conditions: _Conditions) -> list[list[str]]:
    """Conditions that together let all through that is wanted; each suits one index, in the order of activity."""
    statuses: Sequence[str | None] = [query.status] if query.status else list(_STATUSES)
    if query.status is None and (query.agent or query.peer or query.parent) is not None:
        statuses = [None]
    parts = [[] if status is None else [_STATUSES[status]] for status in statuses]
    if query.idle is None:
        return parts
    sign = "<=" if query.idle else ">"
    common = f"s.idle_after IS NULL AND s.last_active_at {sign} {conditions.mark(query.now - query.idle_after)}"
    own = f"s.idle_after IS NOT NULL AND s.last_active_at + s.idle_after {sign} {conditions.mark(query.now)}"
    return [[*part, one] for part in parts for one in (common, own)]
