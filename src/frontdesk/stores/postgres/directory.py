"""Many sessions at once: pages of them, and those that are due. Separate from single sessions, because each of these
queries needs an index that fits it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from frontdesk.store import DueQuery, SessionQuery, SessionRow
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.rows import HERE, NOW, SESSION, digest, session_row
from frontdesk.tree.sessions import prefix_end

FEW = 2_000
"""up to this many sessions of a filter are sorted; with more, an index in the order of the list is used"""

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
    numbers = await _narrowed(connection, query)
    values = _Values(query.namespace)
    source = "{schema}.sessions s"
    if numbers is not None:
        source = f"unnest({values.mark(numbers)}::bigint[]) i(number) JOIN {source} ON s.number = i.number"
    if numbers is not None or query.order == "created":
        # Opaque to the planner, so that it takes the index of numbers.
        opaque = [f"({each}) IS TRUE" for each in (*_status(query, values), *_filters(query, values))]
        conditions = [opaque]
    else:
        common = _filters(query, values)
        conditions = [[*part, *common] for part in _parts(query, values)]
    order = "s.number DESC" if query.order == "created" else "s.last_active_at DESC, s.number DESC"
    after = _after(query, values)
    end = f"ORDER BY {order} LIMIT {values.mark(query.limit)}"
    # Each part is put in order by its own index, and ends there: only what they return is sorted.
    every = " UNION ALL ".join(
        f"(SELECT s.* FROM {source} WHERE {' AND '.join([f's.ns = {HERE}', *where, *after])} {end})"
        for where in conditions
    )
    rows = await connection.fetch(f"SELECT {SESSION} FROM ({every}) s {end}", *values.all)
    return [session_row(query.namespace, row) for row in rows]


async def _narrowed(connection: Connection, query: SessionQuery) -> list[int] | None:
    """The numbers of all sessions that one of the filters selects, if they are few. Then they are sorted. A walk in the
    order of the list could pass by all sessions of the namespace to find them."""
    for statement, values in _narrow_queries(query):
        rows = await connection.fetch(f"{statement} LIMIT {FEW}", query.namespace, *values)
        if len(rows) < FEW:
            return [number for (number,) in rows]
    return None


def _narrow_queries(query: SessionQuery) -> Iterator[tuple[str, Sequence[Any]]]:
    """Queries for the numbers that a filter selects, by an index for that filter."""
    if query.leased is not None:
        yield _leased("$2"), (query.leased,)
    with_digest = "SELECT d.session FROM {schema}.%s d WHERE " + f"d.ns = {HERE} AND d.digest = $2"
    for wanted in query.metadata:
        yield with_digest % "session_metadata", (wanted,)
    if query.tag is not None:
        yield with_digest % "session_tags", (digest(query.tag),)
    sessions = f"SELECT s.number FROM {{schema}}.sessions s WHERE s.ns = {HERE} AND"
    if query.parent is not None:
        yield f"{sessions} s.parent_session_id = $2", (query.parent,)
    if query.id_prefix:
        end = prefix_end(query.id_prefix)
        until = "" if end is None else " AND s.id < $3"
        yield f"{sessions} s.id <> '' AND s.id >= $2{until}", [query.id_prefix, *([] if end is None else [end])]
    if query.order == "recent":
        return  # the other filters have indexes in this order
    if query.peer is not None:
        yield f"{sessions} s.peer = $2", (query.peer,)
    if query.agent is not None:
        yield f"{sessions} s.agent = $2", (query.agent,)
    if query.status is not None and query.idle is None:
        yield f"{sessions} {_STATUSES[query.status]}", ()
    elif query.status is not None:
        values = _Values(query.namespace)
        of_each = [f"{sessions} {_STATUSES[query.status]} AND {idle}" for idle in _idle(query, values)]
        yield " UNION ALL ".join(of_each), values.all[1:]


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
        where.append(_has("session_tags", mark(digest(query.tag))))
    where += [_has("session_metadata", mark(wanted)) for wanted in query.metadata]
    if query.id_prefix:
        where.append(f"starts_with(s.id, {mark(query.id_prefix)})")
    if query.created_after is not None:
        where.append(f"s.created_at > {mark(query.created_after)}")
    if query.created_before is not None:
        where.append(f"s.created_at < {mark(query.created_before)}")
    for condition, name in (("IN", query.leased), ("NOT IN", query.unleased)):
        if name is not None:
            where.append(f"s.number {condition} ({_leased(mark(name))})")
    return where


def _leased(name: str) -> str:
    """A query for the numbers of the sessions for which somebody holds a lease."""
    return (
        f"SELECT l.session FROM {{schema}}.leases l WHERE l.ns = {HERE} AND l.name = {name}"
        f" AND l.expires_at > {NOW} AND l.holder <> ''"
    )


def _has(table: str, parameter: str) -> str:
    """The condition on sessions with a digest. EXISTS could become a join with all sessions that have it."""
    row = f"d.ns = s.ns AND d.digest = {parameter} AND d.session = s.number"
    return f"(SELECT true FROM {{schema}}.{table} d WHERE {row}) IS TRUE"


def _after(query: SessionQuery, values: _Values) -> list[str]:
    if query.after is None:
        return []
    active, number = query.after
    if query.order == "created":
        return [f"s.number < {values.mark(number)}"]
    return [f"(s.last_active_at, s.number) < ({values.mark(active)}, {values.mark(number)})"]


def _parts(query: SessionQuery, values: _Values) -> list[list[str]]:
    """Conditions that together select all that is wanted; each suits one index, in the order of activity."""
    statuses: Sequence[str | None] = [query.status] if query.status else list(_STATUSES)
    if query.status is None and (query.agent or query.peer or query.parent) is not None:
        statuses = [None]
    parts = [[] if status is None else [_STATUSES[status]] for status in statuses]
    if query.idle is None:
        return parts
    return [[*part, one] for part in parts for one in _idle(query, values)]


def _status(query: SessionQuery, values: _Values) -> list[str]:
    """The same as `_parts`, where the sessions are found by something else."""
    status = [] if query.status is None else [_STATUSES[query.status]]
    return status if query.idle is None else [*status, "(" + " OR ".join(_idle(query, values)) + ")"]


def _idle(query: SessionQuery, values: _Values) -> tuple[str, str]:
    """The condition on sessions without a threshold of their own, and on those with one."""
    sign = "<=" if query.idle else ">"
    return (
        f"s.idle_after IS NULL AND s.last_active_at {sign} {values.mark(query.now - query.idle_after)}",
        f"s.idle_after IS NOT NULL AND s.last_active_at + s.idle_after {sign} {values.mark(query.now)}",
    )
