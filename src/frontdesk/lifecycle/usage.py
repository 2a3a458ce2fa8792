"""Usage entries: the tokens and cost of a model call, checked and converted to exact numbers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from frontdesk.checks import check_text
from frontdesk.errors import InvalidInputError
from frontdesk.messages.ids import check_id, new_id
from frontdesk.moments import to_day, to_microseconds
from frontdesk.store import UsageRow

MAX_TOKENS = 2**53
_MAX_DIGITS = 30


def usage_entry(
    now: int,
    tokens: Mapping[str, int],
    *,
    cost: Decimal | int | float | str = 0,
    model: str | None = None,
    usage_id: str | None = None,
    at: datetime | None = None,
) -> UsageRow:
    """A usage entry for a store. Raises `InvalidInputError` for invalid counts or amounts."""
    for what, count in tokens.items():
        if type(count) is not int or not 0 <= count <= MAX_TOKENS:
            raise InvalidInputError(f"{what} must be a whole number, 0 or more, not {count!r}")
    moment = now if at is None else to_microseconds(at)
    counts: dict[str, Any] = dict(tokens)
    return UsageRow(
        id=new_id() if usage_id is None else check_id(usage_id, "usage id"),
        model=None if model is None else check_text(model, "model"),
        at=moment,
        cost=_decimal(cost),
        day=to_day(moment),
        **counts,
    )


def _decimal(cost: Decimal | int | float | str) -> str:
    try:
        amount = Decimal(str(cost))
    except InvalidOperation:
        raise InvalidInputError(f"cost must be a number, not {cost!r}") from None
    decimals = -int(amount.as_tuple().exponent) if amount.is_finite() else 0
    if not amount.is_finite() or amount < 0 or amount.adjusted() > _MAX_DIGITS or decimals > _MAX_DIGITS:
        raise InvalidInputError(
            f"cost must be 0 or more, with at most {_MAX_DIGITS} digits before and after the point, not {cost!r}"
        )
    return f"{amount:f}"
