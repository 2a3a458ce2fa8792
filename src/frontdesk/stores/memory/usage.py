"""Usage in the memory store: an entry for each model call, and totals per day."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from frontdesk.store import NewChange, UsageQuery, UsageRow
from frontdesk.stores.memory import log, sessions
from frontdesk.stores.memory.rows import Rows
from frontdesk.tree.usage import add_entry, sum_costs, totals_per_day


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
    key = entry.day, entry.model
    days[key] = add_entry(days.get(key) or UsageRow(day=entry.day, model=entry.model), entry)
    log.write(rows, namespace, session.number, updated_at, NewChange(kind="usage.added"))
    return True


def totals(rows: Rows, query: UsageQuery) -> list[UsageRow]:
    found: Iterable[UsageRow] = rows.days.get(query.namespace, {}).values()
    if query.session_id is not None:
        session = sessions.get_known(rows, query.namespace, query.session_id)
        found = rows.usage.get(session.number, {}).values()
    first, last = query.first_day or "", query.last_day or "~"
    return totals_per_day(row for row in found if first <= row.day <= last)
