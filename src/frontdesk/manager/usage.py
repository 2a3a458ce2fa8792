"""The part of `SessionManager` that counts: the ledger of model calls, and totals."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

from frontdesk.errors import InvalidInputError
from frontdesk.keys import SessionKey
from frontdesk.lifecycle.ledger import usage_line
from frontdesk.lifecycle.transitions import COMPACTION_LEASE
from frontdesk.manager.messages import MessageCalls
from frontdesk.records import GrowthDay, Stats, Usage, UsageDay
from frontdesk.store import StatsQuery, UsageQuery

_DAY = 86_400_000_000
_GROWTH_DAYS = 30


class UsageCalls(MessageCalls):
    """What sessions cost, and how much there is."""

    async def add_usage(
        self,
        id: str | SessionKey,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        reasoning_tokens: int = 0,
        cost: Decimal | int | float | str = 0,
        model: str | None = None,
        usage_id: str | None = None,
        at: datetime | None = None,
    ) -> bool:
        """Enter a model call into the ledger of a session. The same `usage_id` counts once: the second time is False.

        `cost` is kept as an exact decimal (a float as it is printed). Raises `SessionNotFoundError`."""
        line = usage_line(
            self._runtime.now(),
            {
                "input_tokens": input_tokens,
                "output_tokens": output_tokens,
                "cache_read_tokens": cache_read_tokens,
                "cache_write_tokens": cache_write_tokens,
                "reasoning_tokens": reasoning_tokens,
            },
            cost=cost,
            model=model,
            usage_id=usage_id,
            at=at,
        )
        return await self._runtime.store.add_usage(self.namespace, await self._id_of(id), line)

    async def usage(
        self, id: str | SessionKey | None = None, *, first_day: date | None = None, last_day: date | None = None
    ) -> Usage:
        """Totals of one session, or of the whole namespace, per day (UTC) and model.

        The namespace's days keep what sessions cost that were deleted since."""
        query = UsageQuery(
            namespace=self.namespace,
            session_id=None if id is None else await self._id_of(id),
            first_day=None if first_day is None else _day(first_day),
            last_day=None if last_day is None else _day(last_day),
        )
        return Usage(tuple(UsageDay.from_row(row) for row in await self._runtime.store.usage(query)))

    async def stats(self) -> Stats:
        """Totals over the namespace, from one pass over its sessions: their messages are not looked at."""
        now = self._runtime.now()
        row = await self._runtime.store.stats(
            StatsQuery(
                namespace=self.namespace,
                now=now,
                idle_after=self._runtime.settings.lifecycle.idle_after,
                leased=COMPACTION_LEASE,
                since=(now // _DAY - _GROWTH_DAYS + 1) * _DAY,
            )
        )
        return Stats(
            sessions=sum(row.sessions.values()),
            by_status=row.sessions,
            messages=row.messages,
            input_tokens=row.input_tokens,
            output_tokens=row.output_tokens,
            cost=Decimal(row.cost),
            store_bytes=row.store_bytes,
            growth=tuple(GrowthDay(date.fromisoformat(day), *counts) for day, counts in row.days.items()),
            hook_failures=self._runtime.hooks.failures,
        )


def _day(day: date) -> str:
    if not isinstance(day, date):
        raise InvalidInputError(f"a day is a date, not {type(day).__name__}")
    moment = day.astimezone(UTC).date() if isinstance(day, datetime) and day.tzinfo else day
    return moment.strftime("%Y-%m-%d")
