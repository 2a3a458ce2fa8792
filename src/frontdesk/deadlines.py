"""When the current call began. A call that asks a store several times has one time limit for all of it: stores count
their `timeout` from here. What users' functions and models take is not counted, and background work is no part of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _CallTime:
    __slots__ = ("began", "is_over")

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.is_over = False
        """a task that was started in the call may outlive it"""


_current: ContextVar[_CallTime | None] = ContextVar("frontdesk_call", default=None)


def _running() -> _CallTime | None:
    call = _current.get()
    return None if call is None or call.is_over else call


def one_call(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The same function, with one time limit for all that it asks of stores. If it is called as part of another such
    function, the limit of that one holds."""

    @wraps(function)
    async def limited(*args: P.args, **kwargs: P.kwargs) -> T:
        if _running() is not None:
            return await function(*args, **kwargs)
        call = _CallTime()
        token = _current.set(call)
        try:
            return await function(*args, **kwargs)
        finally:
            _current.reset(token)
            call.is_over = True

    return limited


@contextmanager
def not_counted() -> Iterator[None]:
    """What happens in this block is no part of the call that it interrupts, and does not shorten its time."""
    call = _running()
    if call is None:
        yield
        return
    token = _current.set(None)
    started = time.monotonic()
    try:
        yield
    finally:
        _current.reset(token)
        call.began += time.monotonic() - started


def leave_out(seconds: float) -> None:
    """Do not count these seconds of the current call, which are over."""
    if (call := _running()) is not None:
        call.began += seconds


def is_in_call() -> bool:
    """Whether there is a call that this is part of."""
    return _running() is not None


def began() -> float:
    """When the current call began, in the time of `time.monotonic`: now, unless this is part of a longer one."""
    call = _running()
    return time.monotonic() if call is None else call.began


def left(seconds: float) -> float:
    """How much is left of the seconds that the current call may take."""
    return began() + seconds - time.monotonic()
