"""Pure: adds up usage entries, for all stores. Costs are decimal texts, and no digit is lost."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Context, Decimal
from functools import reduce

from msgspec.structs import replace

from frontdesk.store import UsageRow

_EXACT = Context(prec=1000)


def sum_costs(*costs: str) -> str:
    return str(reduce(_EXACT.add, map(Decimal, costs), Decimal(0)))


def add_entry(total: UsageRow, entry: UsageRow) -> UsageRow:
    """A total with the amounts of one more entry."""
    return replace(
        total,
        input_tokens=total.input_tokens + entry.input_tokens,
        output_tokens=total.output_tokens + entry.output_tokens,
        cache_read_tokens=total.cache_read_tokens + entry.cache_read_tokens,
        cache_write_tokens=total.cache_write_tokens + entry.cache_write_tokens,
        reasoning_tokens=total.reasoning_tokens + entry.reasoning_tokens,
        cost=sum_costs(total.cost, entry.cost),
    )


def totals_per_day(entries: Iterable[UsageRow]) -> list[UsageRow]:
    """The totals of each day and model, in this order."""
    totals: dict[tuple[str, str | None], UsageRow] = {}
    for entry in entries:
        key = entry.day, entry.model
        totals[key] = add_entry(totals.get(key) or UsageRow(day=entry.day, model=entry.model), entry)
    return sorted(totals.values(), key=lambda row: (row.day, row.model or ""))
