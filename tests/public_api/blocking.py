"""A manager that a test sets up and awaits as usual, and that passes every call on to `frontdesk.sync`. Each task of
the test is a thread of a program that has no event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from contextvars import copy_context
from functools import partial, update_wrapper
from typing import Any
from weakref import WeakKeyDictionary, finalize

from frontdesk import Session, Store, sync
from tests.waiting import eventually

_END = object()
_sync: Any = sync
_managers: list[Any] = []
_iterators: list[Any] = []
"""what a test may leave open"""
_threads: WeakKeyDictionary[asyncio.Task[Any], ThreadPoolExecutor] = WeakKeyDictionary()


class BlockingCalls:
    """Passes the calls of the async API on to a sync object, and makes their results async again."""

    def __init__(self, twin: Any) -> None:
        self._twin = twin

    @property
    def _inner(self) -> Any:
        return self._twin._inner

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            return getattr(self._inner, name)  # what tests look at where no call shows it
        value = getattr(self._twin, name)
        if not callable(value):
            return _to_async(value)
        return update_wrapper(partial(_call, value, getattr(self._inner, name)), value)

    def __repr__(self) -> str:
        return repr(self._twin)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return _in_thread(self._twin, *args, **options)

    async def __aenter__(self) -> Any:
        return await _in_thread(self._twin.__enter__)

    async def __aexit__(self, *error: Any) -> Any:
        return await _in_thread(self._twin.__exit__, *error)


class BlockingManager(BlockingCalls):
    """Takes the arguments of `SessionManager`."""

    def __init__(self, store: Store | str, *, namespace: str = "default", **options: Any) -> None:
        super().__init__(sync.SessionManager(store, namespace=namespace, **options))
        _managers.append(self._twin)


def _call(method: Callable[..., Any], source: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
    """Call a method of a sync object: in a thread, if it waits for anything."""
    if asyncio.iscoroutinefunction(source):
        return _in_thread(method, *args, **options)
    return _to_async(method(*map(_to_sync, args), **{name: _to_sync(value) for name, value in options.items()}))


async def _in_thread(method: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
    given = {name: _to_sync(value) for name, value in options.items()}
    work = partial(copy_context().run, method, *map(_to_sync, args), **given)
    return _to_async(await asyncio.get_running_loop().run_in_executor(_thread_of_task(), work))


def _thread_of_task() -> ThreadPoolExecutor:
    """A task of the test is a thread of the program."""
    task = asyncio.current_task()
    assert task is not None
    if task not in _threads:
        _threads[task] = ThreadPoolExecutor(1, "caller")
        finalize(task, _threads[task].shutdown, wait=False)
    return _threads[task]


def _to_sync(value: Any) -> Any:
    if isinstance(value, BlockingCalls):
        return value._twin
    if type(value) is dict:
        return {name: _to_sync(each) for name, each in value.items()}
    return value


def _to_async(value: Any) -> Any:
    if isinstance(value, _sync._Twin):
        return BlockingCalls(value)
    if type(value) is dict:
        return {name: _to_async(each) for name, each in value.items()}
    if type(value) is list:
        return [_to_async(each) for each in value]
    if isinstance(value, Iterator):
        _iterators.append(value)
        return _iterate(value)
    return _Entering(value) if isinstance(value, AbstractContextManager) else value


async def _iterate(source: Iterator[Any]) -> AsyncIterator[Any]:
    while (item := await _in_thread(next, source, _END)) is not _END:
        yield item


class _Entering(AbstractAsyncContextManager[Any]):
    """What `session.turn()` returns."""

    def __init__(self, entered: AbstractContextManager[Any]) -> None:
        self._entered = entered

    async def __aenter__(self) -> Any:
        return await _in_thread(self._entered.__enter__)

    async def __aexit__(self, *error: Any) -> Any:
        return await _in_thread(self._entered.__exit__, *error)


def loop_of_the_test() -> Any:
    """The loop that `frontdesk.sync` runs everything on: here the one of the test, whose callbacks wait on it."""
    loop_thread = object.__new__(_sync._LoopThread)
    loop_thread.loop = asyncio.get_running_loop()
    loop_thread._thread = threading.current_thread()
    return loop_thread


async def close_all() -> None:
    """Close what the test has left open: first the managers, which ends the iterators that another thread waits for."""
    for manager in _managers:
        await _in_thread(manager.close)
    for iterator in _iterators:
        await eventually(partial(_is_closed, iterator))
    _managers.clear()
    _iterators.clear()


def _is_closed(iterator: Any) -> bool:
    try:
        iterator.close()
    except ValueError:
        return False  # a thread is in it
    return True


class BlockingSession(BlockingCalls):
    """What a test calls `Session` where it makes one without a manager."""

    @staticmethod
    def create(*args: Any, **options: Any) -> Any:
        return _call(sync.Session.create, Session.create, *args, **options)
