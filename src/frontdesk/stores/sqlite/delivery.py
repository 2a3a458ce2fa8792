"""Jobs for the threads of a store, and how their outcomes get to the event loops that wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from frontdesk.stores.sqlite.connections import SQLiteConnection

Job = tuple[Callable[[SQLiteConnection], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]", float]
"""an operation, the loop and the future that wait for it, and when the call began that it belongs to"""
Outcome = tuple[Any, BaseException | None]


class Delivery:
    """Outcomes on their way to the loops that wait for them: each loop is woken once."""

    def __init__(self) -> None:
        self._by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Outcome]]] = {}

    def add(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], outcome: Outcome) -> None:
        self._by_loop.setdefault(loop, []).append((future, outcome))

    def send(self) -> None:
        for loop, outcomes in self._by_loop.items():
            _call(loop, _resolve_all, outcomes)


def deliver(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], outcome: Outcome) -> None:
    """Send a single outcome on its way."""
    _call(loop, resolve, future, outcome)


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *arguments: Any) -> None:
    try:
        loop.call_soon_threadsafe(callback, *arguments)
    except RuntimeError:
        pass  # the loop was closed: nothing waits there any more


def _resolve_all(outcomes: list[tuple[asyncio.Future[Any], Outcome]]) -> None:
    for future, outcome in outcomes:
        resolve(future, outcome)


def resolve(future: asyncio.Future[Any], outcome: Outcome) -> None:
    result, error = outcome
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
