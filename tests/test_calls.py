"""Calling functions of users in threads: what comes too late leaves no warning behind."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from frontdesk.calls import call
from tests.waiting import eventually


async def answer() -> str:
    return "late"


async def test_a_coroutine_that_is_returned_after_its_caller_was_cancelled_is_closed() -> None:
    started, go_on = threading.Event(), threading.Event()
    returned: list[Coroutine[Any, Any, str]] = []

    def slow() -> Coroutine[Any, Any, str]:
        started.set()
        go_on.wait()
        returned.append(answer())
        return returned[0]

    task = asyncio.create_task(call(slow))
    await asyncio.to_thread(started.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    await eventually(lambda: bool(returned) and inspect.getcoroutinestate(returned[0]) == inspect.CORO_CLOSED)
