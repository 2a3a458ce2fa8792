"""How long states live: what is said by argument, by environment and by default, and the sweep of what has expired."""

from __future__ import annotations

import asyncio
import logging
import os
from datetime import timedelta
from decimal import Decimal, InvalidOperation

from frontdesk.errors import ConfigurationError, FrontdeskError, InvalidInputError, StoreClosedError
from frontdesk.store import StateStore

DEFAULT_TTL = timedelta(minutes=30)
TTL_VARIABLE = "SESSION_TTL_SECONDS"
SWEEP_SECONDS = 60.0
SWEEP_BATCH = 500

_LONGEST = timedelta(days=36_500)
_MICROSECOND = timedelta(microseconds=1)
_MILLISECOND = timedelta(milliseconds=1)

log = logging.getLogger(__name__)


def chosen_ttl(ttl: timedelta | None) -> int | None:
    """Microseconds that states live. What is given holds; then what SESSION_TTL_SECONDS says; then the default.

    Raises `InvalidInputError`, and `ConfigurationError` for a variable that is no time."""
    # By identity: the same time, given, is an argument, and arguments go before the environment.
    if ttl is DEFAULT_TTL and (text := os.environ.get(TTL_VARIABLE)):
        return _from_environment(text)
    return None if ttl is None else check_ttl(ttl)


def check_ttl(ttl: timedelta) -> int:
    """The microseconds of a time-to-live. Raises `InvalidInputError`."""
    if not isinstance(ttl, timedelta):
        raise InvalidInputError(f"ttl must be a timedelta, not {type(ttl).__name__}")
    if not _MILLISECOND <= ttl <= _LONGEST:
        raise InvalidInputError(f"ttl must be 1 millisecond to {_LONGEST.days} days, not {ttl}", ttl=ttl)
    return ttl // _MICROSECOND


def _from_environment(text: str) -> int:
    try:
        seconds = Decimal(text)
        if not seconds.is_finite() or seconds > _LONGEST.total_seconds():
            raise ValueError(text)
        return check_ttl(timedelta(microseconds=int(seconds * 1_000_000)))
    except (InvalidOperation, ValueError):
        raise ConfigurationError(
            f"{TTL_VARIABLE}={text!r} is no time: write a number of seconds, at least 0.001, or unset it"
        ) from None


async def sweep(store: StateStore) -> int:
    """Remove what has expired, batch by batch; gives how many there were."""
    removed, more = 0, True
    while more:
        swept, more = await store.sweep_states(SWEEP_BATCH)
        removed += swept
        await asyncio.sleep(0)
    return removed


async def sweep_forever(store: StateStore) -> None:
    """Remove what has expired, batch by batch, every minute; a failure is logged, and the next round tries again."""
    while True:
        try:
            await sweep(store)
        except StoreClosedError:
            return
        except FrontdeskError as error:
            log.warning("expired states could not be swept: %s", error)
        await asyncio.sleep(SWEEP_SECONDS)
