"""Session rows of the memory store: making and finding them, pages of them, those that are due, and totals."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from frontdesk.errors import SessionNotFoundError
from frontdesk.store import DueQuery, NewSession, SessionQuery, SessionRow, StatsQuery, StatsRow
from frontdesk.store.changes import session_created
from frontdesk.stores.memory import leases, log
from frontdesk.stores.memory.rows import Rows, key_of
from frontdesk.tree.sessions import is_idle, new_row, status_of
from frontdesk.tree.usage import sum_costs


def get(rows: Rows, namespace: str, session_id: str) -> SessionRow | None:
    return rows.get(namespace, session_id)


def get_current(rows: Rows, namespace: str, key: tuple[str, str, str, str | None]) -> SessionRow | None:
    number = rows.by_key.get((namespace, *key))
    return None if number is None else rows.sessions[number]


def get_known(rows: Rows, namespace: str, session_id: str) -> SessionRow:
    session = rows.get(namespace, session_id)
    if session is None:
        raise SessionNotFoundError(session_id, namespace)
    return session


def taken(rows: Rows, new: NewSession) -> int | None:
    """The number of the session that has a new one's id already, or its key as the current one."""
    by_id = rows.by_id.get((new.namespace, new.id))
    return by_id if by_id is not None or new.agent is None else rows.by_key.get(key_of(new))


def may_take_key(rows: Rows, session: SessionRow) -> bool:
    """Whether a session has a key, and no other is current under it."""
    return session.agent is not None and rows.by_key.get(key_of(session), session.number) == session.number


def create(rows: Rows, new: NewSession) -> tuple[SessionRow, bool]:
    existing = taken(rows, new)
    if existing is not None:
        return rows.sessions[existing], False
    return insert(rows, new_row(new, next(rows.numbers))), True


def insert(rows: Rows, row: SessionRow) -> SessionRow:
    """Add a session that was made just now."""
    rows.by_family[row.family].add(row.number)
    rows.by_id[row.namespace, row.id] = row.number
    put(rows, row)
    log.write(rows, row.namespace, row.number, row.created_at, session_created(row.parent_session_id))
    return row


def put(rows: Rows, row: SessionRow) -> None:
    """Store a session's row, new or changed, and keep its key."""
    before = rows.sessions.get(row.number)
    rows.sessions[row.number] = row
    if row.key_current:
        rows.by_key[key_of(row)] = row.number
    elif before is not None and before.key_current:
        del rows.by_key[key_of(before)]


def page(rows: Rows, query: SessionQuery) -> list[SessionRow]:
    found = [row for row in rows.sessions.values() if _matches(row, query)]
    if query.leased is not None:
        leased = leases.owners(rows, query.namespace, query.leased)
        found = [row for row in found if row.number in leased]
    if query.unleased is not None:
        leased = leases.owners(rows, query.namespace, query.unleased)
        found = [row for row in found if row.number not in leased]
    return heapq.nlargest(query.limit, found, key=lambda row: (row.last_active_at, row.number))


def _matches(row: SessionRow, query: SessionQuery) -> bool:
    wanted = (
        (query.agent, row.agent),
        (query.channel, row.channel),
        (query.peer, row.peer),
        (query.thread, row.thread),
        (query.status, row.status),
        (query.parent, row.parent_session_id),
    )
    return (
        row.namespace == query.namespace
        and all(want is None or want == have for want, have in wanted)
        and (query.tag is None or query.tag in msgspec.json.decode(row.tags))
        and (query.created_after is None or row.created_at > query.created_after)
        and (query.created_before is None or row.created_at < query.created_before)
        and (query.after is None or (row.last_active_at, row.number) < query.after)
        and (query.idle is None or query.idle == is_idle(row, query.now, query.idle_after))
    )


def due(rows: Rows, query: DueQuery) -> list[SessionRow]:
    found = [
        (moment, row.number, row)
        for row in rows.sessions.values()
        if row.namespace == query.namespace and (moment := _due_moment(row, query)) is not None
    ]
    found.sort(key=lambda one: one[:2])
    return [row for *place, row in found if query.after is None or tuple(place) > query.after][: query.limit]


def _due_moment(row: SessionRow, query: DueQuery) -> int | None:
    """The moment by which a session is in the order of those that are due; None if it is not."""
    archive = query.what == "archive"
    start, own = (row.last_active_at, row.archive_after) if archive else (row.ended_at, row.delete_after)
    if row.status != ("active" if archive else "archived") or start is None:
        return None
    if query.threshold is not None:
        return start if own is None and start + query.threshold <= query.now else None
    return start + own if own is not None and start + own <= query.now else None


def stats(rows: Rows, query: StatsQuery) -> StatsRow:
    found = [row for row in rows.sessions.values() if row.namespace == query.namespace]
    days = rows.days.get(query.namespace, {}).values()
    leased = leases.owners(rows, query.namespace, query.leased)
    statuses = (status_of(row, query.now, query.idle_after, is_compacting=row.number in leased) for row in found)
    return StatsRow(
        sessions=dict(sorted(Counter(statuses).items())),
        days=_by_day(row for row in found if row.created_at >= query.since),
        messages=sum(row.message_count for row in found),
        input_tokens=sum(row.input_tokens for row in days),
        output_tokens=sum(row.output_tokens for row in days),
        cost=sum_costs(*(row.cost for row in days)),
        store_bytes=0,
    )


def _by_day(rows: Iterable[SessionRow]) -> dict[str, tuple[int, int]]:
    days: dict[str, tuple[int, int]] = {}
    for row in sorted(rows, key=lambda row: row.created_at):
        day = datetime.fromtimestamp(row.created_at // 1_000_000, UTC).date().isoformat()
        sessions, messages = days.get(day, (0, 0))
        days[day] = (sessions + 1, messages + row.message_count)
    return days
