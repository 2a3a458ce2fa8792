"""Many sessions of the memory store at once: pages of them, those that are due, and totals."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from frontdesk.store import DueQuery, SessionQuery, SessionRow, StatsQuery, StatsRow
from frontdesk.stores.memory import leases
from frontdesk.stores.memory.rows import Rows
from frontdesk.tree.sessions import is_idle, metadata_digests, status_of
from frontdesk.tree.usage import sum_costs


def page(rows: Rows, query: SessionQuery) -> list[SessionRow]:
    found = [row for row in rows.sessions.values() if _matches(row, query)]
    if query.leased is not None:
        leased = leases.owners(rows, query.namespace, query.leased)
        found = [row for row in found if row.number in leased]
    if query.unleased is not None:
        leased = leases.owners(rows, query.namespace, query.unleased)
        found = [row for row in found if row.number not in leased]
    newest = heapq.nlargest(query.limit, found, key=lambda row: _order(query, row.last_active_at, row.number))
    shown = set() if query.shown_lease is None else leases.owners(rows, query.namespace, query.shown_lease)
    return [replace(row, is_leased=True) if row.number in shown else row for row in newest]


def _order(query: SessionQuery, last_active_at: int, number: int) -> tuple[int, int]:
    """By what sessions are sorted."""
    return (0 if query.order == "created" else last_active_at), number


def _matches(row: SessionRow, query: SessionQuery) -> bool:
    wanted = (
        (query.agent, row.agent),
        (query.channel, row.channel),
        (query.peer, row.peer),
        (query.thread, row.thread),
        (query.status, row.status),
        (query.parent, row.parent_session_id),
        (query.model, row.model),
    )
    return (
        row.namespace == query.namespace
        and all(want is None or want == have for want, have in wanted)
        and (query.tag is None or query.tag in msgspec.json.decode(row.tags))
        and not any(_has(row, name, value) for name, value in query.exclude)
        and (query.fullness is None or _is_full(row, *query.fullness))
        and (query.created_after is None or row.created_at > query.created_after)
        and (query.created_before is None or row.created_at < query.created_before)
        and (query.id_prefix is None or row.id.startswith(query.id_prefix))
        and (not query.metadata or set(query.metadata) <= set(metadata_digests(row.metadata)))
        and (query.after is None or _order(query, row.last_active_at, row.number) < _order(query, *query.after))
        and (query.idle is None or query.idle == is_idle(row, query.now, query.idle_after))
    )


def _has(row: SessionRow, name: str, value: str) -> bool:
    return value in msgspec.json.decode(row.tags) if name == "tag" else getattr(row, name) == value


def _is_full(row: SessionRow, ratio: float, window: int) -> bool:
    return row.view == "stale" or row.used_tokens >= ratio * (window if row.max_tokens is None else row.max_tokens)


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
        context_tokens=sum(row.view_tokens for row in found if row.view != "stale"),
        stale=tuple(row.id for row in found if row.view == "stale"),
        store_bytes=0,
    )


def _by_day(rows: Iterable[SessionRow]) -> dict[str, tuple[int, int]]:
    days: dict[str, tuple[int, int]] = {}
    for row in sorted(rows, key=lambda row: row.created_at):
        day = datetime.fromtimestamp(row.created_at // 1_000_000, UTC).date().isoformat()
        sessions, messages = days.get(day, (0, 0))
        days[day] = (sessions + 1, messages + row.message_count)
    return days
