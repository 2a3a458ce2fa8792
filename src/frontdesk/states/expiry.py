"""The time-to-live of states: from the argument, the environment or the default; and the sweep of expired states."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from datetime import timedelta
from decimal import Decimal, InvalidOperation

from frontdesk.errors import ConfigurationError, FrontdeskError, InvalidInputError, StoreClosedError
from frontdesk.store import StateStore, Swept
from frontdesk.unattended import log_failure, sleep

DEFAULT_TTL = timedelta(minutes=30)
TTL_VARIABLE = "SESSION_TTL_SECONDS"
SWEEP_SECONDS = 60.0
BATCH = 500

_LONGEST = timedelta(days=36_500)
_MICROSECOND = timedelta(microseconds=1)
_MILLISECOND = timedelta(milliseconds=1)

log = logging.getLogger(__name__)


class UsualTTL:
    """The type of `USUAL_TTL`, which means: the time-to-live that the state has already, or else that of `states()`."""


USUAL_TTL = UsualTTL()


def choose_ttl(ttl: timedelta | None) -> int | None:
    """The time-to-live in microseconds: the argument if given, else SESSION_TTL_SECONDS, else the default.

    Raises `InvalidInputError`, and `ConfigurationError` for a variable that is not a number of seconds."""
    # Compared by identity: an argument that equals the default is still an argument, and overrides the environment.
    if ttl is DEFAULT_TTL and (text := os.environ.get(TTL_VARIABLE)):
        return _from_environment(text)
    return None if ttl is None else check_ttl(ttl)


def check_ttl(ttl: timedelta) -> int:
    """A time-to-live in microseconds. Raises `InvalidInputError`."""
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
            f"{TTL_VARIABLE}={text!r} is not a number of seconds: write one that is at least 0.001, or unset it"
        ) from None


async def work_off(batch: Callable[[int], Awaitable[Swept]]) -> int:
    """Remove states, batch by batch; returns how many were removed."""
    removed, more = 0, True
    while more:
        swept, more = await batch(BATCH)
        removed += swept
        await sleep(0)
    return removed


async def sweep(store: StateStore) -> int:
    """Remove expired states; returns how many were removed."""
    return await work_off(store.sweep_states)


async def sweep_forever(store: StateStore) -> None:
    """Remove expired states every minute. A failure is logged, and the next round tries again."""
    while True:
        try:
            await sweep(store)
        except StoreClosedError:
            return
        except FrontdeskError as error:
            log_failure(log, error, "expired states could not be swept")
        await sleep(SWEEP_SECONDS)
