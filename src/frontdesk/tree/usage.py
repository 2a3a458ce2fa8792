"""Pure: adds up usage entries, for all stores. Costs are decimal texts, and no digit is lost.

A store keeps each entry with its session, and totals of all entries by day, model, agent and channel. The totals stay
when a session is deleted. So the usage of deleted sessions is what the totals have more than the entries. It has no
session and no peer any more."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Context, Decimal
from functools import reduce

from msgspec.structs import replace

from frontdesk.errors import StoreCorruptError
from frontdesk.store import UsageQuery, UsageRow

_EXACT = Context(prec=1000)
GONE_WITH_A_SESSION = ("session_id", "peer")
"""what the totals do not have"""


def sum_costs(*costs: str) -> str:
    """Raises `StoreCorruptError`."""
    return str(reduce(_EXACT.add, map(cost_of, costs), Decimal(0)))


def cost_of(text: str) -> Decimal:
    """A stored cost. Raises `StoreCorruptError` for what no store has written as one."""
    try:
        return Decimal(text)
    except (ArithmeticError, TypeError):
        raise StoreCorruptError("a stored cost is damaged: restore a backup of the store") from None


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


def subtract_entry(total: UsageRow, entry: UsageRow) -> UsageRow:
    """A total without the amounts of an entry."""
    return replace(
        total,
        input_tokens=total.input_tokens - entry.input_tokens,
        output_tokens=total.output_tokens - entry.output_tokens,
        cache_read_tokens=total.cache_read_tokens - entry.cache_read_tokens,
        cache_write_tokens=total.cache_write_tokens - entry.cache_write_tokens,
        reasoning_tokens=total.reasoning_tokens - entry.reasoning_tokens,
        cost=sum_costs(total.cost, str(-cost_of(entry.cost))),
    )


def reads_totals(query: UsageQuery) -> bool:
    """Whether a query is about the totals: not if it selects sessions or peers, which must exist."""
    return query.session_id is None and query.peer is None


def reads_entries(query: UsageQuery) -> bool:
    """Whether a query is about single sessions or peers, so that the totals alone cannot answer it."""
    return not reads_totals(query) or any(name in query.by for name in GONE_WITH_A_SESSION)


def group_usage(query: UsageQuery, totals: Iterable[UsageRow], entries: Iterable[UsageRow]) -> list[UsageRow]:
    """The amounts by group, in the order of their values. `totals` and `entries` are those that the query selects, if
    it reads them; they may be added up by group already."""
    groups: dict[tuple[str | None, ...], UsageRow] = {}
    entries = [*entries]
    for entry in entries:
        _add(groups, query, entry)
    living = {*groups}
    for total in totals:
        _add(groups, query, total)
    if reads_totals(query):
        for entry in entries:
            _add(groups, query, _negative(replace(entry, session_id=None, peer=None)))
    found = {key: row for key, row in groups.items() if key in living or not reads_entries(query) or _is_used(row)}
    return [found[key] for key in sorted(found, key=lambda key: [(value is not None, value or "") for value in key])]


def _add(groups: dict[tuple[str | None, ...], UsageRow], query: UsageQuery, row: UsageRow) -> None:
    key = tuple(getattr(row, name) for name in query.by)
    groups[key] = add_entry(groups.get(key) or UsageRow(**dict(zip(query.by, key, strict=True))), row)


def _negative(row: UsageRow) -> UsageRow:
    return replace(
        row,
        input_tokens=-row.input_tokens,
        output_tokens=-row.output_tokens,
        cache_read_tokens=-row.cache_read_tokens,
        cache_write_tokens=-row.cache_write_tokens,
        reasoning_tokens=-row.reasoning_tokens,
        cost=str(-cost_of(row.cost)),
    )


def _is_used(row: UsageRow) -> bool:
    counts = row.input_tokens, row.output_tokens, row.cache_read_tokens, row.cache_write_tokens, row.reasoning_tokens
    return any(counts) or cost_of(row.cost) != 0
