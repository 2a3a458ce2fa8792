"""The usage of the memory store: an entry for each call of a model, and totals per day."""

from __future__ import annotations

from decimal import Context, Decimal
from functools import reduce

from msgspec.structs import replace

from frontdesk.errors import SessionNotFoundError
from frontdesk.store import NewChange, UsageQuery, UsageRow
from frontdesk.stores.memory import log
from frontdesk.stores.memory.rows import Rows

_EXACT = Context(prec=1000)


def add(rows: Rows, namespace: str, session_id: str, entry: UsageRow) -> bool:
    session = rows.get(namespace, session_id)
    if session is None:
        raise SessionNotFoundError(session_id, namespace)
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
    _add_to_day(rows.days.setdefault(namespace, {}), entry)
    log.write(rows, namespace, session.number, updated_at, NewChange(kind="usage.added"))
    return True


def totals(rows: Rows, query: UsageQuery) -> list[UsageRow]:
    days = rows.days.get(query.namespace, {})
    if query.session_id is not None:
        session = rows.get(query.namespace, query.session_id)
        if session is None:
            raise SessionNotFoundError(query.session_id, query.namespace)
        days = {}
        for entry in rows.usage.get(session.number, {}).values():
            _add_to_day(days, entry)
    first, last = query.first_day or "", query.last_day or "~"
    found = [row for row in days.values() if first <= row.day <= last]
    return sorted(found, key=lambda row: (row.day, row.model or ""))


def sum_costs(*costs: str) -> str:
    return str(reduce(_EXACT.add, map(Decimal, costs), Decimal(0)))


def _add_to_day(days: dict[tuple[str, str | None], UsageRow], entry: UsageRow) -> None:
    total = days.get((entry.day, entry.model), UsageRow(day=entry.day, model=entry.model))
    days[entry.day, entry.model] = replace(
        total,
        input_tokens=total.input_tokens + entry.input_tokens,
        output_tokens=total.output_tokens + entry.output_tokens,
        cache_read_tokens=total.cache_read_tokens + entry.cache_read_tokens,
        cache_write_tokens=total.cache_write_tokens + entry.cache_write_tokens,
        reasoning_tokens=total.reasoning_tokens + entry.reasoning_tokens,
        cost=sum_costs(total.cost, entry.cost),
    )
