"""Times as stores keep them: whole microseconds since 1970 in UTC."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from frontdesk.errors import InvalidInputError, StoreCorruptError

DAY = 86_400_000_000
"""microseconds"""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def now() -> int:
    """The time of this machine: the clock of leases and states where all processes that share a store run on it."""
    return time.time_ns() // 1000


def to_datetime(microseconds: int) -> datetime:
    """Raises `StoreCorruptError` for what no store has written as a time."""
    try:
        return _EPOCH + microseconds * _MICROSECOND
    except (OverflowError, TypeError):
        raise StoreCorruptError("a stored time is damaged: restore a backup of the store") from None


def to_day(microseconds: int) -> str:
    """The day in UTC, as YYYY-MM-DD."""
    return to_datetime(microseconds).date().isoformat()


def to_microseconds(moment: datetime) -> int:
    """The microseconds of a datetime; one without a time zone is taken as UTC. Raises `InvalidInputError`."""
    if not isinstance(moment, datetime):
        raise InvalidInputError(f"a moment must be a datetime, not {type(moment).__name__}")
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND
