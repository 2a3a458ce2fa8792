"""Lines of the usage ledger: what was used, checked and made exact before it reaches a store."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation

from frontdesk.checks import check_text
from frontdesk.errors import InvalidInputError
from frontdesk.messages import check_id, new_id
from frontdesk.records import to_datetime, to_microseconds
from frontdesk.store import UsageRow

MOST_TOKENS = 2**53
_MOST_PLACES = 30


def usage_line(
    now: int,
    tokens: Mapping[str, int],
    *,
    cost: Decimal | int | float | str = 0,
    model: str | None = None,
    usage_id: str | None = None,
    at: datetime | None = None,
) -> UsageRow:
    """A line for a store. Raises `InvalidInputError` for what is not a count or not an amount."""
    for what, count in tokens.items():
        if type(count) is not int or not 0 <= count <= MOST_TOKENS:
            raise InvalidInputError(f"{what} must be a whole number that is not negative, not {count!r}")
    moment = now if at is None else to_microseconds(at)
    return UsageRow(
        id=new_id() if usage_id is None else check_id(usage_id, "usage id"),
        model=None if model is None else check_text(model, "model"),
        at=moment,
        cost=_decimal(cost),
        day=to_datetime(moment).date().isoformat(),
        **tokens,
    )


def _decimal(cost: Decimal | int | float | str) -> str:
    try:
        amount = Decimal(str(cost))
    except InvalidOperation:
        raise InvalidInputError(f"cost must be a number, not {cost!r}") from None
    places = -int(amount.as_tuple().exponent) if amount.is_finite() else 0
    if not amount.is_finite() or amount < 0 or amount.adjusted() > _MOST_PLACES or places > _MOST_PLACES:
        raise InvalidInputError(f"cost must be finite, not negative and of at most 30 places, not {cost!r}")
    return f"{amount:f}"
