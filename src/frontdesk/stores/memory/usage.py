"""Usage in the memory store: an entry for each model call, and totals per day, model, agent and channel."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from msgspec.structs import replace

from frontdesk.store import NewChange, UsageQuery, UsageRow
from frontdesk.stores.memory import log, sessions
from frontdesk.stores.memory.rows import Rows
from frontdesk.tree.usage import add_entry, group_usage, reads_entries, reads_totals, sum_costs


def add(rows: Rows, namespace: str, session_id: str, entry: UsageRow) -> bool:
    session = sessions.get_known(rows, namespace, session_id)
    entries = rows.usage.setdefault(session.number, {})
    if entry.id in entries:
        return False
    entries[entry.id] = entry
    updated_at = max(entry.at, session.updated_at)
    rows.sessions[session.number] = replace(
        session,
        input_tokens=session.input_tokens + entry.input_tokens,
        output_tokens=session.output_tokens + entry.output_tokens,
        cost=sum_costs(session.cost, entry.cost),
        updated_at=updated_at,
    )
    days = rows.days.setdefault(namespace, {})
    key = entry.day, entry.model, session.agent, session.channel
    nothing = UsageRow(day=entry.day, model=entry.model, agent=session.agent, channel=session.channel)
    days[key] = add_entry(days.get(key) or nothing, entry)
    log.write(rows, namespace, session.number, updated_at, NewChange(kind="usage.added"))
    return True


def recent(
    rows: Rows, namespace: str, session_id: str, limit: int, before: tuple[int, str] | None = None
) -> list[UsageRow]:
    session = rows.get(namespace, session_id)
    found = [] if session is None else rows.usage.get(session.number, {}).values()
    older = (entry for entry in found if before is None or (entry.at, entry.id) < before)
    return heapq.nlargest(limit, older, key=lambda entry: (entry.at, entry.id))


def totals(rows: Rows, query: UsageQuery) -> list[UsageRow]:
    if query.session_id is not None:
        sessions.get_known(rows, query.namespace, query.session_id)
    days = rows.days.get(query.namespace, {}).values() if reads_totals(query) else ()
    entries = _entries(rows, query.namespace) if reads_entries(query) else ()
    return group_usage(
        query,
        (row for row in days if _is_selected(query, row)),
        (row for row in entries if _is_selected(query, row)),
    )


def _entries(rows: Rows, namespace: str) -> Iterator[UsageRow]:
    """The entries of living sessions, each with what it can be grouped by."""
    for number, entries in rows.usage.items():
        session = rows.sessions[number]
        if session.namespace == namespace:
            for entry in entries.values():
                yield replace(
                    entry, session_id=session.id, agent=session.agent, channel=session.channel, peer=session.peer
                )


def _is_selected(query: UsageQuery, row: UsageRow) -> bool:
    wanted = (getattr(query, name) for name in ("session_id", "agent", "channel", "peer", "model"))
    found = (row.session_id, row.agent, row.channel, row.peer, row.model)
    is_same = all(value is None or value == own for value, own in zip(wanted, found, strict=True))
    return is_same and (query.first_day or "") <= row.day <= (query.last_day or "~")
