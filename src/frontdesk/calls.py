"""Calling functions that users pass in: they may be sync or async, and must not block the event loop. And who calls:
a task, or a thread that waits for one."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from frontdesk.deadlines import not_counted

_waiting_threads: WeakKeyDictionary[asyncio.Task[Any], threading.Thread] = WeakKeyDictionary()


def set_caller(task: asyncio.Task[Any], thread: threading.Thread) -> None:
    """Note that a thread waits for a task, as all callers of `frontdesk.sync` do."""
    _waiting_threads[task] = thread


def caller() -> object:
    """The running task, or the thread that waits for it."""
    task = asyncio.current_task()
    return None if task is None else _waiting_threads.get(task, task)


async def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function and return its result. An async function is awaited; a sync one runs in its own thread.

    The thread is not part of a pool, and the process does not wait for it to end: a function that hangs blocks nothing
    but its caller."""
    with not_counted():
        if _is_async(function):
            return await function(*arguments)
        result = await _in_thread(function, arguments)
        return await result if inspect.isawaitable(result) else result


async def call_each(function: Callable[[Any], Any], values: Sequence[Any]) -> list[Any]:
    """Call a function with each of these values, as `call` does, but a sync one in a single thread for all of them."""
    with not_counted():
        if _is_async(function):
            return [await function(value) for value in values]
        results = await _in_thread(lambda: [function(value) for value in values], ())
        return [await result if inspect.isawaitable(result) else result for result in results]


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _discard(result: Any) -> None:
    """Close what nobody is going to await, which Python would warn about otherwise."""
    for one in result if isinstance(result, list) else (result,):
        if inspect.iscoroutine(one):
            one.close()


async def _in_thread(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(result: Any, error: BaseException | None) -> None:
        if future.done():
            _discard(result)  # the caller was cancelled meanwhile
        elif error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def run() -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = context.run(function, *arguments)
        except StopIteration as stop:
            error = RuntimeError(f"{function!r} raised StopIteration({stop.value!r})")
        except BaseException as failure:
            error = failure
        try:
            loop.call_soon_threadsafe(deliver, result, error)
        except RuntimeError:
            _discard(result)  # the loop has been closed: nobody is waiting for the result

    threading.Thread(target=run, name="frontdesk-call", daemon=True).start()
    try:
        return await future
    except asyncio.CancelledError:
        if not future.cancelled() and future.exception() is None:
            _discard(future.result())
        raise
