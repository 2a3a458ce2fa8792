"""Many sessions at once: pages of them, and those that are due. Separate from single sessions, because each of these
queries needs an index that fits it.

`{by index}` names that index: some databases take the name, others find it by the conditions. Those are written out,
not passed as values, so that a plan sees that they imply the condition of an index.

`{minute ...}` is for a database that indexes the time of the last activity by the minute: it comes first in the order,
and bounds the minutes wherever the time itself is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from frontdesk.store import DueQuery, SessionQuery, SessionRow
from frontdesk.stores.sql.database import Database
from frontdesk.stores.sql.digests import digest
from frontdesk.stores.sql.leases import LEASED
from frontdesk.stores.sql.rows import SESSION, SESSION_WIDTH, session_row
from frontdesk.tree.sessions import prefix_end

FEW = 2_000
"""up to this many sessions of a filter are sorted; with more, an index in the order of the list is used"""

_SESSIONS = "{schema}.sessions s"
_HERE = "s.ns = {here}"
_STATUSES = {
    "active": "s.status = 'active'",
    "suspended": "s.status = 'suspended' AND s.status <> 'active'",
    "archived": "s.status = 'archived' AND s.status <> 'active'",
}
_BY_STATUS = {"active": "sessions_by_activity", "suspended": "sessions_by_status", "archived": "sessions_by_status"}
_ORDERS = {"created": "{0}.number DESC", "recent": "{{minute {0}}}{0}.last_active_at DESC, {0}.number DESC"}
_DUE = {
    "archive": (_STATUSES["active"], "s.last_active_at", "sessions_by_activity"),
    "delete": ("s.status = 'archived'", "s.ended_at", "sessions_by_end"),
}
_IS_LEASED = f"s.number IN ({LEASED.replace(':leased', ':shown_lease')})"
_BY_NUMBER = "{by sessions_by_number}"
_KEY = "s.ns, {minute,}s.last_active_at, s.number"
_EQUAL = ("agent", "channel", "peer", "thread", "model")
_IS_FULL = (
    "(s.view = 'stale' OR s.view_tokens + s.prompt_tokens >="
    " CAST(:ratio AS double precision) * coalesce(s.max_tokens, CAST(:window AS bigint)))"
)
_NUMBERS_OF = "SELECT d.session FROM {{schema}}.{0} d WHERE d.ns = {{here}} AND d.digest = :{1}"


async def page(db: Database, query: SessionQuery) -> list[SessionRow]:
    values = _values(query)
    values["numbers"] = await _narrowed(db, query, values)
    rows = await db.fetch(_page(query, peers_in_order=db.peers_in_order, few=values["numbers"] is not None), **values)
    return [session_row(query.namespace, row, is_leased=bool(row[SESSION_WIDTH])) for row in rows]


def _values(query: SessionQuery) -> dict[str, Any]:
    """The values of all parameters. A statement takes those that it names."""
    active, number = query.after or (None, None)
    return {
        "namespace": query.namespace,
        **{name: getattr(query, name) for name in _EQUAL},
        **{f"metadata{index}": wanted for index, wanted in enumerate(query.metadata)},
        "tag": None if query.tag is None else digest(query.tag),
        "parent": query.parent,
        **{f"exclude{index}": _excluded(*pair) for index, pair in enumerate(query.exclude)},
        "ratio": None if query.fullness is None else query.fullness[0],
        "window": None if query.fullness is None else query.fullness[1],
        "id_prefix": query.id_prefix,
        "id_end": prefix_end(query.id_prefix or ""),
        "created_after": query.created_after,
        "created_before": query.created_before,
        "after_active": active,
        "after_number": number,
        "idle_since": query.now - query.idle_after,
        "idle_now": query.now,
        "leased": query.leased,
        "unleased": query.unleased,
        "shown_lease": query.shown_lease,
        "limit": query.limit,
    }


def _page(query: SessionQuery, *, peers_in_order: bool, few: bool) -> str:
    """The statement for a page: of the given numbers, or of all sessions by indexes in the order of the list."""
    shown = f"{SESSION}, {'false' if query.shown_lease is None else _IS_LEASED}"
    order = _ORDERS[query.order]
    end = f"ORDER BY {order.format('s')} LIMIT :limit"
    if few or query.order == "created":
        source = f"{{numbers}} i CROSS JOIN {_SESSIONS}" if few else f"{_SESSIONS} {_BY_NUMBER}"
        # Opaque to the planner, so that it takes the index of numbers.
        opaque = [f"({each}) IS TRUE" for each in (*_status(query), *_filters(query))]
        where = [_HERE, *(["s.number = i.number"] if few else []), *opaque, *_after(query)]
        return f"SELECT {shown} FROM {source} WHERE {' AND '.join(where)} {end}"
    common = [*_filters(query), *_after(query)]
    parts = [
        f"{_SESSIONS} {{by {index}}} WHERE {' AND '.join([_HERE, *conditions, *common])} {end}"
        for index, conditions in _parts(query, peers_in_order=peers_in_order)
    ]
    if len(parts) == 1:
        return f"SELECT {shown} FROM {parts[0]}"
    # Each part is put in order by its own index, and ends there: only what they return is sorted.
    each = [f"SELECT * FROM (SELECT {_KEY} FROM {part}) p{number}" for number, part in enumerate(parts)]
    newest = f"SELECT * FROM ({' UNION ALL '.join(each)}) p ORDER BY {order.format('p')} LIMIT :limit"
    found = f"({newest}) k JOIN {_SESSIONS} ON s.ns = k.ns AND s.number = k.number"
    return f"SELECT {shown} FROM {found} ORDER BY {order.format('k')}"


# filters


def _filters(query: SessionQuery) -> list[str]:
    """The conditions that are the same for every index."""
    where = [f"s.{name} = :{name}" for name in _EQUAL if getattr(query, name) is not None]
    where += [_has("session_metadata", f"metadata{index}") for index in range(len(query.metadata))]
    wanted = {
        _has("session_tags", "tag"): query.tag,
        "s.parent_session_id = :parent": query.parent,
        _IS_FULL: query.fullness,
        "s.created_at > :created_after": query.created_after,
        "s.created_at < :created_before": query.created_before,
        f"s.number IN ({LEASED})": query.leased,
        f"s.number NOT IN ({LEASED.replace(':leased', ':unleased')})": query.unleased,
    }
    where += [condition for condition, value in wanted.items() if value is not None]
    where += [_lacks(column, f"exclude{index}") for index, (column, _) in enumerate(query.exclude)]
    return [*where, _prefix(query.id_prefix)] if query.id_prefix else where


def _prefix(prefix: str) -> str:
    """The condition on ids that begin with a prefix, which an index of ids can answer."""
    until = "" if prefix_end(prefix) is None else " AND s.id < :id_end"
    return f"s.id <> '' AND s.id >= :id_prefix{until}"


def _has(table: str, name: str) -> str:
    """The condition on sessions with a digest. EXISTS could become a join with all sessions that have it."""
    row = f"d.ns = s.ns AND d.digest = :{name} AND d.session = s.number"
    return f"(SELECT true FROM {{schema}}.{table} d WHERE {row}) IS TRUE"


def _lacks(column: str, name: str) -> str:
    """The condition on sessions without a value."""
    if column == "tag":
        return f"NOT ({_has('session_tags', name)})"
    return f"s.{column} IS DISTINCT FROM CAST(:{name} AS text)"


def _excluded(column: str, value: str) -> Any:
    return digest(value) if column == "tag" else value


def _after(query: SessionQuery) -> list[str]:
    if query.after is None:
        return []
    if query.order == "created":
        return ["s.number < :after_number"]
    return ["{minute <= :after_active}(s.last_active_at, s.number) < (:after_active, :after_number)"]


def _idle(query: SessionQuery) -> tuple[str, str]:
    """The condition on sessions without a threshold of their own, and on those with one."""
    sign = "<=" if query.idle else ">"
    return (
        f"s.idle_after IS NULL AND {{minute {sign} :idle_since}}s.last_active_at {sign} :idle_since",
        f"s.idle_after IS NOT NULL AND s.last_active_at + s.idle_after {sign} :idle_now",
    )


def _status(query: SessionQuery) -> list[str]:
    """The condition on the status, where the sessions are found by something else."""
    status = [] if query.status is None else [_STATUSES[query.status]]
    if query.idle is None:
        return status
    common, own = _idle(query)
    return [*status, f"(({common}) OR ({own}))"]


# indexes


def _parts(query: SessionQuery, *, peers_in_order: bool) -> Iterator[tuple[str, list[str]]]:
    """Indexes in the order of activity, and conditions that together select all that is wanted."""
    if query.agent is not None:
        yield "sessions_by_agent", _status(query)
    elif peers_in_order and query.peer is not None:
        yield "sessions_by_peer", _status(query)
    else:
        for status in [query.status] if query.status else _STATUSES:
            if query.idle is None:
                yield _BY_STATUS[status], [_STATUSES[status]]
            else:
                common, own = _idle(query)
                yield _BY_STATUS[status], [_STATUSES[status], common]
                of_own = "sessions_by_own_idle" if status == "active" else _BY_STATUS[status]
                yield of_own, [_STATUSES[status], own]


async def _narrowed(db: Database, query: SessionQuery, values: dict[str, Any]) -> list[int] | None:
    """The numbers of all sessions that one of the filters selects, if they are few. Then they are sorted. A walk in the
    order of the list could pass by all sessions of the namespace to find them."""
    for statement in _narrow_queries(query, peers_in_order=db.peers_in_order):
        rows = await db.fetch(f"{statement} LIMIT {FEW}", **values)
        if len(rows) < FEW:
            return [number for (number,) in rows]
    return None


def _narrow_queries(query: SessionQuery, *, peers_in_order: bool) -> Iterator[str]:
    """Queries for the numbers that a filter selects, by an index for that filter."""
    if query.leased is not None:
        yield LEASED
    for index in range(len(query.metadata)):
        yield _NUMBERS_OF.format("session_metadata", f"metadata{index}")
    if query.tag is not None:
        yield _NUMBERS_OF.format("session_tags", "tag")
    by_creation = query.order == "created"
    if query.parent is not None:
        yield _numbers("sessions_by_parent", "s.parent_session_id = :parent")
    if query.id_prefix:
        yield _numbers("sessions_by_id", _prefix(query.id_prefix))
    if query.peer is not None and (by_creation or not peers_in_order):
        yield _numbers("sessions_by_peer", "s.peer = :peer")
    if not by_creation:
        return  # the other filters have indexes in this order
    if query.agent is not None:
        yield _numbers("sessions_by_agent", "s.agent = :agent")
    if query.status is not None:
        parts = _parts(SessionQuery(namespace="", limit=0, status=query.status, idle=query.idle), peers_in_order=False)
        yield " UNION ALL ".join(_numbers(index, " AND ".join(conditions)) for index, conditions in parts)


def _numbers(index: str, condition: str) -> str:
    return f"SELECT s.number FROM {_SESSIONS} {{by {index}}} WHERE {_HERE} AND {condition}"


# what is due


async def due(db: Database, query: DueQuery) -> list[SessionRow]:
    status, moment, index = _DUE[query.what]
    bound = query.now
    own = f"s.{query.what}_after IS NULL"
    if query.threshold is None:
        moment, own = f"({moment} + s.{query.what}_after)", f"s.{query.what}_after IS NOT NULL"
        index = f"sessions_by_own_{query.what}"
    else:
        bound = query.now - query.threshold
    by_minute = {"sessions_by_activity": "active", "sessions_by_own_archive": "archive"}.get(index)
    until, since, order = (f"{{{by_minute} minute {word}}}" if by_minute else "" for word in ("<=", ">=", "order"))
    where = [_HERE, status, own, f"{until}{moment} <= :bound"]
    if query.after is not None:
        where.append(f"{since}({moment}, s.number) > (:after_moment, :after_number)")
    after_moment, after_number = query.after or (None, None)
    rows = await db.fetch(
        f"SELECT {SESSION} FROM {_SESSIONS} {{by {index}}} WHERE {' AND '.join(where)}"
        f" ORDER BY {order}{moment}, s.number LIMIT :limit",
        namespace=query.namespace,
        bound=bound,
        after_moment=after_moment,
        after_number=after_number,
        limit=query.limit,
    )
    return [session_row(query.namespace, row) for row in rows]
