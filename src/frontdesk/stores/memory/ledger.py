"""The ledger of the memory store, and totals over a namespace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Context, Decimal
from functools import reduce

from msgspec.structs import replace

from frontdesk.errors import SessionNotFoundError
from frontdesk.store import NewChange, SessionRow, StatsQuery, StatsRow, UsageQuery, UsageRow
from frontdesk.stores.memory.leases import Leases
from frontdesk.stores.memory.rows import is_idle

_EXACT = Context(prec=1000)


class Ledger(Leases):
    """Usage lines, their totals per day, and figures over all sessions."""

    async def add_usage(self, namespace: str, session_id: str, line: UsageRow) -> bool:
        with self._held():
            session = self._get(namespace, session_id)
            if session is None:
                raise SessionNotFoundError(session_id, namespace)
            lines = self._ledger.setdefault(session.number, {})
            if line.id in lines:
                return False
            lines[line.id] = line
            updated_at = max(line.at, session.updated_at)
            self._sessions[session.number] = replace(
                session,
                input_tokens=session.input_tokens + line.input_tokens,
                output_tokens=session.output_tokens + line.output_tokens,
                cost=_sum(session.cost, line.cost),
                updated_at=updated_at,
            )
            _add_to_day(self._days.setdefault(namespace, {}), line)
            self._write_log(namespace, session.number, updated_at, NewChange(kind="usage.added"))
            return True

    async def usage(self, query: UsageQuery) -> list[UsageRow]:
        with self._held():
            totals = self._days.get(query.namespace, {})
            if query.session_id is not None:
                session = self._get(query.namespace, query.session_id)
                if session is None:
                    raise SessionNotFoundError(query.session_id, query.namespace)
                totals = {}
                for line in self._ledger.get(session.number, {}).values():
                    _add_to_day(totals, line)
            first, last = query.first_day or "", query.last_day or "~"
            rows = [row for row in totals.values() if first <= row.day <= last]
        return sorted(rows, key=lambda row: (row.day, row.model or ""))

    async def stats(self, query: StatsQuery) -> StatsRow:
        with self._held():
            rows = [row for row in self._sessions.values() if row.namespace == query.namespace]
            days = self._days.get(query.namespace, {}).values()
            leased = self._leased(query.namespace, query.leased)
            return StatsRow(
                sessions=dict(sorted(Counter(_status(row, query, leased) for row in rows).items())),
                days=_by_day(row for row in rows if row.created_at >= query.since),
                messages=sum(row.message_count for row in rows),
                input_tokens=sum(row.input_tokens for row in days),
                output_tokens=sum(row.output_tokens for row in days),
                cost=_sum(*(row.cost for row in days)),
                store_bytes=0,
            )


def _sum(*costs: str) -> str:
    return str(reduce(_EXACT.add, map(Decimal, costs), Decimal(0)))


def _status(row: SessionRow, query: StatsQuery, leased: set[int]) -> str:
    if row.status != "active":
        return row.status
    if row.number in leased:
        return "compacting"
    return "idle" if is_idle(row, query.now, query.idle_after) else "active"


def _by_day(rows: Iterable[SessionRow]) -> dict[str, tuple[int, int]]:
    days: dict[str, tuple[int, int]] = {}
    for row in sorted(rows, key=lambda row: row.created_at):
        day = datetime.fromtimestamp(row.created_at // 1_000_000, UTC).date().isoformat()
        sessions, messages = days.get(day, (0, 0))
        days[day] = (sessions + 1, messages + row.message_count)
    return days


def _add_to_day(days: dict[tuple[str, str | None], UsageRow], line: UsageRow) -> None:
    total = days.get((line.day, line.model), UsageRow(day=line.day, model=line.model))
    days[line.day, line.model] = replace(
        total,
        input_tokens=total.input_tokens + line.input_tokens,
        output_tokens=total.output_tokens + line.output_tokens,
        cache_read_tokens=total.cache_read_tokens + line.cache_read_tokens,
        cache_write_tokens=total.cache_write_tokens + line.cache_write_tokens,
        reasoning_tokens=total.reasoning_tokens + line.reasoning_tokens,
        cost=_sum(total.cost, line.cost),
    )
